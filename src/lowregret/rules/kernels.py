"""The recurrences of Algorithms 1 and 3, compiled (extra: ``fast``).

Everything that is the same at every step stays in array expressions; only what runs along time is here. All give the
trip times of the array expressions they stand in for.
"""

import math

import numpy as np

from ..arrays import Array, compiler_installed
from ..files import compiled

_WORTH = 1 << 15  # elements: below, importing and compiling costs more than it saves


def worth(array: Array, each: int = 1) -> bool:
    """Whether a compiled recurrence is to be had, and pays, for arrays like this one with so much work an element."""
    return isinstance(array, np.ndarray) and array.size * each >= _WORTH and compiler_installed()


def first_crossing(
    base_A1xNxT: np.ndarray,
    fallback_A1xNxT: np.ndarray,
    advantage_A1xS: np.ndarray,
    tokens_NxT: np.ndarray,
    threshold_T: np.ndarray,
) -> np.ndarray:
    """The first t (from 1) at which the gap G_t of each row reaches the threshold; T + 1 for never."""
    made = compiled(_first_crossing)
    times_N: np.ndarray = made(base_A1xNxT, fallback_A1xNxT, advantage_A1xS, tokens_NxT, threshold_T)
    return times_N


def first_v_crossing(
    p_NxT: np.ndarray, tokens_NxT: np.ndarray, tips_V: np.ndarray, threshold_T: np.ndarray
) -> np.ndarray:
    """The first t (from 1) at which the largest V-regret, times t, reaches the threshold; T + 1 for never."""
    times_N: np.ndarray = compiled(_first_v_crossing)(p_NxT, tokens_NxT, tips_V, threshold_T)
    return times_N


def first_v_alarm(
    p_NxT: np.ndarray,
    tokens_NxT: np.ndarray,
    sure_NxT: np.ndarray,
    tips_V: np.ndarray,
    rates_K: np.ndarray,
    delta: float,
) -> np.ndarray:
    """The first t (from 1) at which the exact form of Algorithm 3 trips on each row; T + 1 for never."""
    times_N: np.ndarray = compiled(_first_v_alarm)(p_NxT, tokens_NxT, sure_NxT, tips_V, rates_K, delta)
    return times_N


def _first_crossing(base_A1xNxT, fallback_A1xNxT, advantage_A1xS, tokens_NxT, threshold_T):  # type: ignore[no-untyped-def]
    A1, N, T = base_A1xNxT.shape
    times = np.full(N, T + 1)
    for n in range(N):
        gap = 0.0
        for t in range(T):
            token = tokens_NxT[n, t]
            gain = 0.0
            for a in range(A1):
                gain += (fallback_A1xNxT[a, n, t] - base_A1xNxT[a, n, t]) * advantage_A1xS[a, token]
            gap += gain
            if gap >= threshold_T[t]:
                times[n] = t + 1
                break
    return times


def _first_v_crossing(p_NxT, tokens_NxT, tips_V, threshold_T):  # type: ignore[no-untyped-def]
    N, T = p_NxT.shape
    V = tips_V.size
    times = np.full(N, T + 1)
    score_V = np.empty(V)
    for n in range(N):
        score_V[:] = 0.0
        ones = 0.0
        for t in range(T):
            p, y = p_NxT[n, t], float(tokens_NxT[n, t])
            ones += y
            largest = 0.0
            for v in range(V):
                tip = tips_V[v]
                score_V[v] += np.sign(tip - p) * (y - tip)
                largest = max(largest, score_V[v] + abs(ones - (t + 1) * tip))
            if largest >= threshold_T[t]:
                times[n] = t + 1
                break
    return times


def _first_v_alarm(p_NxT, tokens_NxT, sure_NxT, tips_V, rates_K, delta):  # type: ignore[no-untyped-def]
    N, T = p_NxT.shape
    V, K = tips_V.size, rates_K.size
    times = np.full(N, T + 1)
    needed = -math.log(delta)
    up_KxV, down_KxV = np.empty((K, V)), np.empty((K, V))  # log wealth on the sides +1 and -1
    for n in range(N):
        up_KxV[:] = 0.0
        down_KxV[:] = 0.0
        peak = 0.0  # never falls: an average of 1/delta needs one that has been there
        for t in range(T):
            p, y = p_NxT[n, t], tokens_NxT[n, t]
            other = 1 - p if y == 1 else p
            away = 1.0 - 2.0 * y
            below = np.searchsorted(tips_V, p)  # tips under p, then those on it
            above = np.searchsorted(tips_V, p, side="right")
            for k in range(K):
                stake = rates_K[k] * away
                gain = -math.log1p(other * math.expm1(2 * stake))
                for v in range(above, V):
                    up_KxV[k, v] += gain
                    peak = max(peak, up_KxV[k, v])
                gain = -math.log1p(other * math.expm1(-2 * stake))
                for v in range(below):
                    down_KxV[k, v] += gain
                    peak = max(peak, down_KxV[k, v])
                for v in range(below, above):
                    up_KxV[k, v] -= math.log1p(other * math.expm1(stake))
                    down_KxV[k, v] -= math.log1p(other * math.expm1(-stake))
                    peak = max(peak, up_KxV[k, v], down_KxV[k, v])
            if sure_NxT[n, t] == 0:
                times[n] = t + 1
                break
            if peak >= needed:
                mass = 0.0
                for k in range(K):
                    for v in range(V):
                        mass += math.exp(up_KxV[k, v] - needed) + math.exp(down_KxV[k, v] - needed)
                if mass >= 2 * K * V:
                    times[n] = t + 1
                    break
    return times
