"""The guarantee of a rule that bets against every action (statement (iv) of the every-start test), as a certificate.

Until the alarm at tau no action leads by more than B(tau - 1); the crossing step adds J; from then on the fallback may
lose F(T - tau) more. The worst tau decides: T Reg <= max{ B(T), max_tau B(tau - 1) + J + F(T - tau) }.
"""

import math
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

    def terms_at(self, steps: int, fails: float = 0.0) -> Terms:
        """What the bound is made of; for actions as they are drawn where ``fails``, a log-chance, is above 0."""
        span, before = self.problem.span, self.before(steps)
        after, own = with_draws(self.after(steps), self.temperature, span, steps, fails)
        passed, lost = worst_alarm(before, after, steps - 1)
        most = float(before(np.array([steps]))[0])
        if passed + span + lost <= most:  # no alarm is worse than any
            return {"before the alarm": most / steps, **own}
        parts = {"before the alarm": passed, "crossing step": span, "fallback": lost}
        return {**{name: part / steps for name, part in parts.items()}, **own}

    def behind_model(self, steps: int) -> float:
        """What may be lost in all to the model, where the fallback counts it: after the earliest alarm."""
        after = self.after(steps) or partial(np.multiply, self.problem.span)
        return float(after(np.array([steps - 1]))[0])

    def let_pass(self, steps: int) -> float:
        """What any comparator may lead by when the fallback takes over, a step: the most over all alarms.

        With what a fallback that guarantees a payoff may fall short of it afterwards.
        """
        own = shortfall_of(self.fallback, self.temperature, steps)
        return (float(self.before(steps)(np.array([steps - 1]))[0]) + self.problem.span + own) / steps


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
    counts_model: bool = False,
    share: float = 1.0,
) -> Certificate:
    """The certificate of a rule with this bound before its alarm, and this fallback after it.

    Parameters
    ----------
    counts_model
        Whether the fallback's bound is to the model's response too.
    share
        What part of the capital bets on actions, charged by pairs (``best_response.pair_kappa``); a second bettor has
        the rest.
    """
    made = SwitchesOnce(problem, temperature, fallback, before)
    name = getattr(fallback, "name", type(fallback).__name__)
    statement = f"No action leads by more before the alarm, and {name} loses no more after it, whenever it sounds."
    if made.after(horizon or 1) is None:
        statement += f" What {name} may lose after an alarm is not known: it enters as the span."
    if share < 1:
        statement += (
            f" Bets on actions alone sound it with a chance of at most {share * tv_bound:.3g} while the action advised "
            "is a best response to the law of what comes, however wrong the stated probabilities are."
        )
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
        drawn=made.terms_at,
        behind_model=made.behind_model if counts_model else None,
    )
    return draft if horizon is None else draft.with_terms(made.terms_at(horizon), horizon)


def _with_before(made: SwitchesOnce, before: Callable[[int], Bound], steps: int, fails: float = 0.0) -> Terms:
    """The terms with a sharper bound before the alarm, and the fallback's exact worst case where there is one."""
    return made._replace(before=before).terms_at(steps, fails)


class FromTheStart(NamedTuple):
    """What the fallback loses where it is played from the first step on, without a test."""

    problem: DecisionProblem
    temperature: float | None
    fallback: Any

    def lost(self, steps: int) -> float:
        after = ability(self.fallback, "regret_after")
        bound = None if after is None else after(self.problem, steps, self.temperature)
        return self.problem.span * steps if bound is None else float(bound(np.array([steps]))[0])

    def terms_at(self, steps: int, fails: float = 0.0) -> Terms:
        """What the bound is made of; for actions as they are drawn where ``fails``, a log-chance, is above 0."""
        draws = {"draws": self.problem.span * math.sqrt(fails / (2 * steps))} if fails else {}
        return {"fallback": self.lost(steps) / steps, **draws}


def certify_untested(
    problem: DecisionProblem, horizon: int | None, temperature: float | None, fallback: Any, counts_model: bool = False
) -> Certificate:
    """The certificate of a fallback that is played from the first step on: no alarm, and no promise to leave unchanged.

    ``counts_model``: its bound is to the model's response too.
    """
    made = FromTheStart(problem, temperature, fallback)
    name = getattr(fallback, "name", type(fallback).__name__)
    draft = Certificate(
        regret_bound=problem.span,
        tv_bound=1.0,
        statement=f"{name} from the first step on loses no more. A model that is right is changed too.",
        assumptions=(
            f"every step is acted on as {name} says",
            *assumptions_of(temperature, fallback)[1:2],
        ),
        theorem=f"{name}, without a test",
        problem=problem,
        horizon=horizon,
        terms={},
        terms_at=made.terms_at,
        drawn=made.terms_at,
        behind_model=made.lost if counts_model else None,
    )
    return draft if horizon is None else draft.with_terms(made.terms_at(horizon), horizon)
