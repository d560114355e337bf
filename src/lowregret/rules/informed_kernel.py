"""One step of one stream of the informed test, and of the laws in its shadow, compiled: written into copies.

The same as ``InformedBets.judge`` and ``InformedRecovering.update_in`` before an alarm, in loops over what there is.
"""

import math

import numpy as np

from ..policies.shadow_kernel import TIE


def bet(  # type: ignore[no-untyped-def]
    probs_S,
    said,
    are_laws,
    utility_AxS,
    warmth,
    scale,
    log_delta,
    token,
    step,
    rates_K,
    fresh_2xK,
    place,
    own_CxAxK,
    own_most_CxAxK,
    own_since_CxAxK,
    all_NxK,
    all_most_NxK,
    all_since_NxK,
    share_C,
    lead_P,
):
    """All bets of a step in the context ``place``; the last eight are filled. What all hold, in units of 1/delta.

    ``said`` are the references' laws or mixed actions; ``fresh_2xK`` the log capital that joins the actions' bettors,
    and the references'.
    """
    (A, S), N, bet_on = utility_AxS.shape, said.shape[0], own_CxAxK.shape[1]
    own_AxK, own_most_AxK, own_since_AxK = own_CxAxK[place], own_most_CxAxK[place], own_since_CxAxK[place]
    plays_NxA = np.empty((1 + N, A))  # the response to the base, then what the references play
    for n in range(1 + N):
        if n > 0 and not are_laws:
            plays_NxA[n] = said[n - 1]
            continue
        law, most, total = probs_S if n == 0 else said[n - 1], -np.inf, 0.0
        for a in range(A):
            worth = 0.0
            for s in range(S):
                worth += utility_AxS[a, s] * law[s]
            plays_NxA[n, a] = worth / warmth
            most = max(most, plays_NxA[n, a])
        for a in range(A):
            plays_NxA[n, a] = math.exp(plays_NxA[n, a] - most)
            total += plays_NxA[n, a]
        for a in range(A):
            plays_NxA[n, a] /= total
    law_S, own_S, gain_S, mass = np.empty(S), np.zeros(S), np.empty(S), probs_S.sum()
    for s in range(S):
        law_S[s] = probs_S[s] / mass
        for a in range(A):
            own_S[s] += plays_NxA[0, a] * utility_AxS[a, s]
    mine, theirs = 0.0, 0.0
    for p in range(bet_on + N):
        is_action = p < bet_on
        n = p - bet_on
        for s in range(S):
            earned = 0.0
            if is_action:
                earned = utility_AxS[p, s]
            else:
                for a in range(A):
                    earned += plays_NxA[1 + n, a] * utility_AxS[a, s]
            gain_S[s] = scale * (earned - own_S[s])
        lead_P[p] = gain_S[token]
        wealth_K = own_AxK[p] if is_action else all_NxK[n]
        most_K = own_most_AxK[p] if is_action else all_most_NxK[n]
        since_K = own_since_AxK[p] if is_action else all_since_NxK[n]
        held = 0.0
        for k in range(rates_K.shape[0]):
            rate, excess, fresh = rates_K[k], 0.0, fresh_2xK[0 if is_action else 1, k]
            for s in range(S):
                excess += law_S[s] * math.expm1(rate * gain_S[s])
            growth = rate * gain_S[token] - math.log1p(max(excess, 0.0))
            high, low = max(wealth_K[k], fresh), min(wealth_K[k], fresh)
            wealth_K[k] = high + math.log1p(math.exp(low - high)) + growth
            if fresh > most_K[k]:
                most_K[k], since_K[k] = fresh, step
            most_K[k] += growth
            held += math.exp(min(wealth_K[k] + log_delta, 0.0))
        if is_action:
            mine += held
        else:
            theirs += held
    share_C[place] = mine
    for c in range(share_C.shape[0]):
        theirs += share_C[c]
    return theirs


def shadow(  # type: ignore[no-untyped-def]
    probs_S, said, speak, utility_AxS, token, keep_M, share, place, counts_CxRxMxS, weights_CxL
):
    """Urns and weights of a context after the token, in place; ``speak``: what was said are laws, and among them."""
    counts_RxMxS, weights_L = counts_CxRxMxS[place], weights_CxL[place]
    (A, S), M, L, N = utility_AxS.shape, keep_M.shape[0], weights_L.shape[0], said.shape[0]
    best, advised, worth_A = -np.inf, 0, np.zeros(A)
    for a in range(A):
        for s in range(S):
            worth_A[a] += utility_AxS[a, s] * probs_S[s]
        best = max(best, worth_A[a])
    while worth_A[advised] < best - TIE:
        advised += 1
    came_L, speaking = np.empty(L), 1 + 2 * M
    came_L[0] = probs_S[token]
    for u in range(2 * M):
        m = u % M
        urn_S, seen = counts_RxMxS[0 if u < M else 1 + advised, m], float(S)
        for s in range(S):
            seen += urn_S[s]
        came_L[1 + u] = (urn_S[token] + 1.0) / seen
        for s in range(S):
            urn_S[s] *= keep_M[m]
        urn_S[token] += 1.0
    if speak:
        for n in range(N):
            came_L[speaking + n] = said[n, token]
        speaking += N
    if speaking < L:  # whoever says nothing stands for what all others say
        mixed, weight = 0.0, 0.0
        for i in range(speaking):
            mixed += weights_L[i] * came_L[i]
            weight += weights_L[i]
        came_L[speaking:] = mixed / weight
    total = 0.0
    for i in range(L):
        weights_L[i] *= came_L[i]
        total += weights_L[i]
    for i in range(L):
        weights_L[i] = weights_L[i] * ((1 - share) / total) + share / L
