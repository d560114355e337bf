"""Outcomes that come late: in any order within the lag; too late, given up with an event; or never."""

import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates.coupled import late_factor

from .plays import COIN, GAME, KINDS, TRADE, WRONG, arrivals, of_stream, step_of, wrong_for

pytestmark = pytest.mark.usefixtures("form")


@pytest.mark.parametrize("lag", [2, 3, 5])
def test_each_class_is_a_guard_of_its_own(lag: int) -> None:
    """Whatever the order: one alarm goes by the mean of what their bets have grown to."""
    rng, steps, delta = np.random.default_rng(lag), 24 * lag, 0.2 / late_factor(lag)
    probs = rng.dirichlet([1, 1, 1], steps)
    states = np.where(rng.random(steps) < 0.8, (probs.argmax(axis=1) + 1) % 3, rng.integers(3, size=steps))
    late = lr.Guard(GAME, test=lr.ExactTest(0.2), lag=lag)
    classes = [lr.Guard(GAME, test=lr.ExactTest(delta)) for _ in range(lag)]
    for what, step in arrivals(steps, lag, rng):
        own = classes[(step - 1) % lag]
        if what == "advise":
            policy = late.advise(probs[step - 1]).policy
            own.advise(probs[step - 1])
            assert late.events or policy.tolist() == np.eye(3)[probs[step - 1].argmax()].tolist()
            continue
        late.observe(int(states[step - 1]), step=step)
        own.observe(int(states[step - 1]))
        expected = np.logaddexp.reduce([float(each.evidence[0]) for each in classes]) - math.log(lag)
        assert late.evidence == pytest.approx((expected, math.log(1 / delta)), rel=1e-9)
        assert late.switched == (expected >= math.log(1 / delta) or bool(late.events))
    assert late.switched


def test_each_step_that_waits_has_its_own_policy_and_draws() -> None:
    guard, laws = lr.Guard(COIN, response=lr.QuantalResponse(0.3), lag=3), [[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]]
    for law in laws:
        guard.advise(law)
    laws[1] = [0.1, 0.9]
    guard.advise(laws[1], step=2)  # anew: it takes the place of what was said
    assert guard.waiting == [1, 2, 3]
    for step, law in enumerate(laws, 1):
        np.testing.assert_allclose(guard.policy(step=step), COIN.quantal_response(law, 0.3), rtol=1e-12)
        assert guard.advice(step=step).forecast.tolist() == law
    assert [guard.act(seed) for seed in range(9)] == [guard.act(seed, step=3) for seed in range(9)]
    assert len({str([guard.act(seed, step=step) for seed in range(30)]) for step in (1, 2, 3)}) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_label_that_is_missing_stops_nothing(kind: str) -> None:
    """The oldest step is given up, as ``skip`` does, with an event; its outcome, if it still comes, is ignored."""
    guard, other, rng = KINDS[kind](), KINDS[kind](), np.random.default_rng(0)
    lag = guard.lag
    for t in range(1, 25):
        said, outcome = step_of(guard, rng, t, 1)
        if t in (6, 17):
            other.skip(step=t - lag)
        for one in (guard, other):
            one.advise(**of_stream(said, 0), step=t)
            if t not in (5, 16) and t >= lag:
                one.observe(outcome[0], step=t - lag + 1)
    gone = [event for event in guard.events if isinstance(event, lr.guard.OutcomeGivenUp)]
    assert [(event.stream, event.step, event.known) for event in gone] == [(None, t - lag, t) for t in (6, 17)]
    assert guard._state.rows_NxW.tobytes() == other._state.rows_NxW.tobytes()
    assert guard.steps == 25 - lag
    before = guard._state
    guard.observe(outcome[0], step=6 - lag)  # given up
    guard.observe(outcome[0], step=3)  # seen
    assert guard.events[-2:] == [lr.guard.OutcomeIgnored(None, 6 - lag, 24), lr.guard.OutcomeIgnored(None, 3, 24)]
    assert guard._state.rows_NxW is before.rows_NxW
    assert guard._state.changes == before.changes + 2


def test_without_a_lag_a_step_is_advised_anew_unless_the_next_is_asked_for() -> None:
    guard = lr.Guard(COIN)
    guard.advise(WRONG)
    assert guard.advise([0.2, 0.8]).step == 1
    assert guard.advise([0.2, 0.8], step=2).step == 2
    assert (guard.waiting, guard.steps) == ([2], 1)
    assert str(guard.events[0]) == "episode 1, step 1 (known at step 2): its outcome did not arrive and was given up"


