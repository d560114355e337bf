"""Statement (ii) with the charges that were really paid: what is guaranteed of a run, as far as it has come.

What a bet is charged for quantiles or samples depends on them, and can be more than kappa, which bounds it for a whole
law. No number known in advance then bounds the regret; the charges themselves do, as they are paid. With chi_{c,k} the
charges of the first t steps, for t < tau and every comparator c:

    regret to c over t steps  <  min_k [ chi_{c,k} + ln(1/(m(c,k,1) delta)) ] / lam_k.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from .coupled import Charges
from .every_start import Prior, before_alarm
from .worst_alarm import Bound, worst_alarm


@dataclass(frozen=True)
class RealisedCertificate:
    """What is guaranteed of a run so far, and of the rest of it; in utility, a step.

    For several streams, each number is that of the stream of which least is guaranteed.
    """

    regret_bound: float  # over the whole horizon (over the steps so far, where that is unknown)
    bound_so_far: float  # over the steps so far: by the charges that were paid, whatever came
    regret_so_far: float  # what it was
    if_stopped: float | None  # over the whole horizon, if from here on the fallback is played
    tv_bound: float
    statement: str
    assumptions: tuple[str, ...]
    theorem: str
    problem: Any
    horizon: int | None
    steps: int  # the most that any stream has taken
    switched: int  # how many streams have switched
    episodes: int = 1

    @property
    def regret_bound_in_payoffs(self) -> float:
        """The bound in your units."""
        return float(self.problem.regret_in_payoffs(self.regret_bound))

    def to_dict(self) -> dict[str, Any]:
        """Everything it says, as plain JSON values."""
        left_out = {"problem", "assumptions"}
        told = {name: value for name, value in vars(self).items() if name not in left_out}
        return {
            **told,
            "regret_bound_in_payoffs": self.regret_bound_in_payoffs,
            "assumptions": list(self.assumptions),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        known = "an unknown number" if self.horizon is None else f"{self.horizon}"
        lines = [f"Certificate ({self.theorem}), {self.steps} of {known} steps"]
        units = self.problem.regret_in_payoffs
        when = "over the steps so far" if self.horizon is None else "in the end"
        lines.append(f"  regret  <= {self.regret_bound:.4f} a step {when} ({units(self.regret_bound):.4g} in payoffs)")
        if self.steps:
            lines.append(
                f"  so far  <= {self.bound_so_far:.4f} a step by the charges paid, whatever came; it was "
                f"{self.regret_so_far:.4f}"
            )
        if self.if_stopped is not None:
            lines.append(
                f"  stopped <= {self.if_stopped:.4f} a step in the end, if from here on the fallback is played"
            )
        lines.append(f"  TV      <= {self.tv_bound:.3g} from the model's own distribution")
        lines.append(f"  {self.statement}")
        lines.extend(f"  assuming {assumption}" for assumption in self.assumptions)
        return "\n".join(lines)


def before_by_charges(charges_CxK: np.ndarray, prior: Prior, delta: float) -> np.ndarray:
    """Statement (ii) from the first step on, for charges ``[..., C, K]``: the largest of the comparators' bounds."""
    return np.max(np.min((charges_CxK + prior.log_costs_K(delta)) / prior.rates_K, axis=-1), axis=-1)


def in_the_end(
    excess_CxK: np.ndarray,
    kappa_K: np.ndarray,
    prior: Prior,
    delta: float,
    steps: int,
    horizon: int,
    after: Bound,
    span: float,
) -> float:
    """Statement (iv) from step ``steps`` on, in total, if no later charge is above kappa.

    Parameters
    ----------
    excess_CxK
        What was paid beyond kappa for each of the steps so far: charges - steps kappa.
    after
        F: what the fallback loses at most in so many steps, begun afresh.
    """
    costs_CxK = excess_CxK + prior.log_costs_K(delta)

    def before(more_N: np.ndarray) -> np.ndarray:
        return before_alarm(Charges(kappa_K), prior.rates_K, costs_CxK, span, steps + more_N)

    most = float(before(np.array([horizon - steps]))[0])
    if steps == horizon:
        return most
    return max(most, sum(worst_alarm(before, after, horizon - 1 - steps)) + span)
