"""Many streams behind one guard: each is a guard of its own, whichever come, go and start again meanwhile."""

from typing import Any

import numpy as np
import pytest

import lowregret as lr

from .plays import COIN, DESK, KINDS, PRICES, TRADE, WRONG, arrivals, of_stream, step_of, wrong_for

pytestmark = pytest.mark.usefixtures("form")
READ = ("regret", "realised_regret", "share", "switched", "steps", "episodes")


def told(events: Any, name: Any) -> list[Any]:
    """The events of one stream but for its name, numbers to nine digits."""
    own = [event for event in events if event.stream == name]
    return [(type(e), *(round(x, 9) if isinstance(x, float) else x for x in e._replace(stream=None))) for e in own]


@pytest.mark.parametrize("kind", KINDS)
def test_streams_that_come_and_go_are_single_guards(kind: str) -> None:
    """By number, by name, by mask; while steps wait for their outcomes where there is a lag."""
    rng, count, named = np.random.default_rng(list(KINDS).index(kind)), 4, kind in list(KINDS)[1::2]
    fleet = KINDS[kind](streams=[f"s{i}" for i in range(4)] if named else 4)
    alone, begun = {name: KINDS[kind]() for name in fleet.streams}, dict.fromkeys(fleet.streams, 0)
    outcomes, acted = dict[int, dict[Any, Any]](), dict[int, dict[Any, int]]()
    for what, t in arrivals(54, fleet.lag, rng):
        if what == "observe":
            came = [outcomes[t].get(name, outcomes[t][None]) for name in alone]  # of one that came since, anything
            fleet.observe(np.array(came), [acted[t].get(name, 0) for name in alone], step=t)
            for name, guard in alone.items():
                if (own := t - begun[name]) in guard.waiting:
                    guard.observe(outcomes[t][name], acted[t][name], step=own)
            for part in READ:
                each = [getattr(guard, part) for guard in alone.values()]
                np.testing.assert_allclose(getattr(fleet, part), each, rtol=1e-9, atol=1e-12, err_msg=part)
            continue
        if t in (9, 25, 26):
            more: Any = [f"s{count}", f"s{count + 1}"] if named else 2
            fresh = fleet.add(more)
            assert fresh == ([*more] if named else [count, count + 1])
            alone |= {name: KINDS[kind]() for name in fresh}
            begun |= dict.fromkeys(fresh, t - 1)
            count += 2
        if t in (14, 26, 40):
            mask = np.isin(np.arange(len(alone)), [0, 3])
            gone = [name for name, leaves in zip(alone, mask, strict=True) if leaves]
            assert fleet.retire(mask if t == 14 else gone) == gone
            alone = {name: guard for name, guard in alone.items() if name not in gone}
        if t in (20, 33):
            again = list(alone)[1]
            fleet.restart(again if t == 20 else np.array(fleet.streams) == again)
            alone[again].restart()
        assert fleet.streams == list(alone)
        said, outcome = step_of(fleet, rng, t, len(alone))
        advice = fleet.advise(**said)
        outcomes[t] = dict(zip(alone, outcome.tolist(), strict=True)) | {None: outcome[0]}
        acted[t] = dict(zip(alone, fleet.act(5).tolist(), strict=True))
        for i, (name, guard) in enumerate(alone.items()):
            own = guard.advise(**of_stream(said, i))
            np.testing.assert_allclose(advice.policy[i], own.policy, atol=1e-12)
            assert (advice.trusted[i], own.step) == (own.trusted, t - begun[name])
    for name, guard in alone.items():
        assert told(fleet.events, name) == told(guard.events, None)
    worst = max(guard.certificate.regret_bound for guard in alone.values())
    assert fleet.certificate.regret_bound >= worst - 1e-12
    assert isinstance(fleet.problem, lr.Payoff) or fleet.certificate.regret_bound == pytest.approx(worst)
    assert any(isinstance(event, lr.Alarm) for event in fleet.events) or kind == "no test"


