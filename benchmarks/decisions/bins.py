"""Outcomes as states: ranges of numbers, and a number that stands for each."""

import numpy as np

from lowregret.forecasts import Quantiles, Samples


def cumulative(forecast: Samples | Quantiles, points: np.ndarray) -> np.ndarray:
    """The probability of an outcome at most each of the points ``[E]``, ``[..., E]``; straight between quantiles."""
    below = (forecast.values[..., None, :] <= points[:, None]).sum(axis=-1)
    if isinstance(forecast, Samples):
        found: np.ndarray = below / forecast.values.shape[-1]
        return found
    levels, values, Q = forecast.levels, forecast.values, len(forecast.levels)
    at, after = np.clip(below - 1, 0, Q - 1), np.clip(below, 0, Q - 1)
    low, high = np.take_along_axis(values, at, -1), np.take_along_axis(values, after, -1)
    level = levels[at] + (levels[after] - levels[at]) * (points - low) / np.where(high > low, high - low, 1.0)
    return np.where(below == 0, 0.0, np.where(below >= Q, 1.0, level))


class Bins:
    """Ranges of outcomes as states. A range is open at its lower end: an outcome on an edge belongs to the one below.

    Parameters
    ----------
    edges
        Of the ranges, increasing; the first may be ``-inf``, the last ``inf``.
    outcomes
        Recorded outcomes: their mean in each range stands for it. Where none were recorded its middle does (or the
        finite edge, if only one is finite).

    >>> bins = Bins([0.0, 10.0, 20.0, np.inf], outcomes=[4.0, 6.0, 25.0, 35.0])
    >>> bins.representatives.tolist()
    [5.0, 15.0, 30.0]
    >>> bins.states([10.0, 10.5, 99.0]).tolist()
    [0, 1, 2]
    """

    def __init__(self, edges: "np.ndarray | list[float]", outcomes: "np.ndarray | list[float]" = ()) -> None:
        self.edges, recorded = np.asarray(edges, dtype=float), np.asarray(outcomes, dtype=float)
        self.counts = np.bincount(self.states(recorded), minlength=len(edges) - 1)
        low, high = self.edges[:-1], self.edges[1:]
        near = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
        middle = near / 2 + np.where(np.isfinite(high), high, near) / 2
        sums = np.bincount(self.states(recorded), weights=recorded, minlength=len(edges) - 1)
        mean = np.clip(sums / np.maximum(self.counts, 1), low, high)
        self.representatives = np.where(self.counts > 0, mean, middle)

    @property
    def n_states(self) -> int:
        return len(self.counts)

    def states(self, outcomes: "np.ndarray | list[float]") -> np.ndarray:
        """In which range each outcome lies, as integers of the same shape."""
        return np.searchsorted(self.edges[1:-1], outcomes, side="left")

    def probs(self, forecast: Samples | Quantiles) -> np.ndarray:
        """The probability of each range, ``[..., S]``; mass outside the edges counts for the first and the last."""
        inner = cumulative(forecast, self.edges[1:-1])
        found = np.clip(np.diff(inner, axis=-1, prepend=0.0, append=1.0), 0.0, None)
        probs: np.ndarray = found / found.sum(axis=-1, keepdims=True)
        return probs
