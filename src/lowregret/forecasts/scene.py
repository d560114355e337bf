"""A step before its outcome, where that is a number: what a forecast says of it, and what others would play.

It answers what ``problems.Scene`` answers for laws over states: what is played, what a bet is charged, what was paid.
"""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import softmax
from ..problems import Gains, Known, Payoff, best_of
from .contract import Forecast


class NumberScene(NamedTuple):
    """A step before its outcome, or every step of recorded ones. Comparators are the actions, then references."""

    payoff: Payoff
    forecast: Forecast
    base_A: np.ndarray  # [A, ...], the response to it
    temperature: Any  # of responses
    clock: Any  # by which samples are dealt
    scale: np.ndarray | None = None  # [...], how much of the payoff counts
    plays_NxA: np.ndarray | None = None  # [N, A, ...]; None: there are no references
    context: np.ndarray | None = None  # [...]

    def priced(self, outcome: np.ndarray, actions: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What each comparator gains at each of M points ``[P, M, ...]``, the weights of these, and what it gained.

        A bet is charged by the weighted mean of what it wins at these points.
        """
        gains = Gains(self.payoff, self.base_A, self.plays_NxA, actions, self.scale)
        charged = self.forecast.charged(gains, outcome, self.clock)
        paid_P = self.paid(outcome)
        came_P = paid_P - (self.base_A * paid_P[: len(self.base_A)]).sum(axis=0)
        rows = slice(0 if actions else len(self.base_A), None)
        return np.moveaxis(charged.gains_P, -1, 1), np.moveaxis(charged.weights, -1, 0), came_P[rows]

    def excluded(self, outcome: np.ndarray) -> np.ndarray:
        """Whether the forecast gave probability 0 to it, ``[...]``: samples and quantiles do so to none."""
        return np.zeros(outcome.shape, dtype=bool)

    def earned(self, outcome: np.ndarray) -> np.ndarray:
        """What each action earns at the outcome that came, ``[A, ...]``."""
        earned_A = self.payoff.paid(outcome)
        return earned_A if self.scale is None else earned_A * self.scale

    def best_response(self) -> np.ndarray:
        """The best response to the forecast, ``[A, ...]``."""
        return response(self.payoff, self.forecast, 0.0, self.clock)

    def paid(self, outcome: np.ndarray) -> np.ndarray:
        """What each comparator earns at it, ``[A + N, ...]``."""
        earned_A = self.earned(outcome)
        if self.plays_NxA is None:
            return earned_A
        return np.concatenate([earned_A, (self.plays_NxA * earned_A).sum(axis=1)])

    def at(self, t: int) -> "NumberScene":
        """One step of recorded sequences, whose last axis is time."""
        temperature = self.temperature if isinstance(self.temperature, float) else self.temperature[..., t]
        scale, plays, context = (None if part is None else part[..., t] for part in (self.scale, *self[6:]))
        forecast, clock = self.forecast.at((..., t, slice(None))), np.asarray(self.clock)[..., t]
        return NumberScene(self.payoff, forecast, self.base_A[..., t], temperature, clock, scale, plays, context)


def number_scene(
    payoff: Payoff, forecast: Forecast, known: Known | None, temperature: Any, clock: Any, references: int = 0
) -> NumberScene:
    """The scene of a step with this ``forecast`` and all else ``known``; a silent reference plays as it does."""
    said = known or Known()
    payoff = payoff if said.utility is None else said.utility
    base_A = response(payoff, forecast, temperature, clock)
    plays_NxA = None
    if references and said.laws_NxS is not None:  # what each of them forecasts
        plays_NxA = np.stack([response(payoff, each, temperature, clock) for each in said.laws_NxS])
    elif references:
        plays_NxA = np.broadcast_to(base_A, (references, *base_A.shape))
    return NumberScene(payoff, forecast, base_A, temperature, clock, said.scale, plays_NxA, said.context)


def response(payoff: Payoff, forecast: Forecast, temperature: Any, clock: Any) -> np.ndarray:
    """The quantal response ``[A, ...]`` to a forecast; at a temperature of 0 the best response."""
    law = forecast.law(payoff, clock)
    worth_A = (payoff.utilities(law.points) * law.weights).sum(axis=-1)
    best = isinstance(temperature, float) and temperature == 0
    chances_A: np.ndarray = best_of(worth_A) if best else softmax(worth_A / temperature)
    return chances_A
