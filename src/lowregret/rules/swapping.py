"""Pairs of actions as comparators of the exact test: "b whenever a is played", for internal regret.

A pair gains x_ab = pi_a (U(b) - U(a)) over the response pi, which is known before the outcome: it is a row like others,
and bets on it are charged like others (``certificates/internal.py``). Rows that are bet on are the pairs, then the
references; the account of a guard has the actions and the references, then the pairs.
"""

from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, namespace
from ..certificates import coupled, every_start
from ..certificates.internal import internal_prior
from ..policies import Recovery
from ..problems import pairs_of, swaps, with_first


def refuse(rule: Any) -> None:
    """Settings that pairs do not go with."""
    if not rule.internal:
        return
    if rule.of_numbers or rule.contexts is not None or not rule.actions:
        raise ValueError(
            "internal=True compares with pairs of actions in a DecisionProblem: leave out contexts and actions=False, "
            "and state laws in place of numbers"
        )
    if not isinstance(rule.fallback, Recovery) or rule.fallback.safe is not None:
        raise ValueError(
            "internal=True falls back on Recovery(), whose safe play is Hedge over pairs of actions: what others lose "
            f"to pairs is not known, got {inputs.shown(rule.fallback)}"
        )


def count(rule: Any) -> int:
    """How many pairs are compared with."""
    return len(pairs_of(rule.problem.n_actions)) if rule.internal else 0


def prior(rule: Any, top: float, share: float) -> every_start.Prior:
    """How the capital is shared among pairs and references."""
    opening = 0.5 if rule.temperature == 0 else 0.0
    made = rule.stakes, rule.horizon, rule.delta, rule.temperature, top, share, opening
    return internal_prior(*made, len(rule.references))


def certificate_temperature(rule: Any, horizon: int) -> float:
    """eta* of pairs, at which the bound before an alarm is least."""
    cost = every_start.main_log_cost(rule.delta, count(rule) + len(rule.references))
    return coupled.certificate_temperature(rule.stakes, horizon, cost, None if rule.references else 2)


def leads(lead_P: Array, earned_A: Array, answer_A1: Array) -> Array:
    """What actions and references earned more, and what pairs gained over the answer."""
    return namespace(lead_P).concat([lead_P, swaps(earned_A, with_first(answer_A1))])


def by_advice(rule: Any) -> list[np.ndarray]:
    """By the action advised: what each comparator gains over it in every state, ``[P, S]``."""
    utility = rule.problem.utility
    if not rule.internal:
        return [utility - row for row in utility]
    return [swaps(utility, advised_A[:, None]) for advised_A in np.eye(len(utility))]
