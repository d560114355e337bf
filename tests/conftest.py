"""Shared by all tests: one torch thread each (the suite runs in parallel), and the games they are tried on."""

import numpy as np
import pytest

import lowregret as lr

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def random_problem(rng: np.random.Generator, most_actions: int = 5, most_states: int = 5) -> lr.DecisionProblem:
    """A game with uniform utilities, or with utilities at the corners."""
    shape = rng.integers(2, most_actions + 1), rng.integers(2, most_states + 1)
    utility = rng.uniform(-1, 1, shape) if rng.random() < 0.5 else rng.choice([-1.0, 0.0, 1.0], shape)
    return lr.DecisionProblem(utility)


def random_markov(rng: np.random.Generator, n_states: int, context_len: int | None = None) -> lr.Markov:
    """A Markov model, anything from nearly uniform to nearly deterministic, with full support."""
    order = int(rng.integers(0, 3)) if context_len is None else context_len
    concentration = float(rng.choice([0.1, 0.5, 3.0]))
    table = rng.dirichlet(np.full(n_states, concentration), (n_states,) * order) * 0.999 + 0.001 / n_states
    return lr.Markov(table / table.sum(-1, keepdims=True), order)
