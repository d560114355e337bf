"""Where sequences come from: the eight sources of the paper's figure (Section 5.2), or all there are."""

import math

import numpy as np

from .. import inputs
from ..predictors import Predictor, Scheduled

_MOST_BITS = 24  # 2**24 sequences of 24 bits each are 3 GiB


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


def all_sequences(n_states: int, horizon: int) -> np.ndarray:
    """Every sequence of the given length, ``[S**T, T]``, in order: for exhaustive search when T is small.

    >>> all_sequences(2, 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    n_states, horizon = inputs.whole(n_states, "n_states"), inputs.whole(horizon, "horizon")
    if horizon * math.log2(n_states) > _MOST_BITS:
        raise ValueError(
            f"horizon and n_states must leave at most 2**{_MOST_BITS} sequences, got {n_states}**{horizon} of them"
        )
    return numbered_sequences(n_states, horizon, 0, n_states**horizon)


def numbered_sequences(n_states: int, horizon: int, begin: int, end: int) -> np.ndarray:
    """The sequences with numbers ``begin .. end - 1``: their digits."""
    return np.arange(begin, end)[:, None] // n_states ** np.arange(horizon - 1, -1, -1) % n_states
