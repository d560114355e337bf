"""Where sequences come from: the eight sources of the paper's figure (Section 5.2)."""

import numpy as np

from .. import inputs
from ..predictors import Predictor, Scheduled


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
