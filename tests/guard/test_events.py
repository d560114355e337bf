"""Events of guards: of which step they speak and when that was known, and every time a model is left."""

import json
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.audit import audit_log
from lowregret.audit.page import _data

MATCHING = lr.matching()
UP, DOWN = np.array([0.05, 0.95]), np.array([0.95, 0.05])
TOSSED = np.random.default_rng(5).random(41) < 0.5


def broken(step: int) -> tuple[np.ndarray, int]:
    """A law and the state that comes: the law is right until step 40; from then on the other state comes always."""
    return (DOWN, 1) if step > 40 else (UP, 1) if TOSSED[step] else (DOWN, 0)


def steps_of_classes(rule: Any, told: list[tuple[int, np.ndarray, int]], lag: int) -> list[tuple[float, int]]:
    """By class: ln E, and the step at which its richest bettor began; each an ordinary test of its own outcomes."""
    found = []
    for place in range(lag):
        own = [one for one in told if (one[0] - 1) % lag == place]
        memory = rule.each.start()
        for _, law, state in own:
            memory = rule.each.update(memory, law, np.asarray(state))
        began = int(rule.each.suspicion(memory).since) if own else 0
        found.append((float(rule.each.evidence(memory)[0]), own[began - 1][0] if began else 1))
    return found


@pytest.mark.parametrize("lag", [2, 3, 7])
@pytest.mark.parametrize("seed", range(4))
def test_dates_of_late_and_skipped_outcomes(lag: int, seed: int) -> None:
    """In steps, whatever was skipped; the step of the outcome, and that by which it was known; across episodes."""
    rng, guard = np.random.default_rng(seed), lr.Guard(MATCHING, 140, lag=lag)
    begun, spread, since = 0, 0, []
    for episode in (1, 2):
        told: list[tuple[int, np.ndarray, int]] = []
        waiting: list[int] = []
        for step in range(begun + 1, begun + 131 + episode):
            while waiting and (waiting[0] <= step - lag or rng.random() < 0.3 * (seed > 0)):
                due = waiting[0] if waiting[0] <= step - lag else int(rng.choice(waiting))
                waiting.remove(due)
                had = len(guard.events)
                if rng.random() < 0.25:
                    guard.skip(step=due)
                    continue
                told.append((due, *broken(due - begun)))
                guard.observe(told[-1][2], step=due)
                for event in guard.events[had:]:
                    assert (event.step, event.known, event.episode) == (due - begun, step - 1 - begun, episode)
                    assert event.step <= event.known < event.step + lag
                    assert (f"(known at step {event.known})" in str(event)) == (event.known > event.step)
                    spread = max(spread, event.known - event.step)
                    if isinstance(event, lr.Switch):
                        richest = max(steps_of_classes(guard.rule, told, lag), key=lambda found: found[0])
                        assert event.since == richest[1] - begun
                        since.append(event.since)
            guard.advise(broken(step - begun)[0])
            waiting.append(step)
            assert guard.steps == step - begun - len(waiting)
        for due in waiting:
            guard.skip(step=due)
        assert any(isinstance(event, lr.Switch) and event.episode == episode for event in guard.events)
        begun = step
        guard.restart()
    assert spread == lag - 1 or seed
    assert max(since) > 25 or lag == 7  # of which a class has seen six before the break


@pytest.mark.parametrize(("likelihood", "latest"), [(False, 48), (True, 50)])  # the mixture must learn first
@pytest.mark.parametrize("told", [{"contexts": 2}, {"references": ["old"]}], ids=str)
def test_dates_of_skipped_outcomes_where_more_is_told(told: dict[str, Any], likelihood: bool, latest: int) -> None:
    guard = lr.Guard(MATCHING, 300, lag=2, likelihood=likelihood, **told)
    for step in range(1, 200):
        more = {"context": step % 2} if "contexts" in told else {"references": [UP]}
        law, state = broken(step)
        guard.advise(law, **more)
        guard.skip() if step % 5 == 0 else guard.observe(state)
        if guard.events:
            break
    (event,) = guard.events
    assert event.step == event.known == step
    assert 36 <= event.since <= latest


def test_without_a_lag_an_event_is_known_at_its_step() -> None:
    guard = lr.Guard(MATCHING, 300, batch_shape=(2,))
    for step in range(1, 80):
        guard.advise([broken(step)[0], UP])
        guard.observe([broken(step)[1], 1])
    assert [(event.stream, event.known) for event in guard.events] == [(0, guard.events[0].step)]
    assert "known" not in str(guard.events[0])


