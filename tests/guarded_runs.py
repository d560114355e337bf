"""Shared by the tests of the guard: rules by name, random games and runs, and playing a run through a guard."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import lowregret as lr

from .drawn import many, some

__all__ = ["COIN", "KINDS", "RULES", "SHAPES", "WRONG", "a_game", "a_run", "last_state", "many", "play", "rule_named"]
__all__ += ["some", "through_json"]

COIN = lr.matching(2)
WRONG = [0.9, 0.1]  # a model that is sure of state 0
SHAPES: list[tuple[int, ...]] = [(), (5,), (2, 3)]
KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda x: x,
    "numpy, float32": lambda x: x.astype(np.float32),
    "torch": lambda x: torch.tensor(x),
    "torch, float32": lambda x: torch.tensor(x, dtype=torch.float32),
}


def rule_named(name: str, problem: lr.DecisionProblem, horizon: int) -> lr.rules.Rule:
    fallback = lr.PolyaUrn(problem.n_states, prior=0.5)
    return {
        "default": lambda: lr.ExactTest(problem, horizon),
        "the urn for good": lambda: lr.ExactTest(problem, horizon, fallback=fallback),
        "warm": lambda: lr.ExactTest(problem, horizon, delta=0.2, fallback=fallback, temperature=0.3),
        "unknown horizon": lambda: lr.ExactTest(problem, None, delta=0.3, fallback=fallback),
        "gap": lambda: lr.rules.RegretGap(problem, horizon, span_aware=True),
        "gap, unknown horizon": lambda: lr.rules.RegretGap(problem, None, delta=0.5, span_aware=True),
        "rate": lambda: lr.rules.RegretRate(problem, horizon, alpha=0.5),
        "function": lambda: lr.rules.RegretRate(problem, horizon, alpha=0.5, fallback=last_state(problem.n_states)),
    }[name]()


RULES = ["default", "warm", "unknown horizon", "gap", "gap, unknown horizon", "rate", "function"]


def last_state(n: int) -> lr.FromFunction:
    """A fallback whose memory grows: mostly the last state again."""

    def law(history: Any) -> Any:
        even = np.full(n, 1 / n)
        return even if len(history) == 0 else 0.5 * even + 0.5 * np.eye(n)[int(history[-1])]

    return lr.FromFunction(law, n)


def a_game(rng: np.random.Generator) -> lr.DecisionProblem:
    return lr.DecisionProblem(rng.uniform(-1, 1, (rng.integers(2, 6), rng.integers(2, 6))))


def a_run(
    rng: np.random.Generator, problem: lr.DecisionProblem, shape: tuple[int, ...], horizon: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Laws around one law a stream, states around one state, so that some models are right and some wrong; actions."""
    n = problem.n_states
    centre = rng.dirichlet(np.full(n, 0.3), size=(*shape, 1))
    probs = 0.9 * centre + 0.1 * rng.dirichlet(np.full(n, 0.4), size=(*shape, horizon))
    odd = rng.random((*shape, horizon)) < 0.2
    states = np.where(odd, rng.integers(n, size=odd.shape), rng.integers(n, size=(*shape, 1)))
    probs = probs * (1 - 1e-3) + 1e-3 / n
    return probs / probs.sum(-1, keepdims=True), states, rng.integers(problem.n_actions, size=odd.shape)


def play(guard: lr.Guard, probs: Any, states: Any, actions: Any = None) -> list[Any]:
    """The advice of every step of a recorded run."""
    advice = []
    for t in range(states.shape[-1]):
        advice.append(np.asarray(guard.advise(probs[..., t, :]).law).copy())
        guard.observe(states[..., t], action=None if actions is None else actions[..., t])
    return advice


def through_json(guard: lr.Guard) -> dict[str, Any]:
    return json.loads(json.dumps(guard.state_dict(), allow_nan=False))
