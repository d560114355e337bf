"""What a bet against a response is charged at most: kappa, which couples the mean of a gain to its variance.

Bounds are on *total* regret (a sum over steps). J is the problem's span, R its contrast, A the number of actions, eta a
temperature, lam a betting rate. A bet with weight m in a test at level delta has the log-cost ln(1 / (m delta)): what
its wealth must reach to raise the alarm on its own. A temperature of 0 is the best response (``best_response``).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import inputs
from ..problems import DecisionProblem
from . import best_response
from .bounds import Bound

_ROUND_UP = 1 + 1e-12  # bisection ends within a few units in the last place of v; logarithms are that exact too
_NEAR = 512
_KNOT_RATIO = 1.005  # neighbouring knots of a temperature schedule: its chords exceed kappa by about 1e-6
_ZETA_HALF = -1.4603545088095868


def kappa(problem: DecisionProblem, rate: Any, temperature: Any) -> Any:
    """What a step of betting against a quantal response is charged at most: kappa(lam) = lam eta g(lam R^2 / (8 eta)).

    g(z) = max_{0<x<1} x [ ln((1-x)/x) + ln(A-1) ] + z x^2: where the response is 1 - x away from the action that is bet
    on, the action's mean gain is at most the first term (times eta), its range at most x R. In closed form, with
    v = x / (1-x) and r = lam R^2 / eta: g = v/2 - v ln(v/(A-1)) / (2 (1+v)) at 4 (1+v) (1 + v + ln(v/(A-1))) / v = r,
    which is increasing in v. By bisection, rounded up.

    Parameters
    ----------
    rate, temperature
        Numbers or arrays, which broadcast. A temperature of 0 throughout: ``best_response.kappa``.

    >>> from lowregret import matching
    >>> round(float(kappa(matching(), 0.1761, 1 / 32)), 5), round(float(kappa(matching(), 0.1761, 0.0)), 5)
    (0.00435, 0.01543)
    """
    rate, eta = np.asarray(rate, dtype=np.float64), np.asarray(temperature, dtype=np.float64)
    best, none = np.all(eta == 0), np.zeros(np.broadcast_shapes(rate.shape, eta.shape))
    if not (best or np.all(eta > 0)):
        raise ValueError(f"temperature must be positive numbers, or 0 at every step, got {eta}")
    if problem.n_actions == 1 or problem.span == 0:
        return none
    if best:
        return best_response.kappa(problem, rate) + none
    # In this order nothing underflows, however small the payoffs are.
    ratio = (rate * problem.contrast) * (problem.contrast / eta)
    return rate * eta * _coupling(ratio, problem.n_actions - 1) * _ROUND_UP


def _coupling(ratio: np.ndarray, others: int) -> np.ndarray:
    """g(r / 8), from above: at the upper end of the bracket on v."""
    low = np.full(ratio.shape, lambert_of_exp(math.log(others) - 1))
    # From v = A - 1 on, r >= 4 v.
    high = np.maximum(float(others), ratio / 4)
    for _ in range(80):
        v = (low + high) / 2
        enough = 4 * (1 + v) / v * (1 + v + np.log(v / others)) >= ratio
        low, high = np.where(enough, low, v), np.where(enough, v, high)
    found: np.ndarray = high / 2 - high * np.log(high / others) / (2 * (1 + high))
    return found


def lambert_of_exp(exponent: Any) -> Any:
    """Lambert's W(e^y), for any y: no exponential is too large for it."""
    from scipy.special import wrightomega

    return wrightomega(exponent)


