"""Late outcomes: what is promised where the outcome of a step is known only ``lag`` steps later, with its proof.

Let d be the lag: p_t is stated knowing theta_{t-d}, and maybe some of the outcomes after it. Steps that are d apart
make a *class*; in each of the d classes p_t is stated knowing the class's whole past, so the every-start test of a
class is a supermartingale E_r from 1, whatever the classes have to do with each other and in whichever order outcomes
come within the lag. Let M_r be the largest value that E_r ever takes: P(M_r >= x) <= 1/x, by Ville. The statements are
those of ``every_start``, here for classes.

**(i)** The alarm sounds when the *average* of the d values reaches a_d / delta, a_d = ``coupled.late_factor``.
P(alarm) <= delta: at an alarm the sum of the M_r is at least s = d a_d / delta. For 0 < u < s/d let
g(x) = min(1, (x - u)^+ / (s - d u)). Where x_1 + .. + x_d >= s, g(x_1) + .. + g(x_d) >= 1: either some x_r is at
least s - (d-1) u, and its g is 1; or the sum is at least (x_1 + .. + x_d - d u) / (s - d u) >= 1. And E g(M_r) is at
most the integral of 1/x over u .. s - (d-1) u, over s - d u. With u = b s and the best b, d times that is
d a_d / s = delta.

**(ii)** After n outcomes without an alarm let R_r be the regret in class r to its own best action, if that is positive,
else 0. E_r >= m exp(lam R_r - charges_r) where R_r > 0; over the p classes where it is, the average of their E_r is
below (d/p) a_d / delta, so by Jensen lam sum R_r < charges + p ln((d/p) a_d / (m delta)), which grows with p up to d
(where a_d / (m delta) >= e). Hence, and so for any one comparator over all classes,
**sum_r R_r <= B_d(n) = min_k [ charges_k + d ln(a_d / (m_k delta)) ] / lam_k.**

**(iv)** The alarm sounds with outcome n + 1. That step, and the o <= d - 1 steps that were advised and whose outcomes
are still to come, may lose J each: (1 + o) J. From then on each class plays a fallback of its own, which loses at most
F(q) in the q steps that it may still have, by its count of H = T / d rounded up: the q_r have the sum d H - n - 1 - o,
and with F concave (else its least concave majorant) no split is worse than the most equal one. A step that waits counts
J here, and in B_d or F it would count J at most: so the bound is largest where as many wait as can, o = d - 1, and
**T Reg_T <= max{ B_d(d H), max_n B_d(n) + d J + sum_r F(q_r) }**, the q_r summing up to d H - n - d.
An outcome that never comes adds J, and nothing to any E_r if that was decided before the state.
"""

import math
from functools import partial

import numpy as np

from ..problems import DecisionProblem
from . import best_response
from .bounds import Bound, worst_alarm
from .coupled import Charges, charges, kappa
from .every_start import Prior, before_alarm

_NEAR = 1 << 14  # steps


def dealt(each: Bound, lag: int, rounds: int, steps_N: np.ndarray) -> np.ndarray:
    """What steps dealt out evenly to d classes come to, given what up to ``rounds`` of one class do: ``[N, ...]``."""
    whole_N, more_N = np.divmod(np.asarray(steps_N, dtype=np.int64), lag)
    own, next_one = each(whole_N), each(np.minimum(whole_N + 1, rounds))
    more_N = more_N.reshape(-1, *(1,) * (own.ndim - 1))
    found: np.ndarray = (lag - more_N) * own + more_N * next_one
    return found


def concave(bound: Bound, rounds: int) -> Bound:
    """The least concave function of 0 .. ``rounds`` that is nowhere below one that never falls.

    Beyond some ten thousands, nowhere below what that is at knots 2e-4 apart, each of which stands for those before it.
    """
    near, ratio = np.arange(min(rounds, _NEAR) + 1.0), math.log(max(rounds, 1) / _NEAR)
    far = np.ceil(np.geomspace(_NEAR, rounds, 2 + math.ceil(ratio / 2e-4)))[1:] if rounds > _NEAR else near[:0]
    knots_M = np.unique(np.append(near, far)).astype(np.int64)
    begin_M = np.minimum(np.append(0, knots_M[:-1] + 1), knots_M)  # the first step for which a knot stands
    corners: list[tuple[int, float]] = []
    values_M = bound(knots_M)
    for n, value in zip(np.append(begin_M, rounds).tolist(), np.append(values_M, values_M[-1]).tolist(), strict=True):
        while len(corners) > 1:  # the upper hull: drop what lies on or below a chord
            (left, least), (middle, between) = corners[-2:]
            if (between - least) * (n - left) > (value - least) * (middle - left):
                break
            corners.pop()
        corners.append((n, value))
    at, values = zip(*corners, strict=True)
    return lambda steps_N: np.interp(steps_N, at, values)


