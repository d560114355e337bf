"""Statement (ii) of ``every_start`` with the charges that were paid: what is guaranteed of a run, as far as it came.

What a bet is charged for quantiles or samples depends on them, and can be more than kappa, which bounds it for a whole
distribution. No number known in advance then bounds the regret; the charges themselves do, as they are paid. With
chi_{c,k} the charges of the first t steps, for t < tau and every comparator c:

    regret to c over t steps  <  min_k [ chi_{c,k} + ln(1/(m(c,k,1) delta)) ] / lam_k.

With C contexts, to an action for each: for every k the sum over contexts of the largest charges in each, and C times
the logarithm. With outcomes d steps late: charges summed over the d classes, and d times the logarithm, by the argument
of ``switching`` (ii), which never uses that classes are charged alike. An outcome that never came adds J.
"""

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..problems import Payoff
from .bounds import Bound, worst_alarm
from .coupled import evenly
from .every_start import Prior, before_alarm
from .switching import log_costs_K


@dataclass(frozen=True)
class RealisedCertificate:
    """What is guaranteed of a run so far, and of the rest of it; in utility, per step.

    For several streams, each number is that of the stream of which least is guaranteed.
    """

    regret_bound: float  # over the whole horizon (over the steps so far, where that is unknown)
    bound_so_far: float  # over the steps so far: by the charges that were paid, whatever came
    regret_so_far: float  # what it was
    tv_bound: float
    statement: str
    assumptions: tuple[str, ...]
    theorem: str
    problem: Payoff
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
        numbers = {name: value for name, value in vars(self).items() if name != "problem"}
        own = {"regret_bound_in_payoffs": self.regret_bound_in_payoffs, "assumptions": list(self.assumptions)}
        return numbers | own

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        known, units = "an unknown number" if self.horizon is None else f"{self.horizon}", self.regret_bound_in_payoffs
        when = "over the steps so far" if self.horizon is None else "in the end"
        lines = [
            f"Certificate ({self.theorem}), {self.steps} of {known} steps",
            f"  regret  <= {self.regret_bound:.4f} per step {when} ({units:.4g} in payoffs)",
        ]
        if self.steps:
            paid, was = f"{self.bound_so_far:.4f} per step by the charges paid", f"{self.regret_so_far:.4f}"
            lines.append(f"  so far  <= {paid}, whatever came; it was {was}")
        lines += [f"  TV      <= {self.tv_bound:.3g} from the model's own distribution", f"  {self.statement}"]
        return "\n".join([*lines, *(f"  assuming {assumption}" for assumption in self.assumptions)])


