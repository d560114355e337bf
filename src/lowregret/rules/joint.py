"""The exact test for several named problems at once: many readers of one forecast, any number of states.

Comparators are pairs of a problem and an action. What such a pair gains is what its action earns over the response to
the forecast *in that problem*: rows of one table, as the actions of one problem are. There is one capital, shared by
all rows, so one alarm with a chance of at most delta while the model is right; each problem pays for the others by the
logarithm of their rows, ln(all rows / its own), in the log-cost of its bets.

Problems differ in span, and so in the rates that suit them. A bet at rate lam on c x is one at rate lam c on x: the
gains of each problem are multiplied by a number c of its own, with which all share one list of rates.

After the alarm there is a way back. Where best responses are played each problem has a ``Recovery`` of its own. Where
laws are answered there is one for all, which is left by what it loses in any problem (``policies/recovering.py`` has
the proof). Safe play is then the urn, which knows no problem: responses to it have low regret in each (Lemma 2.3).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import and_
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, astype, constant, detached, first, first_true, in_float64, last, namespace, some, total
from ..certificates import Certificate, NamedCertificate, certify_named, every_start, switching
from ..certificates.switching import certify_switch
from ..forecasts import NumberScene
from ..policies import Recovering, Recovery, RecoveryMemory
from ..predictors import PolyaUrn
from ..problems import DecisionProblem, Known, Names, Scene, leads, scene_of
from .bets import LEAST_DELTA, Bets, Offer, Suspicion, Wealth
from .contract import InPlay, Moment, Rule, RuleMemory, in_play
from .exact import TOP
from .response import delta_for

LEAST_SPAN = 1e-9  # far above what counts as a tie, so that a best response is one


class _EachRecovers(NamedTuple):
    """A ``Recovery`` for each problem, all from the one alarm on; what is remembered, and the scenes, are theirs.

    After the alarm nothing is shared: delta is spent, and what is played in a problem is a question of the regret in it
    alone. So each has the mixture, the budget and the safe play, and with them the bound, that it would have by itself.
    """

    each: tuple[Recovering, ...]

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> tuple[RecoveryMemory, ...]:
        return tuple(one.start(batch_shape, like) for one in self.each)

    def policy(self, memory: tuple[RecoveryMemory, ...], scenes: tuple[Scene, ...]) -> Array:
        """What is played in all problems, one after the other, ``[P, ...]``."""
        played = [one.policy(own, scene) for one, own, scene in zip(self.each, memory, scenes, strict=True)]
        return namespace(played[0]).concat(played)

    def update(
        self, memory: tuple[RecoveryMemory, ...], scenes: tuple[Scene, ...], state: Array, late: Array
    ) -> tuple[RecoveryMemory, ...]:
        told = zip(self.each, memory, scenes, strict=True)
        return tuple(one.update(own, scene, state, late) for one, own, scene in told)


class _AfterBestResponses(NamedTuple):
    """The urn where best responses are played until the alarm, and quantal ones to the urn from then on."""

    urn: PolyaUrn
    temperature: float | None
    acts: bool = True
    name: str = "quantal responses to PolyaUrn"

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Any:
        return self.urn.regret_after(problem, steps, self.temperature)


@dataclass(frozen=True, eq=False)
class JointTest(Rule):
    """The exact test for named problems over the same states: one alarm, and low regret in each problem.

    Parameters
    ----------
    problems
        A dict of ``DecisionProblem`` by name, with the same states; some may only count what others name.
    delta
        The TV bound; 1/horizon by default, required with ``horizon=None``.
    temperature
        Of the responses in every problem, in units of its span: 1/sqrt(horizon) by default. 0 is the best response
        until the alarm; an urn is then answered at 1/sqrt(horizon). With an unknown horizon each has its own schedule.
    fallback
        ``Recovery()`` by default: one for each problem at a temperature of 0, else one law for all. From a ``PolyaUrn``
        there is no way back.

    >>> from lowregret import cost_loss, matching
    >>> rule = JointTest({"guess": matching(), "protect": cost_loss(1, 4)}, horizon=1024)
    >>> {name: round(rule.certificate.for_problem(name).regret_bound, 4) for name in rule.problems}
    {'guess': 0.1096, 'protect': 0.1338}
    """

    problems: dict[str, DecisionProblem] = field()
    horizon: int | None
    delta: float = None  # type: ignore[assignment]
    temperature: float | None = field(default=None, kw_only=True)
    fallback: PolyaUrn | Recovery = field(default=None, kw_only=True)  # type: ignore[assignment]

    problem = None

    def __post_init__(self) -> None:
        problems, horizon = problems_of(self.problems), inputs.horizon_or_none(self.horizon)
        if self.delta is None and horizon is None:
            raise ValueError(
                "horizon=None (unknown) needs an explicit delta: rule=JointTest(problems, None, delta) in place of "
                "problems, or a Guard, which has one"
            )
        delta = delta_for(self.delta, horizon)
        if delta < LEAST_DELTA:
            raise ValueError(f"delta must be at least {LEAST_DELTA:g}, got {delta:g}")
        inputs.keep(self, problems=problems, horizon=horizon, delta=delta)
        if self.temperature is not None:
            inputs.keep(self, temperature=inputs.not_negative(self.temperature, "temperature"))
        elif horizon is not None:
            inputs.keep(self, temperature=1 / math.sqrt(horizon))
        if self.fallback is None:
            inputs.keep(self, fallback=Recovery())
        back = self.fallback
        if not isinstance(back, Recovery) and not (isinstance(back, PolyaUrn) and back.n_states == self.n_states):
            raise ValueError(
                f"fallback must be a Recovery or a PolyaUrn over {self.n_states} states for several problems, got "
                f"{inputs.shown(back)}: of no other is it known what it loses in each of them"
            )
        _ = self.in_play  # a Recovery that does not fit is refused here

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JointTest) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return tuple(self.problems.items()), self.horizon, self.delta, self.temperature, self.fallback

    # What it is made of

    @property
    def n_states(self) -> int:
        return next(iter(self.problems.values())).n_states

    @property
    def state_names(self) -> Names:
        return _naming(self.problems)[1].state_names

    @property
    def n_comparators(self) -> int:
        return sum(problem.n_actions for problem in self.problems.values())

    @property
    def stakes(self) -> DecisionProblem:
        """The problem in which most can be lost in a step."""
        return max(self.problems.values(), key=lambda problem: problem.span)

    @property
    def pointless(self) -> bool:
        return self.stakes.span == 0

    @property
    def compares(self) -> bool:
        return False

    @cached_property
    def rows(self) -> dict[str, slice]:
        """Which rows of all comparators are whose."""
        found, end = {}, 0
        for name, problem in self.problems.items():
            found[name] = slice(end, end + problem.n_actions)
            end += problem.n_actions
        return found

    @cached_property
    def priors(self) -> dict[str, every_start.Prior]:
        """How the capital is shared, with the rates of each problem: all are multiples of one list.

        Every problem bets most at the rate that is best for it alone, if that is below ``TOP`` / span. In units of the
        span it is highest for one of those, whose rates are the list: no other's are then above ``TOP`` / span.
        """
        own = {name: self._prior_alone(problem) for name, problem in self.problems.items()}
        main = {name: float(own[name].rates_K[0]) * problem.span for name, problem in self.problems.items()}
        listed = max(own, key=lambda name: (main[name] * (main[name] < TOP), self.problems[name].span))
        prior, span, found = own[listed], self.problems[listed].span, {}
        for name, problem in self.problems.items():
            times = span / problem.span * min(1.0, main[name] / main[listed]) if problem.span else 1.0
            found[name] = replace(prior, rates_K=prior.rates_K * times)
        return found

    def _prior_alone(self, problem: DecisionProblem) -> every_start.Prior:
        """The prior of an ``ExactTest`` of one problem that has as many comparators as there are in all."""
        count, temperature = self.n_comparators, _in_units(problem, self.temperature)
        opening = 0.5 if temperature == 0 else 0.0
        return every_start.joint_prior(problem, self.horizon, self.delta, temperature, TOP, count, opening=opening)

    @cached_property
    def times(self) -> dict[str, float]:
        """What the gains in each problem are multiplied by: its rates are so many times the first one's."""
        first_rate = float(next(iter(self.priors.values())).rates_K[0])
        return {name: float(prior.rates_K[0]) / first_rate for name, prior in self.priors.items()}

    @cached_property
    def bets(self) -> Bets:
        """The bettors."""
        span = max(self.times[name] * problem.span for name, problem in self.problems.items())
        return Bets(next(iter(self.priors.values())), self.delta, span, self.n_comparators)

    @cached_property
    def in_play(self) -> InPlay:
        if isinstance(self.fallback, PolyaUrn):
            return in_play(self.fallback, None, self.n_states, self.horizon, self.temperature)
        each = tuple(self._recovers.values())
        if self.temperature == 0:
            return InPlay(_EachRecovers(each), True, True, self.n_comparators, True)
        beside = tuple((one.problem, one.temperature) for i, one in enumerate(each) if i != self._widest)
        return InPlay(replace(each[self._widest], beside=beside), True, False, self.n_states, True)

    @cached_property
    def _recovers(self) -> dict[str, Recovering]:
        """The ``Recovery`` of each problem by itself: that which it plays, or by whose bound it is certified."""
        back, laws, found = self.fallback, self.temperature != 0, {}
        several = laws and len(self.problems) > 1
        assert isinstance(back, Recovery)
        for name, problem in self.problems.items():
            made = problem, self.horizon, self.temperature_in(name)
            safe = back.safe or PolyaUrn(self.n_states)
            found[name] = back.in_play(*made, safe) if several else back.made_for(*made)
            if laws and found[name].acts:
                raise ValueError(
                    f"safe {type(safe).__name__} must be a law that is left by regret: at a temperature above 0 "
                    "named problems are answered by one law"
                )
        return found

    @property
    def _widest(self) -> int:
        """The place of the problem in which most can be lost, by whose advice the laws in the shadow go."""
        return list(self.problems.values()).index(self.stakes)

    @property
    def urn_temperature(self) -> float | None:
        """At which the urn is answered after an alarm, likewise; None: by each problem's own schedule."""
        if self.temperature != 0:
            return self.temperature
        return None if self.horizon is None else 1 / math.sqrt(self.horizon)

    def temperature_in(self, name: str) -> float | None:
        """The temperature of the responses in one problem, in utility; None: its own schedule."""
        return _in_units(self.problems[name], self.temperature)

    # A step

    def moment(self, probs: Array, answer: Array | None, token: Array | None, step: Array) -> Moment:
        """With the mixed actions of all problems, one after the other; ``known`` has the scene of each."""
        scenes = tuple(
            scene_of(problem, probs, None, _warmth(problem, self.temperature, step))
            for problem in self.problems.values()
        )
        xp, law_S, fallback_P = namespace(scenes[0].law_S), scenes[0].law_S, None
        if answer is not None:
            said_S = first(astype(detached(answer), law_S.dtype))
            each = (p.respond(said_S, _warmth(p, self.urn_temperature, step)) for p in self.problems.values())
            fallback_P = xp.concat(list(each))
        return Moment(xp.concat([scene.base_A for scene in scenes]), fallback_P, law_S, token, scenes)

    def look(self, memory: RuleMemory, probs: Array, known: Known | None = None) -> Moment:
        if not self.in_play.follows:
            return super().look(memory, probs)
        moment = self.moment(probs, None, None, memory.step + 1)
        if not some(memory.tripped_at):
            return moment
        said = self._fallback_says(memory, moment)
        if not self.in_play.acts:
            said = namespace(said).concat([scene.respond(said) for scene in moment.known])
        return moment._replace(fallback_A1=said)

    def fallback_answer(self, memory: RuleMemory, probs: Array) -> Array:
        if not self.in_play.follows:
            return super().fallback_answer(memory, probs)
        return last(self._fallback_says(memory, self.moment(probs, None, None, memory.step + 1)))

    def _fallback_says(self, memory: RuleMemory, moment: Moment) -> Array:
        """What is played in all problems ``[P, ...]``, or the law by which that goes ``[S, ...]``."""
        back = self.in_play.fallback
        return (back.policy if self.in_play.acts else back.law)(memory.fallback, self._shown(moment))

    def _fallback_after(self, memory: RuleMemory, moment: Moment, token: Array) -> tuple[Any, Moment]:
        if not self.in_play.follows:
            return super()._fallback_after(memory, moment, token)
        told = memory.fallback, self._shown(moment), token, self.tripped(memory)
        return self.in_play.fallback.update(*told), moment

    def _shown(self, moment: Moment) -> Any:
        """The scenes that the fallback is shown: of all problems, or of the one by whose advice its laws go."""
        return moment.known if self.in_play.acts else moment.known[self._widest]

    def replaced(self, probs: Array, tokens: Array) -> tuple[Array, Array]:
        if not self.in_play.follows or self.in_play.acts:
            return super().replaced(probs, tokens)
        alarms = self.first_trips(probs, tokens)
        return self.in_play.fallback.laws_beside(probs, tokens, alarms), alarms

    # What was found after an alarm: in each problem, or for all where they are played by one law

    def _each(self, memory: RuleMemory) -> dict[str, tuple[Recovering, RecoveryMemory]]:
        """The way back by which each problem goes, and what that remembers; none from an urn."""
        own = self.in_play
        if own.acts:
            return dict(zip(self.problems, zip(own.fallback.each, memory.fallback, strict=True), strict=True))
        return dict.fromkeys(self.problems, (own.fallback, memory.fallback)) if own.follows else {}

    def turns(self, memory: RuleMemory) -> dict[str | None, Array]:
        if not self.in_play.acts:
            return super().turns(memory)
        return {name: back.turned(own) for name, (back, own) in self._each(memory).items()}

    def trusted(self, memory: RuleMemory) -> Array:
        """Where the base model is played as it is, or has returned in every problem, ``[...]``."""
        back = [own.trusted for _, own in self._each(memory).values()]
        return ~self.tripped(memory) | reduce(and_, back) if back else ~self.tripped(memory)

    def shares(self, memory: RuleMemory) -> dict[str, Array]:
        late, each = in_float64(self.tripped(memory)), self._each(memory)
        if not each:
            return dict.fromkeys(self.problems, 1 - late)
        return {name: 1 - late * (1 - back.share_of_base(own)) for name, (back, own) in each.items()}

    def share(self, memory: RuleMemory) -> Array:
        """The least of ``shares``."""
        shares = list(self.shares(memory).values())
        return reduce(namespace(shares[0]).minimum, shares)

    def leads(self, answer_P: Array, token: Array, known: Scene | NumberScene | None = None) -> Array:
        parts = zip(self.problems.values(), self.rows.values(), strict=True)
        return namespace(answer_P).concat([leads(problem, token, answer_P[rows][1:]) for problem, rows in parts])

    def comparator(self, index: int) -> tuple[int | None, str | None, int | None]:
        """In words: an action of one of the problems."""
        name = next(name for name, rows in self.rows.items() if index < rows.stop)
        return None, f"action {self.problems[name].actions[index - self.rows[name].start]} of {name}", None

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> Wealth:
        return self.bets.blank(shape, xp, where)

    def judge(self, statistics: Wealth, step: Array, moment: Moment) -> tuple[Wealth, Array]:
        scenes: tuple[Scene, ...] = moment.known
        xp, law_S = namespace(moment.probs_S), moment.probs_S / total(moment.probs_S)
        gain_PxS = xp.concat(
            [scene.gains_together() * times for scene, times in zip(scenes, self.times.values(), strict=True)]
        )
        excluded = scenes[0].excluded(moment.token)
        now, level = self.bets.after(statistics, step, Offer(gain_PxS, law_S, None, moment.token), excluded)
        return now, (level * self.delta >= 1) | excluded

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        scenes: tuple[Scene, ...] = moment.known
        law_S = moment.probs_S / total(moment.probs_S)

        def rows() -> Iterator[tuple[Array, Array, None]]:
            for scene, times in zip(scenes, self.times.values(), strict=True):
                for gain_S in scene.gains():
                    yield gain_S * times, law_S, None

        levels = self.bets.levels(rows(), moment.token)
        return first_true((levels * self.delta >= 1) | scenes[0].excluded(moment.token)) + 1

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """ln E_t and ln(1 / delta); infinite once a state came that the base model had excluded."""
        level, impossible = self.bets.together(memory.statistics, memory.step), memory.statistics.impossible
        xp = namespace(level)
        statistic = xp.where(impossible, xp.zeros_like(level) + math.inf, xp.log(level))
        return statistic, xp.zeros_like(statistic) - math.log(self.delta)

    def suspicion(self, memory: RuleMemory) -> Suspicion:
        found = self.bets.suspicion(memory.statistics)
        times_P = np.repeat(list(self.times.values()), [problem.n_actions for problem in self.problems.values()])
        return found._replace(rate=found.rate * constant(times_P, found.rate)[found.comparator])

    # What is promised

    @cached_property
    def certificate(self) -> NamedCertificate:
        """Statement (iv) of ``every_start`` in each problem, by its own rates and what all rows cost."""
        return certify_named({name: self._certified(name) for name in self.problems})

    def _certified(self, name: str) -> Certificate:
        problem, temperature, count = self.problems[name], self.temperature_in(name), len(self.problems)
        made = problem, self.priors[name], self.delta, temperature
        back: Any = self.fallback
        if self.in_play.follows:
            back = self._recovers[name]
        elif temperature == 0:
            back = _AfterBestResponses(back, _in_units(problem, self.urn_temperature))
        theorem = "the exact test on every action" + (f" of {count} problems" if count > 1 else "")
        return certify_switch(
            problem,
            self.horizon,
            temperature,
            back,
            before=partial(switching.before, *made, 1, False),
            interval=partial(switching.interval, *made),
            tv_bound=self.delta,
            theorem=theorem + (", unknown horizon" if self.horizon is None else ""),
            sharper=partial(switching.before, *made, 1, True) if temperature == 0 else None,
            counts_model=getattr(back, "counts_model", False),
        )


