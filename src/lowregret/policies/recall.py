"""Bounded recall without a model (Section 4): Hedge that forgets, on average or all at once."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .. import certificates, inputs
from ..arrays import Array, count_up, last, namespace
from ..memory import where as choose
from ..problems import DecisionProblem, a_problem, action_utilities
from .contract import Policy
from .hedge import Hedge, HedgeMemory


class RestartHedgeMemory(NamedTuple):
    copies: HedgeMemory  # [..., D], or one that starts anew
    step: Array  # [...], tokens seen


@dataclass(frozen=True)
class RestartHedge(Policy):
    """Hedge with bounded recall, and no model: the average of its copies, or one copy that starts anew.

    Parameters
    ----------
    context_len
        How many steps a copy lives.
    averaged
        True: the average of the copies started at each of the last ``context_len`` steps, which depends on the last
        ``context_len - 1`` tokens and nothing else. False: one copy, restarted every ``context_len`` steps.
    rate
        Of each copy; 1/sqrt(context_len) unless given.

    >>> from lowregret import matching
    >>> RestartHedge(matching(), context_len=4).policy_sequence([1, 1, 1, 0, 0, 0])[:, 1].round(3).tolist()
    [0.5, 0.592, 0.646, 0.668, 0.5, 0.381]
    """

    problem: DecisionProblem
    context_len: int
    averaged: bool = True
    rate: float | None = None

    def __post_init__(self) -> None:
        a_problem(self.problem)
        length, averaged = inputs.whole(self.context_len, "context_len"), inputs.flag(self.averaged, "averaged")
        inputs.keep(self, context_len=length, averaged=averaged)
        inputs.keep(self, rate=self._hedge.rate)

    @cached_property
    def _hedge(self) -> Hedge:
        return Hedge(self.problem, self.context_len, self.rate)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RestartHedgeMemory:
        shape = inputs.batch_shape_of(batch_shape)
        copies = self._hedge.start((*shape, self.context_len if self.averaged else 1), like=like)
        return RestartHedgeMemory(copies, copies.seen[..., 0])

    def update(self, memory: RestartHedgeMemory, token: Array) -> RestartHedgeMemory:
        shape = tuple(memory.step.shape)
        token = inputs.tokens_of(token, self.problem.n_states, "token", shape=shape, like=memory.step)
        copies, step = memory.copies, memory.step + 1
        earned = copies.earned + last(action_utilities(self.problem, token, copies.earned))[..., None, :]
        late = oldest(step, self.context_len)
        late = late if self.averaged else late[..., :1]
        fresh = self._hedge.start(tuple(late.shape), like=copies.earned)
        return RestartHedgeMemory(choose(late, fresh, HedgeMemory(earned, copies.seen + 1)), step)

    def policy(self, memory: RestartHedgeMemory) -> Array:
        return namespace(memory.step).mean(self._hedge.policy(memory.copies), axis=-2)

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float:
        """What it loses at most in the first ``horizon`` steps; it responds to no law, so no temperature matters."""
        bound = self._hedge.regret_bound(problem, min(horizon, self.context_len), temperature)
        if self.averaged:
            return certificates.windows(horizon, self.context_len) * bound
        whole, rest = divmod(horizon, self.context_len)
        last_bound = rest * self._hedge.regret_bound(problem, rest, temperature) if rest else 0.0
        return (whole * self.context_len * bound + last_bound) / horizon


def oldest(step: Array, n_copies: int) -> Array:
    """Which of the copies starts anew after ``step`` tokens: each in turn, ``[..., n_copies]``."""
    return (step % n_copies)[..., None] == count_up(step, 0, n_copies)
