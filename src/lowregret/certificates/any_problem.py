"""A guarantee for every problem with two states at once (Theorem C.4): ask it what it says for yours."""

from abc import abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import final

import numpy as np

from .. import inputs
from ..problems import DecisionProblem, two_states
from . import bounds
from .bounds import Terms
from .certificate import Certificate
from .promises import OnFallback

MOST_AT_STAKE = DecisionProblem([[1, -1], [-1, 1]])  # of all problems with two actions and two states


@dataclass(frozen=True, kw_only=True, eq=False)
class TheoremC4(OnFallback):
    """What bounds every V-regret, on tips this far apart, until it switches to the urn, bounds all regrets."""

    spacing: float

    @abstractmethod
    def most_v_regret(self, steps: int) -> float:
        """What a V-regret can reach before the alarm, in total."""

    def over_fallback(self, steps: int) -> Terms:
        assert self.temperature is not None
        return bounds.theorem_c_4(self.problem, steps, self.temperature, self.most_v_regret(steps), self.spacing)

    def for_any_problem(self) -> "AnyProblemCertificate":
        """What it is in its own problem, which should be ``MOST_AT_STAKE``, and in every other."""
        given, words = (
            self.certificate(self.horizon),
            ("In any problem with two states; the number is for the one of two actions in which most is at stake. "),
        )
        own = {f.name: getattr(given, f.name) for f in fields(given)}
        return AnyProblemCertificate(**own | {"statement": words + given.statement, "of": self})


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class VByThreshold(TheoremC4):
    """Algorithm 3 as printed, with so many tips; ``tv_bound`` is its delta."""

    n_tips: int

    @property
    def theorem(self) -> str:
        return "Algorithm 3"

    def most_v_regret(self, steps: int) -> float:
        return steps * float(bounds.v_threshold(steps, self.n_tips, self.tv_bound))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class VByBets(TheoremC4):
    """Algorithm 3 by bets at these rates."""

    rates_K: np.ndarray
    log_cost: float

    @property
    def theorem(self) -> str:
        return "Algorithm 3, the exact test"

    def most_v_regret(self, steps: int) -> float:
        return bounds.v_exact(steps, self.rates_K, self.log_cost)


@final
@dataclass(frozen=True)
class AnyProblemCertificate(Certificate):
    """A guarantee for every problem with two states (Theorem C.4): ``for_problem`` says how much for yours.

    Its own ``regret_bound`` is for the problem with two actions in which most is at stake.
    """

    of: TheoremC4 = field(kw_only=True, repr=False, compare=False)

    def for_problem(self, problem: DecisionProblem, temperature: float | None = None) -> Certificate:
        """The guarantee for one who acts in ``problem`` by quantal responses; 1/sqrt(horizon) is the temperature."""
        two_states(problem)
        if self.episodes > 1:
            raise ValueError(
                f"for_problem speaks of one episode, and this certificate is for {self.episodes}: ask the certificate "
                "of the guard's rule; the chances of a switch add up over episodes"
            )
        eta = self.of.temperature if temperature is None else inputs.positive(temperature, "temperature")
        given = replace(self.of, problem=problem, temperature=eta).certificate(self.horizon)
        return given.sharpen() if self.exactly else given

    def __str__(self) -> str:
        return super().__str__() + "\n  for_problem(problem, temperature) gives the number for yours"