def problems_of(problems: Any) -> dict[str, DecisionProblem]:
    """Problems by name, over the same states; anything else is refused."""
    if not isinstance(problems, Mapping) or not problems or not all(isinstance(name, str) for name in problems):
        raise ValueError(
            f'problems must be a dict of problems by name, {{"umbrella": problem, ...}}, got {inputs.shown(problems)}'
        )
    for name, problem in problems.items():
        if not isinstance(problem, DecisionProblem):
            raise ValueError(f"problems must be DecisionProblems by name, and {name} is {inputs.shown(problem)}")
        if 0 < problem.span < LEAST_SPAN:
            raise ValueError(
                f"problems must have a span of at least {LEAST_SPAN:g} in utility, or none, and that of {name} is "
                f"{problem.span:g}: DecisionProblem.from_payoffs rescales"
            )
    found = dict(problems)
    by, one = _naming(found)
    for name, problem in found.items():
        if problem.n_states != one.n_states or (_named(problem) and problem.states != one.states):
            raise ValueError(
                f"problems must have the same states: {by} has {inputs.shown(one.states)}, {name} "
                f"{inputs.shown(problem.states)}"
            )
    return found


def _naming(problems: dict[str, DecisionProblem]) -> tuple[str, DecisionProblem]:
    """The problem whose names of states are those of all: the first that does not just count them."""
    return next(((name, one) for name, one in problems.items() if _named(one)), next(iter(problems.items())))


def _named(problem: DecisionProblem) -> bool:
    return problem.states != tuple(map(str, range(problem.n_states)))


def _in_units(problem: DecisionProblem, temperature: float | None) -> float | None:
    """A temperature in units of the span, in utility; None, a schedule, goes by the span itself."""
    return None if temperature is None else temperature * (problem.span or 1.0)


def _warmth(problem: DecisionProblem, temperature: float | None, step: Any) -> Any:
    """That of a step, in utility."""
    return problem.anytime_temperature(step) if temperature is None else _in_units(problem, temperature)
