"""When to stop trusting (Algorithm 1): each rule watches a predictor, knows what replaces it, and trips at most once.

A rule compares two quantal responses: pi_s to the base model and h_s to the fallback. Everything it needs are sums of
quantities known from (probabilities, tokens), so a recorded sequence takes one pass of cumulative sums. After token s
is seen the rule tests; the first prediction that a trip changes is the one for step s + 1.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from .. import inputs
from ..arrays import (
    Array,
    astype,
    count_up,
    detached,
    device,
    first,
    float_type,
    mix,
    namespace,
    pick,
    row_blocks,
    to_numpy,
)
from ..guarantee import Certificate
from ..policies import Policy, leads, same_states
from ..predictors import PolyaUrn, Predictor
from ..problems import DecisionProblem, a_problem

UNKNOWN_HORIZON = (
    "horizon=None (unknown) needs an explicit delta, the TV bound to keep for ever: "
    "rule=ExactTest(problem, None, delta=...)"
)


class RuleMemory(NamedTuple):
    fallback: Any  # the fallback's memory: it runs from the first step
    step: Array  # [...], tokens seen
    tripped_at: Array  # [...], tokens seen when it tripped, 0 for not yet
    statistics: Any


class Moment(NamedTuple):
    """What a rule sees of one step, or of every step of a block of sequences; the short axis first."""

    base_A1: Array  # the answer to the base model: the chances of every action but the first (or state: VRegret)
    fallback_A1: Array  # the answer to the fallback, likewise
    probs_S: Array  # the base model's law
    token: Array  # what came


class Rule(ABC):
    """What all rules share: a fallback that runs from the first step on, and a trip that is one-way.

    Those that know the decision problem are ``ResponseRule``; ``VRegret`` does not, and its ``problem`` is None.
    """

    problem: DecisionProblem | None
    horizon: int | None
    temperature: float | None
    fallback: Predictor | Policy

    # What a rule must say of itself.

    @property
    @abstractmethod
    def n_states(self) -> int:
        """How many states it watches."""

    @property
    def cells(self) -> int:
        """How many numbers it keeps of a stream, where they may be more than the steps."""
        return 1

    @property
    def compares(self) -> bool:
        """Whether its alarm depends on what the fallback says; else recorded sequences are judged without asking it."""
        return True

    @property
    @abstractmethod
    def pointless(self) -> bool:
        """Whether nothing is at stake: then it never trips."""

    @property
    @abstractmethod
    def n_comparators(self) -> int:
        """How many fixed answers regret is measured against."""

    @abstractmethod
    def leads(self, answer_A1: Array, token: Array) -> Array:
        """What each of them earned more in a step than the given answer, ``[n_comparators, ...]``, unchecked."""

    @abstractmethod
    def _moment(self, probs: Array, answer: Array, token: Array, step: Array) -> Moment:
        """What the rule sees of a step; ``answer`` is the fallback's law, or its mixed action (None: not asked)."""

    @abstractmethod
    def _blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> Any:
        """The statistics before the first token."""

    @abstractmethod
    def _step(self, statistics: Any, step: Array, moment: Moment) -> tuple[Any, Array]:
        """The statistics after one more step, and whether the rule trips there."""

    @abstractmethod
    def _trip_times(self, step_T: Array, moment: Moment) -> Array:
        """For a block of recorded sequences from the first step on: when the rule trips, ``[N]``; T + 1 for never."""

    @abstractmethod
    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """The statistic and the threshold it must reach, now."""

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """What a predictor robustified by this rule guarantees."""

    # What follows from it.

    @cached_property
    def fallback_acts(self) -> bool:
        """Whether the fallback is a policy, which gives mixed actions and no laws."""
        return not hasattr(self.fallback, "predict") and isinstance(self.fallback, Policy)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RuleMemory:
        """The memory before the first token."""
        shape, xp, where = inputs.batch_shape_of(batch_shape), namespace(like), device(like)
        zeros = xp.zeros(shape, dtype=xp.int64, device=where)
        return RuleMemory(self.fallback.start(shape, like=like), zeros, zeros, self._blank(shape, xp, where))

    def update(self, memory: RuleMemory, probs: Array, token: Array) -> RuleMemory:
        """The memory after the base model gave ``probs`` ``[..., S]`` and ``token`` ``[...]`` came."""
        shape = tuple(memory.step.shape)
        probs = inputs.probs_of(probs, self.n_states, shape=shape)
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.step)
        self.refuse_past_horizon(memory)
        return self.advance(memory, self.look(memory, probs), token)

    def look(self, memory: RuleMemory, probs: Array) -> Moment:
        """Both answers, before the token is known; unchecked."""
        return self._moment(probs, self.fallback_answer(memory), None, memory.step + 1)

    def fallback_answer(self, memory: RuleMemory) -> Array:
        """What the fallback says now: a law ``[..., S]``, or a mixed action ``[..., A]`` where it acts."""
        fallback: Any = self.fallback
        return (fallback.policy if self.fallback_acts else fallback.predict)(memory.fallback)

    def advance(self, memory: RuleMemory, moment: Moment, token: Array) -> RuleMemory:
        """``update`` without its checks, from what ``look`` saw; an axis of length 1 stands for streams that agree."""
        step = memory.step + 1
        statistics, alarm = self._step(memory.statistics, step, moment._replace(token=token))
        if self.pointless:
            alarm = alarm & False
        newly = (memory.tripped_at == 0) & alarm
        tripped_at = memory.tripped_at + step * newly
        if token.shape != step.shape:
            token = namespace(token).broadcast_to(token, step.shape)
        return RuleMemory(self.fallback.update(memory.fallback, token), step, tripped_at, statistics)

    def tripped(self, memory: RuleMemory) -> Array:
        """Which streams have switched to the fallback, ``[...]``."""
        return memory.tripped_at > 0

    def trip_times(self, probs: Array, tokens: Array) -> Array:
        """The number of tokens seen when the rule tripped, ``[...]``; T + 1 for never."""
        probs = inputs.array_of(probs, "probs")
        tokens = inputs.beside(inputs.array_of(tokens, "tokens"), probs)
        if tokens.ndim and self.horizon is not None and tokens.shape[-1] > self.horizon:
            raise ValueError(f"tokens are longer than the rule's horizon: {tokens.shape[-1]} steps, {self.horizon}")
        if tuple(probs.shape) != (*tokens.shape, self.n_states):
            raise ValueError(f"probs must have shape {(*tokens.shape, self.n_states)}, got {tuple(probs.shape)}")
        return self.first_trips(probs, tokens, check=True)

    def first_trips(self, probs: Array, tokens: Array, check: bool = False) -> Array:
        """``trip_times``, block by block; the values are checked where they are about to be used, or not at all."""
        if check and (tokens.ndim == 0 or 0 in tokens.shape):
            inputs.sequences_of(tokens, self.n_states)
        xp, horizon, shape = namespace(tokens), tokens.shape[-1], tuple(tokens.shape[:-1])
        tokens_NxT = xp.reshape(tokens, (-1, horizon))
        probs_NxTxS = xp.reshape(probs, (-1, horizon, self.n_states))
        step_T = count_up(tokens, 1, horizon + 1)
        found = [xp.zeros(0, dtype=xp.int64, device=device(tokens))]
        for rows in row_blocks(tokens_NxT.shape[0], max(horizon, self.cells), tokens):
            block, base = tokens_NxT[rows], probs_NxTxS[rows]
            if check:
                at = f", from sequence {rows.start} on," if rows.start else ""  # what is wrong is counted from there
                block = inputs.tokens_of(block, self.n_states, f"tokens{at}")
                base = inputs.probs_of(base, self.n_states, f"probs{at}")
            moment = self.moments(base, block) if self.compares else self._moment(base, None, block, step_T)
            times = self._trip_times(step_T, moment)
            found.append(xp.full_like(times, horizon + 1) if self.pointless else times)
        return xp.reshape(xp.concat(found), shape)

    def moments(self, probs: Array, tokens: Array) -> Moment:
        """Both answers at every step of recorded sequences; unchecked."""
        fallback: Any = self.fallback
        if self.fallback_acts:
            answers = fallback.policy_sequence(tokens)
        else:  # without checks where there is such a way
            answers = getattr(fallback, "laws", fallback.predict_sequence)(tokens)
        return self._moment(probs, answers, tokens, count_up(tokens, 1, tokens.shape[-1] + 1))

    def refuse_past_horizon(self, memory: RuleMemory) -> None:
        """A horizon is a promise: there is no step after it."""
        if self.horizon is None or not memory.step.size:
            return
        over = memory.step >= self.horizon
        if bool(over.any()):
            which = "" if over.ndim == 0 else f" for {int(over.sum())} of {to_numpy(over).size} streams"
            raise ValueError(
                f"the horizon of {self.horizon} steps is over{which}: start anew (a Guard with restart())"
                + ("" if self.problem is None else ", or use a rule with horizon=None and an explicit delta")
            )


