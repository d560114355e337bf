"""What passes before the alarm and what is lost after it: statements (ii) and (iv) of ``every_start``, over d classes.

Until the alarm at tau no comparator leads by more than B(tau - 1); the crossing step adds J; from then on the fallback
loses at most F(T - tau). The worst tau decides: T Reg <= max{ B(T), max_tau B(tau - 1) + J + F(T - tau) }. So it is for
a lag of 1, the ordinary case.

Contexts. In context c let n_c steps come before the alarm and n'_c after it. Its bettors bound what is lost there to
any action by B(n_c) before, its fallback by F(n'_c) after, and one step lies between: over all C contexts

    sum_c B(n_c) + J + sum_c F(n'_c) <= C B(s / C) + J + C F((T - s) / C),      s = the steps before the alarm,

since B (a minimum of functions that grow evenly) and F are concave: equal contexts are the worst. The regret to a
reference, which is one sequence over all contexts, is below the same bound: B(s) <= C B(s / C), as B(0) >= 0.

Late outcomes. Let d be the lag: p_t is stated knowing theta_{t-d}, and maybe some of the outcomes after it. Steps that
are d apart make a *class*; in each of the d classes p_t is stated knowing the class's whole past, so the every-start
test of a class is a supermartingale E_r from 1, whatever the classes have to do with each other and in whichever order
outcomes come within the lag. Let M_r be the largest value that E_r ever takes: P(M_r >= x) <= 1/x, by Ville.

**(i)** The alarm is raised when the *average* of the d values reaches a_d / delta, a_d = ``coupled.late_factor``.
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

**(iv)** The alarm comes with outcome n + 1. That step, and the o <= d - 1 steps that were advised and whose outcomes
are still to come, may lose J each: (1 + o) J. From then on each class plays a fallback of its own, which loses at most
F(q) in the q steps that it may still have, by its count of H = T / d rounded up: the q_r have the sum d H - n - 1 - o,
and with F concave (else its least concave majorant) no split is worse than the most equal one. A step that waits counts
J here, and in B_d or F it would count J at most: so the bound is largest where as many wait as can, o = d - 1, and
**T Reg_T <= max{ B_d(d H), max_n B_d(n) + d J + sum_r F(q_r) }**, the q_r summing up to d H - n - d.
An outcome that never comes adds J, and nothing to any E_r if that was decided before the state.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..problems import DecisionProblem
from . import best_response
from .bounds import Bound
from .coupled import charges, evenly
from .every_start import Prior, before_alarm

_NEAR = 1 << 14  # steps


def before(
    problem: DecisionProblem,
    prior: Prior,
    delta: float,
    temperature: float | None,
    contexts: int,
    lag: int,
    exactly: bool,
    steps: int,
) -> Bound:
    """B, over all classes and contexts: C d B(s / (C d)) for s up to ``steps``; ``delta`` is that of a class.

    ``exactly``: for best responses, by their linear programmes in place of kappa.
    """
    rates_K, rounds = prior.rates_K, -(-steps // lag)
    if exactly and temperature == 0:
        charged = evenly(best_response.exact_kappa(problem, rates_K))
    elif temperature is None and lag > 1:
        # Classes may have seen different numbers of outcomes: a concave sum is largest dealt out evenly.
        each = concave_charges(charges(problem, rates_K, rounds, None), rounds)
        charged = partial(dealt, each, lag, rounds)
    else:
        charged = charges(problem, rates_K, steps, temperature)
    return partial(before_alarm, charged, rates_K, contexts * log_costs_K(prior, delta, lag), problem.span)


def interval(
    problem: DecisionProblem, prior: Prior, delta: float, temperature: float | None, lag: int, start: int, end: int
) -> float:
    """Statement (ii), for one context: any comparator over the steps start .. end, where no alarm was raised by then.

    In every class the bettors that join at its first step from ``start`` on; those of later ones have less.
    """
    had_K, all_K = (charges(problem, prior.rates_K, t, temperature)(np.array([t]))[0] for t in (start - 1, end))
    with np.errstate(divide="ignore"):  # a start that nobody joins has an infinite cost
        bound = float(np.min((all_K - had_K + log_costs_K(prior, delta, lag, start)) / prior.rates_K))
    return min(problem.span * (end - start + 1), bound)


def log_costs_K(prior: Prior, delta: float, lag: int, start: int = 1) -> np.ndarray:
    """d ln(1 / (m(c, k, start) delta)), the log-costs of all classes."""
    costs_K = prior.log_costs_K(delta, start)
    # Not below 1, for p ln((d/p) M) to be largest at p = d: so it is anyway but for one comparator at a high delta.
    return costs_K if lag == 1 else lag * np.maximum(costs_K, 1.0)


def after_alarm(own: Bound | None, span: float, lag: int, rounds: int) -> Bound:
    """What the fallbacks of all classes lose at most in n steps, given what one does; None: it is not known."""
    each = partial(np.multiply, span) if own is None else own
    if lag == 1:
        return each
    fallbacks = concave(lambda left_N: np.minimum(each(left_N), span * left_N), rounds)
    return lambda left_N: np.minimum(dealt(fallbacks, lag, rounds, left_N), span * left_N)


def with_draws(after: Bound, span: float, fails: float) -> Bound:
    """The same of best responses as they are drawn: F(n) and the luck of n draws, with a chance of e^-fails."""
    return lambda left_N: np.minimum(span * left_N, after(left_N) + luck(span, left_N, fails))


def luck(span: float, steps: Any, fails: float) -> Any:
    """What n actions earn less than the mixed actions that they are drawn from, but for a chance of e^-fails.

    A sum of n steps of mean 0 and range J, whatever is known before each: below J sqrt(n fails / 2), by Azuma and
    Hoeffding. A best response draws nothing, and the alarm then depends on no draw: the steps after it are known to be
    n when they begin.
    """
    return span * np.sqrt(steps * fails / 2)


def dealt(each: Bound, lag: int, rounds: int, steps_N: np.ndarray) -> np.ndarray:
    """What steps dealt out evenly to d classes come to, given what up to ``rounds`` of one class do: ``[N, ...]``."""
    whole_N, more_N = np.divmod(np.asarray(steps_N, dtype=np.int64), lag)
    own, next_one = each(whole_N), each(np.minimum(whole_N + 1, rounds))
    more_N = more_N.reshape(-1, *(1,) * (own.ndim - 1))
    found: np.ndarray = (lag - more_N) * own + more_N * next_one
    return found


def concave(bound: Bound, rounds: int) -> Bound:
    """The least concave function of 0 .. ``rounds`` that is nowhere below one that never falls.

    Beyond some ten thousands, nowhere below its value at knots 2e-4 apart, each of which stands for those before it.
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


