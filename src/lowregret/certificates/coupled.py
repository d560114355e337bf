"""What a bet against a quantal response is charged at most: kappa, which couples the mean of a gain to its variance.

Bounds are on *total* regret (a sum over steps). J is the problem's span, R its contrast, A the number of actions, eta a
temperature, lam a betting rate. A bet with weight m in a test at level delta has the log-cost ln(1 / (m delta)): what
its wealth must reach for the alarm to sound on its own.
"""

import math
from typing import Any

import numpy as np

from .. import inputs
from ..problems import DecisionProblem

_ROUND_UP = 1 + 1e-12  # bisection ends within a few units in the last place of v; logarithms are that exact too
_EXACT_STEPS = 1 << 16
_KNOT_RATIO = 1.005  # neighbouring knots of a temperature schedule: its chords exceed kappa by about 1e-6


def kappa(problem: DecisionProblem, rate: Any, temperature: Any) -> Any:
    """What a step of betting against a quantal response is charged at most: kappa(lam) = lam eta g(lam R^2 / (8 eta)).

    g(z) = max_{0<x<1} x [ ln((1-x)/x) + ln(A-1) ] + z x^2: where the response is 1 - x away from the action that is bet
    on, the action's mean gain is at most the first term (times eta), its range at most x R. In closed form, with
    v = x / (1-x) and r = lam R^2 / eta: g = v/2 - v ln(v/(A-1)) / (2 (1+v)) at 4 (1+v) (1 + v + ln(v/(A-1))) / v = r,
    which is increasing in v. By bisection, rounded up.

    Parameters
    ----------
    rate, temperature
        Numbers or arrays, which broadcast.

    >>> from lowregret import matching
    >>> round(float(kappa(matching(), 0.1761, 1 / 32)), 5)
    0.00435
    """
    rate, warmth = np.asarray(rate, dtype=np.float64), np.asarray(temperature, dtype=np.float64)
    if not (np.all(rate >= 0) and np.all(np.isfinite(rate))):
        raise ValueError(f"rate must be finite numbers >= 0, got {rate}")
    if not (np.all(warmth > 0) and np.all(np.isfinite(warmth))):
        raise ValueError(f"temperature must be positive finite numbers, got {warmth}")
    if problem.n_actions == 1 or problem.span == 0:
        return np.zeros(np.broadcast_shapes(rate.shape, warmth.shape))
    # In this order nothing underflows, however small the payoffs are.
    ratio = (rate * problem.contrast) * (problem.contrast / warmth)
    return rate * warmth * _coupling(ratio, problem.n_actions - 1) * _ROUND_UP


def _coupling(ratio: np.ndarray, others: int) -> np.ndarray:
    """g(r / 8), from above: at the upper end of the bracket on v."""
    low = np.full(ratio.shape, lambert_of_exp(math.log(others) - 1))
    # From v = A - 1 on, r >= 4 v.
    high = np.maximum(float(others), ratio / 4)
    for _ in range(80):
        v = (low + high) / 2
        enough = 4 * (1 + v) / v * (1 + v + np.log(v / others)) >= ratio
        low, high = np.where(enough, low, v), np.where(enough, v, high)
    return high / 2 - high * np.log(high / others) / (2 * (1 + high))


def lambert_of_exp(exponent: Any) -> Any:
    """Lambert's W(e^y), for any y: no exponential is too large for it."""
    from scipy.special import wrightomega

    return wrightomega(exponent)


def summed_kappa(problem: DecisionProblem, rates_K: Any, temperatures_T: Any) -> np.ndarray:
    """The charges of the first 0, 1, .. T steps of a schedule of temperatures, from above: ``[T + 1, K]``.

    kappa is convex in the temperature (it is a maximum of linear functions of it), so the kappa of a mean temperature
    would be too small, and chords between knots are large enough.
    """
    rates_K, warmth_T = np.atleast_1d(np.asarray(rates_K, dtype=np.float64)), np.asarray(temperatures_T, np.float64)
    sums_TxK = np.zeros((len(warmth_T) + 1, len(rates_K)))
    if not len(warmth_T):
        return sums_TxK
    knots_N = np.unique(warmth_T)
    if len(knots_N) > 512:
        count = 2 + math.ceil(math.log(knots_N[-1] / knots_N[0]) / math.log(_KNOT_RATIO))
        inner_N = np.geomspace(knots_N[0], knots_N[-1], count)[1:-1]
        knots_N = np.concatenate([knots_N[:1], inner_N, knots_N[-1:]])
    kappa_NxK = kappa(problem, rates_K, knots_N[:, None])
    for k in range(len(rates_K)):
        np.cumsum(np.interp(warmth_T, knots_N, kappa_NxK[:, k]), out=sums_TxK[1:, k])
    return sums_TxK


