"""Who acts (Sections 2.2 and 2.3): mixed actions over a memory, from a predictor (Respond) or from Hedge."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from . import inputs
from .arrays import (
    Array,
    astype,
    constant,
    count_up,
    device,
    first,
    float_type,
    last,
    mix,
    namespace,
    pick,
    running_sum,
    softmax,
    total,
)
from .predictors import Predictor
from .problems import DecisionProblem, a_problem


@runtime_checkable
class Policy(Protocol):
    """What every policy can do: like a predictor, with mixed actions ``[..., A]`` in place of laws."""

    problem: DecisionProblem

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> Any:
        """The memory before the first token."""
        ...

    def policy(self, memory: Any) -> Array:
        """The mixed action for the next step, ``[..., A]``."""
        ...

    def update(self, memory: Any, token: Array) -> Any:
        """The memory after one more token."""
        ...

    def policy_sequence(self, tokens: Array) -> Array:
        """``policy[..., T, A]`` for ``tokens[..., T]``; step t has seen only ``tokens[..., :t]``."""
        tokens = inputs.sequences_of(tokens, self.problem.n_states)
        memory, played = self.start(tuple(tokens.shape[:-1]), like=tokens), []
        for t in range(tokens.shape[-1]):
            played.append(self.policy(memory))
            if t + 1 < tokens.shape[-1]:
                memory = self.update(memory, tokens[..., t])
        return namespace(tokens).stack(played, axis=-2)


class RespondMemory(NamedTuple):
    predictor: Any
    step: Array  # [...], tokens so far


@dataclass(frozen=True)
class Respond(Policy):
    """The quantal response to a predictor; ``temperature=None`` is the schedule for an unknown horizon.

    >>> from lowregret import PolyaUrn, matching
    >>> Respond(PolyaUrn(2), matching(), temperature=0.1).policy_sequence([1, 1]).round(3).tolist()
    [[0.5, 0.5], [0.034, 0.966]]
    """

    predictor: Predictor
    problem: DecisionProblem
    temperature: float | None

    def __post_init__(self) -> None:
        same_states(self.predictor, self.problem)
        if self.temperature is not None:
            inputs.positive(self.temperature, "temperature")

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RespondMemory:
        xp = namespace(like)
        step = xp.zeros(inputs.batch_shape_of(batch_shape), dtype=xp.int64, device=device(like))
        return RespondMemory(self.predictor.start(batch_shape, like=like), step)

    def policy(self, memory: RespondMemory) -> Array:
        return self.respond_to(self.predictor.predict(memory.predictor), memory.step + 1)

    def update(self, memory: RespondMemory, token: Array) -> RespondMemory:
        return RespondMemory(self.predictor.update(memory.predictor, token), memory.step + 1)

    def policy_sequence(self, tokens: Array) -> Array:
        probs = self.predictor.predict_sequence(tokens)
        return self.respond_to(probs, count_up(probs, 1, probs.shape[-2] + 1))

    def respond_to(self, probs: Array, step: Array) -> Array:
        """The mixed actions ``[..., A]`` for these laws ``[..., S]`` at these steps, counted from 1; unchecked."""
        probs_S = first(astype(probs, float_type(namespace(probs), device(probs))))
        warmth = self.problem.anytime_temperature(step) if self.temperature is None else self.temperature
        return astype(last(softmax(mix(self.problem.utility, probs_S) / warmth)), probs.dtype)


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
        inputs.whole(self.horizon, "horizon")
        rate = 1 / math.sqrt(self.horizon) if self.rate is None else self.rate
        object.__setattr__(self, "rate", inputs.positive(rate, "rate"))

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
        from . import certificates

        assert self.rate is not None
        return certificates.hedge(problem, horizon, self.rate)

    def policy_of_counts(self, counts: Array) -> Array:
        """The mixed action after these counts of each state, ``[..., S] -> [..., A]``."""
        counts_S = first(astype(counts, float_type(namespace(counts), device(counts))))
        return last(softmax(mix(self.problem.utility, counts_S) * self.rate))


def action_utilities(problem: DecisionProblem, tokens: Array, like: Array) -> Array:
    """What each action earns against each token, ``[A, ...]``, unchecked."""
    xp = namespace(like)
    utility = constant(problem.utility, like)
    if tokens.ndim == 0:
        return utility[:, int(tokens)]
    columns = [xp.reshape(utility[:, s], (-1, *(1,) * tokens.ndim)) for s in range(problem.n_states)]
    earned = pick(columns, tokens)
    return xp.broadcast_to(earned, (problem.n_actions, *tokens.shape)) if problem.n_states == 1 else earned


def leads(problem: DecisionProblem, tokens: Array, chances_A1: Array) -> Array:
    """What each fixed action earns more than the mixed one, ``[A, ...]``, unchecked."""
    earned_A = action_utilities(problem, tokens, chances_A1)
    own = earned_A[0]
    if problem.n_actions > 1:
        own = own + total(chances_A1 * (earned_A[1:] - own))
    return earned_A - own


def same_states(predictor: Any, problem: DecisionProblem) -> None:
    """Refuse a predictor over another alphabet than the problem's."""
    has_states(predictor, a_problem(problem).n_states, "problem")


def has_states(predictor: Any, n_states: int, other: str) -> None:
    """Refuse a predictor over another number of states than the ``other`` thing it must fit."""
    has = getattr(predictor, "n_states", None)
    if has is None or not hasattr(predictor, "predict"):
        name, is_module = type(predictor).__name__, hasattr(predictor, "state_dict")
        raise ValueError(
            f"predictor must be a Predictor, got {name}: wrap a function of the history as "
            f"FromFunction(fn, n_states={n_states})"
            + (" (batched=True for a torch module), a Decoder as Transformer(decoder)" if is_module else "")
        )
    if has != n_states:
        raise ValueError(
            f"predictor and {other} must have the same states: {type(predictor).__name__} predicts "
            f"{has} states, the {other} has {n_states}"
        )
