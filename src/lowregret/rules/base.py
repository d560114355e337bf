"""When to stop trusting (Algorithm 1): each rule watches a predictor, knows what replaces it, and trips at most once.

A rule compares two quantal responses: pi_s to the base model and h_s to the fallback. Everything it needs are sums of
quantities known from (probabilities, tokens), so a recorded sequence takes one pass of cumulative sums. After token s
is seen the rule tests; the first prediction that a trip changes is the one for step s + 1.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import inputs
from ..arrays import (
    Array,
    astype,
    count_up,
    device,
    first,
    float_type,
    mix,
    namespace,
    pick,
    row_blocks,
)
from ..certificates import Certificate
from ..policies import same_states
from ..predictors import PolyaUrn, Predictor
from ..problems import DecisionProblem


class RuleMemory(NamedTuple):
    fallback: Any  # the fallback's memory: it runs from the first step
    step: Array  # [...], tokens seen
    tripped_at: Array  # [...], tokens seen when it tripped, 0 for not yet
    statistics: Any


class Moment(NamedTuple):
    """What a rule sees of one step, or of every step of a block of sequences; the short axis first."""

    base_A: Array  # the response to the base model
    fallback_A: Array  # the response to the fallback
    probs_S: Array  # the base model's law
    token: Array  # what came


@dataclass(frozen=True)
class Rule(ABC):
    """What all rules share. ``temperature=None`` is 1/sqrt(horizon), ``fallback=None`` the Polya urn.

    With ``horizon=None`` (unknown) the temperature follows ``problem.anytime_temperature``.
    """

    problem: DecisionProblem
    horizon: int | None
    temperature: float | None = field(default=None, kw_only=True)
    fallback: Predictor = field(default=None, kw_only=True)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not isinstance(self.problem, DecisionProblem):
            raise ValueError(f"problem must be a DecisionProblem, got {type(self.problem).__name__}")
        horizon = inputs.horizon_or_none(self.horizon)
        if self.temperature is not None:
            inputs.positive(self.temperature, "temperature")
        elif horizon is not None:
            object.__setattr__(self, "temperature", 1 / math.sqrt(horizon))
        if self.fallback is None:
            object.__setattr__(self, "fallback", PolyaUrn(self.problem.n_states))
        same_states(self.fallback, self.problem)

    # What a rule must say of itself.

    @abstractmethod
    def _blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> Any:
        """The statistics before the first token."""

    @abstractmethod
    def _step(self, statistics: Any, step: Array, moment: Moment) -> tuple[Any, Array]:
        """The statistics after one more step, and whether the rule trips there."""

    @abstractmethod
    def _alarms(self, step_T: Array, moment: Moment) -> Array:
        """For recorded sequences from the first step on: at which steps ``[N, T]`` the rule would trip."""

    @abstractmethod
    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """The statistic and the threshold it must reach, now."""

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """What a predictor robustified by this rule guarantees."""

    # What follows from it.

    @property
    def n_states(self) -> int:
        return self.problem.n_states

    def temperature_at(self, step: Any) -> Any:
        """The temperature of the quantal response at ``step``, counted from 1."""
        return self.problem.anytime_temperature(step) if self.temperature is None else self.temperature

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RuleMemory:
        """The memory before the first token."""
        shape, xp, where = inputs.batch_shape_of(batch_shape), namespace(like), device(like)
        zeros = xp.zeros(shape, dtype=xp.int64, device=where)
        return RuleMemory(self.fallback.start(shape, like=like), zeros, zeros, self._blank(shape, xp, where))

    def update(self, memory: RuleMemory, probs: Array, token: Array) -> RuleMemory:
        """The memory after the base model gave ``probs`` ``[..., S]`` and ``token`` ``[...]`` came."""
        shape = tuple(memory.step.shape)
        probs = inputs.probs_of(probs, self.n_states, shape=shape)
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape)
        self.refuse_past_horizon(memory)
        return self.advance(memory, self.look(memory, probs), token)

    def look(self, memory: RuleMemory, probs: Array) -> Moment:
        """Both responses, before the token is known; unchecked."""
        return self._moment(probs, self.fallback.predict(memory.fallback), None, memory.step + 1)

    def advance(self, memory: RuleMemory, moment: Moment, token: Array) -> RuleMemory:
        """``update`` without its checks, from what ``look`` saw."""
        step = memory.step + 1
        statistics, alarm = self._step(memory.statistics, step, moment._replace(token=token))
        if self.problem.span == 0:
            alarm = alarm & False  # nothing is at stake
        newly = (memory.tripped_at == 0) & alarm
        tripped_at = memory.tripped_at + step * newly
        return RuleMemory(self.fallback.update(memory.fallback, token), step, tripped_at, statistics)

    def tripped(self, memory: RuleMemory) -> Array:
        """Which streams have switched to the fallback, ``[...]``."""
        return memory.tripped_at > 0

    def trip_times(self, probs: Array, tokens: Array) -> Array:
        """The number of tokens seen when the rule tripped, ``[...]``; T + 1 for never."""
        tokens = inputs.sequences_of(tokens, self.n_states)
        probs = inputs.probs_of(probs, self.n_states, shape=tuple(tokens.shape))
        horizon = tokens.shape[-1]
        if self.horizon is not None and horizon > self.horizon:
            raise ValueError(f"tokens are longer than the rule's horizon: {horizon} steps against {self.horizon}")
        return self.first_alarms(probs, tokens)

    def first_alarms(self, probs: Array, tokens: Array) -> Array:
        """``trip_times`` without its checks."""
        xp, horizon = namespace(tokens), tokens.shape[-1]
        shape = tuple(tokens.shape[:-1])
        tokens_NxT = xp.reshape(tokens, (-1, horizon))
        probs_NxTxS = xp.reshape(probs, (-1, horizon, self.n_states))
        never = xp.full(tokens_NxT.shape[:1], horizon + 1, dtype=xp.int64, device=device(tokens))
        if self.problem.span == 0 or tokens_NxT.shape[0] == 0:
            return xp.reshape(never, shape)
        step_T = count_up(tokens, 1, horizon + 1)
        found = []
        for rows in row_blocks(tokens_NxT.shape[0], horizon, tokens):
            block = tokens_NxT[rows]
            laws = self.fallback.predict_sequence(block)
            alarms = self._alarms(step_T, self._moment(probs_NxTxS[rows], laws, block, step_T))
            found.append(xp.min(xp.where(alarms, step_T, horizon + 1), axis=-1))
        return xp.reshape(xp.concat(found) if len(found) > 1 else found[0], shape)

    def refuse_past_horizon(self, memory: RuleMemory) -> None:
        """A horizon is a promise: there is no step after it."""
        if self.horizon is not None and memory.step.size and bool((memory.step >= self.horizon).any()):
            raise ValueError(
                f"the horizon of {self.horizon} steps is over: start a new episode (Guard.restart()), "
                "or use a rule with horizon=None and an explicit delta"
            )

    def _moment(self, probs: Array, fallback_probs: Array, token: Array, step: Array) -> Moment:
        dtype = float_type(namespace(probs), device(probs))
        probs_S, fallback_S = (first(astype(p, dtype)) for p in (probs, fallback_probs))
        warmth = self.temperature_at(step)
        respond = self.problem.respond
        return Moment(respond(probs_S, warmth), respond(fallback_S, warmth), probs_S, token)

    def _gains(self, moment: Moment) -> tuple[Array, Array]:
        """What the fallback's response gains over the base's: in every state ``[S, ...]``, and in the one that came."""
        gain_S = mix(self.problem.utility.T, moment.fallback_A - moment.base_A)
        return gain_S, pick(gain_S, moment.token)


def zeros(shape: tuple[int, ...], xp: Any, where: Any) -> Array:
    return xp.zeros(shape, dtype=float_type(xp, where), device=where)


def steps_so_far(memory: RuleMemory) -> Array:
    """Steps so far as floating-point numbers, at least 1: evidence can be asked for before the first token."""
    xp = namespace(memory.step)
    return astype(xp.clip(memory.step, 1, None), float_type(xp, device(memory.step)))
