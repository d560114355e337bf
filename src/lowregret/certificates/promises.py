"""What is promised, one class a kind of promise: its numbers by the statements of this folder, and its words."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from .. import inputs
from ..abilities import ability
from ..problems import DecisionProblem, two_states
from . import bounds, by_counts, switching
from .bounds import Bound, Terms, worst_alarm
from .certificate import Promise, Words
from .coupled import late_factor
from .every_start import Prior

# What a fallback loses at most in the last n of so many steps, at a temperature; None: it is not known.
After = Callable[[DecisionProblem, int, float | None], Bound | None]

WIDEST = DecisionProblem([[1, -1], [-1, 1]])  # of all problems with two actions and two states

_SEEN = "the state is seen after every step, whatever was done, and does not depend on the action drawn"
_IN_DISTRIBUTION = (
    "(for the TV bound only) sequences come from the base model itself; on data a switch can be likelier, by the "
    "distance between data and model"
)


def acted(temperature: float | None, fallback: str | None) -> str:
    """Who acts: the response to the model, and from an alarm on the fallback of this name, if it acts itself."""
    then = "" if fallback is None else f" until the alarm, and as {fallback} says from then on"
    eta = "the schedule problem.anytime_temperature" if temperature is None else f"temperature {temperature:.4g}"
    response = "best response" if temperature == 0 else f"quantal response at {eta}"
    return f"every step is acted on by the {response}{then}"


@dataclass(frozen=True, kw_only=True, eq=False)
class WithFallback(Promise):
    """A fallback is played: from an alarm on, or from the first step.

    Parameters
    ----------
    temperature
        Of the response; None: the schedule for an unknown horizon.
    fallback, regret_after
        What it is called, and what it loses at most.
    lag
        How many of them take turns, each with a class of steps.
    counts_model
        Whether its bound is to the model's response too.
    """

    temperature: float | None
    fallback: str
    regret_after: After
    lag: int = 1
    counts_model: bool = False
    speaks_of_draws: ClassVar[bool] = True

    def after(self, rounds: int) -> Bound:
        """F, over all classes of up to ``rounds`` steps each."""
        own = self.regret_after(self.problem, rounds, self.temperature)
        return switching.after_alarm(own, self.problem.span, self.lag, rounds)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Switches(WithFallback):
    """The exact test, and a fallback from its alarm on: statements (ii) and (iv), as in ``switching``.

    Parameters
    ----------
    delta
        The chance of a false alarm that a class of steps is tested at.
    against
        Who the regret is to.
    payoffs_change
        Whether ``problem`` is only the widest of those that may come: nothing is exact then.
    """

    prior: Prior
    delta: float
    contexts: int = 1
    against: str = "every action"
    payoffs_change: bool = False

    @property
    def words(self) -> Words:
        if self.lag == 1:
            late, assumptions = "", [_SEEN, _IN_DISTRIBUTION]
            statement = (
                f"No action leads by more before the alarm, and {self.fallback} loses no more after it, whenever it "
                "is raised."
            )
            if self.prior.share < 1:
                statement += (
                    f" Bets on actions alone raise it with a chance of at most {self.prior.share * self.tv_bound:.3g} "
                    "while the action advised is a best response to the true distribution, however wrong the stated "
                    "probabilities are."
                )
        else:
            late = f", outcomes {self.lag} steps late"
            statement = (
                f"Steps {self.lag} apart make a class with a test and a fallback ({self.fallback}) of its own; one "
                f"alarm, at {late_factor(self.lag):.3g} times the evidence, switches all of them. Before it no action "
                f"leads by more, at most {self.lag} steps wait for their outcomes at it, and the fallbacks lose no "
                "more after it."
            )
            assumptions = [
                f"the outcome of step t is seen before the model speaks of step t + {self.lag}, whatever was done, and "
                "does not depend on the action drawn",
                f"{_IN_DISTRIBUTION}; a forecast is right if it is so given outcomes {self.lag} or more steps old",
                "an outcome that never comes was given up before anyone could know it",
            ]
        if self.regret_after(self.problem, self.prior.horizon or 1, self.temperature) is None:
            statement += f" What {self.fallback} may lose after an alarm is not known: it enters as the span."
        if self.against != "every action":
            statement = f"Regret is to {self.against}. {statement}"
        unknown = ", unknown horizon" if self.prior.horizon is None else ""
        theorem = f"the exact test on {self.against}{late}{unknown}"
        return Words(theorem, statement, (acted(self.temperature, self.fallback), *assumptions))

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        span, rounds, draws = self.problem.span, -(-steps // self.lag), dict[str, float]()
        end, exactly = self.lag * rounds, exactly and not self.payoffs_change
        test = self.problem, self.prior, self.delta, self.temperature
        before, after = switching.before(*test, self.contexts, self.lag, exactly, steps), self.after(rounds)
        if fails and self.temperature == 0:
            after = switching.with_draws(after, span, fails)
        elif fails:
            draws = {"draws": float(switching.luck(span, steps, fails)) / steps}
        # As many wait as can: a step that waits counts the span, before or after it would count at most that.
        around = min(self.lag, end)
        passed, lost = worst_alarm(before, after, end - around)
        most = float(before(np.array([end]))[0])
        if passed + around * span + lost <= most:  # no alarm is worse than any
            return {"before the alarm": most / steps, **draws}
        crossing = "crossing step" if self.lag == 1 else "steps that wait at the alarm"
        parts = {"before the alarm": passed, crossing: around * span, "fallback": lost}
        return {**{name: part / steps for name, part in parts.items()}, **draws}

    def behind_model(self, steps: int) -> float | None:
        """After the earliest alarm."""
        rounds = -(-steps // self.lag)
        return float(self.after(rounds)(np.array([self.lag * rounds - 1]))[0]) if self.counts_model else None

    def interval(self, start: int, end: int) -> float:
        if self.contexts > 1 or (self.lag > 1 and None in (self.prior.horizon, self.temperature)):
            return super().interval(start, end)
        return switching.interval(self.problem, self.prior, self.delta, self.temperature, self.lag, start, end)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class FromTheStart(WithFallback):
    """A fallback that is played from the first step on: no alarm, and no promise to leave anything unchanged."""

    tv_bound: float = 1.0

    @property
    def words(self) -> Words:
        statement = f"{self.fallback} from the first step on loses no more. A model that is right is changed too."
        assumptions = (f"every step is acted on as {self.fallback} says", _SEEN)
        return Words(f"{self.fallback}, without a test", statement, assumptions)

    def lost(self, steps: int) -> float:
        """In total, however the steps are spread over the classes: none has more than ``rounds``."""
        rounds = -(-steps // self.lag)
        return min(self.problem.span * steps, float(self.after(rounds)(np.array([self.lag * rounds]))[0]))

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        draws = {"draws": float(switching.luck(self.problem.span, steps, fails)) / steps} if fails else {}
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
        return {"the span": self.problem.span}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class OverFallback(Promise):
    """The paper's own tests: what passes before an alarm, on top of what the fallback loses from the first step on.

    Parameters
    ----------
    passes
        What passes, per step: called with ``problem``, ``steps`` and ``temperature``.
    for_any_problem
        Whether it is for every problem with two states, and ``problem`` is ``WIDEST`` (Theorem C.4).
    """

    temperature: float | None
    fallback: Any
    horizon: int | None
    theorem: str
    passes: Callable[..., Terms]
    for_any_problem: bool = False

    @property
    def words(self) -> Words:
        name = getattr(self.fallback, "name", type(self.fallback).__name__)
        statement = ""
        if self.for_any_problem:
            statement = (
                "In any problem with two states: for_problem(problem, temperature) gives the number for yours, this is "
                "for the one of two actions in which most is at stake. "
            )
        statement += f"At most the regret of {name} from the first step on, plus what passes before the alarm."
        if self.known(self.horizon or 1) is None:
            statement += f" The regret of {name} is not known: it enters as the span."
        acts = getattr(self.fallback, "acts", not hasattr(self.fallback, "predict"))
        return Words(
            self.theorem, statement, (acted(self.temperature, name if acts else None), _SEEN, _IN_DISTRIBUTION)
        )

    def known(self, steps: int) -> float | None:
        """The fallback's own bound, if it has one."""
        bound = ability(self.fallback, "regret_bound")
        return None if bound is None else bound(self.problem, steps, self.temperature)

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        known = self.known(steps)
        lost = self.problem.span if known is None else known
        if exactly and self.temperature is not None:
            worst = by_counts.worst_case(self.fallback, self.problem, steps, self.temperature)
            lost = lost if worst is None else min(lost, worst)
        passes = self.passes(problem=self.problem, steps=steps, temperature=self.temperature)
        return {"fallback": lost, **passes}

    def in_problem(self, problem: DecisionProblem, temperature: float | None) -> Promise:
        if not self.for_any_problem:
            return super().in_problem(problem, temperature)
        two_states(problem)
        eta = self.temperature if temperature is None else inputs.positive(temperature, "temperature")
        return replace(self, problem=problem, temperature=eta, for_any_problem=False)


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
            "Theorem 4.2, corrected" if theorem.startswith("Theorem 3.1") else f"Algorithm 2, {theorem}",
            f"The average of {self.length} copies, each on the window it lives: {statement}",
            (*assumptions, context),
        )

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
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
    def speaks_of_draws(self) -> bool:  # type: ignore[override]
        return self.of.speaks_of_draws

    @property
    def words(self) -> Words:
        if not self.beyond:
            return self.of.words
        alarms = "false alarms are not bounded beyond" if self.tv_bound == 1 else "false alarms stay bounded"
        statement = (
            f"{self.of.words.statement} {self.beyond} steps are past the horizon: regret is promised for the first "
            f"{self.horizon}, and {alarms}. New breaks may be noticed late: restart()."
        )
        return self.of.words._replace(statement=statement)

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
