"""What the way back may cost, and when it is tried again: a budget of regret, or one of payoff.

**Of payoff**, where safe play guarantees one: it earns at least v a step, whatever comes. Let Y(t) be the shortfall of
what was played since the alarm, v t minus what it earned; J the span, b = budget J sqrt(T) (sqrt(t) where the horizon
is unknown: b does not fall).

* A step of safe play does not raise Y. A step of anything raises it by at most J: in its state s safe play earns
  U(x, s) >= v, and no action less than U(x, s) - J.
* The mixture is in force in a step only if Y < b - J before it, or in the first step of all, where Y = 0.

Hence **Y(n) <= max(b, J) after every n steps, however often it returns.** Under safe play Y may never fall (it earns
just v in a game such as rock-paper-scissors), so one may not wait for that to try again. Instead a *try* of the mixture
may lose, from its own best moment, half of what is left of b - J there, and never more than b/2: some budget is left
after each, and what a try has won may be risked again. The next one begins when the mixture, unplayed, would have won
from its own lowest point as much more than safe play did as the try may lose.
"""

import math
from typing import Any, NamedTuple

from ..arrays import Array, in_float64, namespace
from ..problems import DecisionProblem, action_utilities


class Outcome(NamedTuple):
    """What came of one step, by the actions, short axis first."""

    token: Array
    lead_A: Array  # what each earned more than what was played
    mixture_A: Array | None  # what each earned more than the response to the mixture; None: nobody asked
    late: Array  # whether the alarm had sounded before
    step: Array  # counted from 1


class RegretBudget(NamedTuple):
    """R_a above its lowest point may reach b for no action; the mixture is back in force at b/2."""

    problem: DecisionProblem
    horizon: int | None
    budget: float
    asks_mixture = False

    @property
    def width(self) -> int:
        """How many numbers it keeps of a stream: here R_a above its lowest point, for each action."""
        return self.problem.n_actions

    def after(self, account_A: Array, is_safe: Array, came: Outcome) -> tuple[Array, Array]:
        """The account after one more step, and whether safe play is in force from then on."""
        xp = namespace(account_A)
        rise_A = xp.clip(account_A + came.lead_A, 0.0, None) * came.late  # nothing counts before the alarm
        worst, limit = xp.max(rise_A, axis=0), limit_at(self, came.step)
        return rise_A, came.late & xp.where(is_safe, worst > limit / 2, worst >= limit)


class PayoffBudget(NamedTuple):
    """The shortfall of the ``guarantee`` of safe play may reach b; see above for when the mixture is in force."""

    problem: DecisionProblem
    horizon: int | None
    budget: float
    guarantee: float
    asks_mixture = True

    @property
    def width(self) -> int:
        """The shortfall, its lowest point in the present try, and what the mixture would have won in safe play."""
        return 3

    def after(self, account_K: Array, is_safe: Array, came: Outcome) -> tuple[Array, Array]:
        """The account after one more step, and whether safe play is in force from then on."""
        xp, limit, span = namespace(account_K), limit_at(self, came.step), self.problem.span
        assert came.mixture_A is not None
        own = action_utilities(self.problem, came.token, account_K)[0] - came.lead_A[0]
        short = (account_K[0] + self.guarantee - own) * came.late
        # In safe play the lowest point is where a try would begin.
        low = xp.where(is_safe, short, xp.minimum(account_K[1], short))
        hope = xp.clip(account_K[2] + came.lead_A[0] - came.mixture_A[0], 0.0, None) * is_safe
        stake = xp.clip(limit - span - low, None, limit) / 2
        goes_on = xp.where(is_safe, hope >= stake, short - low < stake) & (stake > 0)
        return xp.stack([short, low, hope]), came.late & ~goes_on

    def shortfall(self, steps: int, until: int) -> float:
        """Y: what is earned less than the guarantee at most over so many steps after an alarm, the last ``until``."""
        root = math.sqrt(until if self.horizon is None else self.horizon)
        return self.problem.span * min(steps, max(1.0, self.budget * root))


def limit_at(own: Any, step: Array) -> Any:
    """b after so many steps."""
    root = in_float64(step) ** 0.5 if own.horizon is None else math.sqrt(own.horizon)
    return own.budget * own.problem.span * root