def test_a_step_that_was_only_advised_is_forgotten() -> None:
    """Without a lag, streams come and go between a step and the next; no number comes twice, and events stay."""
    guard = lr.Guard(COIN, streams=3)
    wrong_for(guard, 5)
    for change in (lambda: guard.retire([1]), guard.add, guard.restart):
        old = guard.advise(np.tile(WRONG, (*guard.shape, 1))).step
        change()
        assert guard.waiting == []
        assert guard.advise(np.tile(WRONG, (*guard.shape, 1))).step == old + 1
        guard.observe(np.zeros(guard.shape, dtype=int), step=old)  # its label is ignored, and not taken for the next
        assert guard.waiting == [old + 1]
        assert all(isinstance(event, lr.guard.OutcomeIgnored) for event in guard.events[-guard.shape[0] :])
    assert guard.steps.tolist() == [0, 0, 0]


def test_advised_anew_a_step_still_does_not_count_where_it_was_dropped() -> None:
    for lag in (1, 2):
        guard = lr.Guard(COIN, streams=2, lag=lag)
        guard.advise(np.tile(WRONG, (2, 1)))
        guard.restart([0])
        guard.advise(np.array([[1.0, 0.0], [1.0, 0.0]]), step=1)
        guard.observe([1, 1], step=1)  # excluded by what was said last
        assert [event.stream for event in guard.events] == [1]
        assert guard.steps.tolist() == [0, 1]
        wrong_for(guard, 4 * lag)
        (own,) = (event for event in guard.events if event.stream == 0)
        assert own.step == own.known <= guard.steps[0]


@pytest.mark.parametrize("problem", [COIN, TRADE], ids=["states", "numbers"])
@pytest.mark.parametrize("lag", [1, 2])
def test_a_fleet_without_streams_goes_on(problem: Any, lag: int) -> None:
    guard = lr.Guard(problem, against=lr.Actions(per=2), test=lr.ExactTest(horizon=9), lag=lag, streams=0)
    for n in (0, 0, 2, 2):
        guard.add(n - guard.shape[0])
        law = lr.Quantiles([0.1, 0.9], np.zeros((n, 2))) if problem is TRADE else np.full((n, 2), 0.5)
        guard.advise(law, context=np.zeros(n, dtype=int))
        guard.observe(np.zeros(n, dtype=int), step=guard.waiting[-1])
        guard.restart([])
    assert guard.steps.tolist() == [2, 2]
    assert guard.certificate.regret_bound > 0
    guard.retire(guard.streams)
    assert guard.regret.shape == guard.evidence[0].shape == (0,)


def test_whatever_is_refused_is_named_by_its_stream() -> None:
    """By what it is called, which is not its place once others have gone; and nothing has changed."""
    N, against = 40, lr.Actions(per=3) + lr.References("desk")
    names = [f"s{i}" for i in range(N + 2)]
    guard = lr.Guard(PRICES.changing(0, 4), against=against, test=lr.ExactTest(horizon=50), streams=names)
    guard.retire(["s0", "s1"])
    right: dict[str, Any] = {"forecast": np.full((N, 3), 1 / 3), "desk": np.full((N, 3), 1 / 3)}
    right |= {"context": np.zeros(N, dtype=int), "scale": np.ones(N), "payoffs": np.zeros((N, 3, 3))}

    def advise(desk: np.ndarray, **given: Any) -> None:
        guard.advise(**given, references={"desk": desk})

    before = guard.dumps()
    for name, entry, value in (
        ("forecast", (7, 1), np.nan),
        ("forecast", (7, 0), 0.7),
        ("desk", (7, 1), np.nan),
        ("context", (7,), 3),
        ("scale", (7,), 0.0),
        ("payoffs", (7, 1, 0), 9.0),
    ):
        given = right[name].copy()
        given[entry] = value
        with pytest.raises(ValueError, match=r"at index \(7,.*\(stream s9\)"):
            advise(**{**right, name: given})
        assert guard.dumps() == before
    advise(**right)
    for given in ({"outcome": np.arange(N) // 39 * 3}, {"outcome": np.zeros(N, int), "action": -(np.arange(N) // 39)}):
        with pytest.raises(ValueError, match=r"at index \(39,\) \(stream s41\)"):
            guard.observe(**given)
    numbers, zeros = lr.Guard(TRADE, against=DESK, streams=3), lr.Quantiles([0.5], np.zeros((3, 1)))
    numbers.advise(zeros, references=[zeros])
    with pytest.raises(ValueError, match=r"at index \(2,\) \(stream 2\)"):
        numbers.observe([0, 0, np.nan])
