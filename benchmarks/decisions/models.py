"""Models that learn as they go: no law has seen the state that it is of, nor any that was not known by then."""

from collections.abc import Callable

import numpy as np
from examples.real_data import walk_forward

UNIFORM = 0.01  # its part in every law: nothing that may come has probability 0

Says = Callable[[np.ndarray], np.ndarray]  # of what is known of N steps ``[N, F]``: a row a step
Fit = Callable[[np.ndarray, np.ndarray], Says]  # of what was known and what came


def softened(laws: np.ndarray) -> np.ndarray:
    """With a part of the uniform law, along the last axis."""
    return (1 - UNIFORM) * laws / laws.sum(axis=-1, keepdims=True) + UNIFORM / laws.shape[-1]


def frequency(states_T: np.ndarray, S: int, memory: float = 1000) -> np.ndarray:
    """How often each state came, by recent steps more than by others."""
    return by_table(states_T, np.zeros_like(states_T), S, memory)


def by_table(states_T: np.ndarray, context_T: np.ndarray, S: int, memory: float = 1000) -> np.ndarray:
    """How often each state came in steps like this one: a Markov model, where that is told by the states before."""
    return softened(walk_forward(states_T, context_T, context_T, S, memory))
