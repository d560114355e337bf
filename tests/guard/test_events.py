"""Events: of which step they speak and when that was known, in words; on_event may fail, be set late, or act itself."""

import logging
import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr

from .plays import COIN, DESK, TRADE, WRONG, wrong_for

pytestmark = pytest.mark.usefixtures("form")


def kinds(events: Any) -> list[str]:
    return [type(event).__name__ for event in events]


def test_the_words_of_an_alarm() -> None:
    """By a mixture, by an action, by an action in a context, and by a reference."""
    guard = lr.Guard(COIN, streams=["a", "b"])
    wrong_for(guard, 6)
    first, second = guard.events
    assert first[:3] == ("a", 4, 4)
    assert (first.episode, first.since, first.action, first.whom, first.gain) == (1, 1, None, None, 1.0)
    assert second == first._replace(stream="b")
    assert first.threshold == math.log(20) <= first.evidence
    assert str(first) == (
        "stream a, episode 1, step 4: alarm, recent frequencies predict better since about step 1, and acting on them "
        f"earned 1 more per step (evidence {first.evidence:.4g}, threshold 2.996)"
    )
    with_desk = lr.Guard(COIN, against=DESK)
    for _ in range(6):
        with_desk.advise(WRONG, references={"desk": [0.5, 0.5]})
        with_desk.observe(1)
    assert "a mixture of recent frequencies and desk predicts better" in str(with_desk.events[0])
    against = lr.Actions(per=["day", "night"]) + lr.References("desk")
    told = lr.Guard(COIN, against=against, test=lr.ExactTest(horizon=99), response=lr.QuantalResponse(0.1), streams=2)
    for t in range(60):  # at night state 1 comes, and the desk knows in the second stream when
        states = [t % 2, int(t % 3 == 0)]
        told.advise(
            [WRONG] * 2, context=[["day", "night"][t % 2], "day"], references=[[[0.5, 0.5], np.eye(2)[states[1]]]]
        )
        told.observe(states)
    found = {event.stream: event for event in told.events if isinstance(event, lr.Alarm)}
    assert found[0].because.startswith("action 1 would have earned more in context 1 since about step ")
    assert (found[0].action, found[0].context, found[0].whom) == (1, 1, "action 1")
    assert found[1].because.startswith("desk would have earned more since about step ")
    assert (found[1].reference, found[1].action) == ("desk", None)


@pytest.mark.parametrize("lag", [1, 4])
def test_a_state_that_was_excluded_raises_the_alarm_at_once(lag: int) -> None:
    guard, numbers = lr.Guard(COIN, lag=lag, streams=3), lr.Guard(TRADE, lag=lag)
    guard.advise([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])
    guard.observe([0, 1, 1])
    (event,) = guard.events
    assert (event.stream, event.step, event.excluded, event.evidence) == (1, 1, True, math.inf)
    assert (
        str(event) == "stream 1, episode 1, step 1: alarm, a state occurred to which the model had given probability 0"
    )
    assert guard.switched.tolist() == [False, True, False]
    numbers.advise(lr.Samples([0.1, 0.2, 0.3]))
    numbers.observe(-3.0)
    assert not numbers.events  # samples and quantiles exclude nothing
    nothing_at_stake = lr.Guard(lr.DecisionProblem([[0.3, -0.7], [0.3, -0.7]]), lag=lag)
    nothing_at_stake.advise([1.0, 0.0])
    nothing_at_stake.observe(1)
    assert not nothing_at_stake.events


@pytest.mark.parametrize("lag", [2, 7])
def test_steps_of_late_outcomes(lag: int) -> None:
    """The step of the outcome and that by which it was known, counted from the beginning of the episode."""
    guard = lr.Guard(COIN, lag=lag, streams=2)
    for episode in (1, 2):
        had = len(guard.events)
        for step in range(1, 60):
            guard.advise([WRONG] * 2)
            if step >= lag:
                guard.observe([1, 0])
        (event,) = guard.events[had:]
        assert (event.stream, event.episode, event.known) == (0, episode, event.step + lag - 1)
        assert event.step == guard.events[0].step
        assert f"step {event.step} (known at step {event.known}): alarm" in str(event)
        guard.restart()


@pytest.mark.parametrize("lag", [1, 2])
def test_a_model_returns_and_is_dropped_again(lag: int, caplog: pytest.LogCaptureFixture) -> None:
    """Wrong, right, wrong, right, wrong, 80 steps each after 20 that are right."""
    states, heard = np.random.default_rng(0).integers(2, size=420), list[Any]()
    guard, shares = lr.Guard(COIN, test=lr.ExactTest(horizon=420), lag=lag, on_event=heard.append), [1.0]
    for t, state in enumerate(states):
        right = np.where(np.arange(2) == state, 0.95, 0.05)
        trusted = guard.advise(right[::-1] if t >= 20 and (t - 20) // 80 % 2 == 0 else right).trusted
        assert trusted == (not heard or isinstance(heard[-1], lr.Return))
        guard.observe(int(state))
        shares.append(guard.share)
    turns = ["Alarm", "Return", "ModelDropped", "Return", "ModelDropped"][: 5 if lag == 1 else 3]
    assert kinds(guard.events) == turns
    assert heard == guard.events
    assert [record.getMessage() for record in caplog.records] == list(map(str, heard))
    for event, begun in zip(guard.events, (20, 100, 180, 260, 340)[: len(turns)], strict=True):
        assert 0 < event.step - begun < 60
        assert isinstance(event, lr.Alarm) or event.share == shares[event.step]
    assert f"the model is back, with {heard[1].share:.0%} of the weight" in str(heard[1])
    assert f"the model is dropped again, with {heard[2].share:.0%} of the weight" in str(heard[2])


def test_an_on_event_that_fails_loses_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    def tell(event: Any) -> None:
        heard.append(event)
        raise OSError("no line")

    guard, quiet = lr.Guard(COIN, streams=3, on_event=tell, lag=2), lr.Guard(COIN, streams=3, lag=2)
    for one in (guard, quiet):
        wrong_for(one, 20)
        for _ in range(3):
            one.advise(np.tile(WRONG, (3, 1)))  # the first of them is given up
        one.observe([1, 1, 1], step=1)  # ignored
    assert guard.dumps() == quiet.dumps()
    assert heard == guard.events
    assert kinds(heard) == ["Alarm"] * 3 + ["OutcomeGivenUp"] * 3 + ["OutcomeIgnored"] * 3
    failed = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in failed] == [f"on_event failed for {event}" for event in heard]
    assert "no line" in str(failed[0].exc_info)


def test_on_event_may_be_set_at_any_time_and_act_itself() -> None:
    guard, heard = lr.Guard(COIN), list[Any]()
    wrong_for(guard, 10)
    guard.restart()
    guard.on_event = lambda event: (heard.append(event), guard.restart())
    wrong_for(guard, 8)
    assert [(event.episode, event.step) for event in guard.events] == [(1, 4), (2, 4), (3, 4)]
    assert heard == guard.events[1:]
    guard.on_event = None
    wrong_for(guard, 8)
    assert (len(heard), len(guard.events), guard.episodes) == (2, 4, 4)
