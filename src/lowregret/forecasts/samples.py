"""Forecasts as samples: half of them to act on, the other half to judge by."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import frozen
from ..problems import Gains, Payoff
from .contract import Forecast, Law, numbers

_DEALER = 0x6C6F7772  # keeps the dealing apart from generators that callers seed with the same numbers


@dataclass(frozen=True, eq=False)
class Samples(Forecast):
    """Samples of the outcome: ensemble members, simulated paths, draws from a posterior.

    They are split into two halves at random, whatever their order. The first is acted on. With the second, y_1 .. y_n,
    a bet that wins e(outcome) is charged max(1, [e(outcome) + e(y_1) + .. + e(y_n)] / (n + 1)): where the samples come
    from the outcome's distribution the n + 1 values are exchangeable, so the mean is at most 1. The average over the
    samples alone would not do, nor would the same samples twice: bets would win on how the samples happened to fall.

    Parameters
    ----------
    values
        ``[..., n]``, at least 2, independent draws each; better 50 and more.

    >>> Samples([[3.0, 1.0, 2.0, 2.0], [0.0, 0.0, 1.0, 5.0]]).batch_shape
    (2,)
    """

    values: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(numbers(self.values, "values", least=2)))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.values.shape[:-1]
        return shape

    def refuse_misfit(self, payoff: Payoff) -> None:
        payoff.outcomes_of(self.values, "values of Samples")

    def law(self, payoff: Payoff, clock: Any) -> Law:
        points = self._dealt(clock)[..., : self.values.shape[-1] // 2]
        return Law(points, np.full(points.shape, 1 / points.shape[-1]))

    def cells(self, gains: Gains, clock: Any) -> tuple[np.ndarray, np.ndarray, float]:
        judged_NxM = self._dealt(clock)[..., self.values.shape[-1] // 2 :]
        own = 1 / (judged_NxM.shape[-1] + 1)
        return np.full(judged_NxM.shape, own), gains.at(judged_NxM), own

    def _dealt(self, clock: Any) -> np.ndarray:
        """The samples in an order that does not depend on them, another for each step."""
        clocks, which = np.unique(np.broadcast_to(clock, self.batch_shape), return_inverse=True)
        n = self.values.shape[-1]
        orders = np.array([_shuffled(n, int(at)) for at in clocks], dtype=np.int64).reshape(-1, n)
        return np.take_along_axis(self.values, orders[which.reshape(self.batch_shape)], axis=-1)


def _shuffled(n: int, clock: int) -> np.ndarray:
    return np.random.default_rng((_DEALER, n, clock)).permutation(n)
