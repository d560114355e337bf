"""The every-start test for outcomes that are numbers: bets on every action, charged by what the forecast says.

Nothing in the theorem needs states: a bettor on action c at rate lam_k wins exp(lam_k x_c(outcome)), and is charged
chi, such that the mean of exp(lam_k x_c - chi) is at most 1 if the forecast is right. ``forecasts/contract.py`` says
what each form charges; charges below 0 are raised to 0, as in the test for states.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import first_true, last, softmax
from ..certificates.coupled import kappa
from ..certificates.every_start import Prior, joint_prior
from ..forecasts import Charged, Forecast
from ..memory import where as choose
from ..policies.experts import ExpertHedge, ExpertMemory
from ..policies.trust import trust_after
from ..problems import Gains, Payoff
from .bets import Bets, Offer, Suspicion, Wealth
from .exact import TOP


class OutcomeMemory(NamedTuple):
    step: np.ndarray  # [...], outcomes seen
    tripped_at: np.ndarray  # [...], outcomes seen at the alarm, 0 for never
    bets: Wealth  # as they were at the alarm, from then on
    paid_CxK: np.ndarray  # [..., C, K], all charges before the step of the alarm
    experts: ExpertMemory  # the fallback: the actions, and the response to the model
    trusted: np.ndarray  # [...], whether the model has returned since the alarm, and not gone again
    turned_at: np.ndarray  # [...], outcomes seen when that last changed, 0 for never


class Seen(NamedTuple):
    """What is known before an outcome."""

    response_A: np.ndarray  # [A, ...], the quantal response to the forecast
    played_A: np.ndarray  # [A, ...], what is played: the response until the alarm, the fallback from then on


@dataclass(frozen=True, eq=False)
class OutcomeTest:
    """When to stop trusting forecasts of a number, and what to do then: the exact test, at the outcome itself.

    After an alarm it plays ``ExpertHedge`` over the actions and the response to the forecasts, begun afresh: it returns
    to the model as far as that earns more.

    Parameters
    ----------
    problem
        The ``Payoff``.
    delta
        How likely a switch may be if the forecasts are right; 1/horizon by default, required with ``horizon=None``.
    temperature
        Of the response to the forecasts, in utility (payoffs mapped onto [-1, 1]); 1/sqrt(horizon) by default.

    >>> from lowregret import Payoff, Quantiles
    >>> payoff = Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    >>> test = OutcomeTest(payoff, horizon=200)
    >>> rises = Quantiles([0.1, 0.9], np.tile([0.1, 0.8], (100, 1)))  # expects a rise each day
    >>> int(test.trip_times(rises, np.full(100, 0.4))), int(test.trip_times(rises, np.full(100, -0.4)))
    (101, 21)
    """

    problem: Payoff
    horizon: int | None
    delta: float | None = None
    temperature: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.problem, Payoff):
            raise ValueError(
                f"problem must be a Payoff, got {type(self.problem).__name__}: ExactTest is for a DecisionProblem"
            )
        horizon = inputs.horizon_or_none(self.horizon)
        if self.delta is None and horizon is None:
            raise ValueError(
                "horizon=None (unknown) needs an explicit delta: rule=OutcomeTest(payoff, None, delta=...)"
            )
        delta = inputs.probability(1 / max(horizon or 2, 2) if self.delta is None else self.delta, "delta")
        warmth = self.temperature
        if warmth is None and horizon is not None:
            warmth = 1 / math.sqrt(horizon)
        warmth = None if warmth is None else inputs.positive(warmth, "temperature")
        inputs.keep(self, horizon=horizon, delta=delta, temperature=warmth)

    @cached_property
    def bets(self) -> Bets:
        """The bettors."""
        assert self.delta is not None
        prior = joint_prior(self.problem, self.horizon, self.delta, self.temperature, TOP)  # type: ignore[arg-type]
        return Bets(prior, self.delta, self.problem.span, self.problem.n_actions)

    @property
    def prior(self) -> Prior:
        return self.bets.prior

    @cached_property
    def kappa_K(self) -> np.ndarray:
        """What a step is charged at most where the forecast is a whole law, at the temperature of all steps."""
        return kappa(self.problem, self.prior.rates_K, self.temperature)  # type: ignore[arg-type]

    @cached_property
    def fallback(self) -> ExpertHedge:
        """What is played after an alarm, over the actions and the response to the forecast."""
        return ExpertHedge(self.problem.n_actions + 1, self.problem.span)

    def start(self, batch_shape: tuple[int, ...] = ()) -> OutcomeMemory:
        """The memory before the first outcome."""
        shape = inputs.batch_shape_of(batch_shape)
        bets, none = self.bets.blank(shape, np, None), np.zeros(shape, dtype=np.int64)
        flat = np.zeros(bets.wealth.shape)
        return OutcomeMemory(none, none, bets, flat, self.fallback.start(shape), np.zeros(shape, dtype=bool), none)

    def fits(self, forecast: Any, shape: tuple[int, ...], of: str = "streams") -> Forecast:
        """The forecast, refused unless it is one of this shape that the payoff can be judged by."""
        if not isinstance(forecast, Forecast):
            raise ValueError(
                f"forecast must be Samples, Quantiles or a Density, got {type(forecast).__name__}: with a Payoff, "
                "advise(Quantiles(levels, values)); probabilities of states go with a DecisionProblem"
            )
        if forecast.batch_shape != shape:
            raise ValueError(f"forecast must be for {of} of shape {shape}, got {forecast.batch_shape}")
        forecast.refuse_misfit(self.problem)
        return forecast

    # A step at a time

    def look(self, memory: OutcomeMemory, forecast: Forecast, clock: Any) -> Seen:
        """Both mixed actions for a forecast, checked before."""
        response_A = self._response(forecast, clock, memory.step + 1)
        late = memory.tripped_at > 0
        if not late.any():
            return Seen(response_A, response_A)
        weights_N = np.moveaxis(self.fallback.policy(memory.experts), -1, 0)
        return Seen(response_A, np.where(late, weights_N[:-1] + weights_N[-1] * response_A, response_A))

    def advance(
        self, memory: OutcomeMemory, forecast: Forecast, seen: Seen, outcome: np.ndarray, clock: Any
    ) -> tuple[OutcomeMemory, np.ndarray]:
        """The memory after the outcome, and what each action was paid ``[..., A]``."""
        utility_A, step = self.problem.paid(outcome), memory.step + 1
        offer, charges_CxK = self._offered(forecast, seen.response_A, utility_A, outcome, clock)
        live = memory.tripped_at == 0
        bets, reached = self.bets.after(memory.bets, step, offer, forecast.excludes(outcome))
        alarm = live & reached
        own = (seen.response_A * utility_A).sum(axis=0)
        after = OutcomeMemory(
            step,
            np.where(alarm, step, memory.tripped_at),
            choose(live, bets, memory.bets),
            memory.paid_CxK + np.where((live & ~alarm)[..., None, None], charges_CxK, 0.0),
            memory.experts,
            memory.trusted,
            memory.turned_at,
        )
        if not live.all():
            after = self._fallen_back(after, ~live, last(np.concatenate([utility_A, own[None]])))
        return after, last(utility_A)

    def _fallen_back(self, memory: OutcomeMemory, late: np.ndarray, paid_N: np.ndarray) -> OutcomeMemory:
        """The fallback learns where it was in force, and the model may have returned."""
        experts = choose(late, self.fallback.update(memory.experts, paid_N), memory.experts)
        share = self.fallback.policy(experts)[..., -1]
        return trust_after(memory._replace(experts=experts), share, late, memory.step)

    # Readings

    def share(self, memory: OutcomeMemory) -> np.ndarray:
        """How much of what is played next is the model's, ``[...]``."""
        return np.where(memory.tripped_at > 0, self.fallback.policy(memory.experts)[..., -1], 1.0)

    def evidence(self, memory: OutcomeMemory) -> tuple[np.ndarray, np.ndarray]:
        """ln E_t and ln(1 / delta); as they were at the alarm, from then on."""
        assert self.delta is not None
        at = np.where(memory.tripped_at > 0, memory.tripped_at, memory.step)
        level = np.where(memory.bets.impossible, math.inf, self.bets.log_total(memory.bets, at))
        return level, np.full(level.shape, -math.log(self.delta))

    def suspicion(self, memory: OutcomeMemory) -> Suspicion:
        """What the richest bettor of each stream bets on."""
        return self.bets.suspicion(memory.bets)

    # Recorded sequences

    def trip_times(self, forecast: Forecast, outcomes: Any) -> np.ndarray:
        """How many outcomes each sequence ``[..., T]`` had at its alarm, T + 1 for never; a forecast for each step."""
        outcomes = self.problem.outcomes_of(outcomes)
        if outcomes.ndim == 0 or outcomes.shape[-1] == 0:
            raise ValueError(f"outcomes must have a last axis of at least one time step, got shape {outcomes.shape}")
        T = outcomes.shape[-1]
        if self.horizon is not None and self.horizon < T:
            raise ValueError(f"outcomes are longer than the rule's horizon: {T} steps, {self.horizon}")
        self.fits(forecast, outcomes.shape, "outcomes")
        clock, step_T = np.arange(T), np.arange(1, T + 1)
        response_A = self._response(forecast, clock, step_T)
        offer, _ = self._offered(forecast, response_A, self.problem.paid(outcomes), outcomes, clock)
        gain_PxM, weights_M, came_P = (
            part.reshape(*part.shape[: part.ndim - outcomes.ndim], -1, T)
            for part in (offer.gain_PxM, offer.weights_M, offer.came())
        )
        level = self.bets.levels(weights_M, zip(gain_PxM, came_P, strict=True))
        alarm = (level * self.delta >= 1).reshape(outcomes.shape) | forecast.excludes(outcomes)
        return first_true(alarm) + 1

    def _response(self, forecast: Forecast, clock: Any, step: np.ndarray) -> np.ndarray:
        law = forecast.law(self.problem, clock)
        mean_A = (self.problem.utilities(law.points) * law.weights).sum(axis=-1)
        return softmax(
            mean_A / (self.problem.anytime_temperature(step) if self.temperature is None else self.temperature)
        )

    def _offered(
        self, forecast: Forecast, response_A: np.ndarray, utility_A: np.ndarray, outcome: np.ndarray, clock: Any
    ) -> tuple[Offer, np.ndarray]:
        """What is bet on, and what each bettor is charged, ``[..., C, K]``."""
        came_C = utility_A - (response_A * utility_A).sum(axis=0)
        charged = forecast.charged(Gains(self.problem, response_A), outcome, clock)
        charges = np.stack([log_charge(charged, float(rate)) for rate in self.prior.rates_K], axis=-1)  # [C, ..., K]
        offer = Offer(np.moveaxis(charged.gains_C, -1, 1), np.moveaxis(charged.weights, -1, 0), came_C)
        return offer, np.moveaxis(charges, 0, -2)


def log_charge(charged: Charged, rate: float) -> np.ndarray:
    """ln max(1, sum_m weights exp(rate gains)), ``[C, ...]``."""
    excess_C = (charged.weights * np.expm1(charged.gains_C * rate)).sum(axis=-1)
    return np.log1p(np.clip(excess_C, 0.0, None))
