"""A guard that was saved goes on as if it never had been; bytes of another, cut short or changed, are refused."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowregret as lr

from .plays import COIN, DESK, GAME, KINDS, TRADE, WRONG, arrivals, of_stream, step_of, wrong_for

pytestmark = pytest.mark.usefixtures("form")


@pytest.mark.parametrize("streams", [None, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_saved_at_every_step_is_never_saved(kind: str, streams: int | None) -> None:
    """Bit for bit: with steps that wait, streams that come, go and start again, and whatever is said of a step."""
    rng, never, always = np.random.default_rng(4), KINDS[kind](streams=streams), KINDS[kind](streams=streams)
    outcomes: dict[int, Any] = {}
    for what, t in arrivals(48, never.lag, rng):
        if what == "advise":
            said, outcomes[t] = step_of(never, rng, t, 3)
            for guard in (never, always):
                if t in (12, 30) and streams:
                    guard.restart([1])
                    guard.add(1)
                    guard.retire([0 if t == 12 else 2])
                guard.advise(**(said if streams else of_stream(said, 0)))
            if isinstance(said["forecast"], np.ndarray):
                said["forecast"][...] = 7  # the caller's own
        else:
            outcome, when = outcomes[t] if streams else outcomes[t].tolist()[0], {} if never.lag == 1 else {"step": t}
            for guard in (never, always):
                guard.skip(**when) if t == 17 else guard.observe(outcome, action=guard.act(2, **when), **when)
        data, always = always.dumps(), KINDS[kind](streams=streams)
        always.loads(data)
        assert data == always.dumps() == never.dumps()
        for step in never.waiting:
            assert np.array_equal(always.policy(step=step), never.policy(step=step))
            assert np.array_equal(always.act(7, step=step), never.act(7, step=step))
    assert list(map(str, always.events)) == list(map(str, never.events))
    assert always.certificate == never.certificate
    assert never.events or kind == "no test"


def test_a_guard_can_be_taken_back_and_keeps_a_note() -> None:
    """From bytes of any kind, as a database gives them, with all that happened: an excluded state, streams by name."""
    guard = lr.Guard(COIN, streams=["a", "b"], lag=2)
    guard.note = {"model": "v7", "at": [1, 2]}
    guard.advise([[1.0, 0.0], [0.5, 0.5]])
    guard.observe([1, 1])
    start = guard.dumps()
    wrong_for(guard, 8)
    for data in (start, memoryview(start), bytearray(start)):
        other = lr.Guard(COIN, streams=["x"], lag=2)
        other.loads(data)
        assert other.dumps() == start
    assert (other.streams, other.note, other.events[0].excluded) == (["a", "b"], {"model": "v7", "at": [1, 2]}, True)
    wrong_for(other, 8)
    assert other.dumps() == guard.dumps()
    guard.loads(start)
    assert guard.dumps() == start


def test_what_was_to_be_played_stays_in_streams_that_start_again() -> None:
    guard = lr.Guard(COIN, streams=3, lag=2)
    wrong_for(guard, 20)
    guard.advise([WRONG] * 3)
    guard.restart([1])
    other = guard.fresh(3)
    other.loads(guard.dumps())
    other.add(1)
    other.retire([0])
    assert other.policy()[:2].tolist() == guard.policy()[1:].tolist() == [[0.0, 1.0]] * 2


def test_what_cannot_be_saved_says_so() -> None:
    guard = lr.Guard(TRADE.changing(-1, 1))
    guard.advise(lr.Samples([0.1, 0.2]), payoffs=TRADE)
    with pytest.raises(ValueError, match="its Payoff is no array: observe it first"):
        guard.dumps()
    guard.observe(0.5)
    other = guard.fresh()
    other.loads(guard.dumps())
    assert other.dumps() == guard.dumps()


def paid(held: float, move: np.ndarray) -> np.ndarray:
    return np.clip(held, -1, 1) * np.clip(move, -1, 1)


LATE: dict[str, Any] = {"problem": GAME, "against": DESK, "test": lr.ExactTest(0.1, 50), "fallback": lr.Recovery()}
LATE |= {"response": lr.BestResponse(), "lag": 2, "streams": 3}
WARM: dict[str, Any] = {"problem": GAME, "test": lr.ExactTest(0.1, 50), "response": lr.QuantalResponse()}
HELD: dict[str, Any] = {"fn": paid, "actions": [-1.0, 0.0, 1.0], "low": -1, "high": 1, "knots": [-1, 1]}
OTHERS: dict[str, list[Any]] = {
    "problem": [
        *(lr.DecisionProblem(0.9 * GAME.utility), GAME.changing(-1, 1), TRADE),
        *(lr.DecisionProblem(GAME.utility, **{names: ["x", "y", "z"]}) for names in ("actions", "states")),
        lr.DecisionProblem.from_payoffs(GAME.utility, low=-2, high=2),
    ],
    "against": [lr.Actions(), lr.Actions() + lr.References("old"), lr.Actions(per=2) + lr.References("desk")],
    "test": [lr.ExactTest(0.2, 50), lr.ExactTest(0.1), lr.NoTest(50)],
    "fallback": [lr.Recovery(budget=1.0), lr.UseReference("desk")],
    "response": [lr.QuantalResponse()],
    "lag": [3],
    "streams": [None, ["a", "b", "c"]],
}
LEARNERS = [lr.policies.AdaHedge(GAME), lr.policies.Hedge(GAME, 60), lr.PolyaUrn(3)]
PAYOFFS = [{"knots": [-1, 0, 1]}, {"low": -2}, {"outcomes": (-2, 2)}, {"actions": [-1, 0, 2]}]
PAIRS: list[Any] = [(LATE, LATE | {field: value}, field) for field, values in OTHERS.items() for value in values]
PAIRS += [(WARM | {"fallback": lr.PolyaUrn(3, prior=0.5)}, WARM | {"fallback": one}, "fallback") for one in LEARNERS]
PAIRS += [({"problem": lr.Payoff(**HELD)}, {"problem": lr.Payoff(**HELD | change)}, "problem") for change in PAYOFFS]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[2]}: {str(pair[1][pair[2]])[:40]}")
def test_other_settings_are_refused_and_named(pair: tuple[dict[str, Any], dict[str, Any], str]) -> None:
    """Both ways, and nothing changes; how many streams there are is part of the state."""
    one, other, again = lr.Guard(**pair[0]), lr.Guard(**pair[1]), lr.Guard(**pair[0])
    for guard, theirs in ((one, other), (other, one)):
        before = guard.dumps()
        with pytest.raises(ValueError, match=f"^these bytes are of a guard with another {pair[2]}: "):
            guard.loads(theirs.dumps())
        assert guard.dumps() == before
    again.loads(one.dumps())
    if isinstance(pair[0].get("streams"), int):
        lr.Guard(**{**pair[0], "streams": 7}).loads(one.dumps())


def test_bytes_that_were_cut_short_or_changed_are_refused() -> None:
    guard, fresh = (KINDS["changing, scaled, late"](streams=2) for _ in range(2))
    guard.advise(**step_of(guard, np.random.default_rng(0), 1, 2)[0])
    data, before = guard.dumps(), fresh.dumps()
    bad = [data[:cut] for cut in range(0, len(data), 97)]
    bad += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 61)]
    for one in (*bad, data + b"\0", b"a letter", b"\xff" * 64):
        with pytest.raises(ValueError, match=r"these bytes .*(not of a guard|cut short or changed)"):
            fresh.loads(one)
    assert fresh.dumps() == before


def test_two_workers_cannot_undo_each_others_steps(tmp_path: Path) -> None:
    path, mine, yours = tmp_path / "state.guard", lr.Guard(COIN), lr.Guard(COIN)

    def refused(guard: lr.Guard) -> None:
        before = path.read_bytes()
        with pytest.raises(ValueError, match=r"state\.guard is not as this guard last loaded or saved it: load it, or"):
            guard.save(path)
        assert path.read_bytes() == before

    wrong_for(mine, 1)
    mine.save(path)
    assert path.read_bytes() == mine.dumps()
    refused(yours)
    yours.load(str(path))
    wrong_for(mine, 1)
    yours.advise(WRONG)
    yours.observe(0)  # as many changes, and not the same
    mine.save(path)
    refused(yours)
    yours.loads(yours.dumps())  # as many changes as in the file, and still not what is there
    refused(yours)
    yours.load(path)
    for step in (1, 2):  # of an ignored outcome comes an event: a change, too
        yours.observe(1, step=step)
        yours.save(path)
        refused(mine)
    mine.load(path)
    assert isinstance(mine.events[-1], lr.guard.OutcomeIgnored)
    pickle.loads(pickle.dumps(mine)).save(path)  # a copy knows what is there


def test_what_is_no_file_of_this_guard_is_refused_by_its_path(tmp_path: Path) -> None:
    path, guard = tmp_path / "state.guard", lr.Guard(COIN)
    data = guard.dumps()
    for content in (b"a letter", data[:60], data[:-1] + b"?"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"state\.guard: these bytes"):
            guard.load(path)
        assert guard.dumps() == data
