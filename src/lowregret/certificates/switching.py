"""The guarantee of a rule that bets against every action (statement (iv) of the every-start test), as a certificate.

Until the alarm at tau no action leads by more than B(tau - 1); the crossing step adds J; from then on the fallback may
lose F(T - tau) more. The worst tau decides: T Reg <= max{ B(T), max_tau B(tau - 1) + J + F(T - tau) }.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..abilities import ability, guaranteed_by, shortfall_of
from ..problems import DecisionProblem
from .bounds import Terms
from .certificate import Certificate, assumptions_of
from .worst_alarm import Bound, worst_alarm


class SwitchesOnce(NamedTuple):
    """What passes before the alarm and what the fallback loses after it, at every number of steps."""

    problem: DecisionProblem
    temperature: float | None
    fallback: Any
    before: Callable[[int], Bound]  # steps -> B, of up to so many

    def after(self, steps: int) -> Bound | None:
        """F: the most that the fallback loses in the last n of so many steps; None: it does not say."""
        says = ability(self.fallback, "regret_after")
        return None if says is None else says(self.problem, steps, self.temperature)

    def terms_at(self, steps: int) -> Terms:
        span, before = self.problem.span, self.before(steps)
        passed, lost = worst_alarm(before, self.after(steps) or partial(np.multiply, span), steps - 1)
        most = float(before(np.array([steps]))[0])
        if passed + span + lost <= most:  # no alarm is worse than any
            return {"before the alarm": most / steps}
        parts = {"before the alarm": passed, "crossing step": span, "fallback": lost}
        return {name: part / steps for name, part in parts.items()}

    def let_pass(self, steps: int) -> float:
        """What any comparator may lead by when the fallback takes over, a step: the most over all alarms.

        With what a fallback that guarantees a payoff may fall short of it afterwards.
        """
        own = shortfall_of(self.fallback, self.temperature, steps)
        return (float(self.before(steps)(np.array([steps - 1]))[0]) + self.problem.span + own) / steps


def certify_switch(
    problem: DecisionProblem,
    horizon: int | None,
    temperature: float | None,
    fallback: Any,
    before: Callable[[int], Bound],
    interval: Callable[[int, int], float],
    tv_bound: float,
    theorem: str,
    sharper: Callable[[int], Bound] | None = None,
) -> Certificate:
    """The certificate of a rule with this bound before its alarm, and this fallback after it."""
    made = SwitchesOnce(problem, temperature, fallback, before)
    name = getattr(fallback, "name", type(fallback).__name__)
    statement = f"No action leads by more before the alarm, and {name} loses no more after it, whenever it sounds."
    if made.after(horizon or 1) is None:
        statement += f" What {name} may lose after an alarm is not known: it enters as the span."
    draft = Certificate(
        regret_bound=problem.span,
        tv_bound=tv_bound,
        statement=statement,
        assumptions=assumptions_of(temperature, fallback),
        theorem=theorem,
        problem=problem,
        horizon=horizon,
        terms={},
        guaranteed_payoff=guaranteed_by(fallback, temperature),
        terms_at=made.terms_at,
        let_pass=made.let_pass,
        between=interval,
        temperature=temperature,
        sharper=None if sharper is None else partial(_with_before, made, sharper),
    )
    return draft if horizon is None else draft.with_terms(made.terms_at(horizon), horizon)


def _with_before(made: SwitchesOnce, before: Callable[[int], Bound], steps: int) -> Terms:
    """The terms with a sharper bound before the alarm, and the fallback's exact worst case where there is one."""
    return made._replace(before=before).terms_at(steps)