class PaidTest(NamedTuple):
    """What a run is certified by: the test and the fallback of one class, and how many classes and contexts."""

    problem: Payoff
    span: float  # J, of all that may come
    horizon: int | None
    delta: float  # of a class
    tv_bound: float
    prior: Prior
    kappa_K: np.ndarray | None  # what a step is charged at most where the forecast is a whole distribution
    after: Bound | None  # F: what the fallback of a class loses at most; None: not known
    contexts: int = 1
    actions: int = 0  # rows of charges that each context has; references follow
    lag: int = 1

    def fallbacks(self, steps: Any) -> Any:
        """What those of all classes lose at most in this many steps: F is concave."""
        if self.after is None:
            return self.span * np.asarray(steps, dtype=np.float64)
        return self.lag * self.after(np.asarray(steps) / self.lag)

    def rows(self, paid_NxPxK: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By comparator, or by choice of an action for each context: charges ``[N, R, K]``, logarithms ``[R, K]``."""
        costs_K = log_costs_K(self.prior, self.delta, self.lag)
        C, at, (N, P, K) = self.contexts, self.contexts * self.actions, paid_NxPxK.shape
        if C == 1:
            return paid_NxPxK, np.broadcast_to(costs_K, (P, K))
        chosen = paid_NxPxK[:, :at].reshape(N, C, self.actions, K).max(axis=2).sum(axis=1, keepdims=True)
        own = [C * costs_K] + [costs_K] * (P - at)
        return np.concatenate([chosen, paid_NxPxK[:, at:]], axis=1), np.stack(own)

    def in_the_end(self, costs_RxK: np.ndarray, steps: int) -> float:
        """Statement (iv) from step ``steps`` on, in total, if no later charge is above kappa.

        ``costs_RxK``: the logarithms, and what was paid beyond kappa for each of the steps so far.
        """
        assert self.kappa_K is not None
        assert self.horizon is not None
        charged, left = evenly(self.kappa_K), self.horizon - steps

        def before(more_N: np.ndarray) -> np.ndarray:
            return before_alarm(charged, self.prior.rates_K, costs_RxK, self.span, steps + more_N)

        most, around = float(before(np.array([left]))[0]), min(self.lag, left)
        if left == 0:
            return most
        return max(most, sum(worst_alarm(before, self.fallbacks, left - around)) + around * self.span)


def certify_run(by: PaidTest, run: Any, paid_NxPxK: np.ndarray, lead_N: np.ndarray) -> RealisedCertificate:
    """What is guaranteed over the episodes opened so far, for the stream of which least is.

    ``run`` says how far each of N streams has come: outcomes ``observed`` in its ``episode`` and ``missed``, those
    observed at its ``alarm`` (0 for never), what it had lost ``at_alarm``, the ``past_steps`` and ``past_bound`` of the
    episodes before it. ``paid``: what bettors were charged before an alarm; ``lead``: the regret, in total.
    """
    J, T, step_N, late_N = by.span, by.horizon, run.observed, run.alarm > 0
    over_N, never_N = step_N + run.missed, run.missed * J
    paid_NxRxK, costs_RxK = by.rows(paid_NxPxK)
    taken_N = np.where(late_N, run.alarm - 1, step_N)
    before_N = np.max(np.min((paid_NxRxK + costs_RxK) / by.prior.rates_K, axis=-1), axis=-1)
    before_N = np.minimum(np.maximum(before_N, 0.0), taken_N * J)
    since_N = np.where(late_N, step_N - run.alarm, 0)
    so_far_N = never_N + np.where(late_N, before_N + by.lag * J + by.fallbacks(since_N), before_N)  # in total
    ends_N = so_far_N
    if T is not None:
        left_N = np.where(late_N, T - run.alarm, 0)
        ends_N = np.where(late_N, run.at_alarm + (by.lag - 1) * J + by.fallbacks(left_N), -math.inf)
        if not late_N.all():
            excess_RxK = (paid_NxRxK - step_N[:, None, None] * by.kappa_K)[~late_N].max(axis=0)
            ends_N = np.where(late_N, ends_N, by.in_the_end(excess_RxK + costs_RxK, int(step_N[~late_N].min())))
        ends_N = ends_N + never_N
    steps_N = run.past_steps + (over_N if T is None else T)
    bound = np.max((run.past_bound + ends_N) / np.maximum(steps_N, 1), initial=0.0)
    episodes = int(run.episode.max(initial=1))
    several = "" if episodes == 1 else f"Over {episodes} episodes, each against its own best. "
    classes = "" if by.lag == 1 else f"Steps {by.lag} apart make a class with a test and a fallback of its own. "
    seen = "after every step" if by.lag == 1 else f"at most {by.lag} steps after it was forecast"
    return RealisedCertificate(
        regret_bound=float(min(J, bound)),
        bound_so_far=float(min(J, np.max(so_far_N / np.maximum(over_N, 1), initial=0.0))),
        regret_so_far=float(np.max(lead_N / np.maximum(step_N, 1), initial=-math.inf)) if step_N.size else 0.0,
        tv_bound=min(1.0, by.tv_bound * episodes),
        statement=several + classes + "Until an alarm, regret is below what the bets were charged and need for one; "
        "from then on the regret at the alarm, and what the fallback loses.",
        assumptions=(
            "every step is acted on by policy()",
            f"the outcome is seen {seen}, whatever was done, and does not depend on the action drawn",
            "(for the bound in the end, before an alarm) later steps are charged no more than a whole distribution is; "
            "what Quantiles and Samples are charged beyond that is added as it is paid",
            "(for the TV bound only) each outcome is drawn from a distribution that the forecast can stand for: one "
            "with these quantiles, or that of the samples",
        ),
        theorem="the exact test at outcomes, by charges paid",
        problem=by.problem,
        horizon=T,
        steps=int(over_N.max(initial=0)),
        switched=int(late_N.sum()),
        episodes=episodes,
    )
