"""A step of the every-start test, compiled (extra: ``fast``): what the array expressions give, stream by stream."""

import math

import numpy as np


def bet_all(  # type: ignore[no-untyped-def]
    probs_SxN,
    base_A1xN,
    when,
    wealth_NxCxK,
    most_NxCxK,
    since_NxCxK,
    table_CxS,
    by_rate_5xK,
    numbers_4,
    new_wealth_NxCxK,
    new_most_NxCxK,
    new_since_NxCxK,
    gain_NxC,
    share_N,
):
    """Fill the last five: bettors after a token, what comparators gained, all wealth in units of 1/delta; say its most.

    ``when`` are the tokens and the steps; ``table_CxS`` what each action earns more than the first. ``by_rate_5xK``
    goes from rate to rate so that many double the one before: which rate, whether it doubles, the rate itself, and the
    log capital that joins at the first start and later. ``numbers_4``: the temperature (0: the response is given, else
    it is filled in), whether later capital falls with the start, ln delta, and the log share of 1/delta below which
    no bettor matters: a wealth of 0 is reported where none has more. One stream may come without its axis.
    """
    C, S = table_CxS.shape
    K, N = by_rate_5xK.shape[1], when.size // 2
    when_2xN = when.reshape((2, N))
    warmth, falls, log_delta, near = numbers_4[0], numbers_4[1], numbers_4[2], numbers_4[3]
    probs, base = probs_SxN.reshape((S, N)), base_A1xN.reshape((C - 1, N))
    wealth, most = wealth_NxCxK.reshape((N, C, K)), most_NxCxK.reshape((N, C, K))
    new_wealth, new_most = new_wealth_NxCxK.reshape((N, C, K)), new_most_NxCxK.reshape((N, C, K))
    since, new_since = since_NxCxK.reshape((N, C, K)), new_since_NxCxK.reshape((N, C, K))
    gains = gain_NxC.reshape((N, C))
    law_S, own_S, gain_S, excess_S = np.empty(S), np.empty(S), np.empty(S), np.empty(S)
    lead_C, fresh_K = np.zeros(C), np.empty(K)
    largest = 0.0
    for n in range(N):
        token, step = when_2xN[0, n], when_2xN[1, n]
        mass = 0.0
        for s in range(S):
            mass += probs[s, n]
        for s in range(S):
            law_S[s] = probs[s, n] / mass
        if warmth > 0 and C > 1:
            top = 0.0
            for c in range(1, C):
                lead_C[c] = 0.0
                for s in range(S):
                    lead_C[c] += table_CxS[c, s] * probs[s, n]
                lead_C[c] /= warmth
                top = max(top, lead_C[c])
            if C == 2:
                base[0, n] = 0.5 * math.tanh(0.5 * lead_C[1]) + 0.5
            else:
                mass = math.exp(-top)
                for c in range(1, C):
                    base[c - 1, n] = math.exp(lead_C[c] - top)
                    mass += base[c - 1, n]
                for c in range(1, C):
                    base[c - 1, n] /= mass
        for s in range(S):
            own_S[s] = 0.0
            for c in range(1, C):
                own_S[s] += table_CxS[c, s] * base[c - 1, n]
        for i in range(K):
            fresh_K[i] = by_rate_5xK[3, i] if step == 1 else by_rate_5xK[4, i]
            if falls > 0 and step > 1:  # 1 / (j (j + 1)), of which start 2 has a sixth
                fresh_K[i] += math.log(6.0) - math.log(step * (step + 1.0))
        peak = -np.inf
        for c in range(C):
            for s in range(S):
                gain_S[s] = table_CxS[c, s] - own_S[s]
            gains[n, c] = gain_S[token]
            for i in range(K):
                k, rate, fresh = int(by_rate_5xK[0, i]), by_rate_5xK[2, i], fresh_K[i]
                charge = 0.0
                for s in range(S):
                    if by_rate_5xK[1, i] > 0:  # u = exp(rate gain) - 1 becomes u (u + 2)
                        excess_S[s] = excess_S[s] * (excess_S[s] + 2.0)
                    else:
                        excess_S[s] = math.expm1(rate * gain_S[s])
                    charge += law_S[s] * excess_S[s]
                growth = rate * gain_S[token]
                if charge > 0:
                    growth -= math.log(1.0 + charge)  # to 1e-16, which is all that a sum of logarithms keeps
                high, low = max(wealth[n, c, k], fresh), min(wealth[n, c, k], fresh)
                if low > high - 40.0:
                    high += math.log(1.0 + math.exp(low - high))
                new_wealth[n, c, k] = high + growth
                peak = max(peak, high + growth)
                if fresh > most[n, c, k]:
                    new_most[n, c, k], new_since[n, c, k] = fresh + growth, step
                else:
                    new_most[n, c, k], new_since[n, c, k] = most[n, c, k] + growth, since[n, c, k]
        share_N[n] = 0.0
        if peak + log_delta >= near:
            for c in range(C):
                for k in range(K):
                    share_N[n] += math.exp(min(new_wealth[n, c, k] + log_delta, 0.0))
        largest = max(largest, share_N[n])
    return largest