@dataclass(frozen=True, eq=False)
class ScheduledCharges:
    """The charges of the first n steps along the temperatures of an unknown horizon, eta_t = c / sqrt(t + S - 1).

    kappa is convex in the temperature (it is a maximum of linear functions of it), so the kappa of a mean temperature
    would be too small, and chords between knots are large enough: their sums are sums of temperatures.
    """

    problem: DecisionProblem
    knots_M: np.ndarray  # numbers of steps: 0, every one up to some hundreds, then half a percent apart in temperature
    sums_MxK: np.ndarray  # the charges up to each
    kappa_MxK: np.ndarray  # of the step at each
    slope_MxK: np.ndarray  # of the chord up to each

    def __call__(self, steps_N: np.ndarray) -> np.ndarray:
        steps_N = np.asarray(steps_N, dtype=np.float64)
        to_N = np.searchsorted(self.knots_M, steps_N)  # the knot at it, or the next
        from_N = np.maximum(to_N - 1, 0)
        sums_NxK: np.ndarray = self.sums_MxK[from_N] + self._since(from_N, to_N, steps_N)
        return sums_NxK

    def _since(self, from_N: np.ndarray, to_N: np.ndarray, steps_N: np.ndarray) -> np.ndarray:
        """The charges of the steps after one knot, up to the next or before."""
        begun_N, other = self.knots_M[from_N], self.problem.n_states - 1
        more_N = steps_N - begun_N
        # Of these steps, the temperatures above that of the next knot.
        c, root_N = (
            float(self.problem.anytime_temperature(1 - other)),
            np.maximum(self.knots_M[to_N] + other, 1) ** -0.5,
        )
        warmth_N = c * (summed_roots(steps_N + other) - summed_roots(begun_N + other) - more_N * root_N)
        more_NxK: np.ndarray = more_N[:, None] * self.kappa_MxK[to_N] + warmth_N[:, None] * self.slope_MxK[to_N]
        return more_NxK


def evenly(kappa_K: np.ndarray) -> Bound:
    """The charges of the first n steps if each is charged the same: ``[N]`` -> ``[N, K]``."""
    return lambda steps_N: np.multiply.outer(steps_N, kappa_K)


def charges(problem: DecisionProblem, rates_K: Any, steps: int, temperature: float | None) -> Bound:
    """What bets at these rates are charged at most in the first n of ``steps`` steps: n ``[N]`` -> ``[N, K]``.

    It never falls with n. Temperature None: along the schedule.

    >>> from lowregret import matching
    >>> charges(matching(), [0.1, 0.2], 1000, None)(np.array([0, 10, 1000])).round(3).tolist()
    [[0.0, 0.0], [0.075, 0.155], [1.539, 7.024]]
    """
    rates_K = np.atleast_1d(np.asarray(rates_K, dtype=np.float64))
    if temperature is not None:
        return evenly(kappa(problem, rates_K, temperature))
    near = np.arange(min(steps, _NEAR) + 1.0)
    count = 2 + math.ceil(math.log(max(steps, _NEAR) / _NEAR) / (2 * math.log(_KNOT_RATIO)))
    far = np.geomspace(_NEAR, steps, count).round()[1:] if steps > _NEAR else near[:0]
    knots_M = np.unique(np.concatenate([near, far]))
    warmth_M = problem.anytime_temperature(np.maximum(knots_M, 1.0))
    kappa_MxK = kappa(problem, rates_K, warmth_M[:, None])
    slope_MxK = np.zeros_like(kappa_MxK)
    slope_MxK[1:] = np.diff(kappa_MxK, axis=0) / np.minimum(np.diff(warmth_M), -1e-300)[:, None]
    slope_MxK[np.diff(knots_M, prepend=0) <= 1] = 0.0  # one step, at the knot itself
    made = ScheduledCharges(problem, knots_M, np.zeros_like(kappa_MxK), kappa_MxK, slope_MxK)
    each = np.arange(1, len(knots_M))
    sums_MxK = np.concatenate([np.zeros((1, len(rates_K))), made._since(each - 1, each, knots_M[1:]).cumsum(axis=0)])
    return replace(made, sums_MxK=sums_MxK)


def summed_roots(n: Any) -> np.ndarray:
    """1/sqrt(1) + .. + 1/sqrt(n), to all digits: beyond some hundreds by Euler and Maclaurin, from zeta(1/2) up.

    >>> summed_roots(np.array([0, 2, 10_000])).round(9).tolist()
    [0.0, 1.707106781, 198.54464545]
    """
    n = np.asarray(n, dtype=np.float64)
    near_T = np.concatenate([[0.0], np.cumsum(np.arange(1, _NEAR + 1.0) ** -0.5)])
    x = np.maximum(n, _NEAR)
    far = _ZETA_HALF + x**0.5 * (2 + 1 / (2 * x) - 1 / (24 * x**2) + 1 / (384 * x**4))
    sums: np.ndarray = np.where(n <= _NEAR, near_T[np.minimum(n, _NEAR).astype(np.int64)], far)
    return sums


