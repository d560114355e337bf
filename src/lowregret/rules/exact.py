"""The exact test: bets against the base model under its own law, sharper than any threshold on regret.

It needs two things at a step: what a comparator gains over the player, and what the forecast charges for a bet on it.
Everything known before the outcome may enter: incumbents, contexts, payoffs that change. What a bet is charged at most
is found for pure actions, and covers mixed ones since a charge is convex in what is bet on.

Nothing here asks whether outcomes are states, of which the model states a law, or numbers, of which it says samples
or quantiles: the *scene* of a step knows (``problems.Scene``, ``forecasts.NumberScene``).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import (
    Array,
    astype,
    beside,
    compiler_installed,
    copied,
    device,
    first,
    first_true,
    in_float64,
    last,
    namespace,
    pick,
    some,
    to_numpy,
    total,
)
from ..certificates import Certificate, every_start
from ..certificates.realised import Promise
from ..files import compiled
from ..forecasts import Forecast, NumberScene, number_scene
from ..memory import where as choose
from ..memory import with_row
from ..policies import AmongExperts, Incumbent, PlaysReference, Recovering, Recovery
from ..policies.shadow import run_shadow
from ..predictors import Predictor
from ..problems import DecisionProblem, Known, Payoff, Scene, a_problem, each_step, scene_of, widest
from . import promises, second_bettor
from .bets import LEAST_DELTA, Bets, Offer, Suspicion, Wealth
from .contract import InPlay, Knows, Moment, RuleMemory, in_play, names_of, spliced
from .kernels import back, bet
from .response import ResponseRule, delta_for

TRUST = 0.9  # of the weight in the mixture, what the model has at first where there is no test
_PAIRS = 1 << 16  # numbers: so many are kept to make one stream quick
TOP = 2.0  # no rate above TOP / span: higher ones alarm on models that are miscalibrated but useful


@dataclass(frozen=True)
class ExactTest(ResponseRule):
    """The default: a bet against the base model that, if the model is right, grows past 1/delta with chance delta.

    The base model states the exact law of the next state, so what a bettor expects to win under it is known exactly:
    its wealth is a supermartingale, and no union over time is needed. Bettors on every action join at every step, so a
    break is found however late it comes (``rules/bets.py`` has the theorem).

    Parameters
    ----------
    problem
        A ``DecisionProblem``, or a ``Payoff`` where outcomes are numbers.
    delta
        The TV bound; 1/horizon by default, required with ``horizon=None``.
    references
        Names of those who are compared with beside the fixed actions.
    contexts
        How many there are; then a fixed action *for each* is compared with. Needs a horizon.
    payoffs
        "fixed": those of the problem. "scaled": a step may count less than that. "change": payoffs are told each step,
        within the range that the problem declares; the bounds are then for the largest span that leaves.
    actions
        False: the references alone are compared with.
    likelihood
        A second bettor, with half of the capital: on the mixture of laws that ``Recovery`` runs in the shadow. It finds
        models that predict worse than recent frequencies and are acted on at a loss. Bets on actions are then charged
        by what they could win under any law to which the action advised is best: as long as that is right, however
        wrong the probabilities, they alone sound an alarm with a chance of at most delta/2. Needs laws, a temperature
        of 0 and ``Recovery``.
    test
        False: no test and no alarm; the fallback, a ``Recovery``, is played from the first step on, with nine tenths of
        the weight on the model to begin with. That earns as much; what the test buys is that nothing changes while the
        model is right.
    temperature
        Of the responses to forecasts: 1/sqrt(horizon) by default, 0 for best responses, which most people play.
    fallback
        What is played after an alarm. Told more than the law, a ``Recovery`` without a ``safe`` of its own (it is Hedge
        over all comparators) or an ``Incumbent``; for numbers too, where ``Recovery`` is Hedge over all comparators and
        the model.

    >>> from lowregret import matching
    >>> rule = ExactTest(matching(), horizon=1024, delta=2 / 1024)
    >>> print(f"{rule.certificate.regret_bound:.4f} {rule.certificate.tv_bound:.6f}")
    0.0908 0.001953
    """

    delta: float = None  # type: ignore[assignment]
    references: tuple[str, ...] = ()
    contexts: int | None = None
    payoffs: str = "fixed"
    actions: bool = True
    likelihood: bool = False
    test: bool = True

    def _refuse_problem(self) -> None:
        if not isinstance(self.problem, Payoff):
            a_problem(self.problem)

    def __post_init__(self) -> None:
        self._refuse_problem()
        horizon = inputs.horizon_or_none(self.horizon)
        delta = delta_for(self.delta, horizon)
        if delta < LEAST_DELTA:
            raise ValueError(f"delta must be at least {LEAST_DELTA:g}, got {delta:g}")
        contexts = None if self.contexts is None else inputs.whole(self.contexts, "contexts")
        inputs.keep(
            self,
            delta=delta,
            references=names_of(self.references),
            contexts=contexts,
            payoffs=inputs.choice(self.payoffs, "payoffs", ("fixed", "scaled", "change")),
            actions=inputs.flag(self.actions, "actions"),
            likelihood=inputs.flag(self.likelihood, "likelihood"),
            test=inputs.flag(self.test, "test"),
        )
        if contexts is not None and horizon is None:
            raise ValueError(
                "contexts need a horizon, for how many steps in all: what each of them may cost is shared out over it, "
                "got None"
            )
        if not self.actions and (not self.references or contexts is not None):
            raise ValueError("actions=False compares with references alone: it needs some, and no contexts")
        super().__post_init__()

    def _temperature_of(self, temperature: Any) -> float:
        return inputs.not_negative(temperature, "temperature")

    def _usual_fallback(self) -> Recovery:
        """A mixture from which the model can return."""
        return Recovery()

    def _refuse_misfit(self, horizon: int | None) -> None:
        fallback, more = self.fallback, self.told or self.of_numbers
        if not self.test and (self.likelihood or not isinstance(fallback, Recovery)):
            raise ValueError(
                "test=False plays a Recovery from the first step on: it has no bettors, and its fallback must be one, "
                f"got likelihood={self.likelihood} and {inputs.shown(fallback)}"
            )
        if self.likelihood and (self.of_numbers or self.temperature != 0 or not isinstance(fallback, Recovery)):
            raise ValueError(
                "likelihood=True bets on the laws in the shadow of Recovery, beside best responses to laws: it needs a "
                f"DecisionProblem, temperature=0 and Recovery() for a fallback, got {self.temperature} and "
                f"{inputs.shown(fallback)}"
            )
        if self.temperature == 0 and isinstance(fallback, Predictor):
            raise ValueError(
                f"fallback {type(fallback).__name__} is a law, and the best response to a law that learns may lose "
                "every step: take Recovery(), a policy such as AdaHedge, or a temperature above 0 "
                "(temperature=horizon**-0.5 answers laws at random)"
            )
        if isinstance(fallback, Incumbent) and more:
            if fallback.name not in self.references:
                raise ValueError(
                    f"fallback must be one of the references {self.references}, got {inputs.shown(fallback.name)}"
                )
        elif not more:
            super()._refuse_misfit(horizon)
        elif not isinstance(fallback, Recovery) or fallback.safe is not None:
            raise ValueError(
                "fallback must be a Recovery without a safe of its own (it is Hedge over all comparators), or an "
                "Incumbent: what others lose to references, in contexts, where payoffs are told or outcomes are "
                f"numbers is not known, got {inputs.shown(fallback)}"
            )

    # What it is made of

    @property
    def of_numbers(self) -> bool:  # type: ignore[override]
        return isinstance(self.problem, Payoff)

    @property
    def n_states(self) -> int:
        return 0 if self.of_numbers else self.problem.n_states

    @property
    def told(self) -> bool:
        """Whether a step may be told more than the base model's law."""
        return bool(self.references) or self.contexts is not None or self.payoffs != "fixed"

    @property
    def knows(self) -> Knows | None:
        if not self.told:
            return None
        payoffs = "change" if self.payoffs == "change" else "scaled"
        return Knows(self.references, self.contexts, payoffs)

    @cached_property
    def stakes(self) -> Any:
        """A problem with the span and the contrast of all that may come: the bounds are its."""
        if self.payoffs != "change":
            return self.problem
        return self.problem.widest if isinstance(self.problem, Payoff) else widest(self.problem)

    @property
    def untested(self) -> bool:  # type: ignore[override]
        return not self.test

    @property
    def pointless(self) -> bool:
        return self.stakes.span == 0 or not self.test

    @property
    def compares(self) -> bool:
        return False

    @property
    def tells_fallback(self) -> bool:
        return True

    @property
    def n_contexts(self) -> int:
        """How many contexts, 1 where there are none."""
        return 1 if self.contexts is None else self.contexts

    @property
    def n_comparators(self) -> int:
        return self.n_contexts * self._own_comparators + len(self.references)

    def per_context(self, horizon: int) -> int:
        """How many steps each context has where all have as many."""
        return -(-horizon // self.n_contexts)

    @cached_property
    def prior(self) -> every_start.Prior:
        """How the capital is shared: the main rate suits contexts that share the horizon evenly, the worst case."""
        stakes, count, share = self.stakes, self.n_comparators, 0.5 if self.likelihood else 1.0
        if self.horizon is None or self.temperature is None:
            made = stakes, self.horizon, self.delta, self.temperature, TOP, count
            return every_start.joint_prior(*made, share=share, opening=0.5 if self.temperature == 0 else 0.0)
        steps = self.per_context(self.horizon)
        prior = every_start.joint_prior(stakes, steps, self.delta, self.temperature, TOP, count, share=share)
        return replace(prior, horizon=self.horizon)  # any context may have all the steps

    @property
    def _own_comparators(self) -> int:
        """Actions that are bet on in each context; none where references alone are."""
        return self.problem.n_actions if self.actions else 0

    @cached_property
    def bets(self) -> Bets:
        """The bettors."""
        A = self._own_comparators
        return Bets(self.prior, self.delta, self.stakes.span, A, self.n_contexts, len(self.references), self.of_numbers)

    @property
    def rates_K(self) -> np.ndarray:
        """The betting rates lambda_k."""
        return self.prior.rates_K

    @property
    def log_costs_K(self) -> np.ndarray:
        """ln(1 / (m delta)): what a bettor from the first step on must reach for the alarm to sound on its own."""
        return self.prior.log_costs_K(self.delta)

    @cached_property
    def in_play(self) -> InPlay:
        N, A, back = len(self.references), self.problem.n_actions, self.fallback
        if isinstance(back, Incumbent) and self.references:
            alone = N == 1 and not self.actions
            made: Any = PlaysReference(back.name, self.references.index(back.name), self.of_numbers, alone)
            return InPlay(made, True, made.acts, A if made.acts else self.n_states, True)
        if self.of_numbers:
            return InPlay(AmongExperts(self.stakes, self.n_contexts, N), True, True, A, True)
        if not self.told:
            plain = in_play(back, self.problem, self.n_states, self.horizon, self.temperature)
            return plain if self.test else plain._replace(fallback=replace(plain.fallback, trust=TRUST))
        assert isinstance(back, Recovery)
        more = {"contexts": self.n_contexts, "references": N, "stakes": self.stakes}
        more |= {"counts_model": self.temperature == 0, "trust": None if self.test else TRUST}
        made = back.in_play(self.problem, self.horizon, self.temperature, None, **more)
        return InPlay(made, True, True, A, True)

    # A step

    def temperature_at(self, step: Any) -> Any:
        return self.stakes.anytime_temperature(step) if self.temperature is None else self.temperature

    def scene(self, forecast: Any, known: Known | None, step: Array) -> Any:
        """All that is known of a step, with what the references would play."""
        temperature, N = self.temperature_at(step), len(self.references)
        if self.of_numbers:
            scene: Any = number_scene(self.problem, forecast, known, temperature, step - 1, N)  # type: ignore[arg-type]
        else:
            scene = scene_of(self.problem, forecast, known, temperature, N)
        if self.contexts is None or scene.context is not None:
            return scene
        xp, base_A = namespace(scene.base_A), scene.base_A  # the first, where none is said
        return scene._replace(context=xp.zeros(base_A.shape[1:], dtype=xp.int64, device=device(base_A)))

    def look(self, memory: RuleMemory, probs: Any, known: Known | None = None) -> Moment:
        scene = self.scene(probs, known, memory.step + 1)
        fallback_A1 = self._fallback_plays(memory, scene)[1:] if self._in_force(memory) else None
        return Moment(scene.base_A[1:], fallback_A1, None if self.of_numbers else scene.law_S, None, scene)

    def moment(self, probs: Array, answer: Array | None, token: Array | None, step: Array) -> Moment:
        scene = self.scene(probs, None, step)
        return Moment(scene.base_A[1:], None, scene.law_S, token, scene)

    def _in_force(self, memory: RuleMemory) -> bool:
        """Whether anybody plays the fallback; where asking would make a device wait, somebody may."""
        return self.untested or some(memory.tripped_at)

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
        scene = self.scene(probs, None, memory.step + 1)
        return last((own.fallback.policy if own.acts else own.fallback.law)(memory.fallback, scene))

    def law(self, memory: RuleMemory, probs: Any, known: Known | None = None) -> Any:
        if self.of_numbers:
            return probs
        own = self.in_play
        if not self._in_force(memory) or (own.acts and not own.follows):
            return copied(probs)
        if own.follows:
            said = last(own.fallback.law(memory.fallback, self.scene(probs, known, memory.step + 1)))
        else:
            said = self.fallback_answer(memory, probs)
        return spliced(self.tripped(memory), said, probs)

    def leads(self, answer_A1: Array, token: Array, known: Scene | NumberScene | None = None) -> Array:
        """What each comparator earned more than the answer: actions, context by context, then references."""
        if known is None:
            return super().leads(answer_A1, token)
        A, paid_P = self.problem.n_actions, known.paid(token)
        own = paid_P[0] + total(answer_A1 * (paid_P[1:A] - paid_P[0])) if A > 1 else paid_P[0]
        lead_P = paid_P - own
        if not self.actions:
            return lead_P[A:]
        return lead_P if self.contexts is None else self._widened(lead_P, known.context)

    def _widened(self, lead_P: Array, context: Array) -> Array:
        """What the comparators of one context earned more, among those of all: ``[C A + N, ...]``."""
        lead = last(lead_P)
        xp, A, shape = namespace(lead), self.problem.n_actions, tuple(lead.shape[:-1])
        wide = xp.zeros((*shape, self.n_contexts, A), dtype=lead.dtype, device=device(lead))
        wide = with_row(wide, xp.asarray(context), lead[..., :A])
        return first(xp.concat([xp.reshape(wide, (*shape, self.n_contexts * A)), lead[..., A:]], axis=-1))

    def worst_lead(self, lead: Array) -> Array:
        """The largest: an action for each context, or a reference."""
        if self.contexts is None:
            return super().worst_lead(lead)
        xp, at = namespace(lead), self.n_contexts * self.problem.n_actions
        by_context = xp.reshape(lead[..., :at], (*lead.shape[:-1], self.n_contexts, self.problem.n_actions))
        best = xp.sum(xp.max(by_context, axis=-1), axis=-1)
        return xp.maximum(best, xp.max(lead[..., at:], axis=-1)) if self.references else best

    def comparator(self, index: int) -> tuple[int | None, str | None, int | None]:
        A = self._own_comparators
        if index >= self.n_contexts * A:
            return None, self.references[index - self.n_contexts * A], None
        return index % A, None, None if self.contexts is None else index // A

    def _fallback_after(self, memory: RuleMemory, moment: Moment, token: Array) -> tuple[Any, Moment]:
        own = self.in_play
        if not own.follows:
            return super()._fallback_after(memory, moment, token)
        told = memory.fallback, moment.known, token, self.tripped(memory)
        if not self.likelihood:
            return own.fallback.update(*told), moment
        after, mixture_S = own.fallback.advance(*told)
        return after, moment._replace(mixture_S=mixture_S)

    def share(self, memory: RuleMemory) -> Array:
        """How much of what is played next is the base model's: all until the trip, then its part of the mixture."""
        own = self.in_play
        if not own.follows:
            return super().share(memory)
        return 1 - in_float64(self.tripped(memory)) * (1 - own.fallback.share_of_base(memory.fallback))

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> Wealth:
        none = self.bets.blank(shape, xp, where)
        return none._replace(backed=second_bettor.blank(shape, xp, where)) if self.likelihood else none

    def judge(self, statistics: Wealth, step: Array, moment: Moment) -> tuple[Wealth, Array]:
        scene, outcome = moment.known, moment.token
        excluded = scene.excluded(outcome)
        now, level = self.bets.after(statistics, step, self._offered(scene, outcome), excluded, scene.context)
        if self.likelihood:
            odds, gained = scene.against(moment.mixture_S, outcome)
            backed = second_bettor.after(self.prior, statistics.backed, step, odds, gained)
            level = second_bettor.level(self.prior, backed, step, level)
            now = now._replace(backed=backed)
        return now, (level * self.delta >= 1) | excluded

    @cached_property
    def _pairs(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """By best response: what each comparator gains over it, at which two outcomes that is charged; if not many."""
        if self.n_comparators * self.problem.utility.size > _PAIRS:
            return []
        utility = self.problem.utility
        return [(gain_AxS, *second_bettor.by_pairs(gain_AxS)) for gain_AxS in (utility - row for row in utility)]

    def _offered(self, scene: Any, outcome: Array) -> Offer:
        """What is bet on in a step: at which outcomes, and what these weigh in a charge."""
        one_step = scene.base_A.ndim == 1 and type(scene.base_A) is np.ndarray  # of one stream
        if self.likelihood and not self.told and one_step and self._pairs:
            gain_AxS, gain_Ax2, weights_Ax2 = self._pairs[int(scene.base_A.argmax())]
            return Offer(gain_Ax2, weights_Ax2, gain_AxS[:, int(outcome)])
        gain_PxM, weights_M, came_P = scene.priced(outcome, self.actions)
        offer = Offer(gain_PxM, weights_M, came_P, None if self.of_numbers else outcome)
        if not self.likelihood:
            return offer
        return Offer(*second_bettor.by_pairs(gain_PxM), offer.came())

    def joined(self, memory: RuleMemory, place: int, part: RuleMemory) -> RuleMemory:
        return self.charged(memory, part, part.tripped_at > 0)

    def charged(self, before: RuleMemory, after: RuleMemory, alarm: Array) -> RuleMemory:
        """The memory after an outcome with its charges counted unless the alarm has sounded: until then they bound
        the regret to each comparator, and nothing else does where they depend on what the forecast leaves open.
        """
        if not self.of_numbers:
            return after
        old, new = before.statistics.charges, after.statistics.charges
        kept = choose(alarm, old, new) if alarm.ndim else (old if alarm else new)
        return after._replace(statistics=after.statistics._replace(charges=kept))

    def missing(self, memory: RuleMemory, place: int) -> RuleMemory:
        # Starts are dated by outcomes seen, and a guard that names a step adds all outcomes that never came. Those that
        # began before this one must not be moved by it, so they are dated one earlier here.
        statistics = memory.statistics._replace(since=memory.statistics.since - 1)
        if self.likelihood:
            statistics = statistics._replace(backed=second_bettor.one_missing(statistics.backed))
        return memory._replace(statistics=statistics)

    # Recorded sequences

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        scene, states = moment.known, moment.token
        if self.likelihood and self.told:
            return all_of_it(self, scene, states)
        if self.contexts is not None:
            return self._step_by_step(step_T, scene, states)
        return first_true((self._levels(scene, states) * self.delta >= 1) | scene.excluded(states)) + 1

    def _levels(self, scene: Any, states: Array) -> Array:
        """E after every step, ``[N, T]``; one context."""
        if self.of_numbers:
            gain_PxM, weights_M, came_P = scene.priced(states, self.actions)
            return self.bets.levels(
                ((gain, weights_M, came) for gain, came in zip(gain_PxM, came_P, strict=True)), states
            )
        if self.likelihood:
            level = self.bets.levels(map(partial(self._by_pairs, states), scene.gains(self.actions)), states)
            mixture_S = self.in_play.fallback.mixtures(last(scene.law_S), states)
            odds, gained = scene.against(mixture_S, states)
            return second_bettor.recorded(self.prior, odds, gained, level)[1]
        law_S = scene.law_S / total(scene.law_S)
        return self.bets.levels(((gain_S, law_S, None) for gain_S in scene.gains(self.actions)), states)

    @staticmethod
    def _by_pairs(states: Array, gain_S: Array) -> tuple[Array, Array, Array]:
        """One comparator, charged by its pair."""
        gain_1x2, weights_1x2 = second_bettor.by_pairs(gain_S[None])
        return gain_1x2[0], weights_1x2[0], pick(gain_S, states)

    def _step_by_step(self, step_T: Array, scene: Scene | NumberScene, states_NxT: Array) -> Array:
        xp, N, alarms = namespace(scene.base_A), states_NxT.shape[0], []
        statistics = self.blank((N,), xp, device(scene.base_A))
        for t, now in enumerate(each_step(scene, states_NxT.shape[1])):
            state = states_NxT[:, t]
            statistics, alarm = self.judge(
                statistics, xp.zeros_like(state) + step_T[t], Moment(None, None, None, state, now)
            )
            alarms.append(alarm)
        return first_true(xp.stack(alarms, axis=-1)) + 1

    def trip_times(self, probs: Any, tokens: Any, known: Known | None = None) -> Array:
        """The number of outcomes seen when the rule tripped, ``[...]``; T + 1 for never.

        Of numbers ``probs`` is a ``Forecast`` of the outcomes' shape. ``known`` has what was known before each outcome,
        with an axis of time after those of streams; unchecked.

        >>> from lowregret import Payoff, Quantiles
        >>> payoff = Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
        >>> test = ExactTest(payoff, horizon=200)
        >>> rises = Quantiles([0.1, 0.9], np.tile([0.1, 0.8], (100, 1)))  # expects a rise each day
        >>> int(test.trip_times(rises, np.full(100, 0.4))), int(test.trip_times(rises, np.full(100, -0.4)))
        (101, 21)
        """
        if known is None and not self.of_numbers:
            return super().trip_times(probs, tokens)
        return recorded_trips(self, probs, tokens, known)

    def recording(self, forecast: Any, came: Any) -> tuple[Array, Any]:
        """Outcomes ``[..., T]`` and the forecasts of them as ``[N, T, ...]``, checked."""
        if isinstance(self.problem, Payoff):
            came = self.problem.outcomes_of(came)
            if came.ndim == 0 or came.shape[-1] == 0:
                raise ValueError(f"outcomes must have a last axis of at least one time step, got shape {came.shape}")
            self.fits(forecast, came.shape, "outcomes")
            return came, forecast.at((None, ...)) if came.ndim == 1 else forecast
        tokens = inputs.sequences_of(came, self.n_states)
        probs = inputs.probs_of(forecast, self.n_states, shape=tuple(tokens.shape))
        xp = namespace(probs)
        return beside(tokens, probs), xp.reshape(probs, (-1, tokens.shape[-1], self.n_states))

    def fits(self, forecast: Any, shape: tuple[int, ...], of: str = "streams") -> Forecast:
        """A forecast of numbers, refused unless it is one of this shape that the payoff can be judged by."""
        if not isinstance(forecast, Forecast):
            raise ValueError(
                f"forecast must be Samples or Quantiles, got {type(forecast).__name__}: with a Payoff, "
                "advise(Quantiles(levels, values)); probabilities of states go with a DecisionProblem"
            )
        if forecast.batch_shape != shape:
            raise ValueError(f"forecast must be for {of} of shape {shape}, got {forecast.batch_shape}")
        forecast.refuse_misfit(self.problem)  # type: ignore[arg-type]
        return forecast

    def run(self, probs_NxTxS: np.ndarray, states_NxT: np.ndarray) -> RuleMemory | None:
        """The memory after recorded sequences in NumPy during which no alarm sounds, unchecked.

        None where that takes as long as going through them.
        """
        fallback, T = self.in_play.fallback, states_NxT.shape[1]
        more = self.told or self.of_numbers
        if more or T == 0 or not isinstance(fallback, Recovering) or not compiler_installed():
            return None
        scene = self.scene(probs_NxTxS, None, np.arange(1, T + 1))
        step = np.full(len(states_NxT), T)
        back, mixture_S = fallback.run(probs_NxTxS, states_NxT)
        statistics = self.bets.run(self._offered(scene, states_NxT))
        if self.likelihood:
            odds, gained = scene.against(mixture_S, states_NxT)
            statistics = statistics._replace(backed=second_bettor.recorded(self.prior, odds, gained, odds)[0])
        return RuleMemory(back, step, 0 * step, statistics)

    def replaced(self, probs: Array, tokens: Array) -> tuple[Array, Array]:
        if not self.in_play.follows:
            return super().replaced(probs, tokens)
        alarms = self.first_trips(probs, tokens)
        return self.in_play.fallback.laws_beside(probs, tokens, alarms), alarms

    # What can be read

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """ln E_t and ln(1 / delta); infinite once a state came that the base model had excluded."""
        now, step = memory.statistics, memory.step
        level = self.bets.together(now, step)
        if self.likelihood:
            level = second_bettor.level(self.prior, now.backed, step, level)
        xp, threshold = namespace(level), -math.log(self.delta)
        statistic = xp.where(memory.statistics.impossible, xp.zeros_like(level) + math.inf, xp.log(level))
        return statistic, xp.zeros_like(statistic) + threshold

    def log_evidence(self, probs: Any, tokens: Any, known: Known | None = None) -> np.ndarray:
        """ln E after every step of recorded sequences ``[N, T]`` in NumPy; infinite from a state on that was excluded.

        ``probs`` and ``known`` are as ``trip_times`` takes them.

        >>> from lowregret import matching
        >>> rule = ExactTest(matching(), horizon=100)
        >>> found = rule.log_evidence([[[0.5, 0.5]] * 3, [[0.9, 0.1]] * 3], [[0, 1, 1], [1, 1, 1]])
        >>> (found.round(2) + 0.0).tolist()
        [[0.0, -0.09, -0.09], [0.37, 1.1, 2.43]]
        """
        if known is not None and not isinstance(known, Known):
            raise ValueError(f"known must be a problems.Known, or None, got {inputs.shown(known)}")
        came_NxT, forecast = self.recording(probs, tokens)
        if came_NxT.ndim != 2:
            raise ValueError(f"tokens must be sequences [N, T], got shape {tuple(came_NxT.shape)}")
        self.refuse_longer(came_NxT.shape[1])
        found: np.ndarray = np.log(self.levels(forecast if self.of_numbers else to_numpy(forecast), came_NxT, known))
        return found

    def levels(self, forecast: Any, came: Array, known: Known | None = None) -> np.ndarray:
        """E after every step of recorded sequences, likewise; unchecked."""
        came_NxT = to_numpy(came)
        scene = self.scene(forecast, known, np.arange(1, came_NxT.shape[1] + 1))
        if self.contexts is not None or (self.likelihood and self.told):
            watched: np.ndarray = np.exp(self._watched(scene, came_NxT))
            return watched
        found: np.ndarray = self._levels(scene, came_NxT)
        excluded_NxT = scene.excluded(came_NxT)
        if excluded_NxT.any():
            found[np.logical_or.accumulate(excluded_NxT, axis=1)] = math.inf
        return found

    def _watched(self, scene: Any, came_NxT: np.ndarray) -> np.ndarray:
        """The same step by step, with the fallback in whose shadow somebody bets."""
        memory, found = self.start((len(came_NxT),)), []
        for t, now in enumerate(each_step(scene, came_NxT.shape[1])):
            if self.likelihood:
                moment = Moment(now.base_A[1:], None, now.law_S, None, now)
                memory = self.advance(memory, moment, came_NxT[:, t])
            else:
                step = memory.step + 1
                moment = Moment(None, None, None, came_NxT[:, t], now)
                memory = memory._replace(step=step, statistics=self.judge(memory.statistics, step, moment)[0])
            found.append(self.evidence(memory)[0])
        return np.stack(found, axis=-1)

    def suspicion(self, memory: RuleMemory) -> Suspicion:
        """What the richest bettor of each stream bets on; where those on actions have less than 1/delta, the other."""
        found = self.bets.suspicion(memory.statistics)
        if not self.likelihood:
            return found
        xp, backed = namespace(memory.step), memory.statistics.backed
        second = (self.bets.together(memory.statistics, memory.step) * self.delta < 1) & (backed.age > 0)
        age = xp.clip(backed.age, 1.0, None)
        return Suspicion(
            xp.where(second, -1, found.comparator),
            xp.where(second, xp.zeros_like(found.rate), found.rate),
            xp.where(second, memory.step + 1 - astype(age + backed.missed, memory.step.dtype), found.since),
            backed.rise / age,
        )

    # What is promised

    @cached_property
    def certificate(self) -> Certificate:
        """Statement (iv); for numbers, what is known of it before the first step."""
        return promises.certify(self)

    def promise(self, lag: int, horizon: int | None, tv_bound: float) -> Promise:
        """What a run with outcomes that are numbers is certified by, where this is the rule of each class."""
        return promises.of_a_run(self, lag, horizon, tv_bound)

    def charges(self, memory: RuleMemory) -> Array:
        """What the bettors on each comparator were charged before an alarm, ``[..., P, K]``; of numbers."""
        return memory.statistics.charges

    def pays_from(self, gain: float) -> int | None:
        """From how many of its steps on a context pays for itself: what may be lost in it is less than ``gain`` a step.

        By so much, in utility, its own best action is better there than the best for all. None: not by the horizon.
        """
        return promises.pays_from(self, inputs.positive(gain, "gain"))


def recorded_trips(rule: Any, probs: Any, tokens: Any, known: Known | None) -> Array:
    """``trip_times`` of an exact test, or of one for each class of late outcomes, told ``known``."""
    each = rule.each
    if each.of_numbers and known is not None and not (known.utility is None or isinstance(known.utility, Payoff)):
        raise ValueError(
            "payoffs of each step are functions where outcomes are numbers: a Guard takes them, advise(payoffs=...), "
            "and a recording one Payoff for all of it"
        )
    came, forecast = each.recording(probs, tokens)
    xp, T, axes = namespace(came), came.shape[-1], came.ndim
    rule.refuse_longer(T)
    step_T = xp.arange(1, T + 1, device=device(came))
    known = None if known is None else _flat(known, T, axes)
    scene = each.scene(forecast, known, (step_T + rule.lag - 1) // rule.lag)
    times = rule.recorded(step_T, Moment(None, None, None, xp.reshape(came, (-1, T)), scene))
    times = xp.full_like(times, T + 1) if rule.pointless else times
    return xp.reshape(times, tuple(came.shape[:-1]))


def all_of_it(rule: Any, scene: Scene, states_NxT: Array) -> Array:
    """When such a rule trips, step by step with the fallback: somebody bets on it."""
    T, memory, alarms = states_NxT.shape[1], rule.start((states_NxT.shape[0],), like=scene.base_A), []
    for t, now in enumerate(each_step(scene, T)):
        memory = rule.advance(memory, Moment(now.base_A[1:], None, now.law_S, None, now), states_NxT[:, t])
        alarms.append(memory.tripped_at > 0)
    return first_true(namespace(states_NxT).stack(alarms, axis=-1)) + 1


def _flat(known: Known, steps: int, axes: int) -> Known:
    """What is known of sequences ``[..., T]`` as of ``[N, T]``; forecasts and a payoff for all of it as they are."""
    arrays = (part is not None and hasattr(part, "shape") for part in known)
    flat = (
        namespace(part).reshape(part, (-1, steps, *part.shape[axes:])) if is_array else part
        for part, is_array in zip(known, arrays, strict=True)
    )
    return Known(*flat)


def warm_up() -> None:
    """Compile what streams, fleets and recorded sequences use (extra: ``fast``), so that no step has to wait for it.

    Once on a machine it takes some seconds, later the loading alone; without the extra there is nothing to do.
    """
    if not compiler_installed():
        return
    compiled(bet), compiled(back), compiled(run_shadow)  # from here on they are used, however little there is to do
    rule = ExactTest(DecisionProblem(np.eye(2)), 100)
    memory = rule.start()
    for state in (0, 1):
        memory = rule.update(memory, np.array([0.5, 0.5]), state)
    recorded = np.full((2, 9, 2), 0.5), np.zeros((2, 9), dtype=np.int64)
    rule.replaced(*recorded)
    ExactTest(rule.problem, 100, temperature=0.0, likelihood=True).first_trips(*recorded)
