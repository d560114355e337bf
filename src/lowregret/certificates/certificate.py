"""A guarantee is an object: what a rule bounds, put on top of its fallback's own bound, for people and for programs."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from .. import inputs
from ..abilities import ability
from ..problems import DecisionProblem
from . import by_counts
from .bounds import Terms


@dataclass(frozen=True)
class Certificate:
    """A guarantee: what it bounds, by how much, under which assumptions, by which statement.

    ``regret_bound`` is in utility; no bound exceeds the span, since no regret does. ``terms`` says what it is made of.
    """

    regret_bound: float
    tv_bound: float
    statement: str
    assumptions: tuple[str, ...]
    theorem: str
    problem: DecisionProblem
    horizon: int | None
    terms: Terms
    episodes: int = 1
    exact_fallback: Callable[[int], float | None] | None = field(default=None, repr=False, compare=False)
    terms_at: Callable[[int], Terms] | None = field(default=None, repr=False, compare=False)
    between: Callable[[int, int], float] | None = field(default=None, repr=False, compare=False)
    sharper: Callable[..., Terms] | None = field(default=None, repr=False, compare=False)
    # The terms for actions as they are drawn: by steps, and the logarithm of one over the chance that they fail.
    drawn: Callable[[int, float], Terms] | None = field(default=None, repr=False, compare=False)
    # What may be lost to the model itself in all, by steps, where what is played after an alarm counts it.
    behind_model: Callable[[int], float] | None = field(default=None, repr=False, compare=False)

    @property
    def regret_bound_in_payoffs(self) -> float:
        """The bound in the units the problem was made from."""
        return float(self.problem.regret_in_payoffs(self.regret_bound))

    @property
    def against_model(self) -> float | None:
        """The most that is earned less than by the model itself, a step, over the whole run; None: nothing is promised.

        It is exactly 0 up to the alarm.
        """
        if self.behind_model is None:
            return None
        if self.horizon is None:
            raise ValueError("against_model is that of a number of steps: certificate.at(step).against_model")
        return min(self.problem.span, self.behind_model(self.horizon) / self.horizon)

    @property
    def next_token_tv(self) -> float | None:
        """How far the next-token laws are from the base's, on average over steps and the base's law; None: no promise.

        Let tau be the number of tokens seen at the alarm, more than T for none, and TV_t the distance at step t between
        the law in force and the base's, both after the same tokens, which are drawn from the base's own law. Up to step
        tau the law in force is the base's, so TV_t = 0, and no distance is above 1. The alarm sounds with a chance of
        at most delta (``tv_bound``), and not before the first token is seen, tau >= 1. So

            E[(1/T) sum_t TV_t] <= E[(T - tau)^+ / T] = P(tau < T) E[(T - tau) / T | tau < T] <= delta (T - 1) / T.

        The middle is the chance of a switch times the expected share of steps after it, given one; the last is the
        number. An unknown T gives delta, and so do several episodes, each with its own alarm: an average over them.
        """
        if self.tv_bound >= 1:  # there is no alarm, or nothing is known of it
            return None
        if self.horizon is None or self.episodes > 1:
            return self.tv_bound / self.episodes
        return self.tv_bound * (self.horizon - 1) / self.horizon

    def realised(self, confidence: float) -> "Certificate":
        """The same of the actions that are really drawn, with this confidence: what the draws may add is in it.

        A best response draws nothing before the alarm, so there it adds nothing; a quantal response draws at every
        step. The others are promises of mixed actions, on average over the draws.
        """
        confidence = inputs.probability(confidence, "confidence")
        fails = -math.log1p(-confidence)
        if self.drawn is None or self.episodes > 1:
            raise ValueError(f"this certificate ({self.theorem}) speaks of mixed actions only, not of those drawn")
        if self.horizon is None:
            raise ValueError("realised is that of a number of steps: certificate.at(step).realised(confidence)")
        terms_at = partial(_with_draws, self.drawn, fails)
        changed = replace(
            self,
            statement=f"Of the actions that are drawn, with a chance of {confidence:.6g} at least. {self.statement}",
            terms_at=terms_at,
            drawn=None,
            sharper=None,
            exact_fallback=None,
            behind_model=None,
            between=None,
        )
        return changed.with_terms(terms_at(self.horizon), self.horizon)

    def interval(self, start: int, end: int) -> float:
        """The most *total* regret to any action over the steps ``start .. end`` (from 1), if no alarm sounded by then.

        No interval before an alarm is bad, wherever it begins.
        """
        if self.between is None:
            raise ValueError(f"this certificate ({self.theorem}) speaks of whole episodes only, not of intervals")
        start = inputs.whole(start, "start")
        end = inputs.whole(end, "end")
        if start > end:
            raise ValueError(f"start must be at most end, got {start} and {end}")
        if self.horizon is not None and end > self.horizon:
            raise ValueError(f"end must be at most the horizon {self.horizon}, got {end}")
        return self.between(start, end)

    def at(self, step: int) -> "Certificate":
        """The guarantee for the first ``step`` steps (with an unknown horizon it holds at every step)."""
        step = inputs.whole(step, "step")
        if self.horizon is not None and step > self.horizon:
            raise ValueError(f"step must be at most the horizon {self.horizon}, got {step}")
        if self.terms_at is None:
            if step == self.horizon:
                return self
            raise ValueError(f"step must be the horizon {self.horizon}: this certificate holds there only, got {step}")
        return self.with_terms(self.terms_at(step), step)

    def sharpen(self) -> "Certificate":
        """The same with the fallback's bound replaced by its exact worst case, where that can be computed."""
        if self.sharper is not None and self.horizon is not None:
            terms = self.sharper(self.horizon)
            drawn = None if self.drawn is None else self.sharper
            return replace(self.with_terms(terms, self.horizon), terms_at=self.sharper, sharper=None, drawn=drawn)
        if self.exact_fallback is None or self.terms_at is None or self.horizon is None:
            return self
        terms_at = partial(_sharpened, self.terms_at, self.exact_fallback)
        return replace(self.with_terms(terms_at(self.horizon), self.horizon), terms_at=terms_at, exact_fallback=None)

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
            exact_fallback=None,
            terms_at=self.terms_at if self.horizon is None else None,  # of the present episode
            between=None,
            sharper=None,
            drawn=None,
            behind_model=None,
        )

    def with_terms(self, terms: Terms, horizon: int) -> "Certificate":
        """The same bound made of other terms, at this horizon."""
        bound = min(self.problem.span, sum(terms.values()))
        return replace(self, regret_bound=bound, terms=terms, horizon=horizon)

    def to_dict(self) -> dict[str, Any]:
        """Everything it says, as plain JSON values."""
        known = self.behind_model is not None and self.horizon is not None
        return {
            "theorem": self.theorem,
            "regret_bound": self.regret_bound,
            "regret_bound_in_payoffs": self.regret_bound_in_payoffs,
            **({"against_model": self.against_model} if known else {}),
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
        if self.horizon is None and self.terms_at is not None:
            held = ", ".join(f"{self.at(t).regret_bound:.4f} after {t}" for t in (1_000, 100_000))
            lines.append(f"  regret  <= at(t).regret_bound a step after t, on every sequence: {held}")
        else:
            lines.append(f"  regret  <= {self.regret_bound:.4f} a step, on every sequence of states" + self._units())
        if self.behind_model is not None and self.horizon is not None:
            until = "; nothing up to the alarm" if "before the alarm" in self.terms else ""
            lines.append(f"  model   <= {self.against_model:.4f} a step behind the model itself{until}")
        lines.append(f"  TV      <= {self.tv_bound:.3g} from the base model's own distribution")
        if self.next_token_tv is not None:
            lines.append(f"  token   <= {self.next_token_tv:.3g} in TV of the next state's law, on average under it")
        if self.terms:
            made_of = " + ".join(f"{value:.4f} {name}" for name, value in self.terms.items() if value > 0)
            capped = sum(self.terms.values()) > self.regret_bound * (1 + 1e-12)
            lines.append(f"  made of {made_of}" + (f", capped at the span {self.problem.span:.4g}" if capped else ""))
        lines.append(f"  {self.statement}")
        lines.extend(f"  assuming {assumption}" for assumption in self.assumptions)
        return "\n".join(lines)

    def _units(self) -> str:
        if self.problem.in_payoffs(1.0) == 1.0 and self.problem.in_payoffs(0.0) == 0.0:
            return ""
        return f" ({self.regret_bound_in_payoffs:.4g} in payoffs)"


def _with_draws(drawn: Callable[[int, float], Terms], fails: float, steps: int) -> Terms:
    return drawn(steps, fails)


def _sharpened(terms_at: Callable[[int], Terms], exact: Callable[[int], float | None], steps: int) -> Terms:
    terms, worst = terms_at(steps), exact(steps)
    return terms if worst is None else {**terms, "fallback": min(terms["fallback"], worst)}


class _OnFallback(NamedTuple):
    """A rule's own bound on top of its fallback's, at every number of steps.

    A value where closures would do: what a certificate holds must be able to travel between processes.
    """

    problem: DecisionProblem
    temperature: float | None
    fallback: Any
    over_fallback: Callable[[int], Terms] | None

    def known_at(self, steps: int) -> float | None:
        bound = ability(self.fallback, "regret_bound")
        return None if bound is None else bound(self.problem, steps, self.temperature)

    def terms_at(self, steps: int) -> Terms:
        known = self.known_at(steps)
        own = {"fallback": self.problem.span if known is None else known}
        return own if self.over_fallback is None else {**own, **self.over_fallback(steps)}

    def exact_fallback(self, steps: int) -> float | None:
        if self.temperature is None:
            return None
        return by_counts.worst_case(self.fallback, self.problem, steps, self.temperature)


def assumptions_of(temperature: float | None, fallback: Any) -> tuple[str, ...]:
    """What every certificate assumes."""
    acts = getattr(fallback, "acts", not hasattr(fallback, "predict"))
    name = getattr(fallback, "name", type(fallback).__name__)
    then = f" until the alarm, and as {name} says from then on" if acts else ""
    eta = "the schedule problem.anytime_temperature" if temperature is None else f"temperature {temperature:.4g}"
    response = "best response" if temperature == 0 else f"quantal response at {eta}"
    return (
        f"every step is acted on by the {response}{then}",
        "the state is seen after every step, whatever was done, and does not depend on the action drawn",
        "(for the TV bound only) sequences come from the base model itself; on data a switch can be likelier, "
        "by the distance between data and model",
    )


def certify(
    problem: DecisionProblem,
    horizon: int | None,
    temperature: float | None,
    fallback: Any,
    over_fallback: Callable[[int], Terms] | None,
    tv_bound: float,
    theorem: str,
) -> Certificate:
    """Put a rule's own bound on top of its fallback's; ``over_fallback=None``: the rule bounds nothing."""
    made = _OnFallback(problem, temperature, fallback, over_fallback)
    name = type(fallback).__name__
    assumptions = assumptions_of(temperature, fallback)
    if over_fallback is None:
        return Certificate(
            regret_bound=problem.span,
            tv_bound=tv_bound,
            statement="This rule carries no guarantee: the bounds are trivial.",
            assumptions=assumptions[:1],
            theorem=theorem,
            problem=problem,
            horizon=horizon,
            terms={},
        )
    statement = f"At most the regret of {name} from the first step on, plus what passes before the rule trips."
    if made.known_at(horizon or 1) is None:
        statement += f" The regret of {name} is not known: it enters as the span."
    draft = Certificate(
        regret_bound=problem.span,
        tv_bound=tv_bound,
        statement=statement,
        assumptions=assumptions,
        theorem=theorem,
        problem=problem,
        horizon=horizon,
        terms={},
        exact_fallback=made.exact_fallback,
        terms_at=made.terms_at,
    )
    return draft if horizon is None else draft.with_terms(made.terms_at(horizon), horizon)
