"""Outcomes as states: bins, a number that stands for each, and what that costs."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lowregret import DecisionProblem, Payoff, inputs
from lowregret.arrays import frozen
from lowregret.forecasts import Quantiles, Samples
from lowregret.problems import numbers_apart


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


class Gap(NamedTuple):
    """By how much a step's regret at the outcome can exceed its regret at the bin's representative, in your units."""

    worst: float  # over all outcomes (over those that were recorded, where the payoff has no knots)
    mean: float | None  # over those that were recorded
    by_state: np.ndarray  # [S], the worst of each bin


@dataclass(frozen=True, eq=False)
class Bins:
    """Ranges of outcomes as the states of a ``DecisionProblem``, and a number that stands for each.

    A range is open at its lower end, except for the first: an outcome on an edge belongs to the range below it.

    Parameters
    ----------
    edges
        Of the ranges, increasing; the first may be ``-inf``, the last ``inf``.
    outcomes
        Recorded outcomes: their mean in each range stands for it. Where none were recorded its middle does (or the
        finite edge, if only one is finite), and the range is listed in ``unseen``.

    >>> bins = Bins([0.0, 10.0, 20.0, np.inf], outcomes=[4.0, 6.0, 25.0, 35.0])
    >>> bins.representatives.tolist(), bins.unseen
    ([5.0, 15.0, 30.0], ((10.0, 20.0),))
    >>> bins.states([10.0, 10.5, 99.0]).tolist()
    [0, 1, 2]
    """

    edges: Any
    outcomes: Any = field(default=None)

    def __post_init__(self) -> None:
        edges = inputs.numbers_of(self.edges, "edges", "a list of numbers")
        if edges.ndim != 1 or len(edges) < 2:
            raise ValueError(f"edges must be a list of at least two numbers, got {inputs.shown(self.edges)}")
        if np.isnan(edges).any() or not np.isfinite(edges[1:-1]).all() or not (edges[:-1] < edges[1:]).all():
            raise ValueError(
                f"edges must increase, only the first and the last infinite, got {inputs.shown(self.edges)}"
            )
        inputs.keep(self, edges=frozen(edges))
        recorded = () if self.outcomes is None else self.outcomes
        inputs.keep(self, outcomes=frozen(self._within(recorded, "outcomes").reshape(-1)))

    @property
    def n_states(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def counts(self) -> np.ndarray:
        """How many outcomes were recorded in each range, ``[S]``."""
        return frozen(np.bincount(self.states(self.outcomes), minlength=self.n_states))

    @cached_property
    def representatives(self) -> np.ndarray:
        """What stands for each range, ``[S]``."""
        low, high = self.edges[:-1], self.edges[1:]
        near = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
        middle = near / 2 + np.where(np.isfinite(high), high, near) / 2
        sums = np.bincount(self.states(self.outcomes), weights=self.outcomes, minlength=self.n_states)
        mean = np.clip(sums / np.maximum(self.counts, 1), low, high)
        return frozen(np.where(self.counts > 0, mean, middle))

    @property
    def unseen(self) -> tuple[tuple[float, float], ...]:
        """The ranges in which no outcome was recorded."""
        return tuple((float(self.edges[s]), float(self.edges[s + 1])) for s in np.flatnonzero(self.counts == 0))

    def states(self, outcomes: Any) -> np.ndarray:
        """In which range each outcome lies, as integers of the same shape: ``problems.Positions`` of the states."""
        return np.searchsorted(self.edges[1:-1], self._within(outcomes, "outcomes"), side="left")

    def probs(self, forecast: Samples | Quantiles) -> np.ndarray:
        """The probability of each range, ``[..., S]``; mass outside the edges counts for the first and the last."""
        if not isinstance(forecast, Samples | Quantiles):
            raise ValueError(f"forecast must be Samples or Quantiles, got {type(forecast).__name__}")
        inner = cumulative(forecast, self.edges[1:-1])
        found = np.clip(np.diff(inner, axis=-1, prepend=0.0, append=1.0), 0.0, None)
        law: np.ndarray = found / found.sum(axis=-1, keepdims=True)
        return law

    def problem(self, payoff: Payoff) -> DecisionProblem:
        """The payoffs at what stands for each range, as a decision problem in the same units."""
        paid = _a_payoff(payoff).payoffs(self.representatives)
        ends = numbers_apart(self.edges, 6)
        ranges = [f"{low} to {high}" for low, high in pairwise(ends)]
        return DecisionProblem.from_payoffs(paid, actions=payoff.actions, states=ranges)

    def gap(self, payoff: Payoff) -> Gap:
        """What it costs that one number stands for a range: regret at the outcomes is at most this much more per step.

        Regret to an action c at outcome y is that at the representative r plus d_c - d_pi, d_a = f(a, y) - f(a, r): at
        most max_a d_a - min_a d_a. Where payoffs are straight lines this is largest at an edge or a knot.
        """
        stand_A = _a_payoff(payoff).payoffs(self.representatives)  # [A, S]
        mean, points, states = None, self.outcomes, self.states(self.outcomes)
        apart = self._apart(payoff, stand_A, points, states)
        if len(points):
            mean = float(apart.mean())
        if payoff.knots is not None:
            points, states = self._corners(payoff)
            apart = self._apart(payoff, stand_A, points, states)
        elif not len(points):
            raise ValueError("gap needs a Payoff with knots, or Bins with recorded outcomes to measure it on")
        by_state = np.zeros(self.n_states)
        np.maximum.at(by_state, states, apart)
        return Gap(float(by_state.max()), mean, frozen(by_state))

    def _corners(self, payoff: Payoff) -> tuple[np.ndarray, np.ndarray]:
        """Every outcome at which a gap can be largest: in each range its ends and the knots within it."""
        least, most = payoff.outcomes
        points, states = [], []
        for s, (low, high) in enumerate(zip(self.edges[:-1], self.edges[1:], strict=True)):
            low, high = max(low, least), min(high, most)
            found = [end for end in (low, high) if math.isfinite(end)]
            found += payoff.knots[(payoff.knots >= low) & (payoff.knots <= high)].tolist()
            if low <= high:  # else nothing comes from there
                points += found
                states += [s] * len(found)
        return np.array(points), np.array(states, dtype=np.int64)

    @staticmethod
    def _apart(payoff: Payoff, stand_A: np.ndarray, points: np.ndarray, states: np.ndarray) -> np.ndarray:
        more_A = payoff.payoffs(points) - stand_A[:, states]
        apart: np.ndarray = more_A.max(axis=0) - more_A.min(axis=0)
        return apart

    def _within(self, outcomes: Any, name: str) -> np.ndarray:
        array = inputs.numbers_of(outcomes, name, "an array of numbers")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got {int((~np.isfinite(array)).sum())} that are not")
        if array.size and (array.min() < self.edges[0] or array.max() > self.edges[-1]):
            raise ValueError(
                f"{name} must lie within the edges, {self.edges[0]:.6g} to {self.edges[-1]:.6g}, "
                f"got {array.min():.6g} to {array.max():.6g}"
            )
        return array


def _a_payoff(value: Any) -> Payoff:
    if not isinstance(value, Payoff):
        raise ValueError(
            f"payoff must be a Payoff, got {type(value).__name__}: Payoff(fn, actions, low, high) makes one"
        )
    return value
