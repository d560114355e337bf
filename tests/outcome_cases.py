"""Payoffs and forecasts, for the tests of forecasts in any form."""

import math

import numpy as np

import lowregret as lr
from lowregret.forecasts import Forecast

ORDERS = (0.0, 10.0, 20.0, 30.0)


def earned(order: float, demand: np.ndarray) -> np.ndarray:
    return 5 * np.minimum(order, demand) - 3 * order


def traded(position: float, move: np.ndarray) -> np.ndarray:
    return position * np.clip(move, -1, 1)


SHOP = lr.Payoff(earned, ORDERS, -90, 60, knots=ORDERS, outcomes=(0, math.inf))
TRADE = lr.Payoff(traded, (-1.0, 0.0, 1.0), -1, 1, knots=(-1, 1))
BLIND = lr.Payoff(traded, (-1.0, 0.0, 1.0), -1, 1)  # nothing is said of what happens between outcomes


def random_payoff(rng: np.random.Generator) -> lr.Payoff:
    """Payoffs that bend at random places, on the whole line, a half-line or a stretch."""
    knots = np.sort(rng.normal(0, 3, rng.integers(2, 6)))
    ends = [(-math.inf, math.inf), (knots[0] - 1, math.inf), (knots[0] - 2, knots[-1] + 1)][rng.integers(3)]
    heights = rng.uniform(-2, 5, (int(rng.integers(2, 5)), len(knots)))

    def paid(a: int, y: np.ndarray) -> np.ndarray:
        return np.interp(y, knots, heights[a])

    return lr.Payoff(paid, range(len(heights)), -2, 5, knots=knots, outcomes=ends)


def random_outcomes(rng: np.random.Generator, payoff: lr.Payoff, shape: tuple[int, ...]) -> np.ndarray:
    return np.clip(rng.normal(0, 3, shape), *payoff.outcomes)


def random_forecast(rng: np.random.Generator, form: str, payoff: lr.Payoff, shape: tuple[int, ...]) -> Forecast:
    """Of any form; quantiles with ties."""
    if form == "samples":
        return lr.Samples(random_outcomes(rng, payoff, (*shape, int(rng.integers(2, 9)))))
    n = int(rng.integers(2, 6))
    values = np.sort(random_outcomes(rng, payoff, (*shape, n)), axis=-1)
    values[..., 1] = np.where(rng.random(shape) < 0.2, values[..., 0], values[..., 1])
    return lr.Quantiles(np.sort(rng.uniform(0.02, 0.98, n)), values)


FORMS = ("samples", "quantiles")