def concave_charges(charged: Bound, rounds: int) -> Bound:
    """The same of charges ``[N, K]`` along a schedule: as they are up to some step, from there on a chord to the last.

    kappa is convex in the temperature, so what a step is charged falls at first and may rise later on. The chord begins
    at the first step from which on the mean of the steps to come is no less than the next: found by halving.
    """
    most_K = charged(np.array([rounds]))[0]
    low_K, high_K, K = np.zeros(len(most_K), np.int64), np.full(len(most_K), rounds - 1), np.arange(len(most_K))
    while (low_K < high_K).any():
        n_K = (low_K + high_K) // 2
        had_K, next_K = charged(n_K)[K, K], charged(n_K + 1)[K, K]
        rises_K = (next_K - had_K) * (rounds - n_K) <= most_K - had_K
        low_K, high_K = np.where(rises_K, low_K, n_K + 1), np.where(rises_K, n_K, high_K)
    had_K = charged(low_K)[K, K]
    slope_K = (most_K - had_K) / (rounds - low_K)

    def bound(steps_N: np.ndarray) -> np.ndarray:
        more_NxK = np.maximum(steps_N[:, None] - low_K, 0)
        bound_NxK: np.ndarray = np.maximum(charged(steps_N), (had_K + more_NxK * slope_K) * (more_NxK > 0))
        return bound_NxK

    return bound


def before(
    stakes: DecisionProblem,
    prior: Prior,
    delta: float,
    temperature: float | None,
    contexts: int,
    lag: int,
    exactly: bool,
    rounds: int,
) -> Bound:
    """Statement (ii): B_d of up to d H steps, over all classes; H = ``rounds``, ``delta`` of a class.

    Over C contexts C B_d(n / C), as in ``switching``. ``exactly``: for best responses, by their linear programmes in
    place of kappa.
    """
    rates_K = prior.rates_K
    if temperature is None:
        # Classes may have seen different numbers of outcomes: a concave sum is largest dealt out evenly.
        each = concave_charges(charges(stakes, rates_K, rounds, None), rounds)
        charged: Bound = partial(dealt, each, lag, rounds)
    elif exactly and temperature == 0:
        charged = Charges(best_response.exact_kappa(stakes, rates_K))
    else:
        charged = Charges(kappa(stakes, rates_K, temperature))
    # Not below 1, for p ln((d/p) M) to be largest at p = d: so it is anyway but for one comparator at a high delta.
    costs_K = contexts * lag * np.maximum(prior.log_costs_K(delta), 1.0)
    return partial(before_alarm, charged, rates_K, costs_K, stakes.span)


def interval(
    stakes: DecisionProblem, prior: Prior, delta: float, temperature: float, lag: int, start: int, end: int
) -> float:
    """Statement (ii) from any start: the regret of steps start .. end, where no alarm sounded by their outcomes.

    In every class the bettors that join at its first step from ``start`` on; those of later ones have less.
    """
    rates_K, steps = prior.rates_K, end - start + 1
    costs_K = lag * np.maximum(prior.log_costs_K(delta, 1 if start == 1 else 2), 1.0)
    charges_K = steps * kappa(stakes, rates_K, temperature)
    return min(stakes.span * steps, float(np.min((charges_K + costs_K) / rates_K)))


def in_classes(own: Bound, span: float, lag: int, steps: int) -> Bound:
    """What fallbacks lose together, one for each class, given what one loses in up to ``steps / lag``, rounded up.

    However the steps are spread over the classes, none has more than that many of them.
    """
    rounds = -(-steps // lag)
    each = concave(lambda left_N: np.minimum(own(left_N), span * left_N), rounds)
    return lambda left_N: dealt(each, lag, rounds, np.minimum(left_N + lag - 1, lag * rounds))


def late_switching(
    before: Bound, after: Bound, span: float, lag: int, rounds: int, draws: float = 0.0
) -> tuple[float, float, float]:
    """Statement (iv) in total: its part before the alarm, that of the d or fewer steps around it, the fallback's.

    ``draws``: how much the draws of n actions after the alarm may add to it, in units of sqrt(n).

    >>> late_switching(np.sqrt, lambda left: 0.7 * np.sqrt(left), span=1.0, lag=1, rounds=2)
    (1.0, 1.0, 0.0)
    """
    end, fallbacks = lag * rounds, concave(lambda left_N: np.minimum(after(left_N), span * left_N), rounds)
    around = min(lag, end)  # as many as can: a step that waits counts the span, before or after it would at most

    def left(steps_N: np.ndarray) -> np.ndarray:
        after_N = dealt(fallbacks, lag, rounds, steps_N) + draws * np.sqrt(steps_N)
        left_N: np.ndarray = np.minimum(span * steps_N, after_N)
        return left_N

    passed, lost = worst_alarm(before, left, end - around)
    most = float(before(np.array([end]))[0])
    return (passed, around * span, lost) if passed + around * span + lost > most else (most, 0.0, 0.0)
