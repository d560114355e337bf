"""The engine's array form against the default guard in plain Python: the same mixed actions, evidence and events."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import Actions, BestResponse, Engine, ExactTest, Inputs, Recovery, Setting, Trace

from ..conftest import sweep
from ..plain_guard import PlainGuard

N, T, USUAL = 5, 150, 10
Events = list[tuple[str, int, int | None]]


class Game(NamedTuple):
    """A problem, how it is guarded, and forecasts; the states are drawn as it is played."""

    problem: lr.DecisionProblem
    delta: float
    horizon: int | None
    probs_NxTxS: np.ndarray
    is_mirrored_NxT: np.ndarray  # the state is drawn from the forecast reversed
    is_hostile_NxT: np.ndarray  # it is the state in which what is played loses most

    def engine(self) -> Engine:
        test = ExactTest(self.delta, self.horizon)
        return Engine(Setting(self.problem, Actions(), test, Recovery(), BestResponse()))

    def plain(self) -> PlainGuard:
        return PlainGuard(self.problem.utility.tolist(), self.delta, self.horizon)


def a_game(seed: int) -> Game:
    """Every second one in tenths, with many ties, and a stream in which the model excludes states."""
    rng = np.random.default_rng(seed)
    A, S = rng.integers(2, 5, size=2)
    probs = rng.dirichlet(np.full(S, rng.choice([0.2, 0.5, 1.0])), (N, T))
    utility = rng.uniform(-1, 1, (A, S))
    if seed % 2:
        sure_N = np.array([0, 1, 1, 1, 1])[:, None, None]
        probs = (sure_N + rng.multinomial(10 - S * sure_N[..., 0], probs)) / 10
        utility = rng.integers(-10, 11, (A, S)) / 10
    breaks_Nx3 = np.sort(rng.integers(10, T, (N, 3)), axis=1)  # broken, right again, broken again
    breaks_Nx3[-1] = 5, 25, 110
    is_broken = (np.arange(T) >= breaks_Nx3[..., None]).sum(axis=1) % 2 == 1
    is_hostile = np.arange(N)[:, None] >= N - 2
    horizon = (None, 100, None, 400)[seed % 4]  # of which one is over before the run is
    return Game(
        lr.DecisionProblem(utility),
        float(rng.choice([0.01, 0.05, 0.3])),
        horizon,
        probs,
        is_broken & ~is_hostile,
        is_broken & is_hostile,
    )


def played(game: Game, seed: int) -> tuple[np.ndarray, np.ndarray, list[Events]]:
    """Step by step: the states ``[N, T]``, what was played ``[N, T, A]``, and the events of each stream."""
    rng, engine, U = np.random.default_rng(seed + 1_000), game.engine(), game.problem.utility
    rows, states_NxT, policy_NxTxA = engine.start(N), np.empty((N, T), dtype=np.int64), np.empty((N, T, len(U)))
    events: list[Events] = [[] for _ in range(N)]
    for t in range(T):
        probs_NxS = game.probs_NxTxS[:, t]
        step = engine.advise(rows, t + 1, Inputs(probs_NxS))
        truth_NxS = np.where(game.is_mirrored_NxT[:, t, None], probs_NxS[:, ::-1], probs_NxS)
        drawn_N = np.array([rng.choice(len(truth), p=truth) for truth in truth_NxS])
        hostile_N = (U.max(axis=0) - step.policy_NxA @ U).argmax(axis=-1)
        states_NxT[:, t] = np.where(game.is_hostile_NxT[:, t], hostile_N, drawn_N)
        policy_NxTxA[:, t] = step.policy_NxA
        rows, told = engine.observe(rows, t + 1, step, states_NxT[:, t])
        for n in np.flatnonzero(told.alarm_N):
            excluded = engine.evidence(rows)[n] == math.inf
            events[n].append(("alarm", t + 1, None if excluded else engine.suspect(rows, n).since))
        for n in np.flatnonzero(told.turned_N):
            events[n].append(("return" if told.turned_N[n] > 0 else "dropped", t + 1, None))
    return states_NxT, policy_NxTxA, events


def events_of(trace: Trace, n: int) -> Iterator[tuple[str, int, int | None]]:
    for t in range(T):
        if trace.alarm_NxT[n, t]:
            excluded = trace.evidence_NxT[n, t] == math.inf
            yield "alarm", t + 1, None if excluded else trace.suspects[n, t].since
        if trace.turned_NxT[n, t]:
            yield "return" if trace.turned_NxT[n, t] > 0 else "dropped", t + 1, None


@pytest.mark.parametrize("seed", sweep(range(80), USUAL))
def test_the_engine_equals_the_plain_loop(seed: int) -> None:
    game = a_game(seed)
    states_NxT, policy_NxTxA, events = played(game, seed)
    engine = game.engine()
    trace = engine.run(engine.start(N), Inputs(game.probs_NxTxS), states_NxT)
    np.testing.assert_array_equal(trace.policy_NxTxA, policy_NxTxA)
    # The best rate for a horizon is found by a search, each its own: to eight digits.
    tolerance = 1e-10 if game.horizon is None else 1e-5
    for n in range(N):
        plain = game.plain()
        for t in range(T):
            policy = plain.advise(game.probs_NxTxS[n, t].tolist())
            np.testing.assert_allclose(policy, trace.policy_NxTxA[n, t], rtol=0, atol=1e-12)
            plain.observe(int(states_NxT[n, t]))
            if plain.evidence < 600:  # beyond, wealth is no longer counted
                assert trace.evidence_NxT[n, t] == pytest.approx(plain.evidence, rel=tolerance, abs=tolerance)
        assert list(events_of(trace, n)) == events[n] == plain.events


def test_these_games_have_it_all() -> None:
    """Alarms, some by an excluded state and one past the horizon, returns, drops, and Hedge behind the mixture."""
    found: Counter[str] = Counter()
    for seed in range(USUAL):
        game = a_game(seed)
        _, policy_NxTxA, events = played(game, seed)
        for kind, step, since in (event for stream in events for event in stream):
            found[kind] += 1
            found["excluded"] += kind == "alarm" and since is None
            found["past the horizon"] += kind == "alarm" and step > (game.horizon or T)
        found["hedged"] += int(((policy_NxTxA > 0) & (policy_NxTxA < 1)).any(axis=(1, 2)).sum())
    least = {"alarm": 25, "return": 8, "dropped": 6, "excluded": 3, "past the horizon": 1, "hedged": 6}
    assert all(found[kind] >= count for kind, count in least.items()), found
