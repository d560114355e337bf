"""What the way back may cost after an alarm, in total: a mixture on a budget, and safe play once that is spent.

Let R_c be what comparator c has earned more since the alarm at tau, b(t) = budget J sqrt(T), or budget J sqrt(t) where
the horizon T is unknown. The mixture is left at the first step e at which some R_c is b(e) or more above its lowest
point; it was below b(e - 1) a step before, and rises by at most J a step. From e on safe play, begun afresh, loses at
most F more. Only the last entry counts (``policies/recovering.py`` has the proof), so over the n steps after tau

    R_c  <=  max_e { min[ (e - tau) J, b(e - 1) + J ] + F(tau + n - e) },

which for a known horizon is b + J + F(n - ceil(b / J)), and never more than n J. Safe play is AdaHedge over K experts,
F(n) = J (1 + sqrt(1 + n ln K)), no more than n J.

Nothing is lost to the model up to the alarm, where it is played. Where it is among the comparators and the experts, the
same bound holds to it: over the whole run, for the earliest alarm.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from .worst_alarm import Bound


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
        return np.minimum(n * J, (budget + C) * J + self._safe(np.maximum(n - spending, 0.0)))

    def _growing(self, steps: int, left_N: np.ndarray) -> np.ndarray:
        """The most over entries e, by halving: both parts are concave in e, so is their sum."""
        n = np.asarray(left_N, dtype=np.float64)
        alarm = steps - n

        def risked(entry: np.ndarray) -> np.ndarray:
            spent = np.minimum(entry - alarm, self.budget * np.sqrt(np.maximum(entry - 1, 0)) + 1)
            return self.span * spent + self._safe(steps - entry)

        low, high = alarm, np.full_like(alarm, float(steps))  # the last entry up to which what is risked rises
        while (low < high).any():
            entry = np.ceil((low + high) / 2)
            rises = risked(entry) >= risked(np.maximum(entry - 1, alarm))
            low, high = np.where(rises, entry, low), np.where(rises, high, entry - 1)
        return np.minimum(n * self.span, risked(low))

    def _safe(self, n: np.ndarray) -> np.ndarray:
        """C F(n / C)."""
        if self.experts == 1:
            return 0.0 * n
        J, C = self.span, self.contexts
        return J * np.minimum(n, C + np.sqrt(C**2 + n * C * math.log(self.experts)))
