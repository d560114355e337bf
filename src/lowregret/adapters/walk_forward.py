"""A guard over recorded laws, step by step, and the record of what it did."""

from typing import NamedTuple

import numpy as np

from ..certificates import Certificate
from ..guard import Event, Guard
from ..problems import DecisionProblem, Positions


class WalkForward(NamedTuple):
    """What ``GuardedClassifier.walk_forward`` did on the N rows after the first training part, in time order.

    Columns are the problem's states and actions in their order: ``backtest(problem, model_probs_NxS,
    Positions(states))`` has the money table of the same rows.
    """

    problem: DecisionProblem
    start: int  # the first guarded row
    refits: tuple[int, ...]  # the rows before which the model was fitted
    states: np.ndarray  # [N], what came
    model_probs_NxS: np.ndarray  # what the model said
    probs_NxS: np.ndarray | None  # what to act on; None with a policy for a fallback
    policy_NxA: np.ndarray  # the mixed action that the certificate speaks of
    payoffs: np.ndarray  # [N], what it earned on average, in the problem's units
    share: np.ndarray  # [N], how much of it was the model's: 1 until a switch
    events: tuple[Event, ...]
    certificate: Certificate

    @property
    def used_fallback(self) -> np.ndarray:
        """``[N]``, where the answer was not the model's alone."""
        return self.share < 1


def walked(
    guard: Guard, model_probs_NxS: np.ndarray, states: np.ndarray, start: int, refits: tuple[int, ...]
) -> WalkForward:
    """Take the guard through the rows, one step each, the labels as late as its lag: it stands after the last then."""
    problem, advised, share = guard.problem, [], np.empty(len(states))
    assert problem is not None
    policy_NxA = np.empty((len(states), problem.n_actions))
    for row, law_S in enumerate(model_probs_NxS):
        advised.append(guard.advise(law_S))
        policy_NxA[row], share[row] = guard.policy(), guard.share
        if row + 1 >= guard.lag:
            guard.observe(Positions(states[row + 1 - guard.lag]))
    for state in states[max(0, len(states) + 1 - guard.lag) :]:
        guard.observe(Positions(state))
    return WalkForward(
        problem,
        start,
        refits,
        states,
        model_probs_NxS,
        None if advised[0] is None else np.array(advised),
        policy_NxA,
        problem.in_payoffs((policy_NxA * problem.utility[:, states].T).sum(axis=1)),
        share,
        tuple(guard.events),
        guard.certificate,
    )
