"""What every predictor can do (Section 2.1): three functions over a memory that is a plain value."""

from abc import abstractmethod
from typing import Any, Protocol, runtime_checkable

from .. import inputs
from ..abilities import ability
from ..arrays import Array, namespace
from ..problems import DecisionProblem, a_problem


@runtime_checkable
class Predictor(Protocol):
    """What every predictor can do. Inherit from it to get the teacher-forced form for free.

    ``memory`` is a NamedTuple of arrays led by the batch axes; it is never changed in place.
    """

    n_states: int

    @abstractmethod
    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> Any:
        """The memory before the first token; ``like`` gives the kind of array and its device."""
        ...

    @abstractmethod
    def predict(self, memory: Any) -> Array:
        """The law of the next token, ``[..., S]``."""
        ...

    @abstractmethod
    def update(self, memory: Any, token: Array) -> Any:
        """The memory after one more token ``[...]``."""
        ...

    def predict_sequence(self, tokens: Array) -> Array:
        """``probs[..., T, S]`` for ``tokens[..., T]``; ``probs[..., t, :]`` has seen only ``tokens[..., :t]``."""
        return unroll(self, tokens)


def unroll(predictor: Predictor, tokens: Array) -> Array:
    """The teacher-forced form of any predictor, step by step."""
    tokens = inputs.sequences_of(tokens, predictor.n_states)
    xp = namespace(tokens)
    memory = predictor.start(tuple(tokens.shape[:-1]), like=tokens)
    laws = []
    for t in range(tokens.shape[-1]):
        laws.append(predictor.predict(memory))
        if t + 1 < tokens.shape[-1]:
            memory = predictor.update(memory, tokens[..., t])
    return xp.stack(laws, axis=-2)


def asked(predictor: Predictor, memory: Any, shape: tuple[int, ...]) -> Array:
    """What someone else's predictor predicts now, checked."""
    name = f"the probabilities of {type(predictor).__name__}"
    return inputs.probs_of(predictor.predict(memory), predictor.n_states, name, shape=shape)


def asked_sequence(predictor: Predictor, tokens: Array) -> Array:
    """What it predicts before each of the tokens ``[..., T]``, which were checked; its laws are checked here."""
    laws = ability(predictor, "laws", predictor.predict_sequence)(tokens)
    name = f"the probabilities of {type(predictor).__name__}"
    return inputs.probs_of(laws, predictor.n_states, name, shape=tuple(tokens.shape))


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
