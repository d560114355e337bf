"""The value of a problem read as a game against nature: what can be earned whatever comes, by linear programming."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import frozen
from .decision import DecisionProblem

_TOLERANCE = 1e-7


class Solved(NamedTuple):
    """Both sides' best mixed actions, each the other's proof.

    ``mixed_A`` earns at least ``value`` in every state; against ``law_S`` no action earns more than ``value + gap``. So
    the value of the game lies between these two, and no play can promise more than ``value + gap``.
    """

    value: float  # in utility
    mixed_A: np.ndarray
    law_S: np.ndarray
    gap: float


@lru_cache(maxsize=256)
def solved(problem: DecisionProblem) -> Solved:
    """max over x of min over s of (x U)_s, with the solution of the dual; both are checked by what they earn.

    >>> from lowregret import DecisionProblem
    >>> game = solved(DecisionProblem([[1, -0.5], [-0.5, 0.25]]))
    >>> round(game.value, 9), game.mixed_A.round(9).tolist(), game.law_S.round(9).tolist(), game.gap < 1e-12
    (0.0, [0.333333333, 0.666666667], [0.333333333, 0.666666667], True)
    """
    from scipy.optimize import linprog

    U, (A, S) = problem.utility, problem.utility.shape
    low, reach = float(U.min()), float(U.max() - U.min())
    # The solver's tolerances are absolute: however little is at stake, it sees a game on [0, 1].
    scaled_AxS = (U - low) / reach if reach > 0 else np.zeros_like(U)
    found = linprog(
        c=np.append(np.zeros(A), -1.0),
        A_ub=np.append(-scaled_AxS.T, np.ones((S, 1)), axis=1),
        b_ub=np.zeros(S),
        A_eq=np.append(np.ones(A), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * A + [(None, None)],
        method="highs-ds",
    )
    if found.status != 0:
        raise ArithmeticError(f"the value of {problem} was not found: {found.message}")
    mixed_A, law_S = _chances(found.x[:A]), _chances(-found.ineqlin.marginals)
    value, most = float((mixed_A @ U).min()), float((U @ law_S).max())
    if not most - value <= _TOLERANCE * max(reach, 1e-100):
        raise ArithmeticError(f"the value of {problem} was not found: it lies between {value:.9g} and {most:.9g}")
    return Solved(value, frozen(mixed_A), frozen(law_S), max(most - value, 0.0))


def _chances(weights: np.ndarray) -> np.ndarray:
    weights = np.clip(weights, 0.0, None)
    chances: np.ndarray = weights / weights.sum()
    return chances
