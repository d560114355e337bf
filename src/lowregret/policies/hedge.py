"""Hedge (Section 2.3) and its kin: exponential weights over what each action would have earned."""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from .. import certificates, inputs
from ..arrays import (
    Array,
    copied,
    count_up,
    device,
    first,
    float_type,
    in_float64,
    last,
    mix,
    namespace,
    running_sum,
    softmax,
    total,
)
from ..certificates import every_start
from ..certificates.bounds import Bound
from ..memory import where as choose
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
    rate: float = None  # type: ignore[assignment]

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
        """What it loses at most in so many steps, whatever the temperature: it responds to no forecast."""
        return certificates.hedge(problem, horizon, self.rate)

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Bound:
        """What it loses at most after an alarm, by the steps that are left."""
        return partial(every_start.hedge_after, problem, self.rate)

    def policy_of_counts(self, counts: Array) -> Array:
        """The mixed action after these counts of each state, ``[..., S] -> [..., A]``."""
        counts_S = first(in_float64(counts))
        return last(softmax(mix(self.problem.utility, counts_S) * self.rate))


# Beside the Hedge of Section 2.3: AdaHedge, which needs no horizon, and fixed share, which tracks changes.


_LEAST = 1e-300  # a smaller gap is none: the rate that it asks for would be no finite number


class AdaHedgeMemory(NamedTuple):
    lead_A: Array  # [..., A], what each action earned so far, below the best of them
    gap: Array  # [...], the mixability gaps so far: by how much mixing fell short of the rate's soft maximum


@dataclass(frozen=True)
class AdaHedge(Policy):
    """Hedge that sets its own rate, ln A / (mixability gaps so far): no horizon, no range, no temperature.

    Until two actions have earned differently it plays all with the same chance; from then on each gap lowers the rate.

    >>> from lowregret import matching
    >>> AdaHedge(matching()).policy_sequence([1, 1, 0, 0, 0])[:, 1].round(3).tolist()
    [0.5, 0.8, 0.915, 0.745, 0.5]
    """

    problem: DecisionProblem

    def __post_init__(self) -> None:
        a_problem(self.problem)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> AdaHedgeMemory:
        xp, where, shape = namespace(like), device(like), inputs.batch_shape_of(batch_shape)
        zeros = xp.zeros((*shape, self.problem.n_actions), dtype=float_type(xp, where), device=where)
        return AdaHedgeMemory(zeros, zeros[..., 0])

    def policy(self, memory: AdaHedgeMemory) -> Array:
        return last(self._weights(first(memory.lead_A), memory.gap))

    def update(self, memory: AdaHedgeMemory, token: Array) -> AdaHedgeMemory:
        token = inputs.tokens_of(token, self.problem.n_states, "token", shape=tuple(memory.gap.shape), like=memory.gap)
        return self.paid(memory, last(action_utilities(self.problem, token, memory.lead_A)))

    def paid(self, memory: AdaHedgeMemory, earned: Array) -> AdaHedgeMemory:
        """The memory after a step in which the actions ``earned`` ``[..., A]``, whatever came; unchecked."""
        lead_A, gap, earned_A = first(memory.lead_A), memory.gap, first(earned)
        xp = namespace(gap)
        mixed = total(self._weights(lead_A, gap) * earned_A)
        ahead_A = lead_A + earned_A
        rise = self._soft_max(ahead_A, gap) - self._soft_max(lead_A, gap)
        opened = xp.clip(rise - mixed, 0.0, None)
        return AdaHedgeMemory(last(ahead_A - xp.max(ahead_A, axis=0)), gap + opened)

    def _rate(self, gap: Array) -> Array:
        """ln A / gap, and ln A where there is no gap yet: all have then earned the same, and any rate will do."""
        xp = namespace(gap)
        return math.log(self.problem.n_actions) / xp.where(gap > _LEAST, gap, xp.ones_like(gap))

    def _weights(self, lead_A: Array, gap: Array) -> Array:
        return softmax(lead_A * self._rate(gap))

    def _soft_max(self, lead_A: Array, gap: Array) -> Array:
        """ln mean_a exp(rate lead_a) / rate; the maximum itself before the first gap, when the rate is infinite."""
        xp, A = namespace(gap), self.problem.n_actions
        best, rate = xp.max(lead_A, axis=0), self._rate(gap)
        if A == 1:
            return best
        below = xp.log(total(xp.exp((lead_A - best) * rate)) / A) / rate
        return xp.where(gap > _LEAST, best + below, best)

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float:
        """What it loses at most in the first ``horizon`` steps, for every number of them."""
        return certificates.ada_hedge(problem, horizon)

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Bound:
        """What it loses at most after an alarm: at most twice the gaps of all steps, whenever that was."""
        most = steps * certificates.ada_hedge(problem, steps)
        return lambda left_N: np.minimum(most, problem.span * left_N)


class FixedShareMemory(NamedTuple):
    weights_A: Array  # [..., A]


