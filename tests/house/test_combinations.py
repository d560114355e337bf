"""Everything combines: settings of the guard in pairs and triples, over every way in, beside a literal loop.

120 cases in ``make test``, which show every triple of settings that there is; some thousand more in ``make test-all``.
"""

import json
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowregret as lr
from lowregret.audit.playing import play
from lowregret.certificates.coupled import kappa
from lowregret.problems import Known, Positions

from .. import literal_engine as literal
from ..conftest import sweep
from . import combination_cases as cases
from .combination_cases import REFUSALS, SETTINGS, Case, World

USUAL, ALL = 120, 1500
NEAR = {"rtol": 1e-9, "atol": 1e-9}


@cache
def design() -> list[Case]:
    return cases.design(ALL)


NUMBERS = sweep(range(ALL), USUAL)


# The loop


class ByHand:
    """All streams of a world through the literal loop."""

    def __init__(self, world: World, each: Any, at_once: bool = False) -> None:
        self.settings = world.settings(each)
        self.streams = [literal.Stream(self.settings, at_once) for _ in range(world.B)]
        self.regret: list[list[float]] = []  # after every outcome, by stream
        for what, t in world.calls:
            if what == "advise" and world.episode is not None and t > 1 and (t - 1) % world.episode == 0:
                for one in self.streams:
                    one.next_episode()
            for b, one in enumerate(self.streams):
                if what == "advise":
                    one.advise(t, world.told_of(t, b))
                elif world.missing[b, t - 1]:
                    one.skip(t)
                else:
                    one.observe(t)
            if what == "observe":
                self.regret.append([one.regret for one in self.streams])

    @property
    def played(self) -> np.ndarray:
        """What was played, ``[B, T, A]``."""
        return np.array([one.played for one in self.streams])


# The ways in


class Run(NamedTuple):
    """What a guard did; streams first."""

    played: np.ndarray  # [B, T, A]
    share: np.ndarray  # [B, T]
    regret: np.ndarray  # [O, B], after every outcome
    events: list[list[Any]]  # by stream


def run(world: World, guard: lr.Guard, b: int | None = None, resumed: bool = False) -> tuple[Run, lr.Guard]:
    """A guard through a world, all of its streams or one; resumed half-way: another goes on from what it saved."""
    played, share, regret = [], [], []
    half, functions = len(world.calls) // 2, world.numbers and world.changed is not None
    for i, (what, t) in enumerate(world.calls):
        if resumed and i >= half and not (functions and what == "observe"):
            state, resumed = json.loads(json.dumps(guard.state_dict())), False
            guard = world.guard()
            guard.load_state_dict(state)
        if what == "advise":
            forecast, more = world.said(t, b)
            advice = guard.advise(forecast, **more)
            played.append(np.array(guard.policy() if t % 2 else advice.policy))
            share.append(np.array(advice.share))
        else:
            observe(world, guard, t, b)
            regret.append(np.reshape(guard.regret, -1))
    alone = guard.batch_shape == ()
    played_T, share_T = np.array(played), np.array(share)
    return (
        Run(
            played_T[None] if alone else played_T.swapaxes(0, 1),
            share_T[None] if alone else share_T.T,
            np.array(regret),
            by_stream(world, guard, alone),
        ),
        guard,
    )


def observe(world: World, guard: lr.Guard, t: int, b: int | None) -> None:
    """What came of a step; where it is missing, in one of the ways in which that is said."""
    came = world.came[:, t - 1] if world.shape and b is None else world.came[b or 0, t - 1]
    none = world.missing[:, t - 1] if world.shape and b is None else world.missing[b or 0, t - 1]
    late = {"step": t} if world.lag > 1 else {}
    if none.all() and (t % 2 or none.ndim == 0):
        guard.skip(**late)
    elif not none.any():
        guard.observe(came if world.numbers else Positions(came), **late)
    elif t % 3 == 0:
        guard.observe(came if world.numbers else Positions(came), missing=none, **late)
    elif t % 3 == 1:
        guard.observe([None if gone else one for one, gone in zip(came.tolist(), none, strict=True)], **late)
    else:
        guard.observe(np.ma.masked_array(came, none), **late)


