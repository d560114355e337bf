"""Exact expectations of maxima of sums: what minimax play is made of, in closed form by binomial tails."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

_LARGEST_TABLE = 2048  # steps


@lru_cache(maxsize=8)
def binomial_tails(steps: int, chance: float) -> np.ndarray:
    """P(binomial(n, chance) >= k) for n, k = 0 .. steps + 1: 32 MB at 2,048 steps."""
    tails = np.zeros((steps + 2, steps + 2))
    tails[:, 0] = 1.0
    for n in range(1, steps + 2):
        tails[n, 1:] = chance * tails[n - 1, :-1] + (1 - chance) * tails[n - 1, 1:]
    tails.setflags(write=False)
    return tails


def tail(trials: np.ndarray, least: np.ndarray, chance: Any, tails: np.ndarray | None = None) -> np.ndarray:
    """P(binomial(trials, chance) >= least)."""
    if tails is not None:
        read: np.ndarray = tails[np.maximum(trials, 0).astype(np.int64), np.maximum(least, 0).astype(np.int64)]
        return read
    from scipy.special import betainc

    inside = (least >= 1) & (least <= trials)
    value = betainc(np.where(inside, least, 1.0), np.where(inside, trials - least + 1, 1.0), chance)
    return np.where(inside, value, np.where(least < 1, 1.0, 0.0))


def hinge(slope: Any, offset: Any, trials: Any, chance: Any, tails: np.ndarray | None = None) -> np.ndarray:
    """E (offset + slope K)^+ for K binomial(trials, chance) and slope >= 0; these arguments broadcast.

    ``tails`` from ``binomial_tails`` for this chance saves the incomplete beta functions.

    >>> hinge(2.0, -4.0, 4, 0.5).item()  # the positive part of a fair walk of four steps
    0.75
    """
    slope, offset, trials, chance = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (slope, offset, trials, chance))
    )

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        least = np.floor(-offset / slope) + 1  # from this K on the sum is above zero
    least = np.where(slope > 0, np.clip(least, 0, trials + 1), np.where(offset > 0, 0, trials + 1))
    some, one_less = tail(trials, least, chance, tails), tail(trials - 1, least - 1, chance, tails)
    total = offset * some + slope * trials * chance * one_less
    found: np.ndarray = np.where((trials <= 0) | (slope == 0), np.maximum(offset, 0.0), np.maximum(total, 0.0))
    return found


class Trinomial:
    """Sums of independent columns of ``utility_AxS`` with law ``law_S``, three actions and three states.

    ``steps`` says how many steps it will often be asked for, at most: up to 2,048 a table is kept.

    >>> coin = Trinomial(np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), np.array([0.25, 0.25, 0.5]))
    >>> coin.expected_max(np.zeros((1, 3)), 2).tolist()  # the absolute value of two such steps
    [0.75]
    """

    def __init__(self, utility_AxS: np.ndarray, law_S: np.ndarray, steps: int = 0) -> None:
        # Actions in the order of what the second state gives over the third: lines in its count, by slope.
        order = np.argsort(utility_AxS[:, 1] - utility_AxS[:, 2], kind="stable")
        self.order, self.utility_AxS, self.law_S = order, utility_AxS[order], law_S
        self.second = float(law_S[1] / (1 - law_S[0]))  # the chance of the second state where the first did not come
        # Rounded up, so that few tables are made.
        self.size = min(_LARGEST_TABLE, 1 << max(steps, 1).bit_length()) if steps <= _LARGEST_TABLE else 0

    def expected_max(self, ahead_NxA: np.ndarray, steps: int) -> np.ndarray:
        """E max_a (ahead_a + what a earns in ``steps`` steps), ``[N]``.

        Given the count of the first state the actions are lines in the count of the second. Counts that are off by
        more than 4.6 sqrt(n) have a chance below 1e-18 (Hoeffding) and are left out.
        """
        ahead_NxA = ahead_NxA[:, self.order]
        if steps == 0:
            best_N: np.ndarray = ahead_NxA.max(axis=1)
            return best_N
        from scipy.special import gammaln, xlog1py, xlogy

        U, p = self.utility_AxS, float(self.law_S[0])
        reach = 4.6 * math.sqrt(steps) + 1
        count_W = np.arange(max(0, math.ceil(steps * p - reach)), min(steps, math.floor(steps * p + reach)) + 1)
        left_W = steps - count_W
        log_W = gammaln(steps + 1) - gammaln(count_W + 1) - gammaln(left_W + 1)
        chance_W = np.exp(log_W + xlogy(count_W, p) + xlog1py(left_W, -p))
        chance_W /= chance_W.sum()
        second, tails = self.second, None
        if steps <= self.size:
            tails = binomial_tails(self.size, second)
        base_AxNxW = ahead_NxA.T[:, :, None] + U[:, :1, None] * count_W + U[:, 2:, None] * left_W
        slope_A = U[:, 1] - U[:, 2]
        low, middle, high = base_AxNxW
        with np.errstate(divide="ignore", invalid="ignore"):
            from_low, to_high = (low - middle) / (slope_A[1] - slope_A[0]), (middle - high) / (slope_A[2] - slope_A[1])
        seen = from_low < to_high  # parallel lines give infinities of the right sign, equal ones nothing
        # max = low + (next - low)^+ + (high - middle)^+, the last only where the middle line is on the envelope.
        mean_NxW = low + slope_A[0] * left_W * second
        rise = np.where(seen, slope_A[1], slope_A[2]) - slope_A[0]
        mean_NxW = mean_NxW + hinge(rise, np.where(seen, middle, high) - low, left_W, second, tails)
        more = hinge(slope_A[2] - slope_A[1], high - middle, left_W, second, tails)
        found_N: np.ndarray = (mean_NxW + np.where(seen, more, 0.0)) @ chance_W
        return found_N
