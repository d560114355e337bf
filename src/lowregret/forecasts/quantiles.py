"""Forecasts as quantiles: a bet is charged for the worst distribution that has them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import frozen
from ..problems import Gains, Payoff
from .contract import Forecast, Law, needs_knots, numbers

_SPREAD = 4  # points per bin, for acting
_WORK = 1 << 18  # numbers at a time


@dataclass(frozen=True, eq=False)
class Quantiles(Forecast):
    """Quantiles of the outcome at some levels: P(outcome < value) <= level <= P(outcome <= value).

    Between two quantiles nothing is known of the distribution but its mass. A bet is charged for the largest gain in
    each bin, the ends included: the mean of what it wins, after the charge, is at most 1 under *every* distribution
    with these quantiles, atoms among them. To act on, the mass of each bin is spread evenly; that beyond the outer
    quantiles is put on them.

    Parameters
    ----------
    levels
        ``[Q]``, increasing, strictly between 0 and 1.
    values
        ``[..., Q]``, which do not fall.

    >>> deciles = Quantiles([0.1, 0.5, 0.9], [[20.0, 30.0, 50.0], [0.0, 0.0, 8.0]])
    >>> deciles.batch_shape
    (2,)
    """

    levels: Any
    values: Any

    def __post_init__(self) -> None:
        levels, values = numbers(self.levels, "levels", least=1), numbers(self.values, "values", least=1)
        if levels.ndim != 1 or (np.diff(levels, prepend=0.0, append=1.0) <= 0).any():
            raise ValueError(f"levels must be one list that increases between 0 and 1, got {levels.tolist()}")
        if values.shape[-1] != len(levels):
            raise ValueError(f"values must have one for each of the {len(levels)} levels, got shape {values.shape}")
        falls = np.diff(values, axis=-1)
        if falls.size and falls.min() < 0:
            *at, k = np.argwhere(falls < 0)[0].tolist()
            row = values[tuple(at)]
            raise ValueError(
                f"values must not cross: the quantile at level {levels[k]:.6g} is {row[k]:.6g}, that at "
                f"{levels[k + 1]:.6g} is {row[k + 1]:.6g}{f' at index {tuple(at)}' if at else ''}; if your model does "
                "that, sort them"
            )
        object.__setattr__(self, "levels", frozen(levels))
        object.__setattr__(self, "values", frozen(values))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.values.shape[:-1]
        return shape

    @property
    def shared(self) -> tuple[str, ...]:
        return ("levels",)

    @property
    def _masses(self) -> np.ndarray:
        """Of the Q + 1 bins."""
        return np.diff(self.levels, prepend=0.0, append=1.0)

    def refuse_misfit(self, payoff: Payoff) -> None:
        needs_knots(payoff, "Quantiles")
        payoff.outcomes_of(self.values, "values of Quantiles")

    def law(self, payoff: Payoff, clock: Any) -> Law:
        shares = (np.arange(_SPREAD) + 0.5) / _SPREAD
        low, high = self.values[..., :-1, None], self.values[..., 1:, None]
        inner = (low + (high - low) * shares).reshape(*self.batch_shape, _SPREAD * (len(self.levels) - 1))
        masses = self._masses
        points = np.concatenate([self.values[..., :1], inner, self.values[..., -1:]], axis=-1)
        weights = np.concatenate([masses[:1], np.repeat(masses[1:-1] / _SPREAD, _SPREAD), masses[-1:]])
        return Law(points, np.broadcast_to(weights, points.shape))

    def cells(self, gains: Gains, clock: Any) -> tuple[np.ndarray, np.ndarray, float]:
        # A straight line is largest at an end of its stretch: of a bin, at one of the quantiles or a knot in between.
        # Where outcomes have no end payoffs are constant beyond the last knot; where they have one it is a knot.
        at_values_NxExQ, at_knots = gains.at(self.values), gains.at_knots()
        none = np.full((*at_values_NxExQ.shape[:-1], 1), -np.inf)
        best = np.maximum(
            np.concatenate([none, at_values_NxExQ], axis=-1), np.concatenate([at_values_NxExQ, none], axis=-1)
        )
        knots, end = gains.payoff.knots, np.full((*self.batch_shape, 1), np.inf)
        low, high = np.concatenate([-end, self.values], axis=-1), np.concatenate([self.values, end], axis=-1)
        size = max(1, _WORK // max(1, best.size))
        for m in range(0, len(knots), size):  # all at once, or a few where there are many streams
            some = knots[m : m + size]
            inside = (low[..., None] <= some) & (some <= high[..., None])  # [N, Q + 1, M]
            most = np.where(inside[:, None], at_knots[:, :, None, m : m + size], -np.inf).max(axis=-1)
            best = np.maximum(best, most)
        return np.broadcast_to(self._masses, (len(best), best.shape[-1])), best, 0.0