def total_kappa(problem: DecisionProblem, rates_K: Any, steps: int, temperature: float | None) -> np.ndarray:
    """The charges of so many steps, ``[K]``: at one temperature, or (None) along the schedule of an unknown horizon."""
    if temperature is not None:
        return steps * kappa(problem, rates_K, temperature)
    near = min(steps, _EXACT_STEPS)
    charges_K = summed_kappa(problem, rates_K, problem.anytime_temperature(np.arange(1, near + 1.0)))[-1]
    if steps > near:  # further on block by block: kappa is convex in the temperature, so largest at an end of a block
        count = 2 + math.ceil(math.log(steps / near) / math.log(1.01))
        ends_N = np.unique(np.geomspace(near, steps, count).round())
        kappa_NxK = kappa(problem, rates_K, problem.anytime_temperature(ends_N)[:, None])
        charges_K = charges_K + np.diff(ends_N) @ np.maximum(kappa_NxK[1:], kappa_NxK[:-1])
    return charges_K


def free_rate_bound(problem: DecisionProblem, steps: Any, temperature: float, log_cost: Any) -> Any:
    """min over all rates of [ t kappa(lam) + c ] / lam = t eta W((A-1) e^(m-1)), m = (R / eta) sqrt(c / (2t)).

    >>> from lowregret import matching
    >>> round(float(free_rate_bound(matching(), 1024, 1 / 32, 7.219)) / 1024, 4)
    0.0647
    """
    if problem.n_actions == 1 or problem.span == 0:
        return 0.0 * np.asarray(steps, dtype=np.float64)
    reach = problem.contrast / temperature * np.sqrt(np.asarray(log_cost) / (2 * np.asarray(steps, dtype=np.float64)))
    return steps * temperature * lambert_of_exp(math.log(problem.n_actions - 1) + reach - 1)


def main_rate(problem: DecisionProblem, steps: int, temperature: float, log_cost: float) -> float:
    """The rate that attains ``free_rate_bound``: 4 eta m (1+v) / (v R^2), v = W((A-1) e^(m-1))."""
    if problem.n_actions == 1 or problem.contrast == 0:
        return math.inf  # nothing is random about a gain: the larger the rate, the better
    root = math.sqrt(log_cost / (2 * steps))
    v = float(lambert_of_exp(math.log(problem.n_actions - 1) + problem.contrast / temperature * root - 1))
    return 4 * root * (1 + v) / (v * problem.contrast)


def certificate_temperature(problem: DecisionProblem, horizon: int, log_cost: float) -> float:
    """eta* = (R / A) sqrt(L / (2T)): where B(T) is least over temperatures, R (1 - 1/A) sqrt(T L / 2)."""
    return problem.contrast / problem.n_actions * math.sqrt(log_cost / (2 * horizon))


def gap_threshold_union(problem: DecisionProblem, horizon: int, steps: Any, temperature: float, alpha: float) -> Any:
    """RegretGap at TV <= T^-alpha, a union over steps: s eta W((A-1) exp((R/eta) sqrt((1+alpha) ln T / 2s) - 1)).

    >>> from lowregret import matching
    >>> round(float(gap_threshold_union(matching(), 1024, 1024, 1 / 32, alpha=1.0)) / 1024, 4)
    0.0977
    """
    return free_rate_bound(problem, steps, temperature, (1 + alpha) * math.log(horizon))


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
    return high.reshape(np.shape(steps))


def late_factor(lag: int) -> float:
    """a_d: the average of d tests, one for each residue class of steps, may alarm at a_d / delta.

    a_d = min_{0<b<1/d} ln((1 - (d-1) b) / b) / (1 - d b); the average alone, at 1/delta, alarms too often.

    >>> [round(late_factor(d), 2) for d in (1, 2, 3, 5, 10)]
    [1.0, 2.0, 2.75, 3.56, 4.56]
    """
    from scipy.optimize import minimize_scalar

    d = inputs.whole(lag, "lag")
    if d == 1:
        return 1.0

    def factor(share: float) -> float:  # b = share / d
        # ln((1 - (d-1) b) / b) = ln(1 + (1 - d b) / b), exact where b is near 1/d.
        return math.log1p(d * (1 - share) / share) / (1 - share)

    found = minimize_scalar(factor, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12})
    return float(found.fun)
