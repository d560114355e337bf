"""Forecasts as a density on a grid, straight between its points: what a bet can win is known exactly."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import frozen
from ..problems import Gains, Payoff
from .contract import Charged, Forecast, Law, cell_of, needs_knots, numbers, rows


@dataclass(frozen=True, eq=False)
class Density(Forecast):
    """A density by its heights on a grid: straight lines in between, nothing outside.

    Its mean payoffs are exact. A bet is charged as if the mass of each stretch between grid points and knots lay on its
    two ends, with the same mean. What it wins is convex there, so the charge is never too little, and never more than
    the response to the same law can cost: the certificate needs no record of what was charged.

    Parameters
    ----------
    grid
        ``[G]`` or ``[..., G]``, increasing, at least two points.
    weights
        ``[..., G]``: the height at each point, up to a factor.

    >>> triangle = Density([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    >>> triangle.cdf(np.array([0.5, 1.0, 3.0])).tolist()
    [0.125, 0.5, 1.0]
    """

    grid: Any
    weights: Any

    def __post_init__(self) -> None:
        grid, weights = numbers(self.grid, "grid", least=2), numbers(self.weights, "weights", least=2)
        if (np.diff(grid, axis=-1) <= 0).any():
            raise ValueError("grid must increase along its last axis")
        fits = grid.shape[-1] == weights.shape[-1]
        if not fits or (grid.ndim > 1 and grid.shape != weights.shape):
            raise ValueError(
                f"weights must have one height for each point of the grid, got shapes {weights.shape} and {grid.shape}"
            )
        if weights.min(initial=0.0) < 0:
            raise ValueError(f"weights must not be negative, got {weights.min():.6g}")
        if not (weights.max(axis=-1) > 0).all():
            raise ValueError("weights must not all be 0: a density has mass 1")
        object.__setattr__(self, "grid", frozen(grid))
        object.__setattr__(self, "weights", frozen(weights))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.weights.shape[:-1]
        return shape

    @cached_property
    def density(self) -> np.ndarray:
        """The heights ``[..., G]`` with mass 1."""
        heights = self.weights / self.weights.max(axis=-1, keepdims=True)  # none is too large or too small for it
        return frozen(heights / _stretch_masses(self.grid, heights).sum(axis=-1, keepdims=True))

    @cached_property
    def _laws(self) -> dict[Payoff, Law]:
        """Laws found before: the same one is acted on and judged by."""
        return {}

    def refuse_misfit(self, payoff: Payoff) -> None:
        needs_knots(payoff, "Density")
        payoff.outcomes_of(self.grid, "grid of Density")

    def law(self, payoff: Payoff, clock: Any) -> Law:
        """The mass of each stretch on its two ends, with the same mean: exact for what is straight in between."""
        if payoff in self._laws:
            return self._laws[payoff]
        inner = np.clip(payoff.knots, self.grid[..., :1], self.grid[..., -1:])
        points = np.sort(np.concatenate([self.grid, inner], axis=-1), axis=-1)
        heights, width = self._heights(points), np.diff(points, axis=-1)
        left, right = heights[..., :-1], heights[..., 1:]
        none = np.zeros((*self.batch_shape, 1))
        onto_left = np.concatenate([width * (left / 3 + right / 6), none], axis=-1)
        onto_right = np.concatenate([none, width * (left / 6 + right / 3)], axis=-1)
        weights = onto_left + onto_right
        law = Law(np.broadcast_to(points, weights.shape), weights / weights.sum(axis=-1, keepdims=True))
        self._laws[payoff] = law
        return law

    def charged(self, gains: Gains, outcome: np.ndarray, clock: Any) -> Charged:
        law = self.law(gains.payoff, clock)
        return Charged(gains.at(law.points), law.weights)

    def excludes(self, outcome: np.ndarray) -> np.ndarray:
        """Outside the grid, or where it is 0 on both sides."""
        G, point = self.grid.shape[-1], outcome[..., None]
        grid = np.broadcast_to(self.grid, (*outcome.shape, G))
        weights = np.broadcast_to(self.weights, (*outcome.shape, G))
        # Each end of a stretch that holds the outcome: two of them at a point of the grid.
        last, first = cell_of(grid, point), (grid < point).sum(axis=-1, keepdims=True) - 1
        inside = (outcome >= grid[..., 0]) & (outcome <= grid[..., -1])
        near = [rows(weights, np.clip(i, 0, G - 1))[..., 0] for i in (first, first + 1, last, last + 1)]
        outside: np.ndarray = ~inside | (np.max(near, axis=0) == 0)
        return outside

    def cdf(self, points: np.ndarray) -> np.ndarray:
        G, shape = self.grid.shape[-1], (*self.batch_shape, len(points))
        below = np.concatenate(
            [np.zeros((*self.batch_shape, 1)), _stretch_masses(self.grid, self.density).cumsum(-1)], -1
        )
        held = np.clip(np.broadcast_to(points, shape), self.grid[..., :1], self.grid[..., -1:])
        cell = np.clip(cell_of(self.grid, held), 0, G - 2)
        start, height = rows(self.grid, cell), self._heights(held)
        found = rows(below, cell) + (held - start) * (rows(self.density, cell) + height) / 2
        return np.where(points >= self.grid[..., -1:], 1.0, np.clip(found, 0.0, 1.0))

    def _heights(self, points: np.ndarray) -> np.ndarray:
        """The density at points within the grid, ``[..., P]``."""
        cell = np.clip(cell_of(self.grid, points), 0, self.grid.shape[-1] - 2)
        start, end = rows(self.grid, cell), rows(self.grid, cell + 1)
        low, high = rows(self.density, cell), rows(self.density, cell + 1)
        found: np.ndarray = low + (high - low) * ((points - start) / (end - start))
        return found


def _stretch_masses(grid: np.ndarray, weights: np.ndarray) -> np.ndarray:
    masses: np.ndarray = np.diff(grid, axis=-1) * (weights[..., 1:] + weights[..., :-1]) / 2
    return masses
