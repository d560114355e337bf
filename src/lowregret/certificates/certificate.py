"""A guarantee is an object: what is promised at every number of steps, and after some, in numbers and words."""

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, final

from .. import inputs
from ..problems import DecisionProblem
from .bounds import Terms


class Words(NamedTuple):
    """By which theorem, what is said, and under which assumptions."""

    theorem: str
    statement: str
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Promise(ABC):
    """What is promised, at every number of steps: numbers, the problem, and in which words."""

    problem: DecisionProblem
    tv_bound: float
    speaks_of_draws: ClassVar[bool] = False  # whether ``terms`` can be those of actions as they are drawn

    @property
    @abstractmethod
    def words(self) -> Words: ...

    @abstractmethod
    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        """What the regret is made of, per step: ``exactly``, by exact worst cases, where they can be computed.

        Where ``fails`` is above 0: of actions as they are drawn, but for a chance of e^-fails.
        """

    def behind_model(self, steps: int) -> float | None:
        """What may be lost in total to the model itself; None: nothing is promised."""
        return None

    def interval(self, start: int, end: int) -> float:
        """The most total regret over the steps ``start .. end``, if no alarm was raised by then."""
        raise ValueError(f"this certificate ({self.words.theorem}) speaks of whole episodes only, not of intervals")

    def in_problem(self, problem: DecisionProblem, temperature: float | None) -> "Promise":
        """The same for one who acts in another problem, by quantal responses."""
        raise ValueError(f"this certificate ({self.words.theorem}) speaks of its own problem and temperature only")

    def certificate(self, steps: int | None) -> "Certificate":
        """The certificate for this many steps; None: they are not known, and ``at`` takes their number."""
        words = self.words._asdict()
        given = Certificate(self.problem.span, self.tv_bound, problem=self.problem, promise=self, **words)
        return given if steps is None else given.at(steps)


