"""A step of the laws in a base model's shadow, compiled (extra: ``fast``): what the array expressions give."""

import numpy as np

TIE = 1e-12  # actions worth the same to this are a tie, and the lowest is advised: however the sums are rounded


def step_all(  # type: ignore[no-untyped-def]
    counts,
    weights,
    probs,
    token_N,
    utility_AxS,
    keep_M,
    share,
    prior,
    new_counts,
    new_weights,
    law,
):
    """Fill the last three: urns and weights after the token, and the mixture's law before it.

    The first and the last three have an axis of streams behind their own, or none where there is one stream.
    """
    A, S = utility_AxS.shape
    M, K, N = keep_M.size, weights.shape[0], token_N.size
    counts_RxN, weights_KxN, probs_SxN = counts.reshape((-1, N)), weights.reshape((K, N)), probs.reshape((S, N))
    new_counts_RxN, new_weights_KxN = new_counts.reshape((-1, N)), new_weights.reshape((K, N))
    law_SxN = law.reshape((S, N))
    chance_K, worth_A = np.empty(K), np.empty(A)
    for n in range(N):
        token, advised, best = token_N[n], 0, -np.inf
        for a in range(A):
            worth_A[a] = 0.0
            for s in range(S):
                worth_A[a] += utility_AxS[a, s] * probs_SxN[s, n]
            best = max(best, worth_A[a])
        while worth_A[advised] < best - TIE:
            advised += 1
        for s in range(S):
            law_SxN[s, n] = weights_KxN[0, n] * probs_SxN[s, n]
        chance_K[0] = weights_KxN[0, n] * probs_SxN[token, n]
        sum_of_chances = chance_K[0]
        for r in range((1 + A) * M * S):
            new_counts_RxN[r, n] = counts_RxN[r, n]
        for u in range(2 * M):
            m = u % M
            at = (m if u < M else (1 + advised) * M + m) * S
            seen = prior * S
            for s in range(S):
                seen += counts_RxN[at + s, n]
            weight = weights_KxN[1 + u, n] / seen
            for s in range(S):
                count = counts_RxN[at + s, n]
                law_SxN[s, n] += weight * (count + prior)
                new_counts_RxN[at + s, n] = count * keep_M[m]
            chance_K[1 + u] = weight * (counts_RxN[at + token, n] + prior)
            sum_of_chances += chance_K[1 + u]
            new_counts_RxN[at + token, n] += 1.0
        for k in range(K):
            new_weights_KxN[k, n] = chance_K[k] * ((1 - share) / sum_of_chances) + share / K
