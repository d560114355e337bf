"""The exact test of a robust predictor: bets against the base model under its own law (``rules/bets.py``)."""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, astype, copied, first, first_true, in_float64, last, namespace, some, total
from ..certificates import Certificate, every_start, switching
from ..certificates.switching import certify_switch
from ..policies import Recovery
from ..predictors import Predictor
from ..problems import Scene, scene_of
from .bets import LEAST_DELTA, Bets, Offer, Suspicion, Wealth
from .contract import Moment, RuleMemory, spliced
from .response import ResponseRule, delta_for

TOP = 2.0  # no rate above TOP / span: higher ones alarm on models that are miscalibrated but useful


@dataclass(frozen=True)
class ExactTest(ResponseRule):
    """The default: a bet against the base model that, if the model is right, grows past 1/delta with chance delta.

    The base model states the exact law of the next state, so what a bettor expects to win under it is known exactly:
    its wealth is a supermartingale, and no union over time is needed. Bettors on every action join at every step, so a
    break is found however late it comes (``rules/bets.py`` has the theorem).

    Parameters
    ----------
    delta
        The TV bound; 1/horizon by default, required with ``horizon=None``.
    temperature
        Of the responses to forecasts: 1/sqrt(horizon) by default, 0 for best responses, which most people play.
    fallback
        What is played after an alarm.

    >>> from lowregret import matching
    >>> rule = ExactTest(matching(), horizon=1024, delta=2 / 1024)
    >>> print(f"{rule.certificate.regret_bound:.4f} {rule.certificate.tv_bound:.6f}")
    0.0908 0.001953
    """

    delta: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        delta = delta_for(self.delta, inputs.horizon_or_none(self.horizon))
        if delta < LEAST_DELTA:
            raise ValueError(f"delta must be at least {LEAST_DELTA:g}, got {delta:g}")
        inputs.keep(self, delta=delta)
        super().__post_init__()

    def _temperature_of(self, temperature: Any) -> float:
        return inputs.not_negative(temperature, "temperature")

    def _usual_fallback(self) -> Recovery:
        """A mixture from which the model can return."""
        return Recovery()

    def _refuse_misfit(self, horizon: int | None) -> None:
        if self.temperature == 0 and isinstance(self.fallback, Predictor):
            raise ValueError(
                f"fallback {type(self.fallback).__name__} is a law, and the best response to a law that learns may "
                "lose every step: take Recovery(), a policy such as AdaHedge, or a temperature above 0 "
                "(temperature=horizon**-0.5 answers laws at random)"
            )
        super()._refuse_misfit(horizon)

    # What it is made of

    @property
    def compares(self) -> bool:
        return False

    @property
    def tells_fallback(self) -> bool:
        return True

    @cached_property
    def prior(self) -> every_start.Prior:
        """How the capital is shared."""
        made = self.problem, self.horizon, self.delta, self.temperature, TOP, self.n_comparators
        falls = self.horizon is None or self.temperature is None
        return every_start.joint_prior(*made, opening=0.5 if falls and self.temperature == 0 else 0.0)

    @cached_property
    def bets(self) -> Bets:
        """The bettors."""
        return Bets(self.prior, self.problem.span, self.problem.n_actions)

    @property
    def rates_K(self) -> np.ndarray:
        """The betting rates lambda_k."""
        return self.prior.rates_K

    @property
    def log_costs_K(self) -> np.ndarray:
        """ln(1 / (m delta)): what a bettor from the first step on must reach for the alarm to sound on its own."""
        return self.prior.log_costs_K(self.delta)

    # A step

    def scene(self, probs: Array, step: Array) -> Scene:
        """All that is known of a step."""
        return scene_of(self.problem, probs, self.temperature_at(step))

    def look(self, memory: RuleMemory, probs: Any) -> Moment:
        scene = self.scene(probs, memory.step + 1)
        fallback_A1 = self._fallback_plays(memory, scene)[1:] if some(memory.tripped_at) else None
        return Moment(scene.base_A[1:], fallback_A1, scene.law_S, None, scene)

    def moment(self, probs: Array, answer: Array | None, token: Array | None, step: Array) -> Moment:
        scene = self.scene(probs, step)
        return Moment(scene.base_A[1:], None, scene.law_S, token, scene)

    def _fallback_plays(self, memory: RuleMemory, scene: Scene) -> Array:
        own = self.in_play
        if own.follows:
            return own.fallback.policy(memory.fallback, scene)
        said_S = first(astype(own.answer(memory.fallback, tuple(memory.step.shape)), scene.law_S.dtype))
        return said_S if own.acts else scene.respond(said_S)

    def fallback_answer(self, memory: RuleMemory, probs: Array) -> Array:
        own = self.in_play
        if not own.follows:
            return super().fallback_answer(memory, probs)
        scene = self.scene(probs, memory.step + 1)
        return last((own.fallback.policy if own.acts else own.fallback.law)(memory.fallback, scene))

    def law(self, memory: RuleMemory, probs: Any) -> Any:
        own = self.in_play
        if not some(memory.tripped_at) or (own.acts and not own.follows):
            return copied(probs)
        if own.follows:
            said = last(own.fallback.law(memory.fallback, self.scene(probs, memory.step + 1)))
        else:
            said = self.fallback_answer(memory, probs)
        return spliced(self.tripped(memory), said, probs)

    def _fallback_after(self, memory: RuleMemory, moment: Moment, token: Array) -> Any:
        own = self.in_play
        if not own.follows:
            return super()._fallback_after(memory, moment, token)
        return own.fallback.update(memory.fallback, moment.known, token, self.tripped(memory))

    def share(self, memory: RuleMemory) -> Array:
        """How much of what is played next is the base model's: all until the trip, then its part of the mixture."""
        own = self.in_play
        if not own.follows:
            return super().share(memory)
        return 1 - in_float64(self.tripped(memory)) * (1 - own.fallback.share_of_base(memory.fallback))

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> Wealth:
        return self.bets.blank(shape, xp, where)

    def judge(self, statistics: Wealth, step: Array, moment: Moment) -> tuple[Wealth, Array]:
        scene, outcome = moment.known, moment.token
        excluded, law_S = scene.excluded(outcome), scene.law_S / total(scene.law_S)
        offer = Offer(scene.gains_together(), law_S, outcome)
        now, level = self.bets.after(statistics, step, offer, excluded)
        return now, (level * self.delta >= 1) | excluded

    # Recorded sequences

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        scene, states = moment.known, moment.token
        law_S = scene.law_S / total(scene.law_S)
        level_NxT = self.bets.levels(scene.gains(), law_S, states)
        return first_true((level_NxT * self.delta >= 1) | scene.excluded(states)) + 1

    def replaced(self, probs: Array, tokens: Array) -> tuple[Array, Array]:
        if not self.in_play.follows:
            return super().replaced(probs, tokens)
        alarms = self.first_trips(probs, tokens)
        return self.in_play.fallback.laws_beside(probs, tokens, alarms), alarms

    # What can be read

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """ln E_t and ln(1 / delta); infinite once a state came that the base model had excluded."""
        level = self.bets.together(memory.statistics)
        xp = namespace(level)
        statistic = xp.where(memory.statistics.impossible, xp.zeros_like(level) + math.inf, xp.log(level))
        return statistic, xp.zeros_like(statistic) - math.log(self.delta)

    def suspicion(self, memory: RuleMemory) -> Suspicion:
        """What the richest bettor of each stream bets on."""
        return self.bets.suspicion(memory.statistics)

    @cached_property
    def certificate(self) -> Certificate:
        """Statement (iv) of ``certificates.every_start``."""
        fallback, made = self.in_play.fallback, (self.problem, self.prior, self.delta, self.temperature)
        return certify_switch(
            self.problem,
            self.horizon,
            self.temperature,
            fallback,
            before=partial(switching.before, *made, 1, False),
            interval=partial(switching.interval, *made),
            tv_bound=self.delta,
            theorem="the exact test on every action" + (", unknown horizon" if self.horizon is None else ""),
            sharper=partial(switching.before, *made, 1, True) if self.temperature == 0 else None,
            counts_model=getattr(fallback, "counts_model", False),
        )
