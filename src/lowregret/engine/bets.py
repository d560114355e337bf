"""The exact test: bets against the model at its own odds. If the model is right, they are fair and rarely grow large.

A bettor on comparator c at rate lambda_k wins exp(lambda_k x_c(outcome)) in a step, x_c what c gains over the response
to the forecast, and is charged the mean of that under the forecast, at least 1. New capital m(c, k, j) joins at every
step j, so that a break is found however late it happens:

    W_{c,k,t} = (W_{c,k,t-1} + m(c,k,t)) exp(lambda_k x_{c,t}(outcome)) / charge_{c,k,t},
    E_t = sum of all W_t + the capital that has not joined yet:   P(some E_t >= 1/delta) <= delta, by Ville.

Where best responses answer distributions and the fallback has a mixture of forecasts, half of the capital bets on that
mixture: its likelihood ratio against the model needs no charge. It counts only while acting on the mixture pays: let G
be its cumulative gain over the model since that was lowest, V the sum of the squared gains and a the steps since then,

    it counts while  G > 0  and  G^2 >= V (ln(1 + t / a) + 2).

Bets on actions are then charged by two points: if a comparator gains between -l and h over the best response, then
under any forecast with that best response the mean of exp(rate gain) is at most that of gains in {-l, h} with mean 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, final, runtime_checkable

import numpy as np

from .. import inputs
from ..arrays import pick, running_sum, total
from ..certificates import Certificate
from ..certificates.every_start import Prior, joint_prior
from ..certificates.promises import FromTheStart, Switches, Unproved
from .fallbacks import Recovery
from .layout import Shapes, Views
from .responses import TIE
from .step import Outcome, Step

MOST = 1e300  # wealth is capped here, long after any alarm
LEAST_DELTA = 1e-250  # keeps 1/delta below that cap
LEAST_CHANCE = 1e-290  # of an outcome, as far as odds go: they stay finite
LARGEST_TABLE = 1 << 16  # entries of a table of factors that is worth keeping
RANGE = 300.0  # how far the logarithm of a product may go within a block of time: products of two such are floats
CARRIED = 1e240  # from one block to the next: times what a block can make of it, it is a float
TOP = 2.0  # no rate above TOP / span: higher ones alarm on models that are miscalibrated but useful


class Suspect(NamedTuple):
    """The strongest evidence against the model."""

    place: int | None  # which comparator; None: the mixture
    rate: float | None
    since: int  # about which step of the episode the model broke
    gain: float | None = None  # per step, of acting on the mixture over acting on the model


class Played(NamedTuple):
    """All steps of recordings at once, against actions alone."""

    forecast_NxTxS: Any
    model_NxTxA: Any  # the response to it
    fallback_NxTxA: Any  # the response to the fallback; None: the test does not ask
    state_NxT: Any
    step_T: Any  # 1, 2, ... in floating point


Alarmed = Callable[[Any], Any]  # which streams [N] have had an alarm, given the level [N] of the current class


class Watch(Protocol):
    """A test at work in one setting; ``memory`` has views of what it remembers, ``[N, ...]``."""

    threshold: float  # an alarm is raised where the mean level of all classes reaches it
    fresh_level: float  # what the level of a class is before its first outcome
    in_logs: bool = False  # whether the level is a capital, and its logarithm is stated as the evidence
    compares: bool = False  # whether it goes by what the fallback would have played

    def shapes(self) -> Shapes:
        return {}

    def start(self, memory: Views) -> None:
        """Writes what is remembered at first, where that is not 0."""
        return

    def update(self, memory: Views, step: Step, outcome: Outcome, number_N: Any, alarmed: Alarmed) -> Any:
        """The level ``[N]`` after the outcome of a step, the ``number_N``-th of its episode."""

    def suspect(self, memory: Views, n: int) -> Suspect | None:
        """The strongest evidence against the model of a stream; None: the test has none."""
        return None


@runtime_checkable
class Test(Protocol):
    """When to stop acting on a model."""

    @property
    def horizon(self) -> int | None: ...
    @property
    def delta(self) -> float: ...
    def watch(self, setting: Any) -> Watch: ...
    def usual_fallback(self, problem: Any) -> Any:
        """The fallback a guard takes by default."""


OWN_TEST = "ExactTest() or another test: an object with horizon, delta, watch and usual_fallback"


@runtime_checkable
class Certifies(Protocol):
    """A test of which something was proved; for others nothing is promised."""

    def certify(self, setting: Any, steps: int | None) -> Certificate | None:
        """What it promises in a setting, over so many steps (None: unknown), before the first; None: nothing."""


@final
@dataclass(frozen=True)
class NoTest:
    """No test and no alarm: the fallback is played from the first step on. It promises regret, not an unchanged model.

    Parameters
    ----------
    horizon
        The number of steps for which regret is bounded; None: any number.
    """

    horizon: int | None = None
    delta: float = field(init=False, default=1.0, repr=False)

    def __post_init__(self) -> None:
        inputs.keep(self, horizon=inputs.horizon_or_none(self.horizon))

    def watch(self, setting: Any) -> "Watch":
        return Unwatched()

    def usual_fallback(self, problem: Any) -> Recovery:
        return Recovery(trust=0.9)

    def certify(self, setting: Any, steps: int | None) -> Certificate:
        play = setting.play
        promise = FromTheStart(
            problem=setting.payoff_range,
            temperature=setting.temperature,
            fallback=play.name,
            regret_after=play.regret_after,
            lag=setting.lag,
            counts_model=play.counts_model,
        )
        return promise.certificate(steps)


class Unwatched(Watch):
    """No test, at work."""

    threshold, fresh_level, in_logs = math.inf, 1.0, True

    def update(self, memory: Views, step: Step, outcome: Outcome, number_N: Any, alarmed: Alarmed) -> Any:
        return 1.0


@final
@dataclass(frozen=True)
class ExactTest:
    """Bets against the model that, if it is right, ever grow to 1/delta with a chance of at most delta.

    Parameters
    ----------
    delta
        The largest chance, per episode, of ever raising an alarm against a model that is right.
    horizon
        The number of steps for which regret is bounded; None: any number. The bound on false alarms holds for ever.

    >>> ExactTest(delta=0.01)
    ExactTest(delta=0.01, horizon=None)
    """

    delta: float = 0.05
    horizon: int | None = None

    def __post_init__(self) -> None:
        inputs.keep(self, delta=inputs.probability(self.delta, "delta"), horizon=inputs.horizon_or_none(self.horizon))
        if self.delta < LEAST_DELTA:
            raise ValueError(f"delta must be at least {LEAST_DELTA:g}, got {self.delta:g}")

    def watch(self, setting: Any) -> "Bets":
        return Bets(setting)

    def usual_fallback(self, problem: Any) -> Recovery:
        return Recovery()

    def certify(self, setting: Any, steps: int | None) -> Certificate:
        """Where outcomes are numbers, false alarms alone: regret is bounded by the charges of a run as it goes."""
        common, play = {"problem": setting.payoff_range, "tv_bound": self.delta}, setting.play
        if not setting.outcomes.n_states:
            called = "the exact test at outcomes, before any charge was paid"
            return Unproved(**common, called=called).certificate(steps)
        if not setting.has_proved_response:
            called = f"{type(setting.response).__name__}, of which no regret was proved"
            return Unproved(**common, called=called).certificate(steps)
        promise = Switches(
            **common,
            temperature=setting.temperature,
            fallback=play.name,
            regret_after=play.regret_after,
            prior=prior_of(setting),
            delta=setting.class_delta,
            contexts=setting.n_contexts,
            lag=setting.lag,
            against=str(setting.against),
            counts_model=play.counts_model,
            payoffs_change=setting.problem.is_changing,
        )
        return promise.certificate(steps)


def prior_of(setting: Any) -> Prior:
    """How the capital of one class is shared among comparators, rates and starts."""
    delta, rounds, eta = setting.class_delta, setting.rounds, setting.temperature
    share = 0.5 if setting.has_second_bettor else 1.0
    made = (delta, eta, TOP, setting.n_comparators, share)
    if rounds is None:
        return joint_prior(setting.payoff_range, None, *made, opening=0.5 if eta == 0 else 0.0)
    prior = joint_prior(setting.payoff_range, -(-rounds // setting.n_contexts), *made)
    return replace(prior, horizon=rounds)  # any context may have all the steps


class Bets(Watch):
    """All bettors, at work in one setting."""

    in_logs = True

    def __init__(self, setting: Any) -> None:
        xp = self.xp = setting.xp
        self.setting, self.prior, self.second = setting, prior_of(setting), setting.has_second_bettor
        self.threshold, self.is_number = 1 / setting.class_delta, setting.outcomes.n_states == 0
        order = np.argsort(self.prior.rates_K)
        each = [values[order] for values in (self.prior.rates_K, self.prior.weights_K(1), self.prior.weights_K(2))]
        self.rates_K, self.first_K, self.later_K = map(xp.asarray, each)
        self.rates, *self.joins = (values.tolist() for values in each)  # numbers, for which no device need be asked
        self.most, self.least, self.one, self.none = xp.asarray([MOST, LEAST_CHANCE, 1.0, 0.0], dtype=xp.float64)
        self.second_first, self.second_later = self.prior.second_weight(1), self.prior.second_weight(2)
        self.fresh_level, pure = self.prior.share, setting.against.are_pure
        self.factor_AxSxAxK = self._table() if self.second and pure and setting.has_fixed_payoffs else None

    def shapes(self) -> Shapes:
        P = self.setting.n_comparators
        each = P, len(self.rates_K)
        found: Shapes = {"wealth_PxK": each, "clock_P": (P,), "unspent": (), "actors": ()}
        if self.second:
            return found | dict.fromkeys(("second", "second_unspent", "rise", "spread", "age", "drift", "lowest"), ())
        return found | {"richest_PxK": each, "since_PxK": each} | ({"charges_PxK": each} if self.is_number else {})

    def start(self, memory: Views) -> None:
        memory.actors[:] = memory.unspent[:] = self.prior.share
        if self.second:
            memory.second_unspent[:] = 1 - self.prior.share

    def update(self, memory: Views, step: Step, outcome: Outcome, number_N: Any, alarmed: Alarmed) -> Any:
        xp, at_NxE = self.xp, step.at_NxE
        awake = slice(None) if at_NxE is None else (xp.arange(at_NxE.shape[0])[:, None], at_NxE)
        memory.clock_P[awake] += 1
        clock_NxEx1 = memory.clock_P[awake][..., None]
        joins_NxExK = xp.where(clock_NxEx1 == 1, self.first_K, self.later_K * self._later(clock_NxEx1))
        if self.factor_AxSxAxK is not None and step.scale_N is None:
            played_NxE = xp.argmax(step.plays_NxExA, axis=-1)
            factor_NxExK = self.factor_AxSxAxK[step.advised_N[:, None], outcome.state_N[:, None], played_NxE]
        else:
            excess_NxExK = self._excess(step, outcome)
            factor_NxExK = xp.exp(outcome.gained_NxE[..., None] * self.rates_K) / (1 + excess_NxExK)
        grown_NxExK = (memory.wealth_PxK[awake] + joins_NxExK) * factor_NxExK
        memory.wealth_PxK[awake] = xp.minimum(grown_NxExK, self.most)
        # Infinite once a state occurred to which the model gave probability 0: no odds would make that bet fair.
        left_N = memory.unspent - joins_NxExK.sum((-2, -1))
        unspent_N = xp.where(outcome.chance_N > 0, left_N * (left_N > TIE), math.inf)
        memory.unspent[:] = unspent_N
        level_N = memory.wealth_PxK.sum((-2, -1)) + unspent_N
        memory.actors[:] = level_N
        if self.second:
            return level_N + self._bet_on_mixture(memory, step, outcome, number_N)
        newer = joins_NxExK > memory.richest_PxK[awake] * (1 + TIE)
        memory.since_PxK[awake] = xp.where(newer, number_N[:, None, None], memory.since_PxK[awake])
        richest_NxExK = xp.where(newer, joins_NxExK, memory.richest_PxK[awake]) * factor_NxExK
        memory.richest_PxK[awake] = xp.minimum(richest_NxExK, self.most)
        if self.is_number:  # until an alarm they bound the regret, and nothing else does
            memory.charges_PxK[awake] += xp.log1p(excess_NxExK) * ~alarmed(level_N)[:, None, None]
        return level_N

    def _later(self, clock: Any) -> Any:
        """What joins at a step after the first, in units of what joins at the second."""
        end = self.prior.horizon
        return 6 / (clock * (clock + 1)) if end is None else self.xp.astype(clock <= end, clock.dtype)

    def _excess(self, step: Step, outcome: Outcome) -> Any:
        """By how much the mean payoff of a bet under the forecast exceeds 1, at least 0: ``[N, E, K]``."""
        xp = self.xp
        over_NxExA = step.plays_NxExA - step.model_NxA[:, None]
        if step.scale_N is not None:
            over_NxExA = over_NxExA * step.scale_N[:, None, None]
        weights_NxM, gain_NxExM, own_weight = self.setting.outcomes.cells(step, over_NxExA)
        if self.second:
            return self._excess_at_ends(gain_NxExM)
        excess = outcome.gained_NxE[..., None] * 0 * self.rates_K
        for m in range(weights_NxM.shape[1]):
            excess = excess + weights_NxM[:, m, None, None] * xp.expm1(gain_NxExM[:, :, m, None] * self.rates_K)
        if own_weight:
            excess = excess + own_weight * xp.expm1(outcome.gained_NxE[..., None] * self.rates_K)
        return xp.maximum(excess, self.none)

    def _excess_at_ends(self, gain_NxExM: Any) -> Any:
        """The same where only the least and the largest gain are known, and that the mean gain is at most 0."""
        xp, rates_K = self.xp, self.rates_K
        low_NxE, high_NxE = -xp.min(gain_NxExM, axis=-1), xp.max(gain_NxExM, axis=-1)
        both_NxE = (low_NxE > 0) & (high_NxE > 0)
        low, high = (low_NxE * both_NxE)[..., None], (high_NxE * both_NxE)[..., None]
        wide = low + high + ~both_NxE[..., None]
        return xp.maximum((high / wide) * xp.expm1(-low * rates_K) + (low / wide) * xp.expm1(high * rates_K), self.none)

    def _table(self) -> Any:
        """What multiplies the wealth of a bettor on an action, by the action advised and the state; None: too large."""
        xp, utility_AxS = self.xp, self.setting.outcomes.payoffs
        A, S = utility_AxS.shape
        if A * S * A * len(self.rates_K) > LARGEST_TABLE:
            return None
        gain_AxAxS = utility_AxS[None] - utility_AxS[:, None]
        charge_AxAxK = 1 + self._excess_at_ends(gain_AxAxS)
        won_AxSxAxK = xp.exp(xp.moveaxis(gain_AxAxS, 2, 1)[..., None] * self.rates_K)
        return won_AxSxAxK / charge_AxAxK[:, None]

    def _bet_on_mixture(self, memory: Views, step: Step, outcome: Outcome, number_N: Any) -> Any:
        """The wealth of the second bettor where it counts, else 0: ``[N]``."""
        xp, t_N = self.xp, step.clock_N + 1
        likely_N = step.mixture_NxS[xp.arange(t_N.shape[0]), outcome.state_N]
        odds_N = likely_N / xp.where(outcome.chance_N > 0, xp.maximum(outcome.chance_N, self.least), likely_N)
        joins_N = xp.where(t_N == 1, self.second_first, self.second_later * self._later(t_N))
        memory.second[:] = xp.minimum(memory.second + joins_N, self.most / xp.maximum(odds_N, self.one)) * odds_N
        left_N = memory.second_unspent - joins_N
        memory.second_unspent[:] = left_N * (left_N > TIE)
        drift_N = memory.drift + xp.log(odds_N)
        better_N = drift_N > TIE
        memory.drift[:] = drift_N * better_N
        memory.lowest[:] = xp.where(better_N, memory.lowest, number_N)
        gained_N = ((step.mixed_NxA - step.model_NxA) * outcome.paid_NxA).sum(-1)
        rise_N = memory.rise + gained_N
        above_N = rise_N > TIE
        if not above_N.any():
            memory.rise[:] = memory.spread[:] = memory.age[:] = 0.0
            return self.none
        memory.rise[:] = rise_N * above_N
        memory.spread[:] = (memory.spread + gained_N * gained_N) * above_N
        memory.age[:] = (memory.age + 1) * above_N
        counts_N = rise_N * rise_N >= memory.spread * (xp.log(1 + t_N / (memory.age + ~above_N)) + 2)
        return (above_N & counts_N) * (memory.second + memory.second_unspent)

    # Recordings at once

    def levels(self, played: Played) -> Any:
        """The level after every step ``[N, T]`` by running sums, for bets on actions alone."""
        xp, utility_AxS = self.xp, self.setting.outcomes.utility_AxS
        states = range(len(utility_AxS[0]))
        law_S = [played.forecast_NxTxS[..., s] for s in states]
        own_S = [total([played.model_NxTxA[..., a] * row[s] for a, row in enumerate(utility_AxS)]) for s in states]
        level_NxT = self.prior.unspent(played.step_T) + law_S[0] * 0
        for row in utility_AxS:
            gain_S = [row[s] - own_S[s] for s in states]
            came_NxT = pick(gain_S, played.state_NxT)
            excess: list[Any] = []  # exp(rate gain) - 1 in each state, and in the one that occurred
            for k, rate in enumerate(self.rates):
                if k and rate == 2 * self.rates[k - 1]:
                    excess = [u * (u + 2) for u in excess]  # e^(2x) - 1, where u = e^x - 1
                else:
                    excess = [xp.expm1(gain * rate) for gain in (*gain_S, came_NxT)]
                charge = total([law_S[s] * excess[s] for s in states])
                factor_NxT = (1 + excess[-1]) / (1 + xp.clip(charge, 0.0, None))
                level_NxT = level_NxT + self._wealth(k, factor_NxT, played.step_T)
        excluded_NxT = pick(law_S, played.state_NxT) == 0
        return xp.where(excluded_NxT, xp.zeros_like(level_NxT) + math.inf, level_NxT)

    def _wealth(self, k: int, factor_NxT: Any, step_T: Any) -> Any:
        """The wealth of one bettor after every step; within a block of time, W_t = P_t sum_j m_j f_j / P_j."""
        T, rate, span = factor_NxT.shape[-1], self.rates[k], self.setting.payoff_range.span
        # A step multiplies wealth by e^(rate span) at most, and divides it by e^(2 rate span) at most.
        length = max(1, int(RANGE / (2 * rate * span))) if span else T
        fresh_T = self.xp.where(step_T == 1, self.joins[0][k], self.joins[1][k] * self._later(step_T))
        found, wealth = [], factor_NxT[..., :1] * 0
        for begin in range(0, T, length):
            part = factor_NxT[..., begin : begin + length]
            product = self.xp.cumprod(part, -1)
            joined = running_sum(fresh_T[begin : begin + length] * part / product)
            found.append(self.xp.clip(product * (wealth + joined), None, MOST))
            wealth = self.xp.clip(found[-1][..., -1:], None, CARRIED)
        return found[0] if len(found) == 1 else self.xp.concat(found, axis=-1)

    def suspect(self, memory: Views, n: int) -> Suspect:
        """The richest bettor of a stream; where those on comparators alone have less than 1/delta, the mixture."""
        wealth = memory.wealth_PxK[n].reshape(-1)  # the first of those that are the richest but for rounding
        place, k = divmod(int(((wealth >= wealth.max() * (1 - TIE)) * 1).argmax()), len(self.rates_K))
        rate = float(self.rates_K[k])
        if not self.second:
            return Suspect(place, rate, int(memory.since_PxK[n, place, k]))
        since = int(memory.lowest[n] + (memory.drift[n] > 0))
        if memory.actors[n] < self.threshold and memory.age[n] > 0:
            return Suspect(None, None, since, float(memory.rise[n] / memory.age[n]))
        return Suspect(place, rate, since)
