"""Bets in their forms: one stream, a fleet of either kind of array, recorded sequences. All give one result."""

import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.memory import each

from ..conftest import extra

torch = extra("torch")

T = 90
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "unknown horizon": {"horizon": None},
    "best responses": {"temperature": 0},
    "best responses, unknown horizon": {"temperature": 0, "horizon": None},
}


def a_run(name: str, N: int) -> tuple[lr.rules.ExactTest, np.ndarray, np.ndarray]:
    """Half-way the model is sure of one state while another comes, so that most streams trip."""
    rng = np.random.default_rng([7, [*CASES].index(name)])
    A, S = (int(size) for size in rng.integers(2, 5, size=2))
    problem = lr.DecisionProblem(np.eye(A, S) + rng.uniform(-0.3, 0, (A, S)))
    rule = lr.rules.ExactTest(**{"problem": problem, "horizon": T, "delta": 0.1, **CASES[name]})
    probs = rng.dirichlet(np.ones(S), (N, T))
    right = (probs.cumsum(-1) < rng.random((N, T, 1))).sum(-1).clip(0, S - 1)
    broken = np.arange(T) >= rng.integers(T // 3, T, (N, 1))
    states = np.where(broken, 1 - np.arange(N)[:, None] % 2, right)
    probs = np.where(broken[..., None], 0.7 * np.eye(S)[np.arange(N) % 2][:, None] + 0.3 * probs, probs)
    return rule, probs, states


def steps_of(rule: lr.rules.ExactTest, probs_T: Any, states_T: Any) -> list[Any]:
    """The memory of the rule after each step; time is the last axis but that of the law."""
    memory, seen = rule.start(states_T.shape[:-1], like=probs_T), []
    for t in range(T):
        memory = rule.advance(memory, rule.look(memory, probs_T[..., t, :]), states_T[..., t])
        seen.append(memory)
    return seen


def same(mine: Any, theirs: Any) -> None:
    """Two memories of a rule: bets, laws in the shadow, and when it tripped."""
    assert np.array_equal(mine.tripped_at, theirs.tripped_at)
    parts = [*zip(mine.statistics, theirs.statistics, strict=True)]
    for part, other in [*parts, *zip(mine.fallback.shadow, theirs.fallback.shadow, strict=True)]:
        np.testing.assert_allclose(part, other, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("name", CASES)
def test_one_stream_fleets_of_every_kind_and_recordings_are_alike(name: str) -> None:
    """All bettors, all laws, E and all alarms, after every step."""
    rule, probs, states = a_run(name, 8)
    fleet = steps_of(rule, probs, states)
    for now, one in zip(fleet, steps_of(rule, probs[2], states[2]), strict=True):
        same(each(now, lambda part: part[2]), one)
    for now, other in zip(fleet, steps_of(rule, torch.as_tensor(probs), torch.as_tensor(states)), strict=True):
        same(now, other)
    trips = np.where(fleet[-1].tripped_at == 0, T + 1, fleet[-1].tripped_at)
    assert len(set(trips.tolist())) > 4
    levels = np.stack([rule.evidence(memory)[0] for memory in fleet], axis=-1)
    for kind in (np.asarray, torch.as_tensor):
        law, came = kind(probs), kind(states)
        assert rule.trip_times(law, came).tolist() == trips.tolist()
        scene = rule.scene(law, kind(np.arange(1, T + 1)))
        found = np.log(np.asarray(rule.bets.levels(scene.gains(), scene.law_S, came)))
        np.testing.assert_allclose(found, levels, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(), (2, 3), (0,)], ids=str)
def test_the_step_after_an_excluded_state_trips(shape: tuple[int, ...]) -> None:
    rule = lr.rules.ExactTest(lr.matching(), 100, fallback=lr.PolyaUrn(2))
    memory = rule.start(shape)
    for law, state, trip in (([0.5, 0.5], 1, 0), ([1.0, 0.0], 1, 2), ([0.5, 0.5], 0, 2)):
        memory = rule.update(memory, np.broadcast_to(law, (*shape, 2)), np.full(shape, state))
        assert (memory.tripped_at == trip).all()
    assert (rule.evidence(memory)[0] == math.inf).all()
    probs = np.broadcast_to([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]], (*shape, 3, 2))
    assert (rule.trip_times(probs, np.broadcast_to([1, 1, 0], (*shape, 3))) == 2).all()
