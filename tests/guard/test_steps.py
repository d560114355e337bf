"""A step: advise, act, observe. The last advice counts, draws are those of the policy, a refusal changes nothing."""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr

from .plays import COIN, KINDS, TRADE, WRONG, of_stream, step_of, wrong_for

pytestmark = pytest.mark.usefixtures("form")
WARM = lr.QuantalResponse(1.0)


def test_before_the_alarm_the_model_and_after_it_the_fallback() -> None:
    guard, urn = lr.Guard(COIN, response=WARM, fallback=lr.PolyaUrn(2)), np.ones(2)
    for step in range(1, 30):
        advice = guard.advise(WRONG)
        law = urn / urn.sum() if guard.events else np.array(WRONG)
        np.testing.assert_allclose(advice.forecast, law, rtol=1e-12)
        np.testing.assert_allclose(advice.policy, COIN.quantal_response(law, 1.0), rtol=1e-12)
        assert (advice.step, advice.action) == (step, int(advice.policy.argmax()))
        assert (advice.trusted, advice.share) == ((False, 0.0) if guard.events else (True, 1.0))
        guard.observe(1)
        urn[1] += 1
    assert [event.step for event in guard.events] == [4]
    assert "Advice(step 29: policy [" in repr(advice)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_advice_counts_and_arrays_may_be_filled_again(kind: str) -> None:
    """Neither what ``advise`` was given nor what was handed out reaches into the guard."""
    guard, twin, rng = KINDS[kind](streams=2), KINDS[kind](streams=2), np.random.default_rng(0)
    for t in range(1, 46):
        said, outcome = step_of(guard, rng, t, 2)
        twin.advise(**said)
        if t % 3 == 0:
            guard.advise(**step_of(guard, rng, t + 12, 2)[0], step=t)
        given = copy.deepcopy(said)
        handed = guard.advise(**given, step=t)
        for part in (*given.values(), handed.policy, handed.share, handed.action, guard.policy(), guard.evidence[0]):
            if isinstance(part, np.ndarray):
                part[...] = 77
        for part in (guard.regret, guard.share, guard.steps, guard.episodes, guard.realised_regret, guard.switched):
            part[...] = 1
        guard.events.clear()
        assert np.array_equal(guard.act(3), twin.act(3))
        for one in (guard, twin):
            one.observe(outcome, action=one.act(3))
    assert guard.events == twin.events
    assert guard._state.rows_NxW.tobytes() == twin._state.rows_NxW.tobytes()
    assert guard.switched.any() or kind == "no test"


def test_regret_by_hand() -> None:
    """Of the policy, and of the actions that were reported; to every action."""
    rng = np.random.default_rng(0)
    problem = lr.DecisionProblem(rng.uniform(-1, 1, (3, 4)))
    guard, U = lr.Guard(problem, response=lr.QuantalResponse(0.2), streams=2), problem.utility
    behind, realised, reported = np.zeros((2, 3)), np.zeros((2, 3)), 0
    assert np.isnan(guard.realised_regret).all()
    for t in range(1, 30):
        policy = guard.advise(rng.dirichlet(np.ones(4), 2)).policy
        states, action = rng.integers(4, size=2), guard.act(7) if t % 3 else None
        guard.observe(states, action)
        for n, s in enumerate(states):
            behind[n] += U[:, s] - policy[n] @ U[:, s]
            realised[n] += 0 if action is None else U[:, s] - U[action[n], s]
        reported += action is not None
        np.testing.assert_allclose(guard.regret, behind.max(axis=1) / t, atol=1e-12)
        np.testing.assert_allclose(guard.realised_regret, realised.max(axis=1) / reported, atol=1e-12)


def test_draws_have_the_chances_of_the_policy() -> None:
    problem, n = lr.DecisionProblem([[0.3, -0.4], [0.1, 0.5], [-1.0, 0.6], [0.2, 0.0]]), 2_000
    made = {"response": lr.QuantalResponse(0.8), "test": lr.ExactTest(1e-9)}
    fleet, alone, drawn = lr.Guard(problem, **made, streams=n), lr.Guard(problem, **made), []
    fleet.advise(np.tile([0.4, 0.6], (n, 1)))
    for step in range(500):
        alone.advise([0.4, 0.6])
        drawn.append(alone.act(5))
        alone.observe(int(step % 5 > 1))
    for found in (fleet.act(0), fleet.act(np.random.default_rng(2)), drawn):
        expected = len(found) * problem.quantal_response([0.4, 0.6], 0.8)
        assert stats.chisquare(np.bincount(found, minlength=4), expected).pvalue > 1e-3


