"""What passes before the alarm and after it, where bets are against every action (statement (iv) of ``every_start``).

Until the alarm at tau no action leads by more than B(tau - 1); the crossing step adds J; from then on the fallback may
lose F(T - tau) more. The worst tau decides: T Reg <= max{ B(T), max_tau B(tau - 1) + J + F(T - tau) }.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from ..problems import DecisionProblem
from . import best_response, every_start
from .bounds import Bound, Terms
from .coupled import Charges, charges, total_kappa

# What is promised where more is known before the state (statement (iv)): to an action a context, to references.
#
# In context c let n_c steps come before the alarm and n'_c after it. Its bettors bound what is lost there to any action
# by B(n_c) before, its fallback by F(n'_c) after, and one step lies between: over all contexts
#
#     sum_c B(n_c) + J + sum_c F(n'_c) <= C B(s / C) + J + C F((T - s) / C),      s = the steps before the alarm,
#
# since B (a minimum of functions that grow evenly) and F are concave: equal contexts are the worst. The regret to a
# reference, which is one sequence over all contexts, is below the same bound: B(s) <= C B(s / C), as B(0) >= 0.


def before(
    stakes: DecisionProblem,
    prior: every_start.Prior,
    delta: float,
    temperature: float | None,
    contexts: int,
    exactly: bool,
    steps: int,
) -> Bound:
    """C B(s / C) for s up to ``steps``: min_k [ s kappa(lam_k) + C ln(1 / (m delta)) ] / lam_k, at most s J.

    ``exactly``: for best responses, by their linear programmes in place of kappa.
    """
    if exactly and temperature == 0:
        charged: Bound = Charges(best_response.exact_kappa(stakes, prior.rates_K))
    else:
        charged = charges(stakes, prior.rates_K, steps, temperature)
    costs_K = contexts * prior.log_costs_K(delta)
    return partial(every_start.before_alarm, charged, prior.rates_K, costs_K, stakes.span)


def interval(
    stakes: DecisionProblem,
    prior: every_start.Prior,
    delta: float,
    temperature: float | None,
    start: int,
    end: int,
) -> float:
    """Statement (ii), for one context: any comparator over the steps start .. end, where no alarm has sounded."""
    charges_K = total_kappa(stakes, prior.rates_K, end, temperature) - total_kappa(
        stakes, prior.rates_K, start - 1, temperature
    )
    return every_start.within(stakes, start, end, charges_K, prior, delta)


def with_draws(
    after: Bound | None, temperature: float | None, span: float, steps: int, fails: float
) -> tuple[Bound, Terms]:
    """F with what the draws may add to it, and what they may add to all steps: luck, with a chance of e^-fails.

    What n actions earn less than the mixed actions that they are drawn from is a sum of n steps of mean 0 and range J,
    whatever is known before each: below J sqrt(n fails / 2), by Azuma and Hoeffding. A best response draws nothing, and
    the alarm then depends on no draw: the steps after it are known to be n when they begin.
    """
    bound: Bound = partial(np.multiply, span) if after is None else after
    if fails == 0:
        return bound, {}
    if temperature != 0:
        return bound, {"draws": span * math.sqrt(steps * fails / 2) / steps}
    return (lambda left_N: np.minimum(span * left_N, bound(left_N) + span * np.sqrt(left_N * fails / 2))), {}


# What the way back may cost after an alarm, in total: a mixture on a budget, and safe play once that is spent.
#
# Let R_c be what comparator c has earned more since the alarm at tau, b(t) = budget J sqrt(T), or budget J sqrt(t)
# where the horizon T is unknown. The mixture is left at the first step e at which some R_c is b(e) or more above its
# lowest point; it was below b(e - 1) a step before, and rises by at most J a step. From e on safe play, begun afresh,
# loses at most F more. Only the last entry counts (``policies/recovering.py`` has the proof), so over the n steps after
# tau
#
#     R_c  <=  max_e { min[ (e - tau) J, b(e - 1) + J ] + F(tau + n - e) },
#
# which for a known horizon is b + J + F(n - ceil(b / J)), and never more than n J. Safe play is AdaHedge over K
# experts, F(n) = J (1 + sqrt(1 + n ln K)), no more than n J.
#
# Nothing is lost to the model up to the alarm, where it is played. Where it is among the comparators and the experts,
# the same bound holds to it: over the whole run, for the earliest alarm.


class WayBack(NamedTuple):
    """What decides the cost: the span, how many experts safe play has, the budget, and what it is counted by."""

    span: float
    experts: int  # the actions, references, and the model where it counts
    horizon: int | None  # None: it is unknown, and the budget grows
    budget: float = 0.5
    contexts: int = 1  # each with a budget and safe play of its own; they need a horizon

    def after(self, steps: int) -> Bound:
        """The most that is lost to any comparator in the last n of ``steps`` steps, as a function of n.

        >>> back = WayBack(span=1.0, experts=3, horizon=1024)
        >>> [round(float(x), 2) for x in back.after(1024)(np.array([10, 100, 1023])) / 32]
        [0.31, 0.86, 1.6]
        """
        if self.horizon is None:
            return partial(self._growing, steps)
        return self._fixed

    def _fixed(self, left_N: np.ndarray) -> np.ndarray:
        assert self.horizon is not None
        J, C, n = self.span, self.contexts, np.asarray(left_N, dtype=np.float64)
        budget = self.budget * math.sqrt(self.horizon * C)
        # Of one context: the budget takes so many steps to spend, in which safe play is not.
        spending = math.ceil(budget) if C == 1 else 0
        return np.minimum(n * J, (budget + C) * J + self.safe(np.maximum(n - spending, 0.0)))

    def _growing(self, steps: int, left_N: np.ndarray) -> np.ndarray:
        """The most over entries e, by halving: both parts are concave in e, so is their sum."""
        n = np.asarray(left_N, dtype=np.float64)
        alarm = steps - n

        def risked(entry: np.ndarray) -> np.ndarray:
            spent = np.minimum(entry - alarm, self.budget * np.sqrt(np.maximum(entry - 1, 0)) + 1)
            found: np.ndarray = self.span * spent + self.safe(steps - entry)
            return found

        low, high = alarm, np.full_like(alarm, float(steps))  # the last entry up to which what is risked rises
        while (low < high).any():
            entry = np.ceil((low + high) / 2)
            rises = risked(entry) >= risked(np.maximum(entry - 1, alarm))
            low, high = np.where(rises, entry, low), np.where(rises, high, entry - 1)
        found: np.ndarray = np.minimum(n * self.span, risked(low))
        return found

    def safe(self, n: np.ndarray) -> np.ndarray:
        """C F(n / C): what Hedge over the experts loses in n steps of all contexts."""
        if self.experts == 1:
            return 0.0 * n
        J, C = self.span, self.contexts
        found: np.ndarray = J * np.minimum(n, C + np.sqrt(C**2 + n * C * math.log(self.experts)))
        return found
