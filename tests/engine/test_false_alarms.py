"""If the model is right, the chance of an alarm is at most delta: by enumeration of all sequences, and by simulation.

The model is a tree: what it says of a step depends on all states that are known when it says so. Every sequence of
states is a stream, and weighs what the model gives to it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.engine import (
    Actions,
    BestResponse,
    Comparators,
    Engine,
    ExactTest,
    Inputs,
    QuantalResponse,
    Recovery,
    References,
    Setting,
    UseReference,
)
from lowregret.evaluate.adversaries import all_sequences

from ..conftest import random_problem, sweep


class Guarded(NamedTuple):
    """What of a setting matters to a test."""

    against: Comparators = Actions()
    response: Any = BestResponse()
    fallback: Any = Recovery()
    has_horizon: bool = False
    lag: int = 1
    past: int = 0  # so many steps are past the horizon

    def engine(self, problem: lr.DecisionProblem | lr.Payoff, delta: float, T: int) -> Engine:
        test = ExactTest(delta, T - self.past if self.has_horizon else None)
        return Engine(Setting(problem, self.against, test, self.fallback, self.response, self.lag))


GUARDED = {
    "the default": Guarded(),
    "a horizon": Guarded(has_horizon=True),
    "past a horizon": Guarded(has_horizon=True, past=4),
    "late, past a horizon": Guarded(has_horizon=True, lag=2, past=4),
    "quantal": Guarded(response=QuantalResponse(0.3)),
    "quantal that cools": Guarded(response=QuantalResponse()),
    "references": Guarded(Actions() + References("one", "two")),
    "a reference alone": Guarded(References("one"), fallback=UseReference("one")),
    "contexts": Guarded(Actions(per=2), has_horizon=True),
    "contexts, quantal": Guarded(Actions(per=2) + References("one"), QuantalResponse(), has_horizon=True),
    "late": Guarded(lag=2),
    "late, all of it": Guarded(Actions(per=2) + References("one"), has_horizon=True, lag=2),
}


# Trees


def by_the_past(S: int, T: int, lag: int, drawn: Callable[[int], np.ndarray]) -> np.ndarray:
    """``drawn(n)`` for each step and each of the n pasts that can be known ``lag`` steps ahead: ``[S^T, T, ...]``."""
    known_T = [max(t - lag + 1, 0) for t in range(T)]
    return np.stack([np.repeat(drawn(S**known), S ** (T - known), axis=0) for known in known_T], axis=1)


def forecasts(rng: np.random.Generator, problem: lr.DecisionProblem, n: int) -> np.ndarray:
    """Of which half nearly tie two actions: there bets are as fair as can be, and alarms likeliest."""
    S, U = problem.n_states, problem.utility
    probs, other = rng.dirichlet(np.ones(S), n), rng.dirichlet(np.ones(S), n)
    best = (probs @ U.T).argmax(axis=1)
    for _ in range(30):
        middle = (probs + other) / 2
        stays = ((middle @ U.T).argmax(axis=1) == best)[:, None]
        probs, other = np.where(stays, middle, probs), np.where(stays, other, middle)
    return np.where(rng.random((n, 1)) < 0.5, probs, rng.dirichlet(np.ones(S), n))


def a_tree(made: Guarded, seed: int) -> tuple[lr.DecisionProblem, Inputs, np.ndarray]:
    """A problem, all that is said in every sequence of states, and these ``[S^T, T]``."""
    rng = np.random.default_rng(seed)
    problem = lr.matching() if seed == 0 else random_problem(rng, 3, 3)
    S, Q = problem.n_states, len(made.against.references)
    T = {2: 10, 3: 6}[S]
    probs = by_the_past(S, T, made.lag, lambda n: forecasts(rng, problem, n))
    theirs = by_the_past(S, T, made.lag, lambda n: rng.dirichlet(np.ones(S), (n, Q)))
    contexts = by_the_past(S, T, made.lag, lambda n: rng.integers(2, size=n)) if made.against.contexts else None
    return problem, Inputs(probs, theirs, contexts), all_sequences(S, T)


def chances(probs_NxTxS: np.ndarray, states_NxT: np.ndarray, lag: int) -> list[np.ndarray]:
    """What the model gives to each sequence. Late, it says nothing of neighbours: they are apart, or hang together."""
    came_NxT = np.take_along_axis(probs_NxTxS, states_NxT[..., None], axis=-1)[..., 0]
    apart_N: np.ndarray = came_NxT.prod(axis=1)
    if lag == 1:
        return [apart_N]
    # The states of steps 1 and 2, of 3 and 4, and so on are read off one uniform number each.
    upper_NxT = np.take_along_axis(probs_NxTxS.cumsum(axis=-1), states_NxT[..., None], axis=-1)[..., 0]
    lower_NxT, upper_NxT = (ends.reshape(len(ends), -1, 2) for ends in (upper_NxT - came_NxT, upper_NxT))
    together = upper_NxT.min(axis=-1) - lower_NxT.max(axis=-1)
    return [apart_N, np.maximum(together, 0).prod(axis=1)]


@pytest.mark.parametrize("seed", sweep(range(60), 3))
@pytest.mark.parametrize("name", GUARDED)
def test_all_sequences_of_a_tree(name: str, seed: int) -> None:
    made = GUARDED[name]
    problem, said, states_NxT = a_tree(made, seed)
    N, T = states_NxT.shape
    for delta in (0.9, 0.5, 0.2):
        engine = made.engine(problem, delta, T)
        has_alarm_N = engine.run(engine.start(N), said, states_NxT).alarm_NxT.any(axis=1)
        for weights_N in chances(said.forecast, states_NxT, made.lag):
            assert weights_N.sum() == pytest.approx(1)
            assert weights_N @ has_alarm_N <= delta


@pytest.mark.parametrize("seed", sweep(range(60), 3))
@pytest.mark.parametrize("name", GUARDED)
def test_capital_never_grows_on_average(name: str, seed: int) -> None:
    """At each node of a tree: what all bets of a class have, heard or not, less what it was, weighted by the model."""
    made = GUARDED[name]
    problem, said, states_NxT = a_tree(made, seed)
    (N, T), S, lag = states_NxT.shape, problem.n_states, made.lag
    engine = made.engine(problem, 0.5, T)
    rows, waiting, had_DxN = engine.start(N), {}, np.ones((lag, N))
    for t in range(T + lag - 1):
        if t < T:
            waiting[t] = engine.advise(rows, t + 1, said.at((slice(None), t)))
        if (due := t - lag + 1) < 0:
            continue
        rows, _ = engine.observe(rows, due + 1, waiting.pop(due), states_NxT[:, due])
        watched = engine.of_class(rows, due % lag)
        has_N = watched.actors.copy()
        if engine.setting.has_second_bettor:
            has_N += watched.second + watched.second_unspent
        assert (engine.head.open(rows).level_D[:, due % lag] <= has_N * (1 + 1e-12)).all()
        # What is known before the step, what is not, the state of the step, what comes after it.
        known = max(due - lag + 1, 0)
        nodes = S**known, S ** (due - known), S, S ** (T - due - 1)
        mean_KxU = (has_N * said.forecast[np.arange(N), due, states_NxT[:, due]]).reshape(nodes)[..., 0].sum(axis=-1)
        assert (mean_KxU <= had_DxN[due % lag].reshape(nodes)[:, :, 0, 0] * (1 + 1e-9)).all()
        had_DxN[due % lag] = has_N


@pytest.mark.parametrize(("lag", "factor"), [(1, 1.0), (2, 2.0), (3, 2.75)])
def test_late_the_mean_of_all_classes_must_grow_further(lag: int, factor: float) -> None:
    """They may hang together: at 1/delta, their mean would raise too many alarms."""
    engine = Guarded(lag=lag).engine(lr.matching(), 0.1, 100)
    assert engine.setting.watch.threshold == pytest.approx(factor / 0.1, rel=2e-3)


# Longer than can be enumerated


def simulated(made: Guarded, drift: float) -> int:
    """How many of 500 streams have an alarm; state 1 comes more often than the model says, by ``drift``."""
    rng, N, T, lag = np.random.default_rng(0), 500, 120, made.lag
    states, chance = np.zeros((N, T), dtype=np.int64), np.empty((N, T))
    for t in range(T):  # near a tie, and by the last state that is known
        known = states[:, t - lag] if t >= lag else np.zeros(N, dtype=np.int64)
        chance[:, t] = 0.5 + rng.choice([-0.02, 0.02], N) + 0.02 * known
        states[:, t] = rng.random(N) < chance[:, t] + drift
    engine = made.engine(lr.matching(), 0.2, T)
    said = Inputs(np.stack([1 - chance, chance], axis=-1))
    return int(engine.run(engine.start(N), said, states).alarm_NxT.any(axis=1).sum())


@pytest.mark.parametrize("made", [Guarded(has_horizon=True), Guarded(response=QuantalResponse(), has_horizon=True)])
def test_by_simulation(made: Guarded) -> None:
    """Were the chance delta or less, a count this high would have a chance below 1e-5; the count is not idle."""
    assert stats.binom.sf(simulated(made, 0.0) - 1, 500, 0.2) > 1e-5
    assert stats.binom.sf(simulated(made, 0.2) - 1, 500, 0.2) < 1e-5