def free_rate_bound(problem: DecisionProblem, steps: Any, temperature: float, log_cost: Any) -> Any:
    """min over all rates of [ t kappa(lam) + c ] / lam = t eta W((A-1) e^(m-1)), m = (R / eta) sqrt(c / (2t)).

    At a temperature of 0 by Hoeffding's form of kappa: R sqrt(t c / 2).

    >>> from lowregret import matching
    >>> round(float(free_rate_bound(matching(), 1024, 1 / 32, 7.219)) / 1024, 4)
    0.0647
    """
    if problem.n_actions == 1 or problem.span == 0:
        return 0.0 * np.asarray(steps, dtype=np.float64)
    root = np.sqrt(np.asarray(log_cost) / (2 * np.asarray(steps, dtype=np.float64)))
    if temperature == 0:
        return problem.contrast * steps * root
    return steps * temperature * _free_rate_odds(problem, temperature, root)


def _free_rate_odds(problem: DecisionProblem, temperature: float, root: Any) -> Any:
    """v = W((A-1) e^(m-1)), m = R root / eta."""
    return lambert_of_exp(math.log(problem.n_actions - 1) + problem.contrast / temperature * root - 1)


def main_rate(problem: DecisionProblem, steps: int, temperature: float, log_cost: float) -> float:
    """The rate that attains ``free_rate_bound``: 4 eta m (1+v) / (v R^2), v = W((A-1) e^(m-1)).

    At a temperature of 0 the best for ``best_response.kappa``.
    """
    if temperature == 0:
        return best_response.main_rate(problem, steps, log_cost)
    if problem.n_actions == 1 or problem.contrast == 0:
        return math.inf  # nothing is random about a gain: the larger the rate, the better
    root = math.sqrt(log_cost / (2 * steps))
    v = float(_free_rate_odds(problem, temperature, root))
    return 4 * root * (1 + v) / (v * problem.contrast)


def gap_threshold_mixture(
    problem: DecisionProblem, horizon: int, steps: Any, temperature: float, alpha: float, rates_K: np.ndarray
) -> np.ndarray:
    """RegretGap at TV <= T^-alpha, without a union: the root b of (1/K) sum_k exp(lam_k b - s kappa(lam_k)) = T^alpha.

    By bisection, rounded up: the sum is increasing in b, at b = 0 it is at most 1 and one term alone suffices at
    min_k [ s kappa + ln(K T^alpha) ] / lam_k.
    """
    steps_N = np.atleast_1d(np.asarray(steps, dtype=np.float64))
    log_K, target = math.log(len(rates_K)), alpha * math.log(horizon)
    charges_NxK = steps_N[:, None] * kappa(problem, rates_K, temperature)
    low, high = np.zeros(len(steps_N)), np.min((charges_NxK + log_K + target) / rates_K, axis=1)
    for _ in range(60):
        middle = (low + high) / 2
        enough = np.logaddexp.reduce(middle[:, None] * rates_K - charges_NxK, axis=1) - log_K >= target
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    found: np.ndarray = high.reshape(np.shape(steps))
    return found


def late_factor(lag: int) -> float:
    """a_d: the average of d tests, one for each residue class of steps, may alarm at a_d / delta.

    a_d = min_{0<b<1/d} ln((1 - (d-1) b) / b) / (1 - d b); the average alone, at 1/delta, alarms too often.

    >>> [round(late_factor(d), 2) for d in (1, 2, 3, 5, 10)]
    [1.0, 2.0, 2.75, 3.56, 4.56]
    """
    d = inputs.whole(lag, "lag")
    if d == 1:
        return 1.0
    from scipy.optimize import minimize_scalar  # late: it takes longer to load than all the rest

    def factor(share: float) -> float:  # b = share / d
        # ln((1 - (d-1) b) / b) = ln(1 + (1 - d b) / b), exact where b is near 1/d.
        return math.log1p(d * (1 - share) / share) / (1 - share)

    found = minimize_scalar(factor, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12})
    return float(found.fun)
