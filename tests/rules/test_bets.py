"""Bets and the laws in the shadow have three forms: arrays, recorded arrays, one compiled loop. All give one result."""

import importlib.util
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowregret as lr
from lowregret.memory import each
from lowregret.policies import shadow
from lowregret.problems import Known
from lowregret.rules import bets

from ..conftest import extra

torch = extra("torch")

FAST = importlib.util.find_spec("numba") is not None
NEVER, T = 1 << 60, 90
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "unknown horizon": {"horizon": None},
    "references": {"references": ("a", "b")},
    "references, unknown horizon": {"references": ("a",), "horizon": None},
    "references alone": {"references": ("a", "b"), "actions": False},
    "contexts": {"contexts": 3},
    "scaled": {"payoffs": "scaled"},
    "all": {"references": ("a", "b"), "contexts": 2, "payoffs": "change"},
    "best responses": {"temperature": 0},
    "best responses to all": {"references": ("a", "b"), "contexts": 2, "payoffs": "change", "temperature": 0},
    "two bettors": {"temperature": 0, "likelihood": True},
    "two bettors, unknown horizon": {"temperature": 0, "likelihood": True, "horizon": None},
    "two bettors, references": {"temperature": 0, "likelihood": True, "references": ("a",), "payoffs": "scaled"},
    "two bettors, all": {
        **{"references": ("a", "b"), "contexts": 2, "payoffs": "change", "temperature": 0, "likelihood": True},
    },
}
WAYS = {  # from which step of a stream on and which size of a fleet it is compiled; up to so many exponentials in it
    "arrays": (NEVER, NEVER, 0),
    "compiled": (0, 0, NEVER),
    "compiled, exponentials in arrays": (0, 0, 0),
    "compiled half-way": (T // 2, 0, 1 << 8),
}


class Run(NamedTuple):
    rule: lr.ExactTest
    probs: np.ndarray  # [N, T, S]
    known: Known
    states: np.ndarray  # [N, T]


def a_run(name: str, N: int) -> Run:
    """Half-way the model is sure of one state while another comes, so that most streams trip."""
    rng = np.random.default_rng([7, [*CASES].index(name)])
    A, S = (int(size) for size in rng.integers(2, 5, size=2))
    problem = lr.DecisionProblem(np.eye(A, S) + rng.uniform(-0.3, 0, (A, S)))
    rule = lr.ExactTest(**{"problem": problem, "horizon": T, "delta": 0.1, **CASES[name]})
    probs = rng.dirichlet(np.ones(S), (N, T))
    right = (probs.cumsum(-1) < rng.random((N, T, 1))).sum(-1).clip(0, S - 1)
    broken = np.arange(T) >= rng.integers(T // 3, T, (N, 1))
    states = np.where(broken, 1 - np.arange(N)[:, None] % 2, right)
    probs = np.where(broken[..., None], 0.7 * np.eye(S)[np.arange(N) % 2][:, None] + 0.3 * probs, probs)
    R = len(rule.references)
    laws = rng.dirichlet(np.ones(S), (N, T, R)) if R else None
    if laws is not None:
        laws = np.where(broken[..., None, None], 0.5 * laws + 0.5 * np.eye(S)[states][:, :, None], laws)
    context = rng.integers(rule.n_contexts, size=(N, T)) if rule.contexts is not None else None
    noise = rng.uniform(-0.2, 0.2, (N, T, A, S))
    utility = 0.8 * problem.utility + noise if rule.payoffs == "change" else None
    scale = rng.uniform(0.5, 1.0, (N, T)) if rule.payoffs != "fixed" else None
    return Run(rule, probs, Known(laws, context, utility, scale), states)


def choose(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    steps, size, few = WAYS[way]
    for module in (bets, shadow):
        monkeypatch.setattr(module, "_STEPS", steps)
        # What was compiled once is used from then on: arrays are had for certain only where nothing can be.
        monkeypatch.setattr(module, "compiler_installed", lambda: FAST and way != "arrays")
    monkeypatch.setattr(bets, "_BETTORS", size)
    monkeypatch.setattr(shadow, "_STREAMS", size)
    monkeypatch.setattr(bets, "_FEW", few)


def steps_of(run: Run, at: Any, keep: Any = np.asarray) -> list[Any]:
    """The memory of the rule after each step of the streams ``at``, with references that are silent at every 9th."""
    rule, shape = run.rule, run.states[at].shape[:-1]
    memory, seen = rule.start(shape, like=keep(run.probs)), []
    for t in range(T):
        parts = [None if part is None else keep(part[at][(slice(None),) * len(shape) + (t,)]) for part in run.known]
        known = Known(None, *parts[1:]) if t % 9 == 8 else Known(*parts)
        moment = rule.look(memory, keep(run.probs[at][..., t, :]), known if rule.told else None)
        memory = rule.advance(memory, moment, keep(run.states[at][..., t]))
        seen.append(memory)
    return seen


def same(mine: Any, theirs: Any) -> None:
    """Two memories of a rule: bets, laws, and when it tripped."""
    assert np.array_equal(mine.tripped_at, theirs.tripped_at)
    pairs = [*zip(mine.statistics[:-1], theirs.statistics[:-1], strict=True)]
    for part, other in [*pairs, *zip(mine.statistics.backed, theirs.statistics.backed, strict=True)]:
        assert part.shape == other.shape
        if np.asarray(part).dtype.kind != "f":
            np.testing.assert_array_equal(part, other)
        np.testing.assert_allclose(part, other, rtol=1e-11, atol=1e-300)
    for part, other in zip(mine.fallback.shadow, theirs.fallback.shadow, strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("name", CASES)
def test_one_stream_and_fleets_of_every_kind_step_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All bettors, all laws and all alarms after every step: compiled, in torch, and each stream of a fleet alone."""
    run = a_run(name, 6)
    choose(monkeypatch, "arrays")
    fleet = steps_of(run, slice(None))
    assert (fleet[-1].tripped_at > 0).any()
    alone = steps_of(run, 2)
    for now, one in zip(fleet, alone, strict=True):
        same(each(now, lambda part: part[2]), one)
    for now, other in zip(fleet, steps_of(run, slice(None), torch.as_tensor), strict=True):
        same(now, other)
    for way in [way for way in WAYS if FAST and way != "arrays"]:
        choose(monkeypatch, way)
        for now, other in zip(fleet, steps_of(run, slice(None)), strict=True):
            same(now, other)
        for now, other in zip(alone, steps_of(run, 2), strict=True):
            same(now, other)


@pytest.mark.parametrize("name", CASES)
def test_recorded_sequences_are_streams(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trips and, where there is one context, E after every step: in arrays of both kinds, and compiled."""
    run = a_run(name, 8)
    rule, told = run.rule, run.known if run.rule.told else None
    choose(monkeypatch, "arrays")
    memory, levels = rule.start((8,)), []
    for t in range(T):
        known = Known(*(None if part is None else part[:, t] for part in run.known)) if rule.told else None
        memory = rule.advance(memory, rule.look(memory, run.probs[:, t], known), run.states[:, t])
        levels.append(rule.evidence(memory)[0])
    trips = np.where(memory.tripped_at == 0, T + 1, memory.tripped_at)
    assert (trips <= T).any()
    assert len(set(trips.tolist())) > 4
    kinds = [("arrays", np.asarray), ("arrays", torch.as_tensor)]
    kinds += [(way, np.asarray) for way in WAYS if FAST and way != "arrays"]
    for way, kind in kinds:
        choose(monkeypatch, way)
        probs, states = kind(run.probs), kind(run.states)
        parts = None if told is None else Known(*(None if part is None else kind(part) for part in told))
        found = rule.trip_times(probs, states) if parts is None else rule.trip_times(probs, states, parts)
        assert found.tolist() == trips.tolist(), way
        if rule.contexts is None and not (rule.likelihood and rule.told):
            scene = rule.scene(probs, parts, kind(np.arange(1, T + 1)))
            found = np.log(np.asarray(rule._levels(scene, states)))
            np.testing.assert_allclose(found, np.stack(levels, -1), rtol=0, atol=1e-10)
            if parts is None:
                evidence = rule.log_evidence(run.probs, run.states)
                np.testing.assert_allclose(evidence, np.stack(levels, -1), rtol=0, atol=1e-10)


@pytest.mark.skipif(not FAST, reason="nothing is compiled")
@pytest.mark.parametrize("few", [0, NEVER], ids=["exponentials in arrays", "one at a time"])
@pytest.mark.parametrize("shape", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("name", ["plain", "unknown horizon", "all"])
def test_what_came_may_be_said_by_itself(name: str, shape: tuple[int, ...], few: int, monkeypatch: Any) -> None:
    """Wealth and level, where what came is one of the outcomes that are weighed, and where it is none of them."""
    monkeypatch.setattr(bets, "_FEW", few)
    own, rng, M = a_run(name, 1).rule.bets, np.random.default_rng(8), 3
    now = [own.blank(shape, np, None)] * 2
    for step in range(1, 9):
        gain = rng.uniform(-1, 1, (own.actions + own.references, M, *shape)) * own.span
        weights, state = rng.dirichlet(np.ones(M), shape), rng.integers(M, size=shape)
        context = rng.integers(own.contexts, size=shape) if own.contexts > 1 else None
        offer = bets.Offer(gain, np.moveaxis(weights, -1, 0), None, state)
        if step % 3:
            offer = offer._replace(came_P=offer.came() if step % 3 == 1 else gain[:, 0] / 2, state=None)
        at, found = np.full(shape, step), []
        for i, way in enumerate((own._in_arrays, own._compiled)):
            now[i], level = way(now[i], at, offer, context)
            found.append(level)
        for part, other in zip([*now[0][:-1], found[0]], [*now[1][:-1], found[1]], strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-12)


@pytest.mark.skipif(not FAST, reason="nothing is compiled")
def test_recorded_steps_whose_outcome_is_said_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    own, rng, found = a_run("plain", 1).rule.bets, np.random.default_rng(9), []
    gain, weights = rng.uniform(-1, 1, (own.actions, 3, 5, T)) * own.span, rng.dirichlet(np.ones(3), (5, T))
    came = rng.uniform(-1, 1, (own.actions, 5, T)) * own.span
    for way in WAYS:
        choose(monkeypatch, way)
        rows = ((each, np.moveaxis(weights, -1, 0), one) for each, one in zip(gain, came, strict=True))
        found.append(own.levels(rows, np.zeros((5, T))))
        np.testing.assert_allclose(found[-1], found[0], rtol=1e-11)


@pytest.mark.parametrize("way", [way for way in WAYS if FAST or way == "arrays"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0,)], ids=str)
def test_the_step_after_an_excluded_state_trips(shape: tuple[int, ...], way: str, monkeypatch: Any) -> None:
    choose(monkeypatch, way)
    rule = lr.ExactTest(lr.matching(), 100, fallback=lr.PolyaUrn(2))
    memory = rule.start(shape)
    for law, state, trip in (([0.5, 0.5], 1, 0), ([1.0, 0.0], 1, 2), ([0.5, 0.5], 0, 2)):
        memory = rule.update(memory, np.broadcast_to(law, (*shape, 2)), np.full(shape, state))
        assert (memory.tripped_at == trip).all()
    assert (rule.evidence(memory)[0] == math.inf).all()
    probs = np.broadcast_to([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]], (*shape, 3, 2))
    assert (rule.trip_times(probs, np.broadcast_to([1, 1, 0], (*shape, 3))) == 2).all()


def test_a_guard_of_one_stream_compiles_half_way_and_nobody_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its events, what it plays and what is written down."""
    run, told = a_run("plain", 1), []
    for way in ("arrays", "compiled half-way"):
        choose(monkeypatch, way)
        guard = lr.Guard(run.rule.problem, T, rule=run.rule)
        played = []
        for law, state in zip(run.probs[0], run.states[0], strict=True):
            guard.advise(law)
            played.append(guard.policy())
            guard.observe(int(state))
        told.append((np.stack(played), guard.events, guard.regret))
    np.testing.assert_allclose(told[0][0], told[1][0], atol=1e-12)
    assert told[0][2] == pytest.approx(told[1][2], abs=1e-12)
    assert [event[:2] for event in told[0][1]] == [event[:2] for event in told[1][1]]
    assert told[0][1]
