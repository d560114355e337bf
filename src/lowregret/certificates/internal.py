"""Internal regret: what would have been gained by playing b whenever a was played, for the best pair of actions.

Before the alarm a pair is a comparator like any other, x_ab = pi_a (U(b) - U(a)), known before the state. Its charge:

* best responses: x_ab is 0 unless a is played, and then U(b) - U(a): ``best_response.kappa`` as it is;
* quantal responses: with q = pi_a the mean of x_ab is eta q ln(pi_b / pi_a) <= eta q ln((1 - q) / q) and its range at
  most q R: ``coupled.kappa`` of two actions, whatever their number. References beside the pairs are charged that of all
  actions, which is no less.

With two actions internal and external regret are the same; with more, the gains of the A - 1 pairs that end with b add
up to the regret to b. After the alarm the fallback must keep internal regret low,
too. Stoltz and Lugosi's does: Hedge over the A (A - 1) pairs, each read as the mixed action in which a's chance went to
b, and played at a fixed point, where the average of these is what is played. In each state they earn within J of each
other, so Hedge's bound is theirs: F(n) = J sqrt(n ln(A (A - 1)) / 2) tuned to n, J (1 + sqrt(1 + n ln(A (A - 1))))
where that tunes itself (AdaHedge).
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..problems import DecisionProblem, pairs_of
from . import best_response
from .bounds import Bound
from .certificate import Certificate
from .coupled import Charges, charges, main_rate
from .every_start import Prior, before_alarm, joint_prior, main_log_cost, within
from .switching import certify_switch


def pairs(problem: DecisionProblem) -> int:
    """How many there are to compare with; one action has none, and is compared with itself."""
    return len(pairs_of(problem.n_actions))


def _others(references: int) -> int | None:
    """What stands for the number of actions in a charge."""
    return None if references else 2


def internal_prior(
    problem: DecisionProblem,
    horizon: int | None,
    delta: float,
    temperature: float | None = None,
    top: float = 2.0,
    share: float = 1.0,
    opening: float = 0.0,
    references: int = 0,
) -> Prior:
    """``joint_prior`` over pairs, and references beside them, with the main rate that suits them."""
    main, count = None, pairs(problem) + references
    if horizon is not None:
        eta = 1 / math.sqrt(horizon) if temperature is None else temperature
        main = main_rate(problem, horizon, eta, main_log_cost(delta * share, count), _others(references))
    return joint_prior(problem, horizon, delta, temperature, top, count, main, share, opening)


def before(
    problem: DecisionProblem,
    prior: Prior,
    delta: float,
    temperature: float | None,
    exactly: bool,
    steps: int,
    references: int = 0,
) -> Bound:
    """B(t): what no pair gains more than while no alarm has sounded.

    ``exactly``: for best responses, by their linear programmes.
    """
    if exactly and temperature == 0:
        charged: Bound = Charges(best_response.exact_kappa(problem, prior.rates_K))
    else:
        charged = charges(problem, prior.rates_K, steps, temperature, _others(references))
    return partial(before_alarm, charged, prior.rates_K, prior.log_costs_K(delta), problem.span)


def interval(
    problem: DecisionProblem,
    prior: Prior,
    delta: float,
    temperature: float | None,
    start: int,
    end: int,
    references: int = 0,
) -> float:
    """Statement (ii): what no pair gains more than over the steps start .. end, where no alarm has sounded."""
    charged = charges(problem, prior.rates_K, end, temperature, _others(references))
    charges_K = np.diff(charged(np.array([start - 1, end])), axis=0)[0]
    return within(problem, start, end, charges_K, prior, delta)


def stoltz_lugosi(problem: DecisionProblem, left_N: Any, tuned: bool = True) -> np.ndarray:
    """F: the most internal regret of Hedge over pairs at its fixed point over n steps, begun afresh.

    ``tuned``: its rate is sqrt(8 ln(A (A - 1)) / n) / J, for n known at the start; else it finds its own.

    >>> from lowregret import rock_paper_scissors
    >>> stoltz_lugosi(rock_paper_scissors(), [100, 1000]).round(1).tolist()
    [18.9, 59.9]
    """
    n, J, log = np.asarray(left_N, dtype=np.float64), problem.span, math.log(pairs(problem))
    if problem.n_actions == 1:
        return 0.0 * n
    most = np.sqrt(n * log / 2) if tuned else 1 + np.sqrt(1 + n * log)
    return J * np.minimum(n, most)


def certify_internal(
    problem: DecisionProblem,
    horizon: int | None,
    temperature: float | None,
    fallback: Any,
    prior: Prior,
    delta: float,
    theorem: str,
    references: int = 0,
) -> Certificate:
    """Statement (iv) for pairs, and references; the fallback's ``regret_after`` must be of internal regret."""
    made = (problem, prior, delta, temperature)
    given = certify_switch(
        problem,
        horizon,
        temperature,
        fallback,
        before=partial(before, *made, False, references=references),
        interval=partial(interval, *made, references=references),
        tv_bound=delta,
        theorem=theorem,
        sharper=partial(before, *made, True) if temperature == 0 else None,
        counts_model=getattr(fallback, "counts_model", False),
        share=prior.share,
    )
    return of_pairs(given, references)


def of_pairs(given: Certificate, references: int = 0) -> Certificate:
    """A certificate that speaks of pairs of actions in place of actions, and says so."""
    A, also = given.problem.n_actions, ", nor does any reference lead by more" if references else ""
    times = f" (regret to a fixed action is at most {A - 1} times that)" if A > 2 else ""
    gains = f"Internal regret{times}: playing b whenever a was played gains no more, for any a and b{also}"
    said, statement = "No action leads by more before", given.statement
    statement = statement.replace("it no action leads by more", "it no pair gains more")
    statement = statement.replace(said, f"{gains}, before") if said in statement else f"{gains}. {statement}"
    # Limits are known for external regret only, and draws add to each pair by itself.
    return replace(given, statement=statement, drawn=None, internal=True)
