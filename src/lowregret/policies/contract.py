"""What every policy can do (Section 2.2): mixed actions over a memory."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from .. import inputs
from ..arrays import Array, astype, count_up, device, first, in_float64, last, namespace
from ..predictors import Predictor, asked, asked_sequence, said_by, same_states, vouched
from ..problems import DecisionProblem


@runtime_checkable
class Policy(Protocol):
    """What every policy can do: like a predictor, with mixed actions ``[..., A]`` in place of distributions."""

    problem: DecisionProblem

    @abstractmethod
    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> Any:
        """The memory before the first token."""
        ...

    @abstractmethod
    def policy(self, memory: Any) -> Array:
        """The mixed action for the next step, ``[..., A]``."""
        ...

    @abstractmethod
    def update(self, memory: Any, token: Array) -> Any:
        """The memory after one more token."""
        ...

    def policy_sequence(self, tokens: Array) -> Array:
        """``policy[..., T, A]`` for ``tokens[..., T]``; step t has seen only ``tokens[..., :t]``."""
        tokens = inputs.sequences_of(tokens, self.problem.n_states)
        shape = tuple(tokens.shape[:-1])
        memory, played = self.start(shape, like=tokens), []
        for t in range(tokens.shape[-1]):
            mixed = self.policy(memory)
            played.append(mixed if vouched(self) else said_by(self, mixed, self.problem.n_actions, shape))
            if t + 1 < tokens.shape[-1]:
                memory = self.update(memory, tokens[..., t])
        return namespace(tokens).stack(played, axis=-2)


# Acting on predictions (Section 2.3): the quantal response to any predictor.


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
            inputs.keep(self, temperature=inputs.positive(self.temperature, "temperature"))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RespondMemory:
        xp = namespace(like)
        step = xp.zeros(inputs.batch_shape_of(batch_shape), dtype=xp.int64, device=device(like))
        return RespondMemory(self.predictor.start(batch_shape, like=like), step)

    def policy(self, memory: RespondMemory) -> Array:
        return self.respond_to(asked(self.predictor, memory.predictor, tuple(memory.step.shape)), memory.step + 1)

    def update(self, memory: RespondMemory, token: Array) -> RespondMemory:
        return RespondMemory(self.predictor.update(memory.predictor, token), memory.step + 1)

    def policy_sequence(self, tokens: Array) -> Array:
        probs = asked_sequence(self.predictor, inputs.sequences_of(tokens, self.problem.n_states))
        return self.respond_to(probs, count_up(probs, 1, probs.shape[-2] + 1))

    def respond_to(self, probs: Array, step: Array) -> Array:
        """The mixed actions ``[..., A]`` for these forecasts ``[..., S]`` at these steps, counted from 1; unchecked."""
        probs_S = first(in_float64(probs))
        temperature = self.problem.anytime_temperature(step) if self.temperature is None else self.temperature
        return astype(last(self.problem.respond(probs_S, temperature)), probs.dtype)
