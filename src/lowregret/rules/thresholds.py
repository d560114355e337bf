"""Thresholds on regret: Theorem 3.1 (RegretGap) and the rule of the paper's experiments (RegretRate)."""

import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from .. import certificates, inputs
from ..arrays import Array, astype, constant, first, first_true, frozen, last, namespace, running_sum
from ..certificates import Certificate, Terms, certify
from ..certificates.coupled import gap_threshold_mixture
from . import kernels
from .contract import Moment, RuleMemory, steps_so_far, zeros
from .response import UNKNOWN_HORIZON, ResponseRule


class GapStatistics(NamedTuple):
    gap: Array  # G_t = t (Regret_t - Regret_fallback,t): the comparator cancels


@dataclass(frozen=True)
class RegretGap(ResponseRule):
    """Theorem 3.1: trip once the base's regret leads the fallback's by eta ln A + sqrt(8 (1 + alpha) ln T / t).

    Parameters
    ----------
    alpha
        The exponent of the TV bound, T**-alpha.
    span_aware
        Use half the problem's squared contrast in place of the constant 8: sharper wherever utilities do not
        fill [-1, 1] in opposite corners.
    sharp
        A threshold at the same TV that couples what a quantal response gives up with how far gains can vary, without a
        union over steps: the root b of mean_k exp(lambda_k b - t kappa(lambda_k)) = T**alpha. Needs a horizon.
    delta
        The TV bound itself; only with ``horizon=None``, where the threshold takes a union over all t.

    >>> from lowregret import matching
    >>> rule = RegretGap(matching(), horizon=1024)
    >>> print(f"{rule.certificate.regret_bound:.4f} {rule.certificate.tv_bound:.6f}")
    0.3988 0.000977
    """

    alpha: float = 1.0
    span_aware: bool = False
    sharp: bool = field(default=False, kw_only=True)
    delta: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        inputs.keep(
            self,
            alpha=inputs.positive(self.alpha, "alpha"),
            span_aware=inputs.flag(self.span_aware, "span_aware"),
            sharp=inputs.flag(self.sharp, "sharp"),
            delta=_delta_iff_unknown(self.horizon, self.delta),
        )
        if self.sharp and (self.horizon is None or self.span_aware):
            raise ValueError("sharp needs a horizon, and takes the problem's contrast by itself: without span_aware")

    @cached_property
    def _sharp_T(self) -> np.ndarray:
        """The sharp thresholds of 0 .. T steps."""
        assert self.horizon is not None
        assert self.temperature is not None
        T, tv = self.horizon, self.horizon**-self.alpha
        rates_K = certificates.lambda_grid(self.problem.span or 1.0, certificates.n_rates(T, min(tv, 0.5)))
        steps = np.arange(1, T + 1)
        table = gap_threshold_mixture(self.problem, T, steps, self.temperature, self.alpha, rates_K)
        return frozen(np.append(0.0, table))

    @property
    def variance(self) -> float:
        """The constant under the root: 8 as printed, or what Hoeffding's inequality needs for this problem."""
        return self.problem.contrast**2 / 2 if self.span_aware else 8.0

    def threshold(self, step: Array) -> Array:
        """What the gap G_t must reach after ``step`` tokens."""
        if self.horizon is None:
            assert self.delta is not None
            drift = certificates.summed_temperature(self.problem, step, self.temperature)
            noise = (self.variance * certificates.anytime_log(step, self.delta) * step) ** 0.5
            return drift * math.log(self.problem.n_actions) + noise
        assert self.temperature is not None
        if self.sharp:
            xp = namespace(step)
            at = xp.asarray(step, dtype=xp.int64) if xp is np else astype(step, xp.int64)
            return constant(self._sharp_T, at)[at]
        spread = math.sqrt(self.variance * (1 + self.alpha) * math.log(self.horizon))
        return step * (self.temperature * math.log(self.problem.n_actions)) + spread * step**0.5

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> GapStatistics:
        return GapStatistics(zeros(shape, xp, where))

    def judge(self, statistics: GapStatistics, step: Array, moment: Moment) -> tuple[GapStatistics, Array]:
        gap = statistics.gap + self.gains(moment)[1]
        return GapStatistics(gap), gap >= self.threshold(astype(step, gap.dtype))

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        threshold_T = self.threshold(astype(step_T, moment.base_A1.dtype))
        if kernels.worth(moment.token):
            answers = moment.base_A1, moment.fallback_A1
            return kernels.first_crossing(*answers, self.problem.advantage, moment.token, threshold_T)
        return first_true(running_sum(self.gains(moment)[1]) >= threshold_T) + 1

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        step = steps_so_far(memory)
        return memory.statistics.gap / step, self.threshold(step) / step

    @property
    def certificate(self) -> Certificate:
        problem, temperature, variance = self.problem, self.temperature, self.variance
        if self.horizon is None:
            delta = self.delta
            assert delta is not None
            return certify(
                problem,
                None,
                temperature,
                self.fallback,
                partial(
                    certificates.regret_gap_anytime, problem, temperature=temperature, delta=delta, variance=variance
                ),
                delta,
                "Theorem 3.1, unknown horizon",
            )
        horizon = self.horizon
        assert temperature is not None
        if self.sharp:
            return certify(
                problem,
                horizon,
                temperature,
                self.fallback,
                partial(_sharp_terms, self),
                min(1.0, horizon**-self.alpha),
                "Theorem 3.1, with a sharp threshold",
            )
        name = "Theorem 3.1" + (", with the problem's own contrast" if self.span_aware else "")
        return certify(
            problem,
            horizon,
            temperature,
            self.fallback,
            partial(certificates.theorem_3_1, problem, horizon, temperature, self.alpha, variance),
            min(1.0, horizon**-self.alpha),
            name,
        )


