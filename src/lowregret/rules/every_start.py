"""The every-start test: bets against the base model on every comparator, at every rate, from every start.

A bettor on comparator c at rate lambda_k wins exp(lambda_k x_c(theta)) a step, x_c what c gains over the response to
the base model, and is charged max(1, E[exp(lambda_k x_c)]) under the base's own law: if the base is right, its wealth
is a nonnegative supermartingale. At every step j a little more of the capital, m(c, k, j), joins each bettor:

    W_{c,k,t} = (W_{c,k,t-1} + m(c,k,t)) exp(lambda_k x_{c,t}(theta_t)) / max(1, E[exp(lambda_k x_{c,t})]),
    E_t = sum of all W_t + the capital that has not joined yet: P(some E_t >= 1/delta) <= delta, by Ville.

A bettor that joins just before a break is as rich after it as one that had bet from the first step on: breaks are found
however late they come. Charging at least 1 keeps models that are miscalibrated but useful: it can only lower a wealth.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import (
    Array,
    astype,
    at_most,
    constant,
    device,
    first_true,
    in_float64,
    last,
    mix,
    namespace,
    pick,
    running_min,
    running_product,
    running_sum,
    total,
)
from ..certificates.every_start import Prior
from ..problems import DecisionProblem
from . import kernels
from .moment import Moment, zeros
from .quick_bets import QuickBets, Stepped
from .response import gains

NOTHING = -1e30  # the logarithm of no wealth at all, as a finite number
_LEAST_DELTA = 1e-280  # below, wealth that matters would be beyond what the compiled recurrence keeps
_RANGE = 300.0  # how far the logarithm of a product may go within a block: products of two such are floats


class BetStatistics(NamedTuple):
    log_wealth_CxK: Array  # [..., C, K], ln W
    log_most_CxK: Array  # [..., C, K], ln of what the richest start holds of it
    since_CxK: Array  # [..., C, K], that start, counted from 1
    gap_C: Array | None  # [..., C], what each comparator has gained over the base's response (with a gate only)
    low_C: Array | None  # [..., C], the least that has been, 0 included
    impossible: Array  # [...], a token came to which the base gave probability 0


class Suspicion(NamedTuple):
    """What the richest bettor of a stream bets on, at which rate, and since when it has most of its wealth."""

    action: Array  # [...], the action (0 where the bets are on the fallback's response)
    rate: Array  # [...]
    since: Array  # [...], a step, counted from 1: an estimate of when the model broke; 0 before the first


class Bets:
    """The bettors of one test: whom they bet on, at which rates, and what joins them when."""

    def __init__(self, problem: DecisionProblem, prior: Prior, delta: float, gate: float, on_fallback: bool) -> None:
        self.problem, self.prior, self.delta, self.gate, self.on_fallback = problem, prior, delta, gate, on_fallback
        self.span = problem.span
        self.rates_K = prior.rates_K
        # From the slowest rate up those that double; the others take an exponential of their own.
        order = np.argsort(self.rates_K)
        self.steps: list[tuple[int, bool]] = []
        for at, k in enumerate(order):
            doubles = at > 0 and self.rates_K[k] == 2 * self.rates_K[order[at - 1]]
            self.steps.append((int(k), bool(doubles)))
        self.quick = None if on_fallback else QuickBets(problem, prior, delta, self.steps)

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> BetStatistics:
        C, K = self.prior.comparators, len(self.rates_K)
        none = zeros((*shape, C, K), xp, where) + NOTHING
        since = xp.zeros((*shape, C, K), dtype=xp.int64, device=where)
        gap = zeros((*shape, C), xp, where) if self.gate else None
        return BetStatistics(none, none, since, gap, gap, xp.zeros(shape, dtype=xp.bool, device=where))

    def judge(self, statistics: BetStatistics, step: Array, moment: Moment) -> tuple[BetStatistics, Array]:
        done = self._quickly(statistics, step, moment)
        if done is not None:
            return self.after(statistics, step, done, pick(moment.probs_S, moment.token) == 0)
        xp, token = namespace(moment.base_A1), moment.token
        gain_CxS, law_S = self._gains(moment), moment.probs_S / total(moment.probs_S)
        gain_C = _came(gain_CxS, token)
        wealth_CxK, most, since = self.grown(statistics, step, self._growth(gain_CxS, gain_C, law_S))
        impossible = pick(moment.probs_S, token) == 0
        alarm = self.reached(wealth_CxK, step)
        gap, low = statistics.gap_C, statistics.low_C
        if self.gate:
            gap = gap + last(gain_C)
            low = xp.minimum(low, gap)
            alarm = alarm & (xp.max(gap - low, axis=-1) >= self._rise(step))
        after = BetStatistics(wealth_CxK, most, since, gap, low, statistics.impossible | impossible)
        return after, alarm | impossible

    def grown(self, statistics: BetStatistics, step: Array, growth_CxK: Array) -> tuple[Array, Array, Array]:
        """ln W, the richest start's part of it and that start, once those of this step have joined."""
        xp, old, most = namespace(growth_CxK), statistics.log_wealth_CxK, statistics.log_most_CxK
        fresh_K = self.joining(step, like=growth_CxK)[..., None, :]  # [..., 1, K]
        newer = fresh_K > most
        since = xp.where(newer, step[..., None, None], statistics.since_CxK)
        wealth_CxK = xp.logaddexp(old, fresh_K + 0 * old) + growth_CxK
        return wealth_CxK, xp.where(newer, fresh_K, most) + growth_CxK, since

    def after(
        self, statistics: BetStatistics, step: Array, done: Stepped, impossible: Array
    ) -> tuple[BetStatistics, Array]:
        """What a quick step makes of the statistics, and whether the rule trips."""
        alarm, gap, low = impossible, statistics.gap_C, statistics.low_C
        if done.share is not None:
            reached = done.share + self.delta * self._waiting(step, done.share) >= 1
        if gap is not None and low is not None:
            gap = gap + done.gain_C
            low = np.minimum(low, gap)
            if done.share is not None:
                reached = reached & (np.max(gap - low, axis=-1) >= self._rise(step))
        if done.share is not None:
            alarm = impossible | reached
        return BetStatistics(done[0], done[1], done[2], gap, low, statistics.impossible | impossible), alarm

    def _quickly(self, statistics: BetStatistics, step: Array, moment: Moment) -> Stepped | None:
        """The step of one stream or of a fleet in NumPy; None where arrays are as quick, or there is no other way."""
        quick, wealth, probs_S = self.quick, statistics.log_wealth_CxK, moment.probs_S
        if quick is None or type(wealth) is not np.ndarray or probs_S.dtype != np.float64:
            return None
        before = wealth, statistics.log_most_CxK, statistics.since_CxK
        if wealth.ndim == 2 and probs_S.ndim == 1:
            return quick.alone(probs_S, int(moment.token), int(step), *before, moment.base_A1, 0.0)
        shape = wealth.shape[:-2]
        if shape != moment.token.shape or shape != probs_S.shape[1:] or not quick.fleet_pays(wealth):
            return None
        return quick.fleet(probs_S, moment.base_A1, moment.token, step, *before)

    def reached(self, log_wealth_CxK: Array, step: Array) -> Array:
        """Whether all wealth together is 1/delta."""
        xp = namespace(log_wealth_CxK)
        share = xp.exp(at_most(log_wealth_CxK + math.log(self.delta), 0.0))
        return xp.sum(share, axis=(-2, -1)) + self.delta * self._waiting(step, share) >= 1

    def rise(self, statistics: BetStatistics, step: Array) -> tuple[Array, Array]:
        """How far any comparator has risen from its lowest point, and how far the gate asks."""
        assert statistics.gap_C is not None
        return namespace(step).max(statistics.gap_C - statistics.low_C, axis=-1), self._rise(step)

    def suspicion(self, statistics: BetStatistics) -> Suspicion:
        """What the richest bettor of each stream bets on."""
        xp, (*shape, C, K) = namespace(statistics.log_wealth_CxK), statistics.log_wealth_CxK.shape
        wealth, since = (xp.reshape(a, (*shape, C * K)) for a in (statistics.log_wealth_CxK, statistics.since_CxK))
        richest = xp.argmax(wealth, axis=-1)
        started = xp.take_along_axis(since, richest[..., None], axis=-1)[..., 0]
        return Suspicion(richest // K, constant(self.rates_K, wealth)[richest % K], started)

    def log_total(self, statistics: BetStatistics, step: Array) -> Array:
        """ln E_t."""
        xp = namespace(step)
        wealth = statistics.log_wealth_CxK
        peak = xp.clip(xp.max(wealth, axis=(-2, -1)), 0.0, None)
        whole = xp.sum(xp.exp(wealth - peak[..., None, None]), axis=(-2, -1))
        return peak + xp.log(whole + self._waiting(step, peak) * xp.exp(-peak))

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        """When each of the sequences trips: within a block of time wealth is a product times a cumulative sum."""
        return self.recorded_gains(step_T, self._gains(moment), moment.probs_S, moment.token)

    def recorded_gains(self, step_T: Array, gain_CxS: list[Array], probs_S: Array, token: Array) -> Array:
        """The same from what each comparator gains in every state, C arrays ``[S, N, T]``."""
        law_S = probs_S / total(probs_S)
        share = self.delta * self._waiting(step_T, law_S) + 0 * law_S[0]
        log_fresh_TxK = self.joining(step_T, like=law_S)
        compilable = not self.gate and self.prior.starts == "every" and self.delta > _LEAST_DELTA
        if compilable and kernels.worth(share, each=len(self.rates_K)):
            return self._recorded_compiled(share, gain_CxS, law_S, log_fresh_TxK, token)
        delta, open_ = math.log(self.delta), None
        for gain_S in gain_CxS:
            gain = pick(gain_S, token)
            for k, factor in self._factors(gain_S, token, law_S):
                share = share + self._shares(factor, log_fresh_TxK[:, k], self.rates_K[k], delta)
            if self.gate:
                gap = running_sum(gain)
                rise = gap - at_most(running_min(gap), 0.0) >= self._rise(step_T)
                open_ = rise if open_ is None else open_ | rise
        alarm = share >= 1 if open_ is None else (share >= 1) & open_
        return first_true(alarm | (pick(law_S, token) == 0)) + 1

    def _recorded_compiled(
        self, share: np.ndarray, gain_CxS: list[Array], law_S: np.ndarray, log_fresh_TxK: np.ndarray, token: np.ndarray
    ) -> np.ndarray:
        """The same by a compiled recurrence: without a gate no wealth beyond 1/delta matters, none is lost below."""
        total_NxT = self._totals(share, gain_CxS, law_S, log_fresh_TxK, token)
        return first_true((total_NxT >= 1 / self.delta) | (pick(law_S, token) == 0)) + 1

    def log_totals(self, step_T: Array, moment: Moment) -> np.ndarray | None:
        """ln E after every step by the compiled recurrence, up to what it keeps (about 690); None without one."""
        law_S = moment.probs_S / total(moment.probs_S)
        share = self.delta * self._waiting(step_T, law_S) + 0 * law_S[0]
        if self.prior.starts != "every" or not kernels.worth(share, each=len(self.rates_K)):
            return None
        log_fresh_TxK = self.joining(step_T, like=law_S)
        return np.log(self._totals(share, self._gains(moment), law_S, log_fresh_TxK, moment.token))

    def _totals(
        self, share: np.ndarray, gain_CxS: list[Array], law_S: np.ndarray, log_fresh_TxK: np.ndarray, token: np.ndarray
    ) -> np.ndarray:
        """E after every step, ``[N, T]``."""
        order = [k for k, _ in self.steps]
        heads = [k for k, doubles in self.steps if not doubles]
        ladder_K = np.array([-1 if doubles else heads.index(k) for k, doubles in self.steps])
        fresh_TxK = np.ascontiguousarray(np.exp(log_fresh_TxK)[:, order])
        law_S, total_NxT = np.ascontiguousarray(law_S), share / self.delta
        for gain_S in gain_CxS:
            excess = np.stack([np.expm1(gain_S * self.rates_K[k]) for k in heads])
            kernels.add_wealth(total_NxT, excess, ladder_K, law_S, token, fresh_TxK)
        return total_NxT

    def _shares(self, factor_NxT: Array, log_fresh_T: Array, rate: float, log_delta: float) -> Array:
        """One bettor's wealth at every step, in units of 1/delta and capped at it."""
        xp, horizon = namespace(factor_NxT), factor_NxT.shape[-1]
        # A step multiplies wealth by e^(rate span) at most, and divides it by e^(2 rate span) at most.
        length = max(1, int(_RANGE / (2 * rate * self.span))) if self.span else horizon
        first_only = self.prior.starts == "first"
        found, log_wealth = [], zeros(tuple(factor_NxT.shape[:-1]), xp, device(factor_NxT)) + NOTHING
        for begin in range(0, horizon, length):
            part = factor_NxT[..., begin : begin + length]
            wealth = product = running_product(part)
            # Wealth is e^scale times a float: it may be beyond all floats while a gate is shut, and below before.
            scale = log_wealth
            if not (first_only and begin):  # some joins
                joined = running_sum(xp.exp(log_fresh_T[begin : begin + length]) * part / product)
                scale = xp.clip(log_wealth, 0.0, None)
                wealth = product * (xp.exp(log_wealth - scale)[..., None] + joined * xp.exp(-scale)[..., None])
            found.append(at_most(wealth * xp.exp(at_most(scale + log_delta, _RANGE + 10))[..., None], 1.0))
            log_wealth = scale + xp.log(wealth[..., -1])
        return found[0] if len(found) == 1 else xp.concat(found, axis=-1)

    def _gains(self, moment: Moment) -> list[Array]:
        """What each comparator gains over the base's response in every state: C arrays ``[S, ...]``."""
        advantage = self.problem.advantage
        if self.on_fallback:
            return [gains(self.problem, moment)[0]]
        own_S = mix(advantage.T, moment.base_A1)  # over the first action's
        columns = [_column(row, own_S) for row in np.concatenate([np.zeros((1, advantage.shape[1])), advantage])]
        return [column - own_S for column in columns]

    def _growth(self, gain_CxS: list[Array], gain_C: Array, law_S: Array) -> Array:
        """How much each bettor's log wealth grows in one step, ``[..., C, K]``."""
        xp = namespace(law_S)
        rates_K = constant(self.rates_K, law_S)
        grown = []
        for gain_S, gain in zip(gain_CxS, gain_C, strict=True):
            excess_K = total(
                [law[..., None] * xp.expm1(g[..., None] * rates_K) for law, g in zip(law_S, gain_S, strict=True)]
            )
            grown.append(gain[..., None] * rates_K - xp.log1p(xp.clip(excess_K, 0.0, None)))
        return xp.stack(grown, axis=-2)

    def _factors(self, gain_S: Array, token: Array, law_S: Array) -> Iterator[tuple[int, Array]]:
        """What multiplies each bettor's wealth: where a rate doubles, u = exp(rate gain) - 1 becomes u (u + 2)."""
        xp, excess_S = namespace(law_S), gain_S
        for k, doubles in self.steps:
            excess_S = excess_S * (excess_S + 2.0) if doubles else xp.expm1(gain_S * float(self.rates_K[k]))
            yield k, (1 + pick(excess_S, token)) / (1 + xp.clip(total(law_S * excess_S), 0.0, None))

    def joining(self, step: Array, like: Array) -> Array:
        """ln m(c, k, step) ``[..., K]`` for one comparator."""
        xp, prior = namespace(like), self.prior
        first_K = constant(np.log(prior.weights_K(1)), like)
        later = first_K * 0 + NOTHING
        if prior.starts == "every":
            later = constant(np.log(prior.weights_K(2)), like)
        if prior.horizon is None and prior.starts == "every":  # 1 / (j (j + 1)), of which start 2 has a sixth
            j = in_float64(step)[..., None]
            later = later + math.log(6.0) - xp.log(j * (j + 1))
        return xp.where((step == 1)[..., None], first_K, later)

    def _waiting(self, step: Array, like: Array) -> Array:
        """The capital that has not joined after ``step`` steps."""
        return self.prior.unspent(astype(step, like.dtype))

    def _rise(self, step: Array) -> Array:
        return self.gate * self.span * in_float64(step) ** 0.5


def _came(gain_CxS: list[Array], token: Array) -> Array:
    """What each comparator gained in the state that came, ``[C, ...]``."""
    return namespace(gain_CxS[0]).stack([pick(gain_S, token) for gain_S in gain_CxS])


def _column(values: np.ndarray, like: Array) -> Array:
    return namespace(like).reshape(constant(values, like), (-1, *(1,) * (like.ndim - 1)))
