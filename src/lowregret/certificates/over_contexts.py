"""What is promised where more is known before the state (statement (iv)): to an action a context, to references.

In context c let n_c steps come before the alarm and n'_c after it. Its bettors bound what is lost there to any action
by B(n_c) before, its fallback by F(n'_c) after, and one step lies between: over all contexts

    sum_c B(n_c) + J + sum_c F(n'_c) <= C B(s / C) + J + C F((T - s) / C),      s = the steps before the alarm,

since B (a minimum of functions that grow evenly) and F are concave: equal contexts are the worst. The regret to a
reference, which is one sequence over all contexts, is below the same bound: B(s) <= C B(s / C), as B(0) >= 0.
"""

from collections.abc import Callable

import numpy as np

from ..problems import DecisionProblem
from . import every_start
from .coupled import kappa, summed_kappa, total_kappa
from .exact_charge import exact_kappa


def before(
    stakes: DecisionProblem,
    prior: every_start.Prior,
    delta: float,
    temperature: float | None,
    contexts: int,
    exactly: bool,
    steps: int,
) -> np.ndarray:
    """C B(s / C) for s = 0 .. steps: min_k [ s kappa(lam_k) + C ln(1 / (m delta)) ] / lam_k, at most s J."""
    if temperature is None:
        charges_TxK = summed_kappa(stakes, prior.rates_K, stakes.anytime_temperature(np.arange(1, steps + 1.0)))
    else:
        most = exact_kappa if exactly else kappa
        charges_TxK = every_start.fixed_charges(most(stakes, prior.rates_K, temperature), steps)
    return every_start.before_alarm(charges_TxK, prior.rates_K, contexts * prior.log_costs_K(delta), stakes.span)


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


def pays_from(own: Callable[[int], np.ndarray], gain: float, horizon: int) -> int | None:
    """From how many steps on a context's own bound is at most ``gain`` a step; None where it is not by the horizon.

    ``own(n)``: what may be lost in all in a context of 1 .. n steps.
    """
    steps = 64
    while True:
        steps = min(steps, horizon)
        enough = own(steps) <= gain * np.arange(1, steps + 1.0)
        if enough[-1]:
            short = np.flatnonzero(~enough)
            return 1 if not short.size else int(short[-1]) + 2
        if steps == horizon:
            return None
        steps *= 2


def own_bound(before_T: np.ndarray, after_T: np.ndarray, span: float) -> np.ndarray:
    """What may be lost in all in a context of 1 .. n steps: B(n) + J + F(n), no more than n J."""
    n = np.arange(1.0, len(before_T))
    return np.minimum(n * span, before_T[1:] + span + after_T[1:])