def _sharp_terms(rule: RegretGap, steps: int) -> Terms:
    """Over its fallback: the threshold before the crossing step, and that step."""
    passed = float(rule.threshold(np.int64(steps - 1))) if steps > 1 else 0.0
    return {"threshold": passed / steps, "crossing step": rule.problem.span / steps}


class RateStatistics(NamedTuple):
    lead_A: Array  # [..., A], each fixed action's utility minus the base response's


@dataclass(frozen=True)
class RegretRate(ResponseRule):
    """The rule of the paper's experiments: trip once the base's own regret exceeds alpha / sqrt(t).

    It carries no guarantee: even in distribution it switches with a probability that does not vanish.
    """

    alpha: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        inputs.keep(self, alpha=inputs.positive(self.alpha, "alpha"))

    @property
    def compares(self) -> bool:
        return False

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> RateStatistics:
        return RateStatistics(zeros((*shape, self.problem.n_actions), xp, where))

    def judge(self, statistics: RateStatistics, step: Array, moment: Moment) -> tuple[RateStatistics, Array]:
        lead_A = first(statistics.lead_A) + self.leads(moment.base_A1, moment.token)
        return RateStatistics(last(lead_A)), self._crossed(lead_A, step)

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        return first_true(self._crossed(running_sum(self.leads(moment.base_A1, moment.token)), step_T)) + 1

    def _crossed(self, lead_A: Array, step: Array) -> Array:
        step = astype(step, lead_A.dtype)
        return namespace(lead_A).max(lead_A, axis=0) / step > self.alpha / step**0.5

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        step, lead_A = steps_so_far(memory), first(memory.statistics.lead_A)
        return namespace(lead_A).max(lead_A, axis=0) / step, self.alpha / step**0.5

    @property
    def certificate(self) -> Certificate:
        return certify(self.problem, self.horizon, self.temperature, self.fallback, None, 1.0, "the experiments' rule")


def _delta_iff_unknown(horizon: int | None, delta: float | None) -> float | None:
    if horizon is None and delta is None:
        raise ValueError(UNKNOWN_HORIZON)
    if horizon is not None and delta is not None:
        raise ValueError("delta goes with horizon=None; with a known horizon alpha sets the TV bound, horizon**-alpha")
    return None if delta is None else inputs.probability(delta, "delta")
