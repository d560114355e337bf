"""The de Bruijn twins (Theorem 4.1): two models that nobody with the same context can tell apart."""

import numpy as np

from lowregret import Markov, inputs


def de_bruijn_sequence(order: int) -> np.ndarray:
    """A cycle of ``2**order`` bits in which every word of ``order`` bits occurs exactly once, the last wrapping around.

    Each order is made from the one before, so the time is linear in the length. Let s be the cycle of order n and X its
    running exclusive or. A word of n + 1 bits is determined by its first bit and its n changes; the changes are a word
    of s, so each word of n + 1 bits lies on exactly one of the two cycles X and not-X (they close: s has an even number
    of ones from order 2 on). Where s runs ...01^n0..., X has the word aabab... and not-X the word babab..., which
    differ in the first bit only: leaving either for what follows the other makes one cycle of the two. With the run of
    ones at the end of s that place is the end of X.

    >>> de_bruijn_sequence(3).tolist()
    [0, 1, 0, 0, 0, 1, 1, 1]
    """
    order = inputs.whole(order, "order")
    cycle = np.array([0, 1] if order == 1 else [0, 0, 1, 1], dtype=np.uint8)
    for n in range(2, order):
        changed = np.concatenate([np.zeros(1, np.uint8), cycle[:-1]])
        lift = np.bitwise_xor.accumulate(changed)
        cycle = _ones_last(np.concatenate([lift, 1 - np.roll(lift, -1)]), n + 1)
    return cycle


def _ones_last(cycle: np.ndarray, order: int) -> np.ndarray:
    """The cycle turned so that its run of ``order`` ones comes last."""
    ones = np.cumsum(np.concatenate([cycle, cycle[:order]]), dtype=np.int32)
    return np.roll(cycle, -int(np.argmax(ones[order:] - ones[:-order] == order)) - order - 1)


def cycle_contexts(window: int) -> tuple[np.ndarray, np.ndarray]:
    """The contexts in the order of the cycle, read as numbers (oldest bit first), and the bit that follows each.

    >>> [values.tolist() for values in cycle_contexts(2)]
    [[0, 1, 3, 2], [1, 1, 0, 0]]
    """
    cycle = de_bruijn_sequence(window)
    words_N = np.zeros(len(cycle), dtype=np.int64)
    for lag in range(window):
        words_N = 2 * words_N + np.roll(cycle, -lag)
    return words_N, np.roll(cycle, -window)


def de_bruijn_pair(window: int) -> tuple[Markov, Markov]:
    """M0 follows the cycle with a context of ``window`` bits, M1 always leaves it; both start with fair coins.

    Under both, every window of ``window`` tokens is uniform, so no model with that context can tell them apart.

    >>> M0, M1 = de_bruijn_pair(3)
    >>> M0.predict_sequence([0, 0, 1, 0])[:, 1].tolist(), M1.predict_sequence([0, 0, 1, 0])[:, 1].tolist()
    ([0.5, 0.5, 0.5, 1.0], [0.5, 0.5, 0.5, 0.0])
    """
    words_N, following_N = cycle_contexts(window)
    probs_NxS = np.zeros((2**window, 2))
    probs_NxS[words_N, following_N] = 1
    shape = (2,) * (window + 1)
    return Markov(probs_NxS.reshape(shape), window), Markov(probs_NxS[:, ::-1].reshape(shape), window)