@dataclass(frozen=True)
class Certificate:
    """A guarantee: what it bounds, by how much, under which assumptions, by which statement.

    ``regret_bound`` is in utility; no bound exceeds the span, since no regret does. ``terms`` says what it is made of.
    ``against_model`` is the most that is earned less than by the model itself, per step, over the whole run (exactly 0
    up to the alarm); None: nothing is promised, or the number of steps is not known.

    >>> from lowregret import matching
    >>> print(Certificate(0.1, 0.05, "By simulation.", "a test of mine", matching(), horizon=1000))
    Certificate (a test of mine), 1000 steps
      regret  <= 0.1000 per step, on every sequence of states
      TV      <= 0.05 from the base model's own distribution
      token   <= 0.05 in TV of the next state's distribution, on average under it
      By simulation.
    """

    regret_bound: float
    tv_bound: float
    statement: str
    theorem: str
    problem: DecisionProblem
    horizon: int | None = None
    assumptions: tuple[str, ...] = ()
    terms: Terms = field(default_factory=dict)
    episodes: int = 1
    against_model: float | None = None
    # What it was made of, and how its terms were: of actions as they are drawn, exactly.
    promise: Promise | None = field(default=None, repr=False, compare=False)
    fails: float = field(default=0.0, repr=False, compare=False)
    exactly: bool = field(default=False, repr=False, compare=False)

    @property
    def regret_bound_in_payoffs(self) -> float:
        """The bound in the units the problem was made from."""
        return float(self.problem.regret_in_payoffs(self.regret_bound))

    @property
    def next_token_tv(self) -> float | None:
        """How far next-token distributions are from the base's, on average over steps and under it; None: no promise.

        Let tau be the number of tokens seen at the alarm, more than T for none, and TV_t the distance at step t between
        the distribution in force and the base's, after the same tokens, which the base draws: 0 up to step tau, at most
        1 after it. An alarm has a chance of at most delta (``tv_bound``), and tau >= 1. So

            E[(1/T) sum_t TV_t] <= E[(T - tau)^+ / T] <= delta (T - 1) / T.

        An unknown T gives delta, and so do several episodes, each with its own alarm: an average over them.
        """
        if self.tv_bound >= 1:  # there is no alarm, or nothing is known of it
            return None
        if self.horizon is None or self.episodes > 1:
            return self.tv_bound / self.episodes
        return self.tv_bound * (self.horizon - 1) / self.horizon

    def _own(self, such: str) -> Promise:
        """What it was made of, where that has more to say of ``such``."""
        if self.promise is None or self.episodes > 1 or self.fails:
            raise ValueError(f"this certificate ({self.theorem}) {such}")
        return self.promise

    def realised(self, confidence: float) -> "Certificate":
        """The same of the actions that are really drawn, with this confidence: what the draws may add is in it.

        A best response draws nothing before the alarm, so there it adds nothing; a quantal response draws at every
        step. The others are promises of mixed actions, on average over the draws.
        """
        confidence = inputs.probability(confidence, "confidence")
        such = "speaks of mixed actions only, not of those drawn"
        if not self._own(such).speaks_of_draws:
            raise ValueError(f"this certificate ({self.theorem}) {such}")
        if self.horizon is None:
            raise ValueError("realised is that of a number of steps: certificate.at(step).realised(confidence)")
        statement = f"Of the actions that are drawn, with a chance of {confidence:.6g} at least. {self.statement}"
        return replace(self, fails=-math.log1p(-confidence), statement=statement).at(self.horizon)

    def interval(self, start: int, end: int) -> float:
        """The most *total* regret to any action over the steps ``start .. end`` (from 1), if no alarm came by then.

        No interval before an alarm is bad, wherever it begins.
        """
        promise = self._own("speaks of whole episodes only, not of intervals")
        end = inputs.whole(end, "end", most=self.horizon)
        return promise.interval(inputs.whole(start, "start", most=end), end)

    def for_problem(self, problem: DecisionProblem, temperature: float | None = None) -> "Certificate":
        """That of ``VRegret`` speaks of every problem with two states (Theorem C.4): how much it promises for yours.

        For one who acts by quantal responses; 1/sqrt(horizon) is the temperature.
        """
        promise = self._own("is for one episode: ask the certificate of the setting; chances of a switch add up")
        given = promise.in_problem(problem, temperature).certificate(self.horizon)
        return given.sharpen() if self.exactly else given

    def at(self, step: int) -> "Certificate":
        """The guarantee for the first ``step`` steps (with an unknown horizon it holds at every step)."""
        step = inputs.whole(step, "step")
        if self.horizon is not None and step > self.horizon:
            raise ValueError(f"step must be at most the horizon {self.horizon}, got {step}")
        if self.promise is None:
            if self.horizon in (None, step):
                return replace(self, horizon=step)
            raise ValueError(f"step must be the horizon {self.horizon}: this certificate holds there only, got {step}")
        span, terms = self.problem.span, self.promise.terms(step, self.fails, self.exactly)
        behind = None if self.fails or self.episodes > 1 else self.promise.behind_model(step)
        return replace(
            self,
            horizon=step,
            terms=terms,
            regret_bound=min(span, sum(terms.values())),
            against_model=None if behind is None else min(span, behind / step),
        )

    def sharpen(self) -> "Certificate":
        """The same with bounds replaced by exact worst cases, where they can be computed."""
        if self.promise is None or self.horizon is None or self.episodes > 1 or self.fails:
            return self
        return replace(self, exactly=True).at(self.horizon)

    def over_episodes(self, episodes: int, regret_bound: float) -> "Certificate":
        """The same for several episodes in a row: chances of a false switch add up, regrets average to this bound."""
        if episodes == 1:
            return self
        return replace(
            self,
            regret_bound=regret_bound,
            tv_bound=min(1.0, self.tv_bound * episodes),
            statement=f"Over {episodes} episodes, the last one complete, each against its own best fixed action. "
            + self.statement,
            terms={},
            episodes=episodes,
            against_model=None,
            promise=self.promise if self.horizon is None else None,  # of the present episode
        )

    def as_promise(self) -> Promise:
        """What it was made of; of one made by hand, itself."""
        return self.promise or AsStated(problem=self.problem, tv_bound=self.tv_bound, given=self)

    def to_dict(self) -> dict[str, Any]:
        """Everything it says, as plain JSON values."""
        return {
            "theorem": self.theorem,
            "regret_bound": self.regret_bound,
            "regret_bound_in_payoffs": self.regret_bound_in_payoffs,
            **({} if self.against_model is None else {"against_model": self.against_model}),
            "tv_bound": self.tv_bound,
            "next_token_tv": self.next_token_tv,
            "horizon": self.horizon,
            "episodes": self.episodes,
            "terms": self.terms,
            "statement": self.statement,
            "assumptions": list(self.assumptions),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        steps = "any number of" if self.horizon is None else f"{self.horizon}"
        many = "" if self.episodes == 1 else f", {self.episodes} episodes"
        lines = [f"Certificate ({self.theorem}), {steps} steps{many}"]
        if self.horizon is None and self.promise is not None:
            held = ", ".join(f"{self.at(t).regret_bound:.4f} after {t}" for t in (1_000, 100_000))
            lines.append(f"  regret  <= at(t).regret_bound per step after t, on every sequence: {held}")
        else:
            own = self.problem.in_payoffs(1.0) == 1.0 and self.problem.in_payoffs(0.0) == 0.0
            units = "" if own else f" ({self.regret_bound_in_payoffs:.4g} in payoffs)"
            lines.append(f"  regret  <= {self.regret_bound:.4f} per step, on every sequence of states{units}")
        if self.against_model is not None:
            until = "; nothing up to the alarm" if "before the alarm" in self.terms else ""
            lines.append(f"  model   <= {self.against_model:.4f} per step behind the model itself{until}")
        lines.append(f"  TV      <= {self.tv_bound:.3g} from the base model's own distribution")
        if self.next_token_tv is not None:
            lines.append(
                f"  token   <= {self.next_token_tv:.3g} in TV of the next state's distribution, on average under it"
            )
        if self.terms:
            made_of = " + ".join(f"{value:.4f} {name}" for name, value in self.terms.items() if value > 0)
            capped = sum(self.terms.values()) > self.regret_bound * (1 + 1e-12)
            lines.append(f"  made of {made_of}" + (f", capped at the span {self.problem.span:.4g}" if capped else ""))
        lines.append(f"  {self.statement}")
        lines.extend(f"  assuming {assumption}" for assumption in self.assumptions)
        return "\n".join(lines)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AsStated(Promise):
    """A certificate made by hand: at its own number of steps alone, or at any where it names none."""

    given: Certificate

    @property
    def words(self) -> Words:
        return Words(self.given.theorem, self.given.statement, self.given.assumptions)

    def terms(self, steps: int, fails: float = 0.0, exactly: bool = False) -> Terms:
        given = self.given.at(steps)
        return given.terms or {"as stated": given.regret_bound}

    def behind_model(self, steps: int) -> float | None:
        lost = self.given.at(steps).against_model
        return None if lost is None else steps * lost
