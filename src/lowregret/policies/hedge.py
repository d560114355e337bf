"""Hedge (Section 2.3): exponential weights over what each action would have earned."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from .. import certificates, inputs
from ..arrays import Array, device, first, float_type, in_float64, last, mix, namespace, running_sum, softmax
from ..certificates import every_start
from ..problems import DecisionProblem, a_problem, action_utilities
from .contract import Policy


class HedgeMemory(NamedTuple):
    earned: Array  # [..., A], each action's utility so far
    seen: Array  # [...], tokens so far


@dataclass(frozen=True)
class Hedge(Policy):
    """Exponential weights over what each action would have earned; ``rate`` is 1/sqrt(horizon) unless given.

    >>> from lowregret import matching
    >>> Hedge(matching(), horizon=4).policy_sequence([1, 1, 1])[:, 1].round(3).tolist()
    [0.5, 0.622, 0.731]
    """

    problem: DecisionProblem
    horizon: int
    rate: float | None = None

    def __post_init__(self) -> None:
        a_problem(self.problem)
        horizon = inputs.whole(self.horizon, "horizon")
        rate = 1 / math.sqrt(horizon) if self.rate is None else self.rate
        inputs.keep(self, horizon=horizon, rate=inputs.positive(rate, "rate"))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> HedgeMemory:
        xp, where, shape = namespace(like), device(like), inputs.batch_shape_of(batch_shape)
        earned = xp.zeros((*shape, self.problem.n_actions), dtype=float_type(xp, where), device=where)
        return HedgeMemory(earned, xp.zeros(shape, dtype=xp.int64, device=where))

    def policy(self, memory: HedgeMemory) -> Array:
        return last(softmax(first(memory.earned) * self.rate))

    def update(self, memory: HedgeMemory, token: Array) -> HedgeMemory:
        seen = memory.seen
        token = inputs.tokens_of(token, self.problem.n_states, "token", shape=tuple(seen.shape), like=seen)
        return HedgeMemory(memory.earned + last(action_utilities(self.problem, token, memory.earned)), seen + 1)

    def policy_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.problem.n_states)
        utility_A = action_utilities(self.problem, tokens, tokens)
        return last(softmax((running_sum(utility_A) - utility_A) * self.rate))

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float:
        """What it loses at most in the first ``horizon`` steps; it responds to no law, so no temperature matters."""
        assert self.rate is not None
        return certificates.hedge(problem, horizon, self.rate)

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Any:
        """What it loses at most after an alarm, by the steps that are left."""
        assert self.rate is not None
        return partial(every_start.hedge_after, problem, self.rate)

    def policy_of_counts(self, counts: Array) -> Array:
        """The mixed action after these counts of each state, ``[..., S] -> [..., A]``."""
        counts_S = first(in_float64(counts))
        return last(softmax(mix(self.problem.utility, counts_S) * self.rate))
