"""Rules that know the decision problem (Algorithm 1): they compare the responses to the base model and the fallback."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .. import inputs
from ..arrays import Array, astype, detached, first, in_float64, mix, pick
from ..certificates import Certificate, certify
from ..policies import Policy, Recovery
from ..predictors import PolyaUrn, Predictor, same_states
from ..problems import DecisionProblem, a_problem, leads, same_problem
from .contract import Moment, Rule

UNKNOWN_HORIZON = (
    "horizon=None (unknown) needs an explicit delta, the chance of a false switch (TV bound) to keep for ever: "
    "rule=ExactTest(problem, None, delta=...)"
)


def delta_for(delta: Any, horizon: int | None) -> float:
    """The TV bound: as it is given, or 1/horizon where that is known."""
    if delta is None:
        if horizon is None:
            raise ValueError(UNKNOWN_HORIZON)
        delta = 1 / max(horizon, 2)
    return inputs.probability(delta, "delta")


@dataclass(frozen=True)
class ResponseRule(Rule):
    """Rules that know the problem: they compare the responses to base and fallback.

    ``temperature=None`` is 1/sqrt(horizon), ``fallback=None`` the Polya urn. With ``horizon=None`` (unknown) the
    temperature follows ``problem.anytime_temperature``. A fallback may also be a policy: its mixed action then stands
    where the response to a law would, and the rule is for ``Guard`` only.
    """

    problem: DecisionProblem
    horizon: int | None
    temperature: float | None = field(default=None, kw_only=True)
    fallback: Predictor | Policy | Recovery = field(default=None, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        a_problem(self.problem)
        keep = partial(object.__setattr__, self)
        keep("horizon", inputs.horizon_or_none(self.horizon))
        if self.temperature is not None:
            keep("temperature", self._temperature_of(self.temperature))
        elif self.horizon is not None:
            keep("temperature", 1 / math.sqrt(self.horizon))
        if self.fallback is None:
            keep("fallback", self._usual_fallback())
        self._refuse_misfit(self.horizon)

    def _temperature_of(self, temperature: Any) -> float:
        return inputs.positive(temperature, "temperature")

    def _usual_fallback(self) -> Predictor | Policy | Recovery:
        """What replaces the base model unless another fallback is given."""
        return PolyaUrn(self.problem.n_states)

    @property
    def n_states(self) -> int:
        return self.problem.n_states

    @property
    def pointless(self) -> bool:
        return self.problem.span == 0

    @property
    def certificate(self) -> Certificate:
        """None to speak of, unless a rule says otherwise."""
        return certify(self.problem, self.horizon, self.temperature, self.fallback, None, 1.0, type(self).__name__)

    def temperature_at(self, step: Any) -> Any:
        """The temperature of the quantal response at ``step``, counted from 1."""
        return self.problem.anytime_temperature(step) if self.temperature is None else self.temperature

    @property
    def n_comparators(self) -> int:
        return self.problem.n_actions

    def leads(self, answer_A1: Array, token: Array) -> Array:
        return leads(self.problem, token, answer_A1)

    def gains(self, moment: Moment) -> tuple[Array, Array]:
        """What the fallback's response gains over the base's: in every state ``[S, ...]``, and in the one that came."""
        gain_S = mix(self.problem.advantage.T, moment.fallback_A1 - moment.base_A1)
        return gain_S, pick(gain_S, moment.token)

    def moment(self, probs: Array, answer: Array | None, token: Array | None, step: Array) -> Moment:
        probs_S, temperature = first(in_float64(detached(probs))), self.temperature_at(step)
        base_A1, fallback_A1 = self.problem.chances(probs_S, temperature), None
        if answer is not None:
            answer_S = first(astype(detached(answer), probs_S.dtype))
            fallback_A1 = answer_S[1:] if self.fallback_acts else self.problem.chances(answer_S, temperature)
        return Moment(base_A1, fallback_A1, probs_S, token)

    def _refuse_misfit(self, horizon: int | None) -> None:
        """A fallback for another alphabet, for another problem, or for fewer steps."""
        if self.in_play.follows:  # it was made for this problem and horizon
            if self.compares:
                raise ValueError(
                    f"fallback {type(self.fallback).__name__} goes by what the base model says, and "
                    f"{type(self).__name__} bets on how the fallback differs from it: use a rule that bets on actions"
                )
            if not self.tells_fallback:
                raise ValueError(
                    f"fallback {type(self.fallback).__name__} goes by what the base model says, which "
                    f"{type(self).__name__} does not tell it: use an ExactTest, or a fallback such as PolyaUrn"
                )
            return
        if not self.fallback_acts:
            same_states(self.fallback, self.problem)
        name = type(self.fallback).__name__
        made_for, lasts = getattr(self.fallback, "problem", self.problem), getattr(self.fallback, "horizon", None)
        same_problem(f"fallback {name} was made for another problem", made_for, self.problem)
        if lasts is not None and (horizon is None or horizon > lasts):
            steps = "an unknown number of" if horizon is None else horizon
            raise ValueError(f"fallback {name} was made for {lasts} steps, the rule may run for {steps} steps")