def by_stream(world: World, guard: lr.Guard, alone: bool) -> list[list[Any]]:
    labels: list[Any] = [()] if alone else list(world.names or range(guard.batch_shape[0]))
    found: list[list[Any]] = [[] for _ in labels]
    for event in guard.events:
        place = labels.index(event.stream)
        told = (type(event).__name__, event.episode, event.step, event.known)
        if isinstance(event, lr.Switch):
            which = None if event.reference is None else cases.NAMES.index(event.reference)
            told += (event.action, which, event.context, event.since)
        found[place].append(told)
    return found


def events_of(stream: literal.Stream, contexts: bool) -> list[Any]:
    found = []
    for one in stream.events:
        told = one[:4]
        if one.kind == "Switch":
            told += (one.action, one.reference, one.context if contexts else None, one.since)
        found.append(told)
    return found


@pytest.mark.parametrize("number", NUMBERS)
def test_a_combination_does_what_the_loop_does(number: int) -> None:
    compare(World(number, design()[number]))


def compare(world: World) -> None:
    """The guard of a world beside the loop, in every way there is."""
    found, guard = run(world, world.guard())
    loop = ByHand(world, guard.rule.each)  # type: ignore[attr-defined]
    events = [events_of(one, world.contexts is not None) for one in loop.streams]
    assert found.events == events
    np.testing.assert_allclose(found.played, loop.played, **NEAR)
    np.testing.assert_allclose(found.regret, loop.regret, **NEAR)
    np.testing.assert_allclose(found.share, [one.shares for one in loop.streams], **NEAR)
    promises(world, guard, loop)
    ways = cases.ways_of(world.case)
    if "Guard, resumed" in ways:
        resumed, _ = run(world, world.guard(), resumed=True)
        assert resumed.events == found.events
        for mine, theirs in zip(resumed[:3], found[:3], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    if world.shape:
        one_by_one(world, found)
    if "trip_times" in ways and world.in_order:
        recorded(world, guard, loop)
    if "backtest" in ways and world.in_order:
        backtested(world, guard, loop)
    if "robustify" in ways:
        as_predictor(world, loop)


def one_by_one(world: World, found: Run) -> None:
    """One of a batch does what it does alone."""
    b = world.number % world.B
    alone, _ = run(world, world.guard(()), b)
    assert alone.events[0] == found.events[b]
    np.testing.assert_allclose(alone.played[0], found.played[b], **NEAR)
    np.testing.assert_allclose(alone.regret[:, 0], found.regret[:, b], **NEAR)


def promises(world: World, guard: lr.Guard, loop: ByHand) -> None:
    """The certificate is that of the loop, and no regret is above it, whatever came of the steps nobody saw."""
    given, s, each = guard.certificate, loop.settings, guard.rule.each  # type: ignore[attr-defined]
    episodes, steps = 1 + len(loop.streams[0].past), world.T
    if world.steps is not None:  # the last episode counts as if it were complete
        steps = (episodes - 1) * (world.episode or 0) + world.steps
    worst = max(one.true_regret for one in loop.streams) / steps
    tv_bound = min(1.0, s.delta * literal.late_factor(world.lag) * episodes) if s.test else 1.0
    assert given.tv_bound == pytest.approx(tv_bound)
    by_charges = world.numbers and s.test  # of numbers it goes by what was paid
    if world.steps is None and not by_charges:
        given = given.at(world.T)
    assert worst <= given.regret_bound + 1e-12
    after = None
    if not (world.told or world.numbers or (s.best and s.fallback == "Recovery")):
        after = each.in_play.fallback.regret_after(world.problem, s.horizon or world.T, each.temperature)
    kappa_K = np.zeros(len(s.rates_K)) if s.horizon is None else kappa(each.stakes, s.rates_K, s.warmth(1))
    promise = literal.Promise(s, kappa_K, after)
    if by_charges:
        ends, so_far = promise.of_numbers(loop.streams, world.steps)
        assert given.regret_bound == pytest.approx(ends, rel=1e-9)
        assert given.bound_so_far == pytest.approx(so_far, rel=1e-9)
        assert given.regret_so_far == pytest.approx(max(one.regret for one in loop.streams), rel=1e-9, abs=1e-12)
    elif world.steps is not None and (after is None or episodes == 1):
        assert given.regret_bound == pytest.approx(promise.of_laws(loop.streams, world.steps), rel=1e-9)


# Recordings


def known(world: World, rows: slice) -> Known | None:
    """What was known before each of these steps, ``[B, t]``."""
    if not world.told:
        return None
    laws = world.beside
    if isinstance(laws, tuple):
        laws = tuple(each.at((slice(None), rows)) for each in laws)
    elif laws is not None:
        laws = laws[:, rows]
    plays, context, scale = (None if p is None else p[:, rows] for p in (world.plays, world.context, world.scale))
    utility: Any = None
    if world.changed is not None:
        utility = world.problem.utility_of(world.changed[:, rows]) if not world.numbers else world.changed
    return Known(plays, laws, context, utility, scale)


def recorded(world: World, guard: lr.Guard, loop: ByHand) -> None:
    """The recorded form finds the switches of every episode; outcomes that came after its end are nobody's."""
    size = world.episode or world.T
    for begin in range(0, world.T, size):
        last = begin + size >= world.T
        rows = slice(begin, world.T if last else begin + size - world.lag + 1)
        length = rows.stop - begin
        forecast = world.forecast.at((slice(None), rows)) if world.numbers else world.forecast[:, rows]
        more = known(world, rows)
        times = guard.rule.trip_times(forecast, world.came[:, rows], *([] if more is None else [more]))
        episode = begin // size + 1
        for b, stream in enumerate(loop.streams):
            want = [one.step for one in stream.events if one.kind == "Switch" and one.episode == episode]
            assert int(times[b]) == (want[0] if want else length + 1), f"episode {episode} of stream {b}"


def backtested(world: World, guard: lr.Guard, loop: ByHand) -> None:
    """A backtest pays everyone what they were paid, and tells of the same switches."""
    alone = ByHand(world, guard.rule.each, at_once=True)  # type: ignore[attr-defined]
    found = lr.backtest(world.problem, world.forecast, world.came, guard=guard, **beside(world))
    for block in found.recording.blocks():  # the same without telling
        quietly = play(guard, block, fallback=False, live=False).paid["guard"]
        for row, b in enumerate(block.index_N.tolist()):
            np.testing.assert_allclose(quietly[row], found.paid["guard"][b], **NEAR)
    switches: list[list[int]] = [[] for _ in range(world.B)]
    for event in found.switches:
        if isinstance(event, lr.Switch):
            switches[event.stream].append((event.episode - 1) * (world.episode or 0) + event.step)
    for b, stream in enumerate(loop.streams):
        want = [(one.episode - 1) * (world.episode or 0) + one.step for one in stream.events if one.kind == "Switch"]
        assert switches[b] == want
        earned_TxA = np.array([earned(world.told_of(t, b)) for t in range(1, world.T + 1)])
        best = [np.eye(len(base_A))[np.argmax(base_A)] for base_A in stream.bases]  # likeliest in a quantal response
        players = {"guard": stream.played, "model": best, "fallback": alone.streams[b].played}
        players |= {f"reference {name}": [p[n] for p in stream.theirs] for n, name in enumerate(world.references)}
        for name, played in players.items():
            paid_T = (np.array(played) * earned_TxA).sum(axis=1)
            np.testing.assert_allclose(found.paid[name][b], paid_T, **NEAR, err_msg=name)


def earned(told: literal.Told) -> np.ndarray:
    return told.scale * told.utility(np.array([told.outcome]))[:, 0]


def beside(world: World) -> dict[str, Any]:
    """What else a backtest is given."""
    more: dict[str, Any] = {}
    if world.beside is not None:
        parts = world.beside if world.numbers else np.moveaxis(world.beside, -2, 0)
        more["references"] = dict(zip(cases.NAMES, parts, strict=True))
    elif world.plays is not None:
        more["references"] = dict(zip(cases.NAMES, np.moveaxis(world.plays, -2, 0), strict=True))
    if world.context is not None:
        more["contexts"] = world.context
    if world.changed is not None:
        more["payoffs"] = world.changed
    if world.scale is not None:
        more["scale"] = world.scale
    return more


@pytest.mark.parametrize("kind", ["forecasts", "actions"])
@pytest.mark.parametrize("forecast", ["law", "density"])
def test_tune_tries_incumbents_whatever_they_say(kind: str, forecast: str) -> None:
    usual = {name: values[0] for name, values in SETTINGS.items()}
    case = {**usual, "forecast": forecast, "references": kind, "batch": "several", "fallback": "Incumbent"}
    world = next(world for world in (World(n, case) for n in range(5, 50)) if world.S != world.A)
    fallbacks = [lr.Recovery(), lr.policies.Incumbent(cases.NAMES[0])]
    found = lr.tune(world.problem, world.forecast, world.came, deltas=[0.3], fallbacks=fallbacks, **beside(world))
    assert {setting.fallback for setting in found.settings} == {"Recovery", "Incumbent"}
    until = world.T // 2
    told = {name: {n: part_of(one, until) for n, one in more.items()} for name, more in beside(world).items()}
    rule = lr.ExactTest(
        world.problem,
        until,
        0.3,
        cases.NAMES,
        references_act=world.acting,
        temperature=0,
        fallback=fallbacks[1],  # type: ignore[arg-type]
    )
    guard, laws = lr.Guard(world.problem, until, rule=rule), part_of(world.forecast, until)
    by_itself = lr.backtest(world.problem, laws, world.came[:, :until], guard=guard, **told)
    (mine,) = (setting for setting in found.settings if setting.fallback == "Incumbent")
    assert mine.earlier == pytest.approx(by_itself.earned["guard"])
    assert any(result.switched_at for result in by_itself.streams)


def part_of(said: Any, until: int) -> Any:
    """The first steps of what was said, ``[B, T]``."""
    return said[:, :until] if isinstance(said, np.ndarray) else said.at((slice(None), slice(until)))


# Predictors


def predictor(world: World, b: int, rule: Any = None) -> Any:
    base: Any = lr.predictors.Scheduled(world.forecast[b]) if not world.numbers else lr.PolyaUrn(2)
    rule = world.rule(world.horizon) if rule is None else rule
    if not world.references:
        return lr.robustify(base, world.problem, world.horizon, rule=rule)
    references = [base, base]
    if isinstance(world.beside, np.ndarray):
        references = [lr.predictors.Scheduled(world.beside[b, :, n]) for n in range(2)]
    return lr.robustify(base, world.problem, world.horizon, rule=rule, references=references)


def as_predictor(world: World, loop: ByHand) -> None:
    """Where it is a predictor: asked step by step and all at once, acted on."""
    for b, stream in enumerate(loop.streams):
        safe, tokens = predictor(world, b), world.came[b]
        want = [one.step for one in stream.events if one.kind == "Switch"]
        assert int(safe.trip_times(tokens)) == (want[0] if want else world.T + 1)
        policy = safe if world.references else safe.respond()
        memory, played = policy.start(), []
        for token in tokens:
            played.append(policy.policy(memory))
            memory = policy.update(memory, token)
        np.testing.assert_allclose(played, stream.played, **NEAR)
        np.testing.assert_allclose(policy.policy_sequence(tokens), stream.played, **NEAR)


# What is refused


def refused(case: Case, way: str | None) -> None:
    """What is refused: making the guard, or going this way."""
    world = World(1, case)
    if way is None:
        world.guard()
        return
    guard = world.guard()
    if way == "Guard, resumed":
        forecast, more = world.said(1)
        guard.advise(forecast, **more)
        guard.state_dict()
    elif way == "trip_times":
        came = np.where(world.missing, None, world.came) if world.missing.any() else world.came
        more_known = known(world, slice(None))
        guard.rule.trip_times(world.forecast, came, *([] if more_known is None else [more_known]))
    elif way == "backtest":
        came = np.where(world.missing, None, world.came) if world.missing.any() else world.came
        lr.backtest(world.problem, world.forecast, came, guard=guard, **beside(world))
    elif world.episode is not None:
        lr.robustify(lr.PolyaUrn(world.S), world.problem, world.horizon, episode=world.episode)  # type: ignore[call-overload]
    else:
        rule: Any = guard.rule
        safe = predictor(world, 0, replace(rule, references_act=True) if world.acting and world.lag == 1 else rule)
        safe.update(safe.start(), None)


@pytest.mark.parametrize("place", range(len(REFUSALS)))
def test_what_is_refused_is_refused_with_a_reason(place: int) -> None:
    refusal = REFUSALS[place]
    for case in cases.refused_cases(refusal, 4, place):
        with pytest.raises(refusal.kind, match=refusal.says):
            refused(case, refusal.way)


def test_the_usual_cases_show_every_triple_there_is() -> None:
    allowed, items, shown = cases.allowed_cases()
    mine = np.array([shown[allowed.index(case)] for case in design()[:USUAL]])
    for size in (2, 3):
        assert mine[:, cases.tuples_shown(shown, items, size)].all(axis=-1).any(axis=0).all()
