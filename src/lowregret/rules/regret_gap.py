"""Theorem 3.1's test, the condition of Algorithm 1: the regret of the model against the regret of the fallback.

In every step s, with pi_s the response to the model and pi_Hedge,s that to the urn (both quantal), an alarm if

    Regret_s(pi)  >=  Regret_s(pi_Hedge) + eta ln A + sqrt(8 (1 + alpha) ln T / s).

Both regrets are to the same best fixed action, which cancels: only what the two responses earned is compared.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np

from .. import certificates, inputs
from ..arrays import astype, constant, namespace, running_sum
from ..certificates import Certificate
from ..certificates.bounds import Terms
from ..certificates.coupled import gap_threshold_mixture
from ..engine import Actions
from ..engine.bets import Alarmed, Played
from ..engine.layout import Shapes, Views
from ..engine.step import Outcome, Step
from ..problems import DecisionProblem
from .quantal_test import QuantalTest, QuantalWatch, earned


@final
@dataclass(frozen=True)
class RegretGap(QuantalTest):
    """An alarm once the model's average regret exceeds the fallback's by eta ln A + sqrt(8 (1 + alpha) ln T / t).

    Parameters
    ----------
    horizon
        T, the number of steps; None: unknown, and then ``delta`` says how likely a false alarm may be.
    alpha
        The exponent of the TV bound, T**-alpha.
    span_aware
        Half the problem's squared contrast in place of the constant 8: sharper wherever utilities do not fill [-1, 1]
        in opposite corners.
    sharp
        A threshold at the same TV without a union over steps: the root b of
        mean_k exp(lambda_k b - t kappa(lambda_k)) = T**alpha. Needs a horizon.
    delta
        The TV bound itself, where the horizon is unknown: a union over all t.

    >>> import lowregret as lr
    >>> gap = lr.robust.algorithm_1(lr.matching(), RegretGap(horizon=1024))
    >>> print(f"{gap.certificate.regret_bound:.4f} {gap.certificate.tv_bound:.6f}")
    0.3988 0.000977
    """

    horizon: int | None
    alpha: float = 1.0
    span_aware: bool = field(default=False, kw_only=True)
    sharp: bool = field(default=False, kw_only=True)
    delta: float = field(default=None, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        inputs.keep(self, horizon=inputs.horizon_or_none(self.horizon), alpha=inputs.positive(self.alpha, "alpha"))
        if self.sharp and (self.horizon is None or self.span_aware):
            raise ValueError("sharp needs a horizon, and takes the problem's contrast by itself: without span_aware")
        known = None if self.horizon is None else min(1.0, self.horizon**-self.alpha)
        if known is not None and self.delta not in (None, known):
            raise ValueError("delta goes with horizon=None; with a known horizon alpha sets it, horizon**-alpha")
        if known is None and self.delta is None:
            raise ValueError("horizon=None (unknown) needs delta, the chance of a false alarm to keep for ever")
        inputs.keep(self, delta=inputs.probability(self.delta, "delta") if known is None else known)

    def watch(self, setting: Any) -> "GapWatch":
        return GapWatch(self, setting)

    def variance(self, problem: Any) -> float:
        """The constant under the root: 8 as printed, or what Hoeffding's inequality needs for this problem."""
        return float(problem.contrast**2 / 2) if self.span_aware else 8.0

    def certify(self, setting: Any, steps: int | None) -> Certificate | None:
        if setting.against != Actions():
            return None  # proved for fixed actions alone
        theorem, variance = "Theorem 3.1", self.variance(setting.problem)
        if self.horizon is None:
            theorem += ", unknown horizon"
            passes = partial(certificates.bounds.regret_gap_anytime, delta=self.delta, variance=variance)
        elif self.sharp:
            theorem += ", with a sharp threshold"
            passes = partial(_by_table, setting.watch.table_T)
        else:
            theorem += ", with the problem's own contrast" * self.span_aware
            theorem_3_1 = certificates.bounds.theorem_3_1
            passes = partial(theorem_3_1, horizon=self.horizon, alpha=self.alpha, variance=variance)
        return self.promise(setting, theorem, passes).certificate(steps)


def _by_table(threshold_T: np.ndarray, problem: DecisionProblem, steps: int, temperature: float) -> Terms:
    """What passes before an alarm: the sharp threshold, given after 0 .. T steps, and the crossing step."""
    return {"threshold": float(threshold_T[steps - 1]) / steps, "crossing step": problem.span / steps}


class GapWatch(QuantalWatch):
    """``RegretGap`` at work: the level is the gap less its threshold, both sums over all steps so far."""

    compares = True

    def __init__(self, test: RegretGap, setting: Any) -> None:
        super().__init__(test, setting)
        self.test, self.problem, self.eta = test, setting.problem, setting.temperature
        self.utility_AxS = setting.outcomes.utility_AxS
        self.table_T = self._sharp(test.horizon) if test.sharp and test.horizon is not None else None

    def shapes(self) -> Shapes:
        return {"gap": ()}

    def update(self, memory: Views, step: Step, outcome: Outcome, number_N: Any, alarmed: Alarmed) -> Any:
        # The gap is t (Regret_t(model) - Regret_t(fallback)): what the response to the fallback earned more.
        memory.gap[:] += ((step.mixed_NxA - step.model_NxA) * outcome.paid_NxA).sum(-1)
        return memory.gap - self.threshold_at(step.clock_N + 1)

    def levels(self, played: Played) -> Any:
        """The level after every step of recordings, ``[N, T]``."""
        return running_sum(self.gains(played)) - self.threshold_at(played.step_T)

    def gains(self, played: Played) -> Any:
        """What the response to the fallback earned more than that to the model in each step, ``[N, T]``."""
        return earned(self.utility_AxS, played.fallback_NxTxA - played.model_NxTxA, played)

    def threshold_at(self, t: Any) -> Any:
        """What the gap after t steps must reach: t eta ln A + sqrt(8 (1 + alpha) t ln T), t times the average."""
        test, log_A = self.test, math.log(self.problem.n_actions)
        variance = test.variance(self.problem)
        if test.horizon is None:
            drift = certificates.bounds.summed_temperature(self.problem, t, self.eta)
            return drift * log_A + (variance * certificates.bounds.anytime_log(t, test.delta) * t) ** 0.5
        if self.table_T is not None:
            return constant(self.table_T, t)[astype(t, namespace(t).int64)]
        return t * (self.eta * log_A) + math.sqrt(variance * (1 + test.alpha) * math.log(test.horizon)) * t**0.5

    def _sharp(self, T: int) -> np.ndarray:
        """The thresholds of 0 .. T steps."""
        rates_K = certificates.lambda_grid(self.problem.span or 1.0, certificates.n_rates(T, min(self.test.delta, 0.5)))
        table = gap_threshold_mixture(self.problem, T, np.arange(1, T + 1), self.eta, self.test.alpha, rates_K)
        return np.append(0.0, table)
