"""Payoffs, forecasts and a literal test, for the tests of forecasts in any form."""

import math
from functools import cache
from typing import Any

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
RISES = lr.Quantiles([0.1, 0.5, 0.9], [0.1, 0.3, 0.8])


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
    """Of any form; quantiles with ties, densities with heights of 0."""
    if form == "samples":
        return lr.Samples(random_outcomes(rng, payoff, (*shape, int(rng.integers(2, 9)))))
    n = int(rng.integers(2, 6))
    values = np.sort(random_outcomes(rng, payoff, (*shape, n)), axis=-1)
    if form == "quantiles":
        values[..., 1] = np.where(rng.random(shape) < 0.2, values[..., 0], values[..., 1])
        return lr.Quantiles(np.sort(rng.uniform(0.02, 0.98, n)), values)
    least, most = (max(payoff.outcomes[0], -9.0), min(payoff.outcomes[1], 9.0))
    return lr.Density(
        np.linspace(least, most, 7), rng.uniform(0, 1, (*shape, 7)) * (rng.random((*shape, 7)) < 0.9) + 1e-3
    )


FORMS = ("samples", "quantiles", "density")


def at_step(forecast: Any, t: int) -> Any:
    """The forecast for one step of recorded ones ``[..., T]``."""
    if isinstance(forecast, lr.Quantiles):
        return lr.Quantiles(forecast.levels, forecast.values[..., t, :])
    if isinstance(forecast, lr.Density):
        return lr.Density(forecast.grid, forecast.weights[..., t, :])
    return lr.Samples(forecast.values[..., t, :])


class Literal:
    """The test of one stream, word by word: every comparator, rate and start has a wealth of its own."""

    def __init__(self, rule: lr.ExactTest) -> None:
        self.rule, self.payoff, self.prior = rule, rule.problem, rule.prior
        self.wealth: dict[tuple[int, int, int], float] = {}  # of (action, rate, start)
        self.charges = np.zeros((self.payoff.n_actions, len(self.prior.rates_K)))
        self.t, self.tripped_at = 0, 0

    def utility(self, a: int, y: float) -> float:
        p = self.payoff
        return float((2 * np.asarray(p.fn(p.actions[a], np.array(y))) - p.low - p.high) / (p.high - p.low))

    def response(self, forecast: Any, clock: int) -> list[float]:
        law, A = forecast.law(self.payoff, clock), self.payoff.n_actions
        warmth = self.rule.temperature or self.payoff.anytime_temperature(self.t + 1)
        means = [sum(w * self.utility(a, y) for y, w in zip(law.points, law.weights, strict=True)) for a in range(A)]
        scores = [math.exp((mean - max(means)) / warmth) for mean in means]
        return [score / sum(scores) for score in scores]

    def step(self, forecast: Any, outcome: float, clock: int) -> None:
        pi, A, rates = self.response(forecast, clock), self.payoff.n_actions, self.prior.rates_K
        self.t += 1

        @cache
        def gain(c: int, y: float) -> float:
            return self.utility(c, y) - sum(pi[a] * self.utility(a, y) for a in range(A))

        for c in range(A):
            for k, rate in enumerate(rates):

                def wins(y: float, c: int = c, rate: float = float(rate)) -> float:
                    return math.exp(rate * gain(c, y))

                chi = math.log(max(1.0, mean_of(forecast, wins, outcome, clock, self.payoff)))
                self.charges[c, k] += chi
                self.wealth[c, k, self.t] = float(self.prior.weights_K(self.t)[k])
                for j in range(1, self.t + 1):
                    self.wealth[c, k, j] *= math.exp(rate * gain(c, outcome) - chi)
        spent = sum(A * self.prior.weights_K(j).sum() for j in range(1, self.t + 1))
        self.total = sum(self.wealth.values()) + 1 - spent
        if not self.tripped_at and self.total >= 1 / self.rule.delta:  # type: ignore[operator]
            self.tripped_at = self.t


def mean_of(forecast: Any, wins: Any, outcome: float, clock: int, payoff: lr.Payoff) -> float:
    """What a bet is charged, by its definition: the exchangeable mean, the worst law, the chord of a density."""
    if isinstance(forecast, lr.Samples):
        order = np.random.default_rng((0x6C6F7772, forecast.values.shape[-1], clock)).permutation(
            forecast.values.shape[-1]
        )
        judged = [*forecast.values[order][len(order) // 2 :], outcome]
        return sum(map(wins, judged)) / len(judged)
    knots = sorted(payoff.knots)
    if isinstance(forecast, lr.Quantiles):
        ends = [-math.inf, *forecast.values, math.inf]
        masses = np.diff([0.0, *forecast.levels, 1.0])
        found = 0.0
        for low, high, mass in zip(ends[:-1], ends[1:], masses, strict=True):
            inside = [y for y in (low, high) if math.isfinite(y)] + [y for y in knots if low <= y <= high]
            found += mass * max(map(wins, inside))
        return float(found)
    law = forecast.law(payoff, clock)
    return float(sum(w * wins(y) for y, w in zip(law.points, law.weights, strict=True)))
