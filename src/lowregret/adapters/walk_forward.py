"""A guard over recorded laws, step by step, and the record of what it did."""

from typing import Any, NamedTuple

import numpy as np

from ..certificates import Certificate
from ..guard import Event, Guard
from ..guard.asked import Rows
from ..problems import DecisionProblem, Positions


class WalkForward(NamedTuple):
    """What ``GuardedClassifier.walk_forward`` did on the N rows after the first training part, in time order.

    Columns are the problem's states and actions in their order: ``backtest(problem, model_probs_NxS,
    Positions(states), **told)`` has the money table of the same rows.
    """

    problem: DecisionProblem
    start: int  # the first guarded row
    refits: tuple[int, ...]  # the rows before which the model was fitted
    states: np.ndarray  # [N], what came
    model_probs_NxS: np.ndarray  # what the model said
    probs_NxS: np.ndarray  # what to act on; where a policy is played after a switch, for information
    policy_NxA: np.ndarray  # the mixed action that the certificate speaks of
    payoffs: np.ndarray  # [N], what it earned on average, in the problem's units
    share: np.ndarray  # [N], how much of it was the model's: 1 until a switch
    events: tuple[Event, ...]
    certificate: Certificate
    told: dict[str, Any]  # what else was known of the rows, as ``backtest`` takes it

    @property
    def used_fallback(self) -> np.ndarray:
        """``[N]``, where the answer was not the model's alone."""
        return self.share < 1


def walked(guard: Guard, rows: Rows, states: np.ndarray, start: int, refits: tuple[int, ...]) -> WalkForward:
    """Take the guard through the rows, one step each, the labels as late as its lag: it stands after the last then."""
    problem, n, lag = guard.problem, len(states), guard.lag
    assert problem is not None
    probs_NxS, policy_NxA, share = np.empty(rows.laws_NxS.shape), np.empty((n, problem.n_actions)), np.empty(n)
    for row in range(n):
        advice = guard.advise(**rows.said(row))
        probs_NxS[row], policy_NxA[row], share[row] = advice.law, advice.policy, advice.share
        if row + 1 >= lag:
            guard.observe(Positions(states[row + 1 - lag]))
    for state in states[max(0, n + 1 - lag) :]:
        guard.observe(Positions(state))
    payoffs = problem.in_payoffs((policy_NxA * problem.utility[:, states].T).sum(axis=1))
    return WalkForward(
        problem,
        start,
        refits,
        states,
        rows.laws_NxS,
        probs_NxS,
        policy_NxA,
        payoffs * rows.told.get("scale", 1.0),
        share,
        tuple(guard.events),
        guard.certificate,
        _as_recorded(guard, rows.told),
    )


def _as_recorded(guard: Guard, told: dict[str, np.ndarray]) -> dict[str, Any]:
    """What rows were told, by the arguments of a backtest."""
    found: dict[str, Any] = {"contexts" if name == "context" else name: part for name, part in told.items()}
    found.pop("plays", None)  # a backtest plays best responses
    if "references" in told:
        assert guard.rule.knows is not None
        found["references"] = dict(zip(guard.rule.knows.references, np.moveaxis(told["references"], 1, 0), strict=True))
    return found
