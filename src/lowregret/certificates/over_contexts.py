"""What is promised where more is known before the state (statement (iv)): to an action a context, to references.

In context c let n_c steps come before the alarm and n'_c after it. Its bettors bound what is lost there to any action
by B(n_c) before, its fallback by F(n'_c) after, and one step lies between: over all contexts

    sum_c B(n_c) + J + sum_c F(n'_c) <= C B(s / C) + J + C F((T - s) / C),      s = the steps before the alarm,

since B (a minimum of functions that grow evenly) and F are concave: equal contexts are the worst. The regret to a
reference, which is one sequence over all contexts, is below the same bound: B(s) <= C B(s / C), as B(0) >= 0.
"""

from functools import partial
from typing import Any

import numpy as np

from ..problems import DecisionProblem
from . import every_start
from .coupled import Charges, charges, total_kappa
from .exact_charge import exact_kappa
from .worst_alarm import Bound


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

    ``exactly``: by the exact supremum of the charges in place of kappa.
    """
    if exactly and temperature is not None:
        charged: Any = Charges(exact_kappa(stakes, prior.rates_K, temperature))
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


def pays_from(own: Bound, gain: float, horizon: int) -> int | None:
    """From how many steps on a context's own bound is at most ``gain`` a step; None where it is not by the horizon.

    By halving: what is concave and not negative at 0 does not rise, a step.
    """
    enough = [n for n in (1, horizon) if own(np.array([n]))[0] <= gain * n]
    if 1 in enough or not enough:
        return enough[0] if enough else None
    short, found = 1, horizon
    while found - short > 1:
        n = (short + found) // 2
        short, found = (short, n) if own(np.array([n]))[0] <= gain * n else (n, found)
    return found


def own_bound(before: Bound, after: Bound, span: float, steps_N: np.ndarray) -> np.ndarray:
    """What may be lost in all in a context of so many steps: B(n) + J + F(n), no more than n J."""
    return np.minimum(steps_N * span, before(steps_N) + span + after(steps_N))
