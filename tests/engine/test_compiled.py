"""The compiled loop is the array form: the same rows, alarms, turns and suspects, from either at any time."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import (
    Actions,
    BestResponse,
    Engine,
    ExactTest,
    Inputs,
    NoTest,
    QuantalResponse,
    Recovery,
    References,
    Setting,
)
from lowregret.engine.comparators import Comparators
from lowregret.engine.loop import Loop, Waiting, fits, form_of, warm_up
from lowregret.engine.responses import best_actions

from ..conftest import random_problem, sweep

pytestmark = pytest.mark.needs("numba")


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    assert warm_up()


def against_of(rng: np.random.Generator, with_contexts: bool) -> Comparators:
    actions = Actions(per=3) if with_contexts else Actions()
    return [
        actions,
        actions,
        References("desk"),
        actions + References("desk"),
        References("desk", "bank") + actions + References("club"),
        Actions() + actions + References("desk"),
    ][rng.integers(6)]


def random_setting(rng: np.random.Generator) -> Setting:
    """Any composition that the loop can run."""
    problem, lag = random_problem(rng, 4, 4), int(rng.choice([1, 1, 2, 3]))
    if rng.random() < 0.3:
        problem = problem.changing(-1, 1)
    horizon = None if rng.random() < 0.5 else int(rng.choice([20, 60, 500]))
    with_contexts = horizon is not None and rng.random() < 0.5
    test = NoTest(horizon) if rng.random() < 0.2 else ExactTest(float(rng.choice([0.05, 0.5])), horizon)
    temperature = None if rng.random() < 0.5 else 0.1
    response = BestResponse() if rng.random() < 0.6 else QuantalResponse(temperature)
    memories = [(20.0, 200.0), (5.0,)][rng.integers(2)]
    recovery = Recovery(memories, budget=float(rng.choice([0.02, 0.1, 0.5])), trust=None if rng.random() < 0.5 else 0.9)
    return Setting(problem, against_of(rng, with_contexts), test, recovery, response, lag)


def random_recording(rng: np.random.Generator, setting: Setting, n: int, T: int) -> tuple[Inputs, Any, Any]:
    """What was said of n streams for T steps, their states, and which are missing: the model breaks in half of them."""
    A, S, Q = setting.outcomes.n_actions, setting.outcomes.n_states, len(setting.references)
    forecast = rng.dirichlet(np.full(S, 0.5), (n, T))
    laws = forecast.copy()
    broken = np.arange(n) % 2 == 0
    laws[broken, T // 4 :] = np.eye(S)[rng.integers(S)] * 0.9 + 0.1 / S
    laws[broken, 3 * T // 4 :] = forecast[broken, 3 * T // 4 :]
    states = (laws.cumsum(axis=-1) < rng.random((n, T, 1))).sum(axis=-1).clip(0, S - 1)
    if rng.random() < 0.2:
        forecast[0, T // 2] = np.eye(S)[(states[0, T // 2] + 1) % S]  # the outcome had no chance
    said = Inputs(
        forecast,
        rng.dirichlet(np.full(S, 0.5), (n, T, Q)) if Q else (),
        rng.integers(setting.n_contexts, size=(n, T)) if setting.against.contexts else None,
        rng.uniform(0.1, 1, (n, T)) if rng.random() < 0.3 else None,
        rng.uniform(-1, 1, (n, T, A, S)) if setting.problem.is_changing else None,
    )
    return said, states, rng.random((n, T)) < 0.1 if rng.random() < 0.5 else None


def made(seed: int) -> tuple[Engine, Loop, Inputs, Any, Any]:
    rng = np.random.default_rng(seed)
    engine = Engine(random_setting(rng))
    loop = form_of(engine)
    assert isinstance(loop, Loop)
    return engine, loop, *random_recording(rng, engine.setting, 4, 80)


def close(found: Any, expected: Any, within: float = 1e-12) -> None:
    np.testing.assert_allclose(found, expected, rtol=within, atol=within)


SAFE = 1e-10  # what is played safe is less exact: where its gaps are small its rates are large


@pytest.mark.parametrize("seed", sweep(range(400), 40))
def test_a_recording_is_that_of_the_array_form(seed: int) -> None:
    engine, loop, said, states, missing = made(seed)
    rows, T, lag = engine.start(4), states.shape[1], engine.setting.lag
    lags_T = None if seed % 2 else np.random.default_rng(seed).integers(1, lag + 1, size=T)
    asked = rows, said, states, missing, lags_T
    expected, found = engine.run(*asked), loop.run(*asked)
    close(found.policy_NxTxA, expected.policy_NxTxA, SAFE)
    for name in ("rows", "model_NxTxA", "share_NxT", "level_NxT", "known_T"):
        close(getattr(found, name), getattr(expected, name))
    close(np.exp(found.evidence_NxT), np.exp(expected.evidence_NxT))
    assert found.shares == pytest.approx(expected.shares, rel=1e-12)
    assert (found.alarm_NxT == expected.alarm_NxT).all()
    assert (found.turned_NxT == expected.turned_NxT).all()
    assert found.suspects.keys() == expected.suspects.keys()
    for where, suspect in expected.suspects.items():
        other = found.suspects[where]
        assert other[:3] == suspect[:3]
        assert other.gain == (None if suspect.gain is None else pytest.approx(suspect.gain, rel=1e-12))


@pytest.mark.parametrize("seed", sweep(range(500, 700), 20))
def test_a_stream_may_change_its_form_at_any_step(seed: int) -> None:
    """Fleet, single streams and arrays take turns at random; outcomes come in any order, with the actions taken."""
    engine, loop, said, states, missing = made(seed)
    rng, lag = np.random.default_rng(seed), engine.setting.lag
    rows, other = engine.start(4), engine.start(4)
    waiting: dict[int, Any] = {}

    def observe(number: int) -> None:
        nonlocal rows, other
        step, held = waiting.pop(number)
        state, action = states[:, number - 1], rng.integers(engine.setting.outcomes.n_actions, size=4)
        absent = None if missing is None else missing[:, number - 1]
        rows, told = engine.observe(rows, number, step, state, absent, action)
        if isinstance(held, list):
            other, codes = other.copy(), []
            for n in range(4):
                came = -1 if absent is not None and absent[n] else int(state[n])
                codes.append(loop.observe_one(other[n], number, held[n], came, int(action[n])))
            found = loop._signals(np.array(codes))
        elif isinstance(held, Waiting):
            other, found = loop.observe(other, number, held, state, absent, action)
        else:
            other, found = engine.observe(other, number, held, state, absent, action)
        close(other, rows)
        assert (found.alarm_N == told.alarm_N).all()
        assert (found.turned_N == told.turned_N).all()

    for number in range(1, states.shape[1] + 1):
        while len(waiting) == lag:
            observe(int(rng.choice(list(waiting))) if number - min(waiting) < lag else min(waiting))
        now = said.at((slice(None), number - 1))
        step, form = engine.advise(rows, number, now), rng.integers(3)
        found = [loop.advise_one(other[n], number, *one) for n, one in enumerate(singly(loop, now))]
        held: Any = [one for _, one in found]
        assert [action for action, _ in found] == best_actions(np, step.policy_NxA).tolist()
        close(np.concatenate([one.policy_NxA for one in held]), step.policy_NxA, SAFE)
        if form == 1:
            held = loop.advise(other, number, now)
            close(held.policy_NxA, step.policy_NxA, SAFE)
        waiting[number] = step, engine.advise(other, number, now) if form == 2 else held


def singly(loop: Loop, said: Inputs) -> list[Any]:
    """What is said of a step, stream by stream."""
    return [[part.reshape(4, -1)[n].copy() for part in loop._vectors(said)] for n in range(4)]


def test_ties_are_not_decided_by_rounding() -> None:
    """Actions worth the same by even forecasts, in tenths: the first is played, in either form."""
    law = np.full(3, 1 / 3)
    payoffs = np.array(sorted(permutations([0.1, 0.2, 0.3]), key=lambda row: sum(row * law)))
    assert sum(payoffs[0] * law) < sum(payoffs[-1] * law)  # so says rounding
    engine = Engine(Setting(lr.DecisionProblem(payoffs), Actions(), ExactTest(), Recovery(), BestResponse()))
    action, step = Loop(engine).advise_one(engine.start(1)[0], 1, law)
    assert action == 0
    close(step.policy_NxA, engine.advise(engine.start(1), 1, Inputs(law[None])).policy_NxA)


@pytest.mark.parametrize("law", [[0.5, 0.6], [1.1, -0.1], [np.nan, 1.0], [1.0]])
def test_what_is_no_distribution_is_refused(law: list[float]) -> None:
    engine = Engine(Setting(lr.matching(), Actions(), ExactTest(), Recovery(), BestResponse()))
    action, _ = Loop(engine).advise_one(engine.start(1)[0], 1, np.array(law))
    assert action < 0


def test_what_it_cannot_run_is_left_to_the_array_form() -> None:
    problem = lr.matching()
    assert fits(Setting(problem, Actions(), ExactTest(), Recovery(), BestResponse()))
    others = lr.policies.AdaHedge(problem), lr.PolyaUrn(2)
    for fallback in others:
        assert not fits(Setting(problem, Actions(), ExactTest(), fallback, QuantalResponse(0.1)))
    numbers = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    assert not fits(Setting(numbers, Actions(), ExactTest(), Recovery(), BestResponse()))


def test_nothing_is_compiled_after_the_warm_up() -> None:
    engine = Engine(Setting(lr.matching(), Actions(), ExactTest(), Recovery(), BestResponse()))
    with pytest.raises(TypeError, match="No matching definition"):
        Loop(engine).advise_one(engine.start(1)[0], 1, np.array([0.5, 0.5], dtype=np.float32))
