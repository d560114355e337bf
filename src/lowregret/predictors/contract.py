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
        """The distribution of the next token, ``[..., S]``."""
        ...

    @abstractmethod
    def update(self, memory: Any, token: Array) -> Any:
        """The memory after one more token ``[...]``."""
        ...

    def predict_sequence(self, tokens: Array) -> Array:
        """``probs[..., T, S]`` for ``tokens[..., T]``; ``probs[..., t, :]`` has seen only ``tokens[..., :t]``."""
        tokens = inputs.sequences_of(tokens, self.n_states)
        laws = ability(self, "laws")  # all steps at once, where there is such a form
        return unroll(self, tokens) if laws is None else laws(tokens)


def unroll(predictor: Predictor, tokens: Array) -> Array:
    """What any predictor predicts before each of the (checked) tokens ``[..., T]``, step by step."""
    xp, shape = namespace(tokens), tuple(tokens.shape[:-1])
    memory = predictor.start(shape, like=tokens)
    probs = []
    for t in range(tokens.shape[-1]):
        probs.append(asked(predictor, memory, shape))
        if t + 1 < tokens.shape[-1]:
            memory = predictor.update(memory, tokens[..., t])
    return xp.stack(probs, axis=-2)


def asked(predictor: Predictor, memory: Any, shape: tuple[int, ...]) -> Array:
    """What any predictor predicts now, checked unless the predictor is one of ours."""
    probs = predictor.predict(memory)
    return probs if vouched(predictor) else said_by(predictor, probs, predictor.n_states, shape)


def asked_sequence(predictor: Predictor, tokens: Array) -> Array:
    """What it predicts before each of the (checked) tokens ``[..., T]``; checked unless it is one of ours."""
    if vouched(predictor):
        return ability(predictor, "laws", predictor.predict_sequence)(tokens)
    return said_by(predictor, predictor.predict_sequence(tokens), predictor.n_states, tuple(tokens.shape))


def said_by(player: Any, probs: Any, width: int, shape: tuple[int, ...]) -> Array:
    """The distributions, or mixed actions, of a predictor or policy that is not one of ours, checked."""
    return inputs.probs_of(probs, width, f"the probabilities of {type(player).__name__}", shape=shape)


def vouched(player: Any) -> bool:
    """Whether a predictor or policy is one of ours, which gives probabilities by construction: nothing to check."""
    return type(player).__module__.startswith(_OWN)


_FOLDERS = ("predictors", "policies", "robust", "evaluate")
_OWN = tuple(f"{__name__.removesuffix('predictors.contract')}{folder}." for folder in _FOLDERS)


def same_states(predictor: Any, problem: DecisionProblem) -> None:
    """Refuse a predictor over another alphabet than the problem's."""
    has_states(predictor, a_problem(problem).n_states, "problem")


def a_predictor(predictor: Any, n_states: Any = "...") -> Any:
    """The predictor itself; anything else is refused, with how to make a predictor of it."""
    lacks = [name for name in ("n_states", "start", "predict", "update") if not hasattr(predictor, name)]
    if lacks or isinstance(predictor, type):
        how = f"wrap a function of the history as FromFunction(fn, n_states={n_states})"
        if hasattr(predictor, "predict_proba"):
            how = "GuardedClassifier(model, Guard(problem)) guards a classifier of rows"
        elif hasattr(predictor, "state_dict"):
            how += " (batched=True for a torch module), a Decoder as Transformer(decoder)"
        raise ValueError(f"predictor must be a Predictor, got {type(predictor).__name__}: {how}")
    return predictor


def has_states(predictor: Any, n_states: int, other: str) -> None:
    """Refuse a predictor over another number of states than the ``other`` thing it must fit."""
    has = a_predictor(predictor, n_states).n_states
    if has != n_states:
        raise ValueError(
            f"predictor and {other} must have the same states: {type(predictor).__name__} predicts "
            f"{has} states, the {other} has {n_states}"
        )
