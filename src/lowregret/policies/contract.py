"""What every policy can do (Section 2.2): mixed actions over a memory."""

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

from .. import inputs
from ..arrays import Array, namespace
from ..predictors import said_by, vouched
from ..problems import DecisionProblem


@runtime_checkable
class Policy(Protocol):
    """What every policy can do: like a predictor, with mixed actions ``[..., A]`` in place of laws."""

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
