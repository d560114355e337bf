"""A guarantee for every problem with two states at once (Theorem C.4): ask it what it says for yours."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple, cast

from .. import inputs
from ..problems import DecisionProblem
from ..tips import two_states
from . import bounds
from .bounds import Terms
from .certificate import Certificate, certify

MOST_AT_STAKE = DecisionProblem([[1, -1], [-1, 1]])  # of all problems with two actions and two states


@dataclass(frozen=True)
class AnyProblemCertificate(Certificate):
    """A guarantee for every problem with two states (Theorem C.4): ``for_problem`` says how much for yours.

    Its own ``regret_bound`` is for the problem with two actions in which most is at stake.
    """

    in_problem: Callable[[DecisionProblem, float], Certificate] = field(kw_only=True, repr=False, compare=False)
    temperature: float = field(kw_only=True)  # unless for_problem is told another

    def at(self, step: int) -> "AnyProblemCertificate":
        changed = cast(AnyProblemCertificate, super().at(step))
        return replace(changed, in_problem=partial(_then, self.in_problem, partial(Certificate.at, step=step)))

    def sharpen(self) -> "AnyProblemCertificate":
        changed = cast(AnyProblemCertificate, super().sharpen())
        return replace(changed, in_problem=partial(_then, self.in_problem, Certificate.sharpen))

    def for_problem(self, problem: DecisionProblem, temperature: float | None = None) -> Certificate:
        """The guarantee for one who acts in ``problem`` by quantal responses; 1/sqrt(horizon) is the temperature."""
        two_states(problem)
        if self.episodes > 1:
            raise ValueError(
                f"for_problem speaks of one episode, and this certificate is for {self.episodes}: ask the certificate "
                "of the guard's rule; the chances of a switch add up over episodes"
            )
        eta = self.temperature if temperature is None else inputs.positive(temperature, "temperature")
        return self.in_problem(problem, eta)

    def __str__(self) -> str:
        return super().__str__() + "\n  for_problem(problem, temperature) gives the number for yours"


def _then(
    in_problem: Callable[[DecisionProblem, float], Certificate],
    change: Callable[[Certificate], Certificate],
    problem: DecisionProblem,
    temperature: float,
) -> Certificate:
    return change(in_problem(problem, temperature))


class _EveryVRegret(NamedTuple):
    """The arguments of ``certify_any_problem``, kept as a value that can travel between processes."""

    horizon: int
    urn: Any
    most_v_regret: Callable[[int], float]
    spacing: float
    tv_bound: float
    theorem: str

    def in_problem(self, problem: DecisionProblem, temperature: float) -> Certificate:
        over_fallback = partial(self.over_fallback, problem, temperature)
        return certify(problem, self.horizon, temperature, self.urn, over_fallback, self.tv_bound, self.theorem)

    def over_fallback(self, problem: DecisionProblem, temperature: float, steps: int) -> Terms:
        return bounds.theorem_c_4(problem, steps, temperature, self.most_v_regret(steps), self.spacing)


def certify_any_problem(
    horizon: int, urn: Any, most_v_regret: Callable[[int], float], spacing: float, tv_bound: float, theorem: str
) -> AnyProblemCertificate:
    """What bounds every V-regret (times t, on tips this far apart) until it switches to the urn, bounds all regrets."""
    made = _EveryVRegret(horizon, urn, most_v_regret, spacing, tv_bound, theorem)
    worst = made.in_problem(MOST_AT_STAKE, horizon**-0.5)
    own = {f.name: getattr(worst, f.name) for f in fields(worst)}
    own["statement"] = (
        "In any problem with two states; the number is for the one of two actions in which most is at stake. "
        + worst.statement
    )
    return AnyProblemCertificate(**{**own, "temperature": horizon**-0.5}, in_problem=made.in_problem)