class RecoveryBound(NamedTuple):
    """What ``Recovery`` may lose after an alarm, in total: a mixture on a budget, and safe play once that is spent.

    Let R_c be what comparator c has earned more since the alarm at tau, b(t) = budget J sqrt(T), or budget J sqrt(t)
    where the horizon T is unknown. The mixture is left at the first step e at which some R_c is b(e) or more above its
    lowest point; it was below b(e - 1) a step before, and rises by at most J per step. From e on safe play, begun
    afresh, loses at most F more. Only the last entry counts (``engine/fallbacks.py`` has the proof), so over the n
    steps after tau

        R_c  <=  max_e { min[ (e - tau) J, b(e - 1) + J ] + F(tau + n - e) },

    which for a known horizon is b + J + F(n - ceil(b / J)), and never more than n J. Safe play is AdaHedge over K
    experts, F(n) = J (1 + sqrt(1 + n ln K)), no more than n J.

    Nothing is lost to the model up to the alarm, where it is played. Where it is among the comparators and the experts,
    the same bound holds to it: over the whole run, for the earliest alarm.
    """

    experts: int  # the actions, references, and the model where it counts
    horizon: int | None  # None: it is unknown, and the budget grows
    budget: float = 0.5
    contexts: int = 1  # each with a budget and safe play of its own; they need a horizon

    def after(self, problem: DecisionProblem, steps: int, temperature: float | None = None) -> Bound:
        """The most that is lost to any comparator in the last n of ``steps`` steps, as a function of n.

        >>> from lowregret import matching
        >>> lost = RecoveryBound(experts=3, horizon=1024).after(matching(), 1024)
        >>> [round(float(x), 2) for x in lost(np.array([10, 100, 1023])) / 32]
        [0.31, 0.86, 1.6]
        """
        safe = partial(hedging, problem.span, self.experts, self.contexts)
        if self.horizon is None:
            return partial(self._growing, problem.span, safe, steps)
        return partial(self._fixed, problem.span, safe, self.horizon)

    def _fixed(self, J: float, safe: Bound, horizon: int, left_N: np.ndarray) -> np.ndarray:
        C, n = self.contexts, np.asarray(left_N, dtype=np.float64)
        budget = self.budget * math.sqrt(horizon * C)
        # Of one context: the budget takes so many steps to spend, in which safe play is not.
        spending = math.ceil(budget) if C == 1 else 0
        return np.minimum(n * J, (budget + C) * J + safe(np.maximum(n - spending, 0.0)))

    def _growing(self, J: float, safe: Bound, steps: int, left_N: np.ndarray) -> np.ndarray:
        """The most over entries e, by halving: both parts are concave in e, so is their sum."""
        n = np.asarray(left_N, dtype=np.float64)
        alarm = steps - n

        def risked(entry: np.ndarray) -> np.ndarray:
            spent = np.minimum(entry - alarm, self.budget * np.sqrt(np.maximum(entry - 1, 0)) + 1)
            found: np.ndarray = J * spent + safe(steps - entry)
            return found

        low, high = alarm, np.full_like(alarm, float(steps))  # the last entry up to which what is risked rises
        while (low < high).any():
            entry = np.ceil((low + high) / 2)
            rises = risked(entry) >= risked(np.maximum(entry - 1, alarm))
            low, high = np.where(rises, entry, low), np.where(rises, high, entry - 1)
        found: np.ndarray = np.minimum(n * J, risked(low))
        return found


def hedging(J: float, experts: int, contexts: int, n: np.ndarray) -> np.ndarray:
    """C F(n / C): what Hedge over the experts loses in n steps of all C contexts."""
    found: np.ndarray = J * np.minimum(n, contexts + np.sqrt(contexts**2 + n * contexts * math.log(experts)))
    return found
