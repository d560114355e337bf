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


def bet(  # type: ignore[no-untyped-def]
    gain_PxGxMxNxT,
    weights_QxMxNxT,
    states_NxT,
    step_N,
    context_NxT,
    rates_G,
    ladder_K,
    joins_2xK,
    falls,
    actions,
    wealth_NxRxK,
    richest_NxRxK,
    since_NxRxK,
    seen_NxC,
    level_NxT,
):
    """The bets of the exact test: fill the wealth of all bettors, step by step, and add what they have to the last.

    ``gain`` is what each comparator gains at each of M outcomes, as exp(rate * gain) - 1 at the rate that each of G
    ladders begins with; with ``rates_G`` it is the gain itself, once. ``weights`` are one for all comparators, or one
    for each. What came is the outcome of ``states_NxT``, or a
    row more than there are weights. ``ladder_K`` says with which ladder a rate begins, or -1 where it doubles the one
    before it. ``joins_2xK`` is the capital that joins at the first start and later, where it may fall with the start.
    The first ``actions`` of the P comparators are those of the context that a step is in; ``step_N`` is the first step
    of each of N streams. Nobody asks since when where ``richest`` and ``since`` are None.
    """
    P, _, M, N, T = gain_PxGxMxNxT.shape
    K, C, rows, weighed = ladder_K.size, seen_NxC.shape[1], wealth_NxRxK.shape[1], weights_QxMxNxT.shape[1]
    u_M, excess = np.empty(M), gain_PxGxMxNxT
    if rates_G.size > 0:
        excess = np.empty((P, rates_G.size, M, N, T))
        for g in range(rates_G.size):
            excess[:, g] = np.expm1(rates_G[g] * gain_PxGxMxNxT[:, 0])
    for n in range(N):
        for t in range(T):
            context = context_NxT[n, t] if C > 1 else 0
            step = step_N[n] + t
            seen_NxC[n, context] += 1
            state = states_NxT[n, t] if weighed == M else weighed
            whole = 0.0
            for p in range(P):
                clock = seen_NxC[n, context] if p < actions else step
                row = context * actions + p if p < actions else (C - 1) * actions + p
                start, scale, q = 1, 1.0, p if weights_QxMxNxT.shape[0] > 1 else 0
                if clock == 1:
                    start = 0
                elif falls:
                    scale = 6.0 / (clock * (clock + 1.0))
                for k in range(K):
                    ladder, expected = ladder_K[k], 0.0
                    for m in range(M):
                        u = u_M[m] * (u_M[m] + 2.0) if ladder < 0 else excess[p, ladder, m, n, t]
                        u_M[m] = u
                        if m < weighed:
                            expected += weights_QxMxNxT[q, m, n, t] * u
                    factor = (1.0 + u_M[state]) / (1.0 + max(expected, 0.0))
                    fresh = joins_2xK[start, k] * scale
                    wealth = min((wealth_NxRxK[n, row, k] + fresh) * factor, 1e300)  # long past any alarm
                    wealth_NxRxK[n, row, k] = wealth
                    whole += wealth
                    if richest_NxRxK is not None:
                        most = richest_NxRxK[n, row, k]
                        if fresh > most:
                            most, since_NxRxK[n, row, k] = fresh, step
                        richest_NxRxK[n, row, k] = min(most * factor, 1e300)
            if C > 1:  # others have what they had
                whole = 0.0
                for row in range(rows):
                    for k in range(K):
                        whole += wealth_NxRxK[n, row, k]
            level_NxT[n, t] += whole


def back(odds_NxT, gained_NxT, fresh_T, unspent_T, had_5xN, level_NxT):  # type: ignore[no-untyped-def]
    """The second bettor (``second_bettor.py``): what it has is filled, and added to the level at steps it is heard in.

    ``fresh_T`` is what it stakes at each step, ``unspent_T`` what is left after it.
    """
    N, T = odds_NxT.shape
    for n in range(N):
        wealth, rise, spread, age = 0.0, 0.0, 0.0, 0.0
        for t in range(T):
            gained = gained_NxT[n, t]
            wealth = min((wealth + fresh_T[t]) * odds_NxT[n, t], 1e300)
            rise, spread, age = rise + gained, spread + gained * gained, age + 1.0
            if rise <= 0.0:
                rise, spread, age = 0.0, 0.0, 0.0
            elif rise * rise >= 2.0 * spread and rise * rise >= spread * (math.log(1.0 + (t + 1) / age) + 2.0):
                level_NxT[n, t] += wealth + unspent_T[t]
        had_5xN[0, n], had_5xN[1, n], had_5xN[2, n], had_5xN[3, n] = wealth, rise, spread, age


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