@dataclass(frozen=True)
class ResponseRule(Rule):
    """Rules that know the problem: they compare the responses to base and fallback.

    ``temperature=None`` is 1/sqrt(horizon), ``fallback=None`` the Polya urn. With ``horizon=None`` (unknown) the
    temperature follows ``problem.anytime_temperature``. A fallback may also be a policy: its mixed action then stands
    where the response to a law would, and the rule is for ``Guard`` only.
    """

    problem: DecisionProblem
    horizon: int | None
    temperature: float | None = field(default=None, kw_only=True)
    fallback: Predictor | Policy = field(default=None, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        a_problem(self.problem)
        keep = partial(object.__setattr__, self)
        keep("horizon", inputs.horizon_or_none(self.horizon))
        if self.temperature is not None:
            keep("temperature", inputs.positive(self.temperature, "temperature"))
        elif self.horizon is not None:
            keep("temperature", 1 / math.sqrt(self.horizon))
        if self.fallback is None:
            keep("fallback", PolyaUrn(self.problem.n_states))
        self._refuse_misfit(self.horizon)

    @property
    def n_states(self) -> int:
        return self.problem.n_states

    @property
    def pointless(self) -> bool:
        return self.problem.span == 0

    def temperature_at(self, step: Any) -> Any:
        """The temperature of the quantal response at ``step``, counted from 1."""
        return self.problem.anytime_temperature(step) if self.temperature is None else self.temperature

    @property
    def n_comparators(self) -> int:
        return self.problem.n_actions

    def leads(self, answer_A1: Array, token: Array) -> Array:
        return leads(self.problem, token, answer_A1)

    def gains(self, moment: Moment) -> tuple[Array, Array]:
        """What the fallback's response gains over the base's: in every state ``[S, ...]``, and in the one that came."""
        gain_S = mix(self.problem.advantage.T, moment.fallback_A1 - moment.base_A1)
        return gain_S, pick(gain_S, moment.token)

    def _moment(self, probs: Array, answer: Array, token: Array, step: Array) -> Moment:
        probs, dtype = detached(probs), float_type(namespace(probs), device(probs))
        probs_S, warmth = first(astype(probs, dtype)), self.temperature_at(step)
        base_A1, fallback_A1 = self.problem.chances(probs_S, warmth), None
        if answer is not None:
            answer_S = first(astype(detached(answer), dtype))
            fallback_A1 = answer_S[1:] if self.fallback_acts else self.problem.chances(answer_S, warmth)
        return Moment(base_A1, fallback_A1, probs_S, token)

    def _refuse_misfit(self, horizon: int | None) -> None:
        """A fallback for another alphabet, for another problem, or for fewer steps."""
        if not self.fallback_acts:
            same_states(self.fallback, self.problem)
        name = type(self.fallback).__name__
        made_for, lasts = getattr(self.fallback, "problem", self.problem), getattr(self.fallback, "horizon", None)
        if made_for != self.problem:
            raise ValueError(f"fallback {name} was made for another problem: {made_for} against {self.problem}")
        if lasts is not None and (horizon is None or horizon > lasts):
            steps = "an unknown number of" if horizon is None else horizon
            raise ValueError(f"fallback {name} was made for {lasts} steps, the rule may run for {steps} steps")


def zeros(shape: tuple[int, ...], xp: Any, where: Any) -> Array:
    return xp.zeros(shape, dtype=float_type(xp, where), device=where)


def steps_so_far(memory: RuleMemory) -> Array:
    """Steps so far as floating-point numbers, at least 1: evidence can be asked for before the first token."""
    xp = namespace(memory.step)
    return astype(xp.clip(memory.step, 1, None), float_type(xp, device(memory.step)))
