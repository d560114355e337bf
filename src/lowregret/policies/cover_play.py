"""Minimax play as a policy: the least regret on the worst sequence when the steps left are known."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, astype, device, namespace, to_numpy
from ..certificates.bounds import Bound
from ..predictors.cover_law import (
    Leads,
    MinimaxMemory,
    after_alarm,
    chance_of_second,
    equalised,
    equalising,
    fresh_value,
    value,
)
from ..problems import DecisionProblem, a_problem
from .contract import Policy


@dataclass(frozen=True)
class CoverPlay(Leads, Policy):
    """The policy with the least regret on its worst sequence of ``horizon`` steps, from wherever the lead stands.

    For two actions; and for games of three actions and states such as rock-paper-scissors, where nature's best is one
    law throughout. For other problems no such play is known here, and they are refused.

    >>> from lowregret import matching
    >>> play = CoverPlay(matching(), horizon=4)
    >>> play.policy_sequence([1, 1, 0, 0])[:, 1].tolist()
    [0.5, 0.75, 1.0, 1.0]
    >>> play.after_T().tolist()  # in total, by steps left
    [0.0, 0.5, 0.5, 0.75, 0.75]
    """

    problem: DecisionProblem
    horizon: int

    def __post_init__(self) -> None:
        a_problem(self.problem)
        inputs.keep(self, horizon=inputs.whole(self.horizon, "horizon"))
        if self.problem.n_actions > 2 and equalising(self.problem) is None:
            raise ValueError(
                "problem must have two actions, or three actions and states and a mixed action that equalises all "
                "states at every lead (as rock-paper-scissors has), for minimax play, got "
                f"{self.problem}: use Hedge or AdaHedge"
            )

    def policy(self, memory: MinimaxMemory) -> Array:
        return self._play(memory.lead, memory.seen)

    def policy_sequence(self, tokens: Array) -> Array:
        return self._play(*self.leads_before(tokens))

    def policy_of_counts(self, counts: Array) -> np.ndarray:
        """The mixed action after these counts of each state, ``[..., S] -> [..., A]``."""
        play: np.ndarray = self._play(*self.leads_of(counts))
        return play

    def _play(self, lead: Array, seen: Array) -> Array:
        lead_A1 = np.moveaxis(to_numpy(lead), -1, 0)
        left = np.maximum(self.horizon - to_numpy(seen), 1)  # after the last step anything may be said
        left = np.broadcast_to(left, lead_A1.shape[1:])
        if self.problem.n_actions == 1:
            policy_A = np.ones((1, *left.shape))
        elif self.problem.n_actions == 2:
            chance = chance_of_second(self.problem, lead_A1[0], left)
            policy_A = np.stack([1 - chance, chance])
        else:
            policy_A = equalised(self.problem, lead_A1, left)
        xp = namespace(lead)
        policy = np.ascontiguousarray(np.moveaxis(policy_A, 0, -1))
        return policy if xp is np else astype(xp.asarray(policy, device=device(lead)), lead.dtype)

    def after_T(self) -> np.ndarray:
        """F(0) .. F(T): what it loses at most in total with that many steps left, afresh or from the current lead.

        With three actions and more than 1,024 steps, between knots half a percent apart, the next larger value.
        """
        return np.maximum.accumulate(fresh_value(self.problem, self.horizon, np.arange(self.horizon + 1)))

    def from_lead(self, lead: Any, steps: Any) -> Any:
        """E (lead + S_n)^+: two actions, the regret to action 0 that is to come, once action 1 is this far ahead."""
        if self.problem.n_actions != 2:
            raise ValueError(f"from_lead is for two actions, and {self.problem} has {self.problem.n_actions}")
        return value(self.problem, np.asarray(lead, dtype=np.float64), np.asarray(steps))

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float | None:
        """What it loses at most in the first ``horizon`` steps; it responds to no law, so no temperature matters."""
        if problem != self.problem or horizon > self.horizon:
            return None
        return min(problem.span, self.total_bound(self.horizon) / horizon)  # a regret is never above what g promises

    def total_bound(self, steps: int) -> float:
        """What it loses at most in all over ``steps`` steps begun afresh."""
        return float(fresh_value(self.problem, self.horizon, np.array([steps]))[0])

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Bound | None:
        """What it loses at most after an alarm, by the steps that are left; None for other problems or longer runs."""
        if problem != self.problem:
            return None
        return after_alarm(partial(fresh_value, problem, self.horizon), self.horizon, steps, problem.span)