def moods(T: int) -> tuple[np.ndarray, np.ndarray]:
    """Wrong, right, wrong, right, wrong, 80 steps each after 20 that are right: laws and states."""
    states = np.random.default_rng(0).integers(2, size=T)
    right = np.where(np.arange(2) == states[:, None], 0.95, 0.05)
    wrong = (np.arange(T) >= 20) & ((np.arange(T) - 20) // 80 % 2 == 0)
    return np.where(wrong[:, None], right[:, ::-1], right), states


def kinds(events: Any) -> list[str]:
    return [type(event).__name__ for event in events]


TURNS = ["Switch", "Return", "Left", "Return", "Left"]


@pytest.mark.parametrize(
    "settings",
    [{}, {"lag": 2, "delta": 1 / 420, "temperature": 420**-0.5}, {"contexts": 1}, {"references": ["flat"]}],
    ids=str,
)
def test_a_model_that_fails_again_is_left_again(settings: dict[str, Any]) -> None:
    heard: list[Any] = []
    guard = lr.Guard(MATCHING, 420, on_event=heard.append, **settings)
    probs, states = moods(420)
    more = {"contexts": {"context": 0}, "references": {"references": [[0.5, 0.5]]}}.get(next(iter(settings), ""), {})
    shares = [1.0]
    for law, state in zip(probs, states, strict=True):
        guard.advise(law, **more)
        guard.observe(state)
        shares.append(guard.share)
    assert kinds(guard.events) == TURNS
    assert heard == guard.events
    for event in guard.events[1:]:
        assert event.share == shares[event.step]  # type: ignore[union-attr]
        mark = 0.25 if "lag" not in settings else 0.5  # of most classes
        assert (event.share > mark) == isinstance(event, lr.Return)  # type: ignore[union-attr]
    lefts = [event for event in guard.events if isinstance(event, lr.Left)]
    assert [0 < event.step - begin < 40 for event, begin in zip(lefts, (180, 340), strict=True)] == [True, True]
    assert "left again after" in str(lefts[0])
    # A guard that is resumed tells the same.
    saved = json.loads(json.dumps(guard.state_dict()))
    again = lr.Guard(MATCHING, 420, **settings)
    again.load_state_dict(saved)
    assert again.events == guard.events


def test_a_model_of_numbers_that_fails_again_is_left_again() -> None:
    payoff = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [-1, 1], -1, 1, knots=[-1, 1])
    guard, moves = lr.Guard(payoff, 1000), np.random.default_rng(1).choice([-0.8, 0.8], 900)
    for step, move in enumerate(moves):
        wrong = step < 60 or step > 200
        guard.advise(lr.Quantiles([0.1, 0.9], np.array([-0.1, 0.1]) + (-move if wrong else move)))
        guard.observe(move)
    assert kinds(guard.events) == ["Switch", "Return", "Left"]


def test_backtests_tell_of_those_that_are_left() -> None:
    probs, states = moods(420)
    found = lr.backtest(MATCHING, [probs, probs[:100]], [states, states[:100]])
    assert kinds(event for event in found.switches if event.stream == 0) == TURNS
    assert [(one.returns, one.left) for one in found.streams] == [(2, 2), (0, 0)]
    told = json.loads(found.to_json())["switches"]
    assert [one["event"] for one in told if one["stream"] == 0] == [kind.lower() for kind in TURNS]
    assert dict(found.table().rows)["left again"] == "2"


def test_audits_tell_of_those_that_are_left(tmp_path: Any) -> None:
    pd = pytest.importorskip("pandas")
    probs, states = moods(420)
    path = tmp_path / "log.parquet"
    frame = pd.DataFrame(
        {"stream": "a", "step": np.arange(420), "p_0": probs[:, 0], "p_1": probs[:, 1], "state": states.astype(str)}
    )
    frame.to_parquet(path)
    found = audit_log(path, MATCHING, events=True)
    assert [(one.returns, one.left) for one in found.streams] == [(2, 2)]
    assert "left again 2 times" in found.report()
    shown = _data(found)
    assert [what for what, *_ in shown["details"][0]["marks"]].count("left again") == 2
    quiet = audit_log(path, MATCHING, events=False)
    assert [(one.returns, one.left) for one in quiet.streams] == [(None, None)]
