"""Who plays against you: the exact worst case over all sequences."""

import itertools
from typing import Any

import numpy as np

from .predictors import PolyaUrn
from .problems import DecisionProblem

_LARGEST_TABLE = 50_000_000


def worst_case_by_counts(urn: PolyaUrn, problem: DecisionProblem, horizon: int, temperature: float) -> float | None:
    """The largest average regret of quantal responses to the urn, over all sequences; None if the table is too large.

    The urn depends on the past only through counts, so the least utility with which counts n can be reached obeys
    W(n) = min_s W(n - e_s) + U(response at n - e_s, s), level by level.
    """
    S = problem.n_states
    side = horizon + 1
    if side ** max(S - 1, 1) * S > _LARGEST_TABLE // max(horizon, 1) * 100 or side ** (S - 1) * S * 8 > 2**30:
        return None
    # Counts of all states but the last, as axes; the last has what is left of t.
    axes = np.meshgrid(*[np.arange(side)] * (S - 1), indexing="ij") if S > 1 else []
    counts: list[Any] = [axis.astype(np.float64) for axis in axes]
    used = sum(counts) if counts else np.zeros(())
    least = np.where(used == 0, 0.0, np.inf)
    for t in range(horizon):
        every_S = np.stack([*counts, t - used])
        response_A = problem.respond((np.maximum(every_S, 0) + urn.prior) / (t + S * urn.prior), temperature)
        earned_S = np.tensordot(problem.utility.T, response_A, axes=1)
        paths = [least + earned_S[S - 1]]
        for s in range(S - 1):
            moved = np.full_like(least, np.inf)
            ahead = tuple(slice(1, None) if i == s else slice(None) for i in range(S - 1))
            behind = tuple(slice(None, -1) if i == s else slice(None) for i in range(S - 1))
            moved[ahead] = (least + earned_S[s])[behind]
            paths.append(moved)
        least = np.where(used <= t + 1, np.minimum.reduce(paths), np.inf)
    best = np.max(np.tensordot(problem.utility, np.stack([*counts, horizon - used]), axes=1), axis=0)
    return float(np.max(np.where(used <= horizon, best - least, -np.inf)) / horizon)


def all_sequences(n_states: int, horizon: int) -> np.ndarray:
    """Every sequence of the given length, ``[S**T, T]``: for exhaustive search when T is small."""
    return np.array(list(itertools.product(range(n_states), repeat=horizon)))
