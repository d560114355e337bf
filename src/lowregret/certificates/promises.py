"""What is promised, one class a kind of promise: its numbers by the statements of this folder, and its words."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from ..abilities import ability
from ..problems import DecisionProblem
from . import bounds, by_counts, late, switching
from .bounds import Bound, Terms, worst_alarm
from .certificate import Promise, Words
from .coupled import late_factor
from .every_start import Prior


class FallbackBound(NamedTuple):
    """What a promise asks of a fallback: a name, and what it loses at most in the last n of so many steps."""

    name: str
    regret_after: Callable[[DecisionProblem, int, float | None], Bound | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class WithFallback(Promise):
    """A promise that counts what a fallback may lose; ``temperature=None`` is the schedule for an unknown horizon."""

    temperature: float | None
    fallback: Any

    @property
    def name(self) -> str:
        found: str = getattr(self.fallback, "name", type(self.fallback).__name__)
        return found

    def after(self, steps: int) -> Bound | None:
        """F: the most that the fallback loses in the last n of so many steps; None: it does not say."""
        says = ability(self.fallback, "regret_after")
        return None if says is None else says(self.problem, steps, self.temperature)

    @property
    def acted(self) -> str:
        """Who acts."""
        acts = getattr(self.fallback, "acts", not hasattr(self.fallback, "predict"))
        then = f" until the alarm, and as {self.name} says from then on" if acts else ""
        eta = f"temperature {self.temperature:.4g}" if self.temperature is not None else _SCHEDULE
        response = "best response" if self.temperature == 0 else f"quantal response at {eta}"
        return f"every step is acted on by the {response}{then}"


_SCHEDULE = "the schedule problem.anytime_temperature"
_SEEN = "the state is seen after every step, whatever was done, and does not depend on the action drawn"
_IN_DISTRIBUTION = (
    "(for the TV bound only) sequences come from the base model itself; on data a switch can be likelier, by the "
    "distance between data and model"
)


# The exact test


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactlyTested(WithFallback):
    """Bets against the model until an alarm, a fallback from then on.

    Parameters
    ----------
    delta
        The chance of a false alarm that a class of steps is tested at.
    against
        Who the regret is to.
    counts_model
        Whether the fallback's bound is to the model's response too.
    payoffs_change
        Whether ``problem`` is only the widest of those that may come: nothing is exact then.
    """

    prior: Prior
    delta: float
    contexts: int = 1
    against: str = "every action"
    counts_model: bool = False
    payoffs_change: bool = False

    def said(self, told: str, late: str, assumptions: tuple[str, ...]) -> Words:
        """The words of both kinds: what is told of one, and by how much outcomes are late."""
        if self.after(self.prior.horizon or 1) is None:
            told += f" What {self.name} may lose after an alarm is not known: it enters as the span."
        if self.against != "every action":
            told = f"Regret is to {self.against}. {told}"
        unknown = ", unknown horizon" if self.prior.horizon is None else ""
        return Words(f"the exact test on {self.against}{late}{unknown}", told, assumptions)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SwitchesOnce(ExactlyTested):
    """Statement (iv) of ``every_start``, over contexts as in ``switching``."""

    @property
    def words(self) -> Words:
        told = f"No action leads by more before the alarm, and {self.name} loses no more after it, whenever it sounds."
        if self.prior.share < 1:
            told += (
                f" Bets on actions alone sound it with a chance of at most {self.prior.share * self.tv_bound:.3g} "
                "while the action advised is a best response to the law of what comes, however wrong the stated "
                "probabilities are."
            )
        return self.said(told, "", (self.acted, _SEEN, _IN_DISTRIBUTION))

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        span, exactly = self.problem.span, exactly and not self.payoffs_change
        test = self.problem, self.prior, self.delta, self.temperature
        before = switching.before(*test, self.contexts, exactly, steps)
        after, own = switching.with_draws(self.after(steps), self.temperature, span, steps, fails)
        passed, lost = worst_alarm(before, after, steps - 1)
        most = float(before(np.array([steps]))[0])
        if passed + span + lost <= most:  # no alarm is worse than any
            return {"before the alarm": most / steps, **own}
        parts = {"before the alarm": passed, "crossing step": span, "fallback": lost}
        return {**{name: part / steps for name, part in parts.items()}, **own}

    def behind_model(self, steps: int) -> float | None:
        """After the earliest alarm."""
        if not self.counts_model:
            return None
        after = self.after(steps) or partial(np.multiply, self.problem.span)
        return float(after(np.array([steps - 1]))[0])

    def interval(self, start: int, end: int) -> float:
        if self.contexts > 1:
            return super().interval(start, end)
        return switching.interval(self.problem, self.prior, self.delta, self.temperature, start, end)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SwitchesLate(ExactlyTested):
    """Statement (iv) of ``late``: outcomes come ``lag`` steps late, and each class has a fallback of its own."""

    lag: int

    @property
    def words(self) -> Words:
        told = (
            f"Steps {self.lag} apart make a class with a test and a fallback ({self.name}) of its own; one alarm, at "
            f"{late_factor(self.lag):.3g} times the evidence, switches all of them. Before it no action leads by more, "
            f"at most {self.lag} steps wait for their outcomes when it sounds, and the fallbacks lose no more after it."
        )
        assumptions = (
            self.acted,
            f"the outcome of step t is seen before the model speaks of step t + {self.lag}, whatever was done, and "
            "does not depend on the action drawn",
            f"{_IN_DISTRIBUTION}; a law is right if it is so given the outcomes that are {self.lag} or more steps old",
            "an outcome that never comes was given up before anyone could know it",
        )
        return self.said(told, f", outcomes {self.lag} steps late", assumptions)

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        rounds, span, exactly = -(-steps // self.lag), self.problem.span, exactly and not self.payoffs_change
        after = self.after(rounds) or partial(np.multiply, span)
        test = self.problem, self.prior, self.delta, self.temperature
        before = late.before(*test, self.contexts, self.lag, exactly, rounds)
        luck = span * math.sqrt(fails / 2)
        once, own = (luck, {}) if self.temperature == 0 else (0.0, {"draws": luck / math.sqrt(steps)})
        parts = late.late_switching(before, after, span, self.lag, rounds, once)
        names = "before the alarm", "steps that wait at the alarm", "fallback"
        terms = {name: part / steps for name, part in zip(names, parts, strict=True) if part or name == names[0]}
        return {**terms, **own} if fails else terms

    def behind_model(self, steps: int) -> float | None:
        """After the earliest alarm."""
        if not self.counts_model:
            return None
        rounds, span = -(-steps // self.lag), self.problem.span
        after = self.after(rounds) or partial(np.multiply, span)
        each = late.concave(lambda left_N: np.minimum(after(left_N), span * left_N), rounds)
        return float(late.dealt(each, self.lag, rounds, np.array([self.lag * rounds - 1]))[0])

    def interval(self, start: int, end: int) -> float:
        if self.contexts > 1 or self.prior.horizon is None or self.temperature is None:
            return super().interval(start, end)
        return late.interval(self.problem, self.prior, self.delta, self.temperature, self.lag, start, end)


# Others


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class FromTheStart(WithFallback):
    """A fallback that is played from the first step on: no alarm, and no promise to leave anything unchanged.

    ``lag``: so many of them take turns. ``counts_model``: its bound is to the model's response too.
    """

    tv_bound: float = 1.0
    lag: int = 1
    counts_model: bool = False

    @property
    def words(self) -> Words:
        told = f"{self.name} from the first step on loses no more. A model that is right is changed too."
        return Words(f"{self.name}, without a test", told, (f"every step is acted on as {self.name} says", _SEEN))

    def lost(self, steps: int) -> float:
        """In all."""
        bound = self.after(-(-steps // self.lag))
        if bound is None:
            return self.problem.span * steps
        if self.lag > 1:
            bound = late.in_classes(bound, self.problem.span, self.lag, steps)
        return float(bound(np.array([steps]))[0])

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        draws = {"draws": self.problem.span * math.sqrt(fails / (2 * steps))} if fails else {}
        return {"fallback": self.lost(steps) / steps, **draws}

    def behind_model(self, steps: int) -> float | None:
        return self.lost(steps) if self.counts_model else None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Unproved(Promise):
    """Nothing is known of the regret: it is at most the span. ``called`` says of what."""

    called: str

    @property
    def words(self) -> Words:
        return Words(self.called, "It carries no guarantee of regret, which is at most the span.")

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        self.refuse_draws(fails)
        return {"the span": self.problem.span}


@dataclass(frozen=True, kw_only=True, eq=False)
class OnFallback(WithFallback):
    """A rule's own bound on top of what its fallback loses from the first step on."""

    horizon: int | None

    @abstractmethod
    def over_fallback(self, steps: int) -> Terms:
        """What passes before the rule trips."""

    def known(self, steps: int) -> float | None:
        """The fallback's own bound, if it has one."""
        bound = ability(self.fallback, "regret_bound")
        return None if bound is None else bound(self.problem, steps, self.temperature)

    @property
    @abstractmethod
    def theorem(self) -> str:
        """By which it does."""

    @property
    def words(self) -> Words:
        told = f"At most the regret of {self.name} from the first step on, plus what passes before the rule trips."
        if self.known(self.horizon or 1) is None:
            told += f" The regret of {self.name} is not known: it enters as the span."
        return Words(self.theorem, told, (self.acted, _SEEN, _IN_DISTRIBUTION))

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        self.refuse_draws(fails)
        known = self.known(steps)
        lost = self.problem.span if known is None else known
        if exactly and self.temperature is not None:
            worst = by_counts.worst_case(self.fallback, self.problem, steps, self.temperature)
            lost = lost if worst is None else min(lost, worst)
        return {"fallback": lost, **self.over_fallback(steps)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Theorem31(OnFallback):
    """A threshold on the gap between the regrets of model and fallback."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GapOverHorizon(Theorem31):
    """Theorem 3.1 with its constant 8, or with half of the problem's squared contrast in its place."""

    alpha: float
    own_contrast: bool = False

    @property
    def theorem(self) -> str:
        return "Theorem 3.1" + (", with the problem's own contrast" if self.own_contrast else "")

    def over_fallback(self, steps: int) -> Terms:
        assert self.horizon is not None
        assert self.temperature is not None
        variance = self.problem.contrast**2 / 2 if self.own_contrast else 8.0
        return bounds.theorem_3_1(self.problem, self.horizon, self.temperature, self.alpha, variance, steps)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GapByTable(Theorem31):
    """Theorem 3.1 with a sharp threshold, given after 0 .. T steps."""

    threshold_T: np.ndarray

    @property
    def theorem(self) -> str:
        return "Theorem 3.1, with a sharp threshold"

    def over_fallback(self, steps: int) -> Terms:
        """The threshold before the crossing step, and that step."""
        return {
            "threshold": float(self.threshold_T[steps - 1]) / steps,
            "crossing step": self.problem.span / steps,
        }


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GapAtEveryStep(Theorem31):
    """Theorem 3.1 with a union over all steps; ``tv_bound`` is its delta."""

    variance: float
    horizon: None = None

    @property
    def theorem(self) -> str:
        return "Theorem 3.1, unknown horizon"

    def over_fallback(self, steps: int) -> Terms:
        return bounds.regret_gap_anytime(self.problem, steps, self.temperature, self.tv_bound, self.variance)


# Promises of promises


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class OverWindows(Promise):
    """Algorithm 2: ``length`` copies of what was promised, each on the window it lives; of a base with a ``window``."""

    of: Promise
    length: int
    window: int

    @property
    def words(self) -> Words:
        theorem, statement, assumptions = self.of.words
        context = (
            f"(for its own context only) the base model looks back {self.window} tokens at most; the whole then looks "
            f"back {self.window + self.length - 1}"
        )
        return Words(
            "Theorem 4.2, corrected" if isinstance(self.of, Theorem31) else f"Algorithm 2, {theorem}",
            f"The average of {self.length} copies, each on the window it lives: {statement}",
            (*assumptions, context),
        )

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        self.refuse_draws(fails)
        share, own = bounds.windows(steps, self.length), self.of.terms(min(steps, self.length), exactly=exactly)
        return {name: share * value for name, value in own.items()}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AsItRan(Promise):
    """What was promised where outcomes were missed, each of which may have cost the span at any step, to the model too.

    ``beyond``: how many steps a run is past its ``horizon``: no regret is promised for them, and with a ``tv_bound``
    of 1 no chance of a false alarm either.
    """

    of: Promise
    missed: int
    beyond: int = 0
    horizon: int | None = None

    @property
    def words(self) -> Words:
        if not self.beyond:
            return self.of.words
        alarms = "false alarms are not bounded beyond" if self.tv_bound == 1 else "false alarms stay bounded"
        told = (
            f"{self.of.words.statement} {self.beyond} steps are past the horizon: regret is promised for the first "
            f"{self.horizon}, and {alarms}. New breaks may be noticed late: restart()."
        )
        return self.of.words._replace(statement=told)

    @property
    def lost(self) -> float:
        return self.missed * self.problem.span

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        never = {"outcomes that never came": self.lost / steps} if self.missed else {}
        return {**self.of.terms(steps, fails, exactly), **never}

    def behind_model(self, steps: int) -> float | None:
        behind = self.of.behind_model(steps)
        return None if behind is None else behind + self.lost

    def interval(self, start: int, end: int) -> float:
        return self.of.interval(start, end) + self.lost
