"""Where sequences come from: the eight sources of the figure (Section 5.2), the de Bruijn twins (Theorem 4.1)."""

import numpy as np

from .. import inputs
from ..predictors import Markov, Predictor, Scheduled

LONGEST_CONTEXT = 24  # a Markov model with two states then holds 2**24 distributions, 256 MiB


def paper_sources(horizon: int) -> dict[str, Predictor]:
    """The eight sources, in the figure's order: independent bits with a chance of 1 that depends on t = 1, 2, ...

    a: 2/3 then 1/3; b: 1/3 then 2/3 (what the paper trains on); c: 1/3; d: 2/3; sinN: |sin(pi/6 + t pi N / horizon)|.

    >>> list(paper_sources(1024))
    ['a', 'b', 'c', 'd', 'sin2', 'sin5', 'sin10', 'sin20']
    """
    horizon = inputs.whole(horizon, "horizon")
    t = np.arange(1, horizon + 1)
    third = np.full(horizon, 1 / 3)
    ones = {
        "a": np.where(t <= horizon // 2, 2 / 3, 1 / 3),
        "b": np.where(t <= horizon // 2, 1 / 3, 2 / 3),
        "c": third,
        "d": 1 - third,
        **{f"sin{n}": np.abs(np.sin(np.pi / 6 + t * np.pi * n / horizon)) for n in (2, 5, 10, 20)},
    }
    return {name: Scheduled(np.stack([1 - p, p], axis=-1)) for name, p in ones.items()}


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
    order = _order(order, "order")
    cycle = np.array([0, 1] if order == 1 else [0, 0, 1, 1], dtype=np.uint8)
    for n in range(2, order):
        changed = np.concatenate([np.zeros(1, np.uint8), cycle[:-1]])
        lift = np.bitwise_xor.accumulate(changed)
        cycle = _ones_last(np.concatenate([lift, 1 - np.roll(lift, -1)]), n + 1)
    return cycle


def de_bruijn_pair(window: int, epsilon: float = 0.0) -> tuple[Markov, Markov]:
    """The twins of Theorem 4.1: M0 follows a de Bruijn cycle, M1 always leaves it; both start with fair coins.

    Under both, every window of ``window`` tokens is uniform, so no model with that context can tell them apart.

    Parameters
    ----------
    window
        At most 24.
    epsilon
        The chance of the other bit, in [0, 1/2): above 0 both models give every sequence a positive probability.

    >>> M0, M1 = de_bruijn_pair(3)
    >>> M0.predict_sequence([0, 0, 1, 0])[:, 1].tolist(), M1.predict_sequence([0, 0, 1, 0])[:, 1].tolist()
    ([0.5, 0.5, 0.5, 1.0], [0.5, 0.5, 0.5, 0.0])
    """
    length = _order(window, "window")
    epsilon = inputs.finite(epsilon, "epsilon")
    if not 0 <= epsilon < 0.5:
        raise ValueError(f"epsilon must lie in [0, 1/2): at 1/2 both models are fair coins, got {epsilon!r}")
    words_N, following_N = cycle_contexts(length)
    probs_NxS = np.full((2**length, 2), epsilon)
    probs_NxS[words_N, following_N] = 1 - epsilon
    shape = (2,) * (length + 1)
    return Markov(probs_NxS.reshape(shape), length), Markov(probs_NxS[:, ::-1].reshape(shape), length)


def cycle_contexts(window: int) -> tuple[np.ndarray, np.ndarray]:
    """The contexts in the order of the cycle, read as numbers (oldest bit first), and the bit that follows each.

    >>> [values.tolist() for values in cycle_contexts(2)]
    [[0, 1, 3, 2], [1, 1, 0, 0]]
    """
    window = _order(window, "window")
    cycle = de_bruijn_sequence(window)
    words_N = np.zeros(len(cycle), dtype=np.int64)
    for lag in range(window):
        words_N = 2 * words_N + np.roll(cycle, -lag)
    return words_N, np.roll(cycle, -window)


def _ones_last(cycle: np.ndarray, order: int) -> np.ndarray:
    """The cycle turned so that its run of ``order`` ones comes last."""
    ones = np.cumsum(np.concatenate([cycle, cycle[:order]]), dtype=np.int32)
    return np.roll(cycle, -int(np.argmax(ones[order:] - ones[:-order] == order)) - order - 1)


def _order(value: int, name: str) -> int:
    value = inputs.whole(value, name)
    if value > LONGEST_CONTEXT:
        raise ValueError(
            f"{name} must be at most {LONGEST_CONTEXT} (a model has a distribution for each of 2**{name} contexts), "
            f"got {value}"
        )
    return value
