"""What cannot be done (Theorem 4.1): with the context length of its base, no model is both close to it and low-regret.

Guessing bits, L = ``window``, 2L steps, temperature 1/sqrt(L); M0 and M1 are ``sources.de_bruijn_pair(L)``. Every
model with context L is N = 2**L chances and a law: q_i, what it gives to the bit that follows the i-th context of the
cycle, and mu_i, how likely it is to start with that context. With P_i = q_i q_{i+1} ... q_{i+L-1} (around the cycle),

    regret = mean_i f(q_i),    f(q) = [sigma(sqrt(L) (2q - 1)) - 1/2] / 2 = tanh(sqrt(L) (q - 1/2)) / 4,
    TV     = 1 - mean_i m_i,   m_i = min(1, N mu_i P_i),

where regret is the expected regret to the half-half action under M1, and TV the distance from M0. *Proof.* Fair coins
earn every action 1/2. After them the context is uniform under M1, the response to the model plays the bit that follows
on the cycle with chance sigma(.), and that bit never comes. M0 draws uniformly one of N sequences, to which the model
gives mu_i P_i.

**The bound.** Let F = f(1), the regret of M0 itself, and k = max_q [F - f(q)] / ln(1/q). For every model

    regret >= F (1 - 2 TV) - (k/L) (1 - TV) ln(1/(1 - TV)).

*Proof.* Let g = 1 - TV. Since mean m_i / P_i <= mean N mu_i = 1, the mean of 1/P_i with weights m_i is at most 1/g, and
that of ln(1/P_i) at most ln(1/g) (Jensen). ln(1/P_i) is a sum over L contexts: with n_j the mean of m_i over the L
windows that context j is in (mean n_j = g), the mean of ln(1/q_j) with weights n_j is at most ln(1/g) / L. Now
f(q) >= F - k ln(1/q) counts with weight n_j and f(q) >= f(0) = -F with weight 1 - n_j: their sum is the bound.

**It is tight** up to 2F (L - 1) / N at TV = 1 - q, where q is the maximiser in k. Take an arc of qN starts, equally
likely, and their windows. Let the model follow the cycle there with certainty, save for the chance q at every L-th
context, and leave it elsewhere. Every window of the arc then has P_i = q and m_i = 1, and all inequalities above are
equalities but for the L - 1 contexts at the end of the arc, which are in fewer than L windows.

**At weight 1**: TV + regret >= F for every L, and M0 attains it. *Proof.* F - f(q) <= 1 - q: f is concave on [1/2, 1],
so 1 - q - F + f(q) is at least 0 there since it is at both ends; below 1/2, F - f(q) <= 2F <= 1/2. Hence k <= 1
(and k <= 1/4 for L = 1, f' being at most sqrt(L)/4). As g ln(1/g) <= TV and 2F < 1/2, the slope 2F + k/L of the bound
is at most 1.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from lowregret import inputs

PRINTED = 1 / 12  # what the paper's proof has in place of F


def response(follow: Any, window: int) -> Any:
    """The chance that the quantal response plays a bit to which the model gives the chance ``follow``.

    The paper's proof needs it to be at least 2/3 where ``follow`` is ("amplified"), which takes a context of 5:

    >>> [round(float(response(2 / 3, length)), 3) for length in (3, 4, 5, 6)]
    [0.64, 0.661, 0.678, 0.693]
    """
    chance = inputs.table_of(follow, "follow")
    if not ((chance >= 0) & (chance <= 1)).all():
        raise ValueError(f"follow must lie in [0, 1], got {inputs.shown(follow)}")
    return 0.5 + 2 * expected_regret(chance, inputs.whole(window, "window"))


def regret_bound(window: int, tv: float) -> float:
    """No model with this context at this distance from M0, or closer, has less expected regret under M1.

    >>> [round(regret_bound(4, tv), 4) for tv in (0.0, 0.1, 0.5, 1.0)]
    [0.1904, 0.1458, -0.024, -0.1904]
    """
    tv = inputs.finite(tv, "tv")
    if not 0 <= tv <= 1:
        raise ValueError(f"tv must lie in [0, 1], got {tv!r}")
    full, slack = _constants(inputs.whole(window, "window"))
    kept = 1 - tv
    return max(-full, full * (2 * kept - 1) + slack * kept * math.log(kept)) if kept > 0 else -full


def sum_bound(window: int, weight: float = 1.0) -> float:
    """No model with this context has a smaller TV + ``weight`` * regret: the least of TV + weight * regret_bound.

    >>> [round(sum_bound(length), 3) for length in (2, 3, 4, 5, 6)]
    [0.152, 0.175, 0.19, 0.202, 0.21]
    """
    full, slack = _constants(inputs.whole(window, "window"))
    price = inputs.positive(weight, "weight")
    # In kept = 1 - TV the sum is convex where the bound is above -F, and falls below that place.
    log_kept = min(0.0, max((1 / price - 2 * full) / slack - 1, -2 * full / slack))
    kept = math.exp(log_kept)
    return 1 - kept + price * (full * (2 * kept - 1) + slack * kept * log_kept)


def dichotomy(window: int) -> float:
    """For every model with this context, TV or the regret on some sequence is at least this (the paper: 1/24).

    >>> [round(dichotomy(length), 3) for length in (2, 4, 8, 16, 1000)]
    [0.108, 0.132, 0.15, 0.16, 0.167]
    """
    from scipy.optimize import brentq

    return float(brentq(lambda c: regret_bound(window, c) - c, 0.0, 0.5))


@cache
def _constants(length: int) -> tuple[float, float]:
    """F and k / L of the bound."""
    from scipy.optimize import minimize_scalar

    full = float(expected_regret(1.0, length))
    # As a function of ln(1/q), f is concave, then convex: its chord from q = 1 is steepest at one place (L = 1: there).
    steepest = minimize_scalar(
        lambda q: (full - expected_regret(q, length)) / math.log(q), bounds=(1e-9, 1 - 1e-6), options={"xatol": 1e-12}
    )
    return full, max(-float(steepest.fun), float(expected_regret_slope(1.0, length))) / length


def expected_regret(follow: Any, length: int) -> Any:
    """f: what a context costs under M1 where the model gives this chance to the bit that follows."""
    return np.tanh(math.sqrt(length) * (follow - 0.5)) / 4


def expected_regret_slope(follow: Any, length: int) -> Any:
    """The derivative of f."""
    return math.sqrt(length) / 4 * (1 - np.tanh(math.sqrt(length) * (follow - 0.5)) ** 2)
