"""A guarantee is an object: what a rule bounds, put on top of its fallback's own bound, for people and for programs."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from . import certificates, inputs
from .certificates import Terms
from .predictors import PolyaUrn
from .problems import DecisionProblem
from .tips import two_states

MOST_AT_STAKE = DecisionProblem([[1, -1], [-1, 1]])  # of all problems with two actions and two states


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
    guaranteed_payoff: float | None = None  # what the fallback earns at least a step, where it says so
    exact_fallback: Callable[[int], float | None] | None = field(default=None, repr=False, compare=False)
    terms_at: Callable[[int], Terms] | None = field(default=None, repr=False, compare=False)

    @property
    def regret_bound_in_payoffs(self) -> float:
        """The bound in the units the problem was made from."""
        return float(self.problem.regret_in_payoffs(self.regret_bound))

    @property
    def payoff_bound(self) -> float | None:
        """The least average utility, where the fallback guarantees one (Maximin) and the rule bounds what passes."""
        if self.guaranteed_payoff is None or not self.terms:
            return None
        return certificates.maximin_payoff(
            self.guaranteed_payoff, {k: v for k, v in self.terms.items() if k != "fallback"}
        )

    def at(self, step: int) -> "Certificate":
        """The guarantee for the first ``step`` steps (with an unknown horizon it holds at every step)."""
        step = inputs.whole(step, "step")
        if self.horizon is not None and step > self.horizon:
            raise ValueError(f"step must be at most the horizon {self.horizon}, got {step}")
        if self.terms_at is None:
            raise ValueError("this certificate holds at its horizon only")
        return self.with_terms(self.terms_at(step), step)

    def sharpen(self) -> "Certificate":
        """The same with the fallback's bound replaced by its exact worst case, where that can be computed."""
        given, exact = self.terms_at, self.exact_fallback
        if exact is None or given is None or self.horizon is None:
            return self

        def terms_at(steps: int) -> Terms:
            terms, worst = given(steps), exact(steps)
            return terms if worst is None else {**terms, "fallback": min(terms["fallback"], worst)}

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
        )

    def with_terms(self, terms: Terms, horizon: int) -> "Certificate":
        """The same bound made of other terms, at this horizon."""
        bound = min(self.problem.span, sum(terms.values()))
        return replace(self, regret_bound=bound, terms=terms, horizon=horizon)

    def to_dict(self) -> dict[str, Any]:
        """Everything it says, as plain JSON values."""
        return {
            "theorem": self.theorem,
            "regret_bound": self.regret_bound,
            "regret_bound_in_payoffs": self.regret_bound_in_payoffs,
            "payoff_bound": self.payoff_bound,
            "tv_bound": self.tv_bound,
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
        if self.payoff_bound is not None:
            units = f" ({self.problem.in_payoffs(self.payoff_bound):.4g} in payoffs)" if self._units() else ""
            lines.append(f"  utility >= {self.payoff_bound:.4f} a step, on every sequence of states{units}")
        lines.append(f"  TV      <= {self.tv_bound:.3g} from the base model's own distribution")
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

    def known_at(steps: int) -> float | None:
        return getattr(fallback, "regret_bound", lambda *_: None)(problem, steps, temperature)

    def terms_at(steps: int) -> Terms:
        known = known_at(steps)
        own = {"fallback": problem.span if known is None else known}
        return own if over_fallback is None else {**own, **over_fallback(steps)}

    def exact_fallback(steps: int) -> float | None:
        from .adversaries import worst_case_by_counts

        return None if temperature is None else worst_case_by_counts(fallback, problem, steps, temperature)

    name = type(fallback).__name__
    then = "" if hasattr(fallback, "predict") else f" until the alarm, and as {name} says from then on"
    payoff = getattr(fallback, "payoff_guarantee", None)
    warmth = "the schedule problem.anytime_temperature" if temperature is None else f"temperature {temperature:.4g}"
    assumptions = (
        f"every step is acted on by the quantal response at {warmth}{then}",
        "the state is seen after every step, whatever was done, and does not depend on the action drawn",
        "(for the TV bound only) sequences come from the base model itself; on data a switch can be likelier, "
        "by the distance between data and model",
    )
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
    if known_at(horizon or 1) is None:
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
        guaranteed_payoff=None if payoff is None or temperature is None else payoff(temperature),
        exact_fallback=exact_fallback,
        terms_at=terms_at,
    )
    return draft if horizon is None else draft.with_terms(terms_at(horizon), horizon)


@dataclass(frozen=True)
class AnyProblemCertificate(Certificate):
    """A guarantee for every problem with two states (Theorem C.4): ``for_problem`` says how much for yours.

    Its own ``regret_bound`` is for the problem with two actions in which most is at stake.
    """

    in_problem: Callable[[DecisionProblem, float], Certificate] = field(kw_only=True, repr=False, compare=False)
    temperature: float = field(kw_only=True)  # unless for_problem is told another

    def at(self, step: int) -> "AnyProblemCertificate":
        given = self.in_problem
        changed = cast(AnyProblemCertificate, super().at(step))
        return replace(changed, in_problem=lambda problem, warmth: given(problem, warmth).at(step))

    def sharpen(self) -> "AnyProblemCertificate":
        given = self.in_problem
        changed = cast(AnyProblemCertificate, super().sharpen())
        return replace(changed, in_problem=lambda problem, warmth: given(problem, warmth).sharpen())

    def for_problem(self, problem: DecisionProblem, temperature: float | None = None) -> Certificate:
        """The guarantee for one who acts in ``problem`` by quantal responses; 1/sqrt(horizon) is the temperature."""
        two_states(problem)
        if self.episodes > 1:
            raise ValueError(
                f"for_problem speaks of one episode, and this certificate is for {self.episodes}: ask the certificate "
                "of the guard's rule; the chances of a switch add up over episodes"
            )
        warmth = self.temperature if temperature is None else inputs.positive(temperature, "temperature")
        return self.in_problem(problem, warmth)

    def __str__(self) -> str:
        return super().__str__() + "\n  for_problem(problem, temperature) gives the number for yours"


def certify_any_problem(
    horizon: int, urn: PolyaUrn, most_v_regret: Callable[[int], float], spacing: float, tv_bound: float, theorem: str
) -> AnyProblemCertificate:
    """What bounds every V-regret (times t, on tips this far apart) until it switches to the urn, bounds all regrets."""

    def in_problem(problem: DecisionProblem, temperature: float) -> Certificate:
        def over_fallback(steps: int) -> Terms:
            return certificates.theorem_c_4(problem, steps, temperature, most_v_regret(steps), spacing)

        return certify(problem, horizon, temperature, urn, over_fallback, tv_bound, theorem)

    worst = in_problem(MOST_AT_STAKE, horizon**-0.5)
    own = {f.name: getattr(worst, f.name) for f in fields(worst)}
    own["statement"] = (
        "In any problem with two states; the number is for the one of two actions in which most is at stake. "
        + worst.statement
    )
    return AnyProblemCertificate(**own, in_problem=in_problem, temperature=horizon**-0.5)
