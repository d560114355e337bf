"""The exact test in its simplest form: a betting martingale on the fallback's response, from the first step on.

The paper's figures, distilled transformers and built layers use it. ``ExactTest`` bets on all actions, from every step.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from .. import certificates, inputs
from ..arrays import (
    Array,
    astype,
    at_most,
    came,
    constant,
    device,
    first_true,
    frozen,
    last,
    namespace,
    pick,
    running_min,
    running_sum,
    total,
)
from ..certificates import Certificate, certify
from ..problems import DecisionProblem, a_problem
from . import kernels
from .contract import Moment, RuleMemory, zeros
from .response import ResponseRule, delta_for, gains

_MANY = 64  # streams: from there on one exponential and K squarings beat K exponentials


@dataclass(frozen=True)
class FirstTest(ResponseRule):
    """The exact test in its simplest form: bets on the response to the fallback, all from the first step on.

    Parameters
    ----------
    delta
        The TV bound; 1/horizon by default, required with ``horizon=None``.
    gate
        How far what is bet on must have risen from its lowest point for an alarm, in units of span * sqrt(t); 0 is off.

    >>> from lowregret import matching
    >>> rule = FirstTest(matching(), horizon=1024, delta=2 / 1024)
    >>> print(f"{rule.certificate.regret_bound:.4f} {rule.certificate.tv_bound:.6f}")
    0.1259 0.001953
    """

    delta: float = None  # type: ignore[assignment]
    gate: float = 0.5

    def __post_init__(self) -> None:
        a_problem(self.problem)
        delta = delta_for(self.delta, inputs.horizon_or_none(self.horizon))
        inputs.keep(self, delta=delta, gate=inputs.not_negative(self.gate, "gate"))
        super().__post_init__()

    @cached_property
    def bets(self) -> "FirstBets":
        """The bettors."""
        return FirstBets(self.problem, self.horizon, self.delta, self.gate)

    @property
    def rates_K(self) -> np.ndarray:
        """The betting rates lambda_k."""
        return self.bets.rates_K

    @property
    def log_costs_K(self) -> np.ndarray:
        """ln(1 / (w_k delta)): what a bettor must reach for the alarm to sound on its own."""
        return self.bets.log_costs_K

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> "ExactStatistics":
        return self.bets.blank(shape, xp, where)

    def judge(self, statistics: "ExactStatistics", step: Array, moment: Moment) -> tuple["ExactStatistics", Array]:
        return self.bets.judge(statistics, step, moment)

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        return self.bets.recorded(step_T, moment)

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """ln E_t and ln(1 / delta); infinite once a state came that the base model had excluded."""
        level = self.bets.log_total(memory.statistics, memory.step)
        xp, threshold = namespace(level), -math.log(self.delta)
        statistic = xp.where(memory.statistics.impossible, xp.zeros_like(level) + math.inf, level)
        return statistic, xp.zeros_like(statistic) + threshold

    def conditions(self, memory: RuleMemory) -> dict[str, tuple[Array, Array]]:
        """The evidence, and with a gate how far what is bet on has risen from its lowest point."""
        found = {"evidence": self.evidence(memory)}
        if self.gate:
            found["gate"] = self.bets.rise(memory.statistics, memory.step)
        return found

    @property
    def certificate(self) -> Certificate:
        over_fallback = partial(
            certificates.exact_test,
            self.problem,
            temperature=self.temperature,
            rates_K=self.rates_K,
            log_costs_K=self.log_costs_K,
            gate=self.gate,
        )
        theorem = "the exact test" + (", unknown horizon" if self.horizon is None else "")
        return certify(self.problem, self.horizon, self.temperature, self.fallback, over_fallback, self.delta, theorem)


class ExactStatistics(NamedTuple):
    gap: Array  # G_t
    low: Array  # min over s <= t of G_s, G_0 = 0 included
    log_wealth_K: Array  # [..., K], ln of the wealth of a bettor at each rate
    impossible: Array  # a token came to which the base gave probability 0


class FirstBets:
    """The first exact test: bettors against the base model on the *fallback's* response, all from the first step on.

    The base model states the exact law of the next token, so E_t = mean_k exp(lambda_k G_t - sum_s psi_s(lambda_k)),
    with psi_s the log moment generating function of the gain under that law, is a martingale from 1: no union over
    time or actions. An exact test also flags a model that is miscalibrated but useful, hence the gate: at the same t
    the gap must have risen by ``gate * span * sqrt(t)`` from its lowest point.
    """

    def __init__(self, problem: DecisionProblem, horizon: int | None, delta: float, gate: float) -> None:
        self.problem, self.horizon, self.delta, self.gate = problem, horizon, delta, gate
        self.n_states = problem.n_states

    @cached_property
    def rates_K(self) -> np.ndarray:
        """The betting rates lambda_k."""
        count = 40 if self.horizon is None else certificates.n_rates(self.horizon, self.delta)
        return frozen(certificates.lambda_grid(self.problem.span or 1.0, count))

    @cached_property
    def log_costs_K(self) -> np.ndarray:
        """ln(1 / (w_k delta)): what the wealth at rate k must reach for the alarm to sound on its own."""
        k = np.arange(len(self.rates_K))
        shares = np.full(len(k), 1 / len(k)) if self.horizon is not None else 1 / ((k + 1) * (k + 2))
        return frozen(-np.log(shares) - math.log(self.delta))

    @cached_property
    def _ones_K(self) -> np.ndarray:
        return np.ones(len(self.rates_K))  # a product with it adds up a short axis many times faster than a sum

    @cached_property
    def _ladder(self) -> list[tuple[float, float]]:
        """Each rate with its cost, from the slowest up."""
        return list(zip(self.rates_K[::-1].tolist(), self.log_costs_K[::-1].tolist(), strict=True))

    @property
    def idle(self) -> float:
        """The share of the wealth that is never bet, times delta (with an unknown horizon only)."""
        return 0.0 if self.horizon is not None else self.delta / (len(self.rates_K) + 1)

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> ExactStatistics:
        level, wealth_K = zeros(shape, xp, where), zeros((len(self.rates_K), *shape), xp, where)
        return ExactStatistics(level, level, last(wealth_K), xp.zeros(shape, dtype=xp.bool, device=where))

    def judge(self, statistics: ExactStatistics, step: Array, moment: Moment) -> tuple[ExactStatistics, Array]:
        xp = namespace(moment.base_A1)
        gain_S, gain = gains(self.problem, moment)
        gap = statistics.gap + gain
        low = xp.minimum(statistics.low, gap)
        log_wealth_K = statistics.log_wealth_K - self._log_losses(moment, gain_S, gain)
        impossible = pick(moment.probs_S, moment.token) == 0
        alarm = self._reached(log_wealth_K) & self._open(gap - low, step) | impossible
        return ExactStatistics(gap, low, log_wealth_K, statistics.impossible | impossible), alarm

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        xp = namespace(moment.base_A1)
        gain_S, gain = gains(self.problem, moment)
        sure, odds_R, edge_R = self._against(moment, gain_S, gain)
        if kernels.worth(gain):
            rise_T = self.rise_at(astype(step_T, gain.dtype))
            excess_R = xp.expm1(edge_R * self._ladder[0][0])
            return kernels.first_alarm(gain, sure, odds_R, excess_R, self.log_costs_K, self.idle, rise_T)
        gap = running_sum(gain)
        reached = xp.full(gap.shape, self.idle, dtype=gap.dtype, device=device(gap))
        for (_, cost), loss in zip(self._ladder, self._losses(odds_R, edge_R), strict=True):
            wealth = running_sum(loss)
            wealth *= -1.0  # in place, here and below: these arrays are the size of the input
            wealth -= cost
            reached += _share(wealth)
        alarm = reached >= 1
        if self.gate:
            alarm = alarm & self._open(gap - at_most(running_min(gap), 0.0), step_T)
        return first_true(alarm | (sure == 0)) + 1

    def _reached(self, log_wealth_K: Array) -> Array:
        """Whether the bettors together have what the alarm needs."""
        xp = namespace(log_wealth_K)
        share_K = log_wealth_K - constant(self.log_costs_K, log_wealth_K)
        if share_K.ndim > 1 and xp is np and share_K.size and share_K.max() < -math.log(len(self.rates_K) + 1):
            return np.zeros(share_K.shape[:-1], dtype=bool)  # no one has a fair part of it: the usual case
        return _share(share_K) @ constant(self._ones_K, share_K) + self.idle >= 1

    def _log_losses(self, moment: Moment, gain_S: Array, gain: Array) -> Array:
        """How much each bettor's log wealth falls in one step, ``[..., K]``."""
        xp = namespace(gain)
        if gain.ndim and math.prod(gain.shape) > _MANY:
            _, odds_R, edge_R = self._against(moment, gain_S, gain)
            return last(xp.stack([*self._losses(odds_R, edge_R)][::-1]))
        probs_S = moment.probs_S / total(moment.probs_S)
        # |rate * edge| <= 8: nothing overflows; and rates may be tiny, so nothing is lost to the 1 in exp either.
        edge_SxK = (gain_S - gain)[..., None] * constant(self.rates_K, gain)
        return xp.log1p(total(probs_S[..., None] * xp.expm1(edge_SxK)))

    def _losses(self, odds_R: Array, edge_R: Array) -> Iterator[Array]:
        """The same from the slowest rate up: where a rate doubles, u = exp(rate * edge) - 1 becomes u (u + 2)."""
        xp = namespace(edge_R)
        excess_R = xp.expm1(edge_R * self._ladder[0][0])
        for i in range(len(self._ladder)):
            excess_R = _doubled(excess_R) if i else excess_R
            yield xp.log1p(total(odds_R * excess_R))

    def _against(self, moment: Moment, gain_S: Array, gain: Array) -> tuple[Array, Array, Array]:
        """The law's share of what came, of each of the R rivals that did not, and what those would have gained more.

        With two states there is one rival; with more, each state is one, what came among them with odds of 0.
        """
        xp, token = namespace(gain), moment.token
        law_S = moment.probs_S / total(moment.probs_S)
        if self.n_states == 2:
            swapped = 1 - token
            return pick(law_S, token), pick(law_S, swapped)[None], (pick(gain_S, swapped) - gain)[None]
        return pick(law_S, token), xp.where(came(token, self.n_states), xp.zeros_like(law_S), law_S), gain_S - gain

    def rise_at(self, step: Array) -> Array:
        """How far the gap must have risen from its lowest point."""
        return self.gate * self.problem.span * step**0.5

    def _open(self, rise: Array, step: Array) -> Array:
        return rise >= self.rise_at(astype(step, rise.dtype))

    def rise(self, statistics: ExactStatistics, step: Array) -> tuple[Array, Array]:
        """How far the gap has risen from its lowest point, and how far the gate asks."""
        rise = statistics.gap - statistics.low
        return rise, self.rise_at(astype(step, rise.dtype))

    def log_total(self, statistics: ExactStatistics, step: Array) -> Array:
        """ln E_t."""
        wealth_K = statistics.log_wealth_K
        xp = namespace(wealth_K)
        share_K = wealth_K - constant(self.log_costs_K, wealth_K)
        peak = xp.max(share_K, axis=-1)
        mass = xp.sum(xp.exp(share_K - peak[..., None]), axis=-1) + self.idle * xp.exp(-peak)
        return peak + xp.log(mass) - math.log(self.delta)


def _share(log_wealth: Array) -> Array:
    """Wealth in units of what the alarm needs, capped at it: the sum decides exactly and never overflows."""
    xp = namespace(log_wealth)
    return xp.exp(at_most(log_wealth, 0.0))


def _doubled(excess: Array) -> Array:
    """exp(2 x) - 1 from u = exp(x) - 1: u (u + 2)."""
    doubled = excess + 2.0
    doubled *= excess
    return doubled
