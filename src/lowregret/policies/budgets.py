"""What the way back may cost, and when it is tried again: a budget of regret, or one of payoff.

**Of payoff**, where safe play guarantees one: it earns at least v a step, whatever comes. Let Y(t) be the shortfall
after step t: v for every step since the alarm, minus what was earned in them. Let b(t) = budget J sqrt(t), J the span,
and c = v - min U.

* A step of safe play does not raise Y. A step of anything raises it by at most c. (And c <= J: in the state of the
  least utility safe play earns at least v.)
* The mixture is in force in step t + 1 only if Y(t) < b(t) - c, or in the first step after the alarm, where Y = 0.

Hence **Y(t) <= max(b(t), c) after every step, however often it returns**, since b does not fall. Under safe play Y need
not fall either (in rock-paper-scissors it earns just v), so one cannot wait for that to try again. Instead a *try* of
the mixture may lose, from its own best moment, a quarter of what is left of b - c there, and never more than b/4: some
is left after each, more comes as b grows, and of what a try has won little is risked. The next one begins when the
mixture, unplayed, would have won from its own lowest point twice as much more than safe play as the try may lose.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, in_float64, namespace
from ..problems import DecisionProblem, action_utilities


class Outcome(NamedTuple):
    """What came of one step, short axes first."""

    token: Array
    lead_P: Array  # what each comparator earned more than what was played: the actions, then references
    mixture_A: Array | None  # what each action earned more than the response to the mixture; None: not needed
    late: Array  # whether the alarm had sounded before
    step: Array  # of the context, counted from 1


class RegretBudget(NamedTuple):
    """The mixture is left once R_c is b above its lowest point for some comparator, and is back in force at b/2."""

    span: float
    comparators: int
    horizon: float | None  # of a context
    budget: float

    @property
    def width(self) -> int:
        """How many numbers it keeps per stream: here R_c above its lowest point, for each comparator."""
        return self.comparators

    def after(self, account_P: Array, is_safe: Array, came: Outcome) -> tuple[Array, Array]:
        """The account after one more step, and whether safe play is in force from then on."""
        xp = namespace(account_P)
        rise_P = xp.clip(account_P + came.lead_P, 0.0, None) * came.late  # nothing counts before the alarm
        root = in_float64(came.step) ** 0.5 if self.horizon is None else math.sqrt(self.horizon)
        worst, limit = xp.max(rise_P, axis=0), self._a_root * root
        return rise_P, came.late & xp.where(is_safe, worst > limit / 2, worst >= limit)

    def limits(self, steps: int) -> np.ndarray:
        """b at each of the first ``steps`` steps."""
        root_T = np.sqrt(np.arange(1.0, steps + 1)) if self.horizon is None else np.full(steps, math.sqrt(self.horizon))
        return self._a_root * root_T

    @property
    def _a_root(self) -> float:
        """b over the root of the steps: where nothing can be lost, it is never spent."""
        return self.budget * self.span if self.span else math.inf

    def until_spent(self, lead_PxNxT: np.ndarray, times_N: np.ndarray) -> tuple[int, np.ndarray]:
        """How many steps pass before any of N recorded runs has spent it, and the accounts ``[P, N]`` after them.

        ``lead_PxNxT`` is over what the mixture plays, which is all that is played until then; alarms at ``times_N``.
        """
        P, N, T = lead_PxNxT.shape
        steps = np.arange(T)
        ahead = np.cumsum(lead_PxNxT * (steps >= times_N[:, None]), axis=-1)
        rise = ahead - np.minimum(np.minimum.accumulate(ahead, axis=-1), 0.0)
        near = (rise.max(axis=0) >= self.limits(T) * (1 - 1e-9)).any(axis=0)  # rounding decides nothing
        quiet = int(near.argmax()) if near.any() else T
        return quiet, rise[..., quiet - 1] if quiet else np.zeros((P, N))


class PayoffBudget(NamedTuple):
    """The shortfall of the ``guarantee`` of safe play may reach b; see above for when the mixture is in force."""

    problem: DecisionProblem
    budget: float
    guarantee: float

    @property
    def width(self) -> int:
        """The shortfall, its lowest point in the present try, and what the mixture would have won in safe play."""
        return 3

    @property
    def worst_step(self) -> float:
        """c: what a step may fall short by."""
        return max(self.guarantee - float(self.problem.utility.min()), 0.0)

    def after(self, account_K: Array, is_safe: Array, came: Outcome) -> tuple[Array, Array]:
        """The account after one more step, and whether safe play is in force from then on."""
        xp, limit = namespace(account_K), self.budget * self.problem.span * in_float64(came.step) ** 0.5
        assert came.mixture_A is not None
        own = action_utilities(self.problem, came.token, account_K)[0] - came.lead_P[0]
        short = (account_K[0] + self.guarantee - own) * came.late
        # In safe play the lowest point is where a try would begin.
        low = xp.where(is_safe, short, xp.minimum(account_K[1], short))
        hope = xp.clip(account_K[2] + came.lead_P[0] - came.mixture_A[0], 0.0, None) * is_safe
        stake = xp.clip(limit - self.worst_step - low, None, limit) / 4
        goes_on = xp.where(is_safe, hope >= 2 * stake, short - low < stake) & (stake > 0)
        return xp.stack([short, low, hope]), came.late & ~goes_on

    def shortfall(self, steps: int, until: int) -> float:
        """Y: the most by which earnings fall short of the guarantee over ``steps`` after an alarm, up to ``until``."""
        limit = self.budget * self.problem.span * math.sqrt(until)
        return min(steps * self.worst_step, max(limit, self.worst_step))


def budget_for(
    problem: DecisionProblem,
    span: float,
    comparators: int,
    horizon: float | None,
    budget: float,
    guarantee: float | None,
) -> RegretBudget | PayoffBudget:
    """The budget: of payoff where safe play has a ``guarantee``, else of regret to each of the comparators."""
    if guarantee is None:
        return RegretBudget(span, comparators, horizon, budget)
    return PayoffBudget(problem, budget, guarantee)


# When a model that was left has returned, and when it is left again: by its share in what is played after an alarm.


HOME, GONE = 0.5, 0.25  # the share above which it has returned, and below which it is left again


def trust_after(memory: Any, share: Array, late: Array, step: Array) -> Any:
    """The memory with whether the model is trusted after a step: ``late``, after the alarm, by its ``share`` now."""
    trusted = late & ((share > HOME) | (memory.trusted & (share > GONE)))
    turned_at = namespace(share).where(trusted != memory.trusted, step, memory.turned_at)
    return memory._replace(trusted=trusted, turned_at=turned_at)


def turned(memory: Any, step: Array) -> Array:
    """Which streams ``[...]`` returned with the last token (1), and which were left again (-1)."""
    xp = namespace(step)
    just = (memory.turned_at == step) & (step > 0)
    return xp.astype(just & memory.trusted, xp.int64) - xp.astype(just & ~memory.trusted, xp.int64)