def test_outcomes_that_are_missing_in_some_streams() -> None:
    """None, or a mask: as if these streams had been skipped."""
    rng, alone = np.random.default_rng(0), [lr.Guard(COIN) for _ in range(3)]
    fleets = [lr.Guard(COIN, streams=3) for _ in range(2)]
    for _ in range(40):
        probs, states, missing = rng.dirichlet([0.5, 0.5], 3), rng.integers(2, size=3), rng.random(3) < 0.3
        for fleet in fleets:
            fleet.advise(probs)
        fleets[0].observe([None if gone else int(state) for gone, state in zip(missing, states, strict=True)])
        fleets[1].observe(np.where(missing, 99, states), missing=missing)
        for i, guard in enumerate(alone):
            guard.advise(probs[i])
            guard.skip() if missing[i] else guard.observe(int(states[i]))
    rows = fleets[0]._state.rows_NxW
    assert fleets[1]._state.rows_NxW.tobytes() == rows.tobytes()
    np.testing.assert_allclose(rows, [guard._state.rows_NxW[0] for guard in alone], rtol=1e-9)
    assert fleets[0]._head("missed").min() > 5


@pytest.mark.parametrize("problem", [COIN, TRADE], ids=["states", "numbers"])
@pytest.mark.parametrize(("outcome", "missing", "says"), [
    (np.ma.array([1, 1, 0], mask=[1, 0, 0]), None, "must not be masked"),
    (1, [False, True, False], "shape"),
    ([1], [False, True, False], "shape"),
    ([1, 1, 0], [False, True], "missing must be a mask of shape"),
    ([1, 1, 0], [0, 1, 0], "missing must be a mask of shape"),
])  # fmt: skip
def test_outcomes_that_do_not_fit_their_mask_are_refused(problem: Any, outcome: Any, missing: Any, says: str) -> None:
    guard = lr.Guard(problem, streams=3)
    guard.advise(lr.Quantiles([0.1, 0.9], np.zeros((3, 2))) if problem is TRADE else np.full((3, 2), 0.5))
    with pytest.raises(ValueError, match=says):
        guard.observe(outcome, missing=missing)
    assert guard.waiting == [1]


def test_a_restart_while_steps_wait() -> None:
    """They no longer count: a label for one of them is ignored, and of a step before this episode the event says so."""
    guard, fresh = lr.Guard(COIN, lag=3), lr.Guard(COIN, lag=3)
    wrong_for(guard, 20)
    guard.advise(WRONG)
    guard.advise(WRONG)
    guard.restart()
    assert guard.waiting == []
    guard.observe(1, step=21)
    assert guard.events[-1] == lr.guard.OutcomeIgnored(None, -1, 0, 2)
    assert "episode 2, a step before it: an outcome arrived that no longer counts" in str(guard.events[-1])
    for one in (guard, fresh):
        wrong_for(one, 20)
    assert (guard.events[-1].step, guard.events[-1].episode) == (fresh.events[-1].step, 2)
    assert guard.evidence == pytest.approx(fresh.evidence)
    assert (guard.steps, guard.episodes) == (20, 2)


def test_a_step_given_up_costs_only_streams_in_which_it_counted() -> None:
    guard = lr.Guard(COIN, lag=2, streams=2)
    guard.advise([WRONG] * 2)
    guard.restart([1])
    guard.advise([WRONG] * 2)
    guard.advise([WRONG] * 2)  # the first is given up
    assert guard.steps.tolist() == [1, 0]
    assert [(event.stream, event.step) for event in guard.events] == [(0, 1)]
    guard.restart([1])
    guard.skip()
    assert guard.steps.tolist() == [2, 0]
    guard.advise([[1.0, 0.0]] * 2)
    guard.restart([1])
    guard.observe([0, 0])
    guard.observe([1, 1])  # excluded: an alarm where it counts
    assert guard.switched.tolist() == [True, False]
    assert [event.stream for event in guard.events] == [0, 0]


def test_a_broken_feed_of_labels_fills_no_memory() -> None:
    guard = lr.Guard(lr.matching(), lag=2)
    for step in range(1, 400):
        guard.advise([0.6, 0.4], step=step)
    lost = [event.step for event in guard.events]
    assert lost == list(range(298, 398))  # the last hundred of those given up
    assert guard.steps == 397