@dataclass(frozen=True)
class FixedShare(Policy):
    """Hedge that spreads a ``share`` of all weight evenly each step, so it can follow a best action that changes.

    Parameters
    ----------
    share
        1/horizon by default.
    rate
        By default the best for the bound against one fixed action.

    >>> from lowregret import matching
    >>> quick = FixedShare(matching(), horizon=100, rate=1.0)
    >>> quick.policy_sequence([1] * 9 + [0] * 4)[[0, 8, 12], 1].round(3).tolist()
    [0.5, 0.992, 0.821]
    """

    problem: DecisionProblem
    horizon: int
    rate: float = None  # type: ignore[assignment]
    share: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        a_problem(self.problem)
        T, A, J = inputs.whole(self.horizon, "horizon"), self.problem.n_actions, self.problem.span
        share = inputs.probability(1 / max(T, 2) if self.share is None else self.share, "share")
        cost = math.log(A) - (T - 1) * math.log1p(-share * (A - 1) / A)
        rate = (math.sqrt(8 * cost / T) / J if A > 1 and J > 0 else 1.0) if self.rate is None else self.rate
        inputs.keep(self, horizon=T, share=share, rate=inputs.positive(rate, "rate"))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> FixedShareMemory:
        xp, where, A = namespace(like), device(like), self.problem.n_actions
        shape = (*inputs.batch_shape_of(batch_shape), A)
        return FixedShareMemory(xp.full(shape, 1 / A, dtype=float_type(xp, where), device=where))

    def policy(self, memory: FixedShareMemory) -> Array:
        return copied(memory.weights_A)

    def update(self, memory: FixedShareMemory, token: Array) -> FixedShareMemory:
        shape = tuple(memory.weights_A.shape[:-1])
        token = inputs.tokens_of(token, self.problem.n_states, "token", shape=shape, like=memory.weights_A)
        earned_A = action_utilities(self.problem, token, memory.weights_A)
        return FixedShareMemory(last(shared(first(memory.weights_A), earned_A, self.rate, self.share)))

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float:
        """What it loses at most to the best fixed action in the first ``horizon`` steps."""
        return certificates.fixed_share(problem, horizon, self.rate, self.share)

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Bound:
        """What it loses at most after an alarm, by the steps that are left."""
        return partial(every_start.fixed_share_after, problem, self.rate, self.share)


def shared(weights_A: Array, earned_A: Array, rate: float, share: float) -> Array:
    """Exponential weights after one more step, ``share`` of them spread evenly; none is ever below share / A."""
    xp = namespace(weights_A)
    grown_A = weights_A * xp.exp((earned_A - xp.max(earned_A, axis=0)) * rate)
    return grown_A / total(grown_A) * (1 - share) + share / weights_A.shape[0]


# Bounded recall without a model (Section 4): Hedge that forgets, on average or all at once.


class RestartHedgeMemory(NamedTuple):
    copies: HedgeMemory  # [..., D], or one that starts anew
    step: Array  # [...], tokens seen


@dataclass(frozen=True)
class RestartHedge(Policy):
    """Hedge with bounded recall, and no model: the average of its copies, or one copy that starts anew.

    Parameters
    ----------
    window
        How many steps a copy lives.
    averaged
        True: the average of the copies started at each of the last ``window`` steps, which depends on the last
        ``window - 1`` tokens and nothing else. False: one copy, restarted every ``window`` steps.
    rate
        Of each copy; 1/sqrt(window) unless given.

    >>> from lowregret import matching
    >>> RestartHedge(matching(), window=4).policy_sequence([1, 1, 1, 0, 0, 0])[:, 1].round(3).tolist()
    [0.5, 0.592, 0.646, 0.668, 0.5, 0.381]
    """

    problem: DecisionProblem
    window: int
    averaged: bool = True
    rate: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        a_problem(self.problem)
        inputs.keep(self, window=inputs.whole(self.window, "window"))
        inputs.keep(self, rate=self._hedge.rate)

    @cached_property
    def _hedge(self) -> Hedge:
        return Hedge(self.problem, self.window, self.rate)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RestartHedgeMemory:
        shape = inputs.batch_shape_of(batch_shape)
        copies = self._hedge.start((*shape, self.window if self.averaged else 1), like=like)
        return RestartHedgeMemory(copies, copies.seen[..., 0])

    def update(self, memory: RestartHedgeMemory, token: Array) -> RestartHedgeMemory:
        shape = tuple(memory.step.shape)
        token = inputs.tokens_of(token, self.problem.n_states, "token", shape=shape, like=memory.step)
        copies, step = memory.copies, memory.step + 1
        earned = copies.earned + last(action_utilities(self.problem, token, copies.earned))[..., None, :]
        late = oldest(step, self.window)
        late = late if self.averaged else late[..., :1]
        fresh = self._hedge.start(tuple(late.shape), like=copies.earned)
        return RestartHedgeMemory(choose(late, fresh, HedgeMemory(earned, copies.seen + 1)), step)

    def policy(self, memory: RestartHedgeMemory) -> Array:
        return namespace(memory.step).mean(self._hedge.policy(memory.copies), axis=-2)

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float:
        """What it loses at most in so many steps, whatever the temperature: it responds to no forecast."""
        bound = self._hedge.regret_bound(problem, min(horizon, self.window), temperature)
        if self.averaged:
            return certificates.windows(horizon, self.window) * bound
        whole, rest = divmod(horizon, self.window)
        last_bound = rest * self._hedge.regret_bound(problem, rest, temperature) if rest else 0.0
        return (whole * self.window * bound + last_bound) / horizon


def oldest(step: Array, n_copies: int) -> Array:
    """Which of the copies starts anew after ``step`` tokens: each in turn, ``[..., n_copies]``."""
    return (step % n_copies)[..., None] == count_up(step, 0, n_copies)