@pytest.mark.parametrize("streams", [None, 40])
def test_the_same_seed_draws_the_same_and_each_step_anew(streams: int | None) -> None:
    def run(seed: int, make: Any = int, response: Any = WARM) -> list[Any]:
        guard, given, found = lr.Guard(COIN, response=response, streams=streams), make(seed), []
        for _ in range(20):
            guard.advise(np.full((*guard.shape, 2), 0.5))
            found.append(np.asarray(guard.act(given)).tolist())
            assert make is not int or np.asarray(guard.act(given)).tolist() == found[-1]  # asked twice
            guard.observe(np.zeros(guard.shape, dtype=int))
        return found

    runs = [run(5), run(6), run(5, np.random.default_rng), run(2**70), run(5, response=lr.QuantalResponse(0.9))]
    assert (run(5), run(5, np.random.default_rng)) == (runs[0], runs[2])
    assert len({str(found) for found in runs}) == len(runs)
    assert len({str(found) for found in runs[0]}) > 1


def test_draws_are_independent_of_a_world_with_the_same_seed() -> None:
    guard = lr.Guard(COIN, response=WARM)
    guard.advise([0.5, 0.5])
    agree = sum(guard.act(seed) == (np.random.default_rng(seed).random() >= 0.5) for seed in range(400))
    assert abs(agree - 200) < 45  # 4.5 standard deviations


def late() -> lr.Guard:
    """Steps 4 and 5 wait for their outcomes."""
    guard = lr.Guard(COIN, lag=3)
    wrong_for(guard, 3)
    guard.advise(WRONG)
    guard.advise(WRONG)
    return guard


def fleet() -> lr.Guard:
    """The first of four streams has gone, the others wait."""
    guard = lr.Guard(COIN, streams=4)
    guard.retire(0)
    guard.advise([WRONG] * 3)
    return guard


REFUSED: dict[Callable[[], lr.Guard], list[tuple[Callable[[lr.Guard], Any], str]]] = {
    late: [
        (lambda g: g.advise(WRONG, step=9), r"step must be the next, 6, or one that waits .*\(4, 5\), got 9"),
        (lambda g: g.advise(WRONG, step=3), "step must be the next, 6"),
        (lambda g: g.advise(lr.Quantiles([0.5], [1.0])), "forecast"),
        (lambda g: g.observe(0, step=6), "step 6 waits for no outcome; those that do: 4, 5"),
        (lambda g: g.policy(step=3), "step 3 waits for no outcome"),
        (lambda g: g.restart("a"), "streams must be among"),
        (lambda g: g.add(), r"add\(\) needs a guard of several streams"),
        (lambda g: g.retire(0), r"retire\(\) needs a guard of several streams"),
    ],
    fleet: [
        (lambda g: g.add(-1), r"add\(n\) must be a whole number"),
        (lambda g: g.add(["x"]), r"add\(n\) must be a whole number"),
        (lambda g: g.retire([0]), r"streams must be among \[1, 2, 3\], got 0"),
        (lambda g: g.retire([True, False]), r"streams is a mask of shape \(2,\), the guard has 3"),
    ],
    partial(lr.Guard, COIN, streams=["a", "b"]): [
        (lambda g: g.add(["a"]), "streams"),
        (lambda g: g.add(["c", "c"]), "add"),
        (lambda g: g.add(2), "add"),
        (lambda g: g.retire(["c"]), "streams must be among"),
    ],
}


@pytest.mark.parametrize("make", REFUSED, ids=["late", "fleet", "named"])
def test_a_refusal_changes_nothing(make: Callable[[], lr.Guard]) -> None:
    guard = make()
    before = guard.dumps()
    for call, says in REFUSED[make]:
        with pytest.raises(ValueError, match=says):
            call(guard)
        assert guard.dumps() == before, says


def test_payoffs_by_which_a_forecast_cannot_be_judged_are_refused_before_the_step() -> None:
    bent = lr.Payoff(lambda held, move: held * np.sin(9 * move), TRADE.actions, -1, 1)  # nobody says where it bends
    guard, drawn = lr.Guard(TRADE.changing(-1, 1)), lr.Samples(np.linspace(-1, 1, 8))
    with pytest.raises(ValueError, match="bend"):
        guard.advise(lr.Quantiles([0.5], [0.1]), payoffs=bent)
    guard.advise(drawn, payoffs=bent)
    guard.observe(0.5)
    assert guard.steps == 1


@pytest.mark.parametrize("kind", ["default", "policy", "changing, scaled, late"])
def test_copies_and_forks_go_on_by_themselves(kind: str) -> None:
    guard, rng = KINDS[kind](), np.random.default_rng(1)
    said, outcome = step_of(guard, rng, 1, 1)
    guard.advise(**of_stream(said, 0))
    before = guard.dumps()
    twins = copy.copy(guard), copy.deepcopy(guard), pickle.loads(pickle.dumps(guard))
    for twin in twins:
        twin.observe(outcome[0])
        assert guard.dumps() == before
    guard.observe(outcome[0])
    assert all(twin.dumps() == guard.dumps() for twin in twins)
    said, _ = step_of(guard, rng, 2, 3)
    assert guard.fork(3).advise(**said).policy[1].tolist() == guard.advise(**of_stream(said, 1)).policy.tolist()
