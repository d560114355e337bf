"""The exact test told more than the model's law: incumbents, contexts, payoffs that change.

The test needs two things at a step: what a comparator would gain over the player in each state, and the law that the
model states. Everything known before the state may enter. The theorem of ``every_start.py`` then holds with these
comparators; what a bet is charged at most is found for pure actions, and covers mixed ones since a charge is convex in
what is bet on.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, copied, device, first, last, namespace
from ..certificates import Certificate, every_start
from ..certificates.coupled import certificate_temperature
from ..certificates.exact_charge import quick_main_rate
from ..memory import with_row
from ..policies import Incumbent, InformedRecovering, PlaysReference, Recovery
from ..problems import DecisionProblem, Scene, a_problem, widest
from .every_start import Suspicion
from .exact import TOP
from .in_play import InPlay
from .informed_alone import step_alone
from .informed_bets import InformedBets, InformedStatistics
from .informed_promises import certificate_of, pays_from
from .informed_recorded import recorded, trip_times
from .informed_scene import scene_of
from .moment import Known, Knows, Moment, RuleMemory, names_of, spliced
from .response import UNKNOWN_HORIZON, ResponseRule


@dataclass(frozen=True)
class InformedTest(ResponseRule):
    """The exact test told more than the model's law before each state: ``Guard`` builds it where it is needed.

    Parameters
    ----------
    delta
        The TV bound; 1/horizon by default, required with ``horizon=None``.
    references
        Names of those who are compared with beside the fixed actions.
    contexts
        How many there are; then a fixed action *for each* is compared with. Needs a horizon.
    payoffs
        "scaled": a step may count less than the problem says. "change": payoffs are told each step, within the range
        that the problem declares; the bounds are then for the largest span that leaves.
    actions
        False: the references alone are compared with.
    references_act
        They give mixed actions. Where there are not as many actions as states this need not be said.
    fallback
        ``Recovery`` (without a ``safe`` of its own: it is Hedge over all comparators), or an ``Incumbent``.

    >>> from lowregret import matching
    >>> rule = InformedTest(matching(), 1000, delta=0.01, references=("today's model",))
    >>> print(f"{rule.certificate.regret_bound:.4f} {rule.certificate.tv_bound}")
    0.0887 0.01
    """

    delta: float = None  # type: ignore[assignment]
    references: tuple[str, ...] = ()
    contexts: int | None = None
    payoffs: str = "scaled"
    actions: bool = True
    references_act: bool = False

    def __post_init__(self) -> None:
        a_problem(self.problem)
        horizon = inputs.horizon_or_none(self.horizon)
        if self.delta is None and horizon is None:
            raise ValueError(UNKNOWN_HORIZON.replace("ExactTest", "InformedTest"))
        delta = 1 / max(horizon or 2, 2) if self.delta is None else self.delta
        contexts = None if self.contexts is None else inputs.whole(self.contexts, "contexts")
        inputs.keep(
            self,
            delta=inputs.probability(delta, "delta"),
            references=names_of(self.references),
            contexts=contexts,
            payoffs=inputs.choice(self.payoffs, "payoffs", ("scaled", "change")),
            actions=inputs.flag(self.actions, "actions"),
            references_act=inputs.flag(self.references_act, "references_act"),
        )
        if contexts is not None and horizon is None:
            raise ValueError("contexts need a horizon: what each of them may cost is shared out over it, got None")
        if not self.actions and (not self.references or contexts is not None):
            raise ValueError("actions=False compares with references alone: it needs some, and no contexts")
        if isinstance(self.temperature, str) and self.temperature == "certificate":
            if horizon is None:
                raise ValueError('temperature="certificate" needs a horizon: give a number')
            inputs.keep(self, temperature=self._certificate_temperature(horizon))
        super().__post_init__()

    def _usual_fallback(self) -> Recovery:
        return Recovery()

    def _refuse_misfit(self, horizon: int | None) -> None:
        fallback = self.fallback
        if isinstance(fallback, Incumbent):
            if fallback.name not in self.references:
                raise ValueError(
                    f"fallback must be one of the references {self.references}, got {inputs.shown(fallback.name)}"
                )
        elif not isinstance(fallback, Recovery) or fallback.safe is not None:
            raise ValueError(
                "fallback must be a Recovery without a safe of its own (it is Hedge over all comparators), or an "
                f"Incumbent, got {inputs.shown(fallback)}"
            )

    def _certificate_temperature(self, horizon: int) -> float:
        if self.stakes.contrast == 0 or self.problem.n_actions == 1:
            return 1 / math.sqrt(horizon)  # nothing to gain
        return certificate_temperature(self.stakes, self._per_context(horizon), self._main_cost)

    # What it is made of

    @property
    def knows(self) -> Knows:
        return Knows(self.references, self.contexts, self.payoffs, self.references_act)

    @cached_property
    def stakes(self) -> DecisionProblem:
        """A problem with the span and the contrast of all that may come: the bounds are its."""
        return widest(self.problem) if self.payoffs == "change" else self.problem

    @property
    def pointless(self) -> bool:
        return self.stakes.span == 0

    @property
    def compares(self) -> bool:
        return False

    @property
    def rows(self) -> int:
        """How many contexts, 1 where there are none."""
        return 1 if self.contexts is None else self.contexts

    @property
    def n_comparators(self) -> int:
        return self.rows * (self.problem.n_actions if self.actions else 0) + len(self.references)

    def _per_context(self, horizon: int) -> int:
        return -(-horizon // self.rows)

    @property
    def _main_cost(self) -> float:
        return every_start.main_log_cost(self.delta, self.n_comparators)

    @cached_property
    def bets(self) -> InformedBets:
        """The bettors: the main rate suits contexts that share the horizon evenly, where the bounds are largest."""
        stakes, main, prior = self.stakes, None, None
        if self.horizon is not None and self.temperature is not None:
            steps = self._per_context(self.horizon)
            if self.payoffs == "scaled":
                main = quick_main_rate(stakes, steps, self.temperature, self._main_cost)
            prior = every_start.joint_prior(stakes, steps, self.delta, self.temperature, TOP, self.n_comparators, main)
            prior = replace(prior, horizon=self.horizon)  # any context may have all the steps
        else:
            prior = every_start.joint_prior(stakes, None, self.delta, self.temperature, TOP, self.n_comparators)
        A = self.problem.n_actions if self.actions else 0
        return InformedBets(stakes, prior, self.delta, A, self.rows, len(self.references))

    @property
    def rates_K(self) -> np.ndarray:
        """The betting rates lambda_k."""
        return self.bets.rates_K

    @cached_property
    def in_play(self) -> InPlay:
        N, A, back = len(self.references), self.problem.n_actions, self.fallback
        if isinstance(back, Incumbent):
            alone = N == 1 and not self.actions
            made: Any = PlaysReference(back.name, self.references.index(back.name), self.references_act, alone)
            return InPlay(made, True, made.acts, A if made.acts else self.n_states, True)
        assert isinstance(back, Recovery)
        laws = 0 if self.references_act else N
        made = InformedRecovering(
            self.problem, self.stakes, self.horizon, self.rows, N, laws, back.memories, back.share, back.budget
        )
        return InPlay(made, True, True, A, True)

    # A step

    def temperature_at(self, step: Any) -> Any:
        return self.stakes.anytime_temperature(step) if self.temperature is None else self.temperature

    def scene(self, probs: Array, known: Known | None, step: Array) -> Scene:
        """All that is known of a step, with what the references would play."""
        utility = self.problem.utility if known is None or known.utility is None else known.utility
        return scene_of(probs, utility, known or Known(), self.temperature_at(step), len(self.references))

    def look(self, memory: RuleMemory, probs: Array, known: Known | None = None) -> Moment:
        scene, fallback_A1 = self.scene(probs, known, memory.step + 1), None
        if not self._idle(self.tripped(memory)):
            fallback_A1 = first(self.in_play.fallback.policy_in(memory.fallback, scene))[1:]
        return Moment(first(scene.base)[1:], fallback_A1, first(scene.probs), None, scene)

    def moment(self, probs: Array, answer: Array | None, token: Array | None, step: Array) -> Moment:
        scene = self.scene(probs, None, step)
        return Moment(first(scene.base)[1:], None, first(scene.probs), token, scene)

    def fallback_answer(self, memory: RuleMemory, probs: Array, known: Known | None = None) -> Array:
        own, scene = self.in_play, self.scene(probs, known, memory.step + 1)
        return (own.fallback.policy_in if own.acts else own.fallback.law_in)(memory.fallback, scene)

    def law(self, memory: RuleMemory, probs: Array, known: Known | None = None) -> Array:
        late = self.tripped(memory)
        return copied(probs) if self._idle(late) else spliced(late, self.fallback_answer(memory, probs, known), probs)

    def leads(self, answer_A1: Array, token: Array, known: Any = None) -> Array:
        """What each comparator earned more than the answer: actions, context by context, then references."""
        scene: Scene = known
        xp, A = namespace(answer_A1), self.problem.n_actions
        paid, rest = scene.paid(token), last(answer_A1)
        own = paid[..., 0] + xp.sum(rest * (paid[..., 1:A] - paid[..., :1]), axis=-1)
        lead = paid - own[..., None]
        if not self.actions:
            return first(lead[..., A:])
        return first(lead if scene.context is None else self.widened(lead, scene.context))

    def widened(self, lead: Array, context: Any) -> Array:
        """What the comparators of one context earned more, among those of all: ``[..., C A + N]``."""
        if self.contexts is None:
            return lead
        xp, A, shape = namespace(lead), self.problem.n_actions, tuple(lead.shape[:-1])
        wide = xp.zeros((*shape, self.rows, A), dtype=lead.dtype, device=device(lead))
        wide = with_row(wide, xp.asarray(context), lead[..., :A])
        return xp.concat([xp.reshape(wide, (*shape, self.rows * A)), lead[..., A:]], axis=-1)

    def _alone(
        self, memory: RuleMemory, probs: np.ndarray, token: int, known: Known | None
    ) -> tuple[RuleMemory, np.ndarray] | None:
        return step_alone(self, memory, probs, token, known)

    def worst_lead(self, lead: Array) -> Array:
        """The largest: an action for each context, or a reference."""
        if self.contexts is None:
            return super().worst_lead(lead)
        xp, at = namespace(lead), self.rows * self.problem.n_actions
        by_context = xp.reshape(lead[..., :at], (*lead.shape[:-1], self.rows, self.problem.n_actions))
        best = xp.sum(xp.max(by_context, axis=-1), axis=-1)
        return xp.maximum(best, xp.max(lead[..., at:], axis=-1)) if self.references else best

    def comparator(self, index: int) -> tuple[int | None, str | None, int | None]:
        A = self.problem.n_actions if self.actions else 0
        if index >= self.rows * A:
            return None, self.references[index - self.rows * A], None
        return index % A, None, None if self.contexts is None else index // A

    def _fallback_after(self, memory: RuleMemory, moment: Moment, token: Array) -> Any:
        return self.in_play.fallback.update_in(memory.fallback, moment.known, token, self.tripped(memory))

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> InformedStatistics:
        return self.bets.blank(shape, xp, where)

    def judge(self, statistics: InformedStatistics, step: Array, moment: Moment) -> tuple[InformedStatistics, Array]:
        scene = moment.known
        return self.bets.judge(statistics, step, self.gains_in(scene), scene.probs, moment.token, scene.context)

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """ln E_t and ln(1 / delta); infinite once a token came that the base model had excluded."""
        level = self.bets.log_total(memory.statistics, memory.step)
        xp = namespace(level)
        statistic = xp.where(memory.statistics.impossible, xp.zeros_like(level) + math.inf, level)
        return statistic, xp.zeros_like(statistic) - math.log(self.delta)

    def suspicion(self, memory: RuleMemory) -> Suspicion:
        return self.bets.suspicion(memory.statistics)

    def gains_in(self, scene: Scene) -> Array:
        """What each comparator gains over the response to the base, in every state, ``[..., P, S]``."""
        gains = scene.gains()
        return gains if self.actions else gains[..., self.problem.n_actions :, :]

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        return recorded(self, step_T, moment.known, moment.token)

    def trip_times(self, probs: Array, tokens: Array, known: Known | None = None) -> Array:
        """The number of tokens seen when the rule tripped, ``[...]``; T + 1 for never.

        ``known`` has what was known before each state, with an axis of time after those of streams; unchecked.
        """
        return super().trip_times(probs, tokens) if known is None else trip_times(self, probs, tokens, known)

    @cached_property
    def certificate(self) -> Certificate:
        return certificate_of(self)

    def pays_from(self, gain: float) -> int | None:
        """From how many of its steps on a context pays for itself: what may be lost in it is less than ``gain`` a step.

        By so much, in utility, its own best action is better there than the best for all. None: not by the horizon.
        """
        return pays_from(self, inputs.positive(gain, "gain"))
