"""What actions earn (Section 2.2): in the state that came, each of them, and each beside a mixed one."""

from functools import cache
from itertools import permutations

import numpy as np

from ..arrays import Array, constant, device, namespace, pick, total
from .decision import DecisionProblem


@cache
def pairs_of(n_actions: int) -> tuple[tuple[int, int], ...]:
    """All (a, b) of "b whenever a was played"; one action has none, and is compared with itself."""
    return tuple(permutations(range(n_actions), 2)) or ((0, 0),)


def swaps(earned_A: Array, played_A: Array) -> Array:
    """What is gained by playing b whenever a is played, pi_a (u_b - u_a), for each pair: ``[A (A - 1), ...]``."""
    xp = namespace(earned_A)
    a_P, b_P = (xp.asarray(side_P, device=device(earned_A)) for side_P in _sides(len(earned_A)))
    return xp.take(played_A, a_P, axis=0) * (xp.take(earned_A, b_P, axis=0) - xp.take(earned_A, a_P, axis=0))


@cache
def _sides(n_actions: int) -> np.ndarray:
    """The first and the second action of every pair, ``[2, P]``."""
    return np.array(pairs_of(n_actions)).T.copy()


def action_utilities(problem: DecisionProblem, tokens: Array, like: Array) -> Array:
    """What each action earns against each token, ``[A, ...]``, unchecked."""
    xp = namespace(like)
    utility = constant(problem.utility, like)
    if tokens.ndim == 0:
        return utility[:, int(tokens)]
    columns = [xp.reshape(utility[:, s], (-1, *(1,) * tokens.ndim)) for s in range(problem.n_states)]
    earned = pick(columns, tokens)
    return xp.broadcast_to(earned, (problem.n_actions, *tokens.shape)) if problem.n_states == 1 else earned


def leads(problem: DecisionProblem, tokens: Array, chances_A1: Array) -> Array:
    """What each fixed action earns more than the mixed one, ``[A, ...]``, unchecked."""
    earned_A = action_utilities(problem, tokens, chances_A1)
    own = earned_A[0]
    if problem.n_actions > 1:
        own = own + total(chances_A1 * (earned_A[1:] - own))
    return earned_A - own
