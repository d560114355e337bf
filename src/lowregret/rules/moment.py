"""What a rule sees of a step and what it remembers (Algorithm 1), and what follows a trip."""

from typing import Any, NamedTuple

from .. import inputs
from ..arrays import Array, astype, float_type, in_float64, namespace


class RuleMemory(NamedTuple):
    fallback: Any  # the fallback's memory: it runs from the first step
    step: Array  # [...], tokens seen
    tripped_at: Array  # [...], tokens seen when it tripped, 0 for not yet
    statistics: Any


class Knows(NamedTuple):
    """What a rule can be told before the state, besides the base model's law."""

    references: tuple[str, ...] = ()  # their names
    contexts: int | None = None  # how many there are
    payoffs: str = "scaled"  # "scaled": the problem's own, times a scale; "change": any within the range it declares
    references_act: bool = False  # they give mixed actions even where these are as many as states


class Moment(NamedTuple):
    """What a rule sees of one step, or of every step of a block of sequences; the short axis first."""

    base_A1: Array  # the answer to the base model: the chances of every action but the first (or state: VRegret)
    fallback_A1: Array  # the answer to the fallback, likewise (None: not asked)
    probs_S: Array  # the base model's law
    token: Array  # what came
    known: Any = None  # what else was known before it, by rules that are told (a Scene)
    mixture_S: Any = None  # the law of the mixture in the shadow, where somebody bets on it


def spliced(late: Array, fallback: Array, base: Array) -> Array:
    """The fallback's law where ``late``, else the base's own, in the base's precision."""
    return namespace(base).where(late[..., None], astype(fallback, base.dtype), base)


def zeros(shape: tuple[int, ...], xp: Any, where: Any) -> Array:
    return xp.zeros(shape, dtype=float_type(xp, where), device=where)


def steps_so_far(memory: RuleMemory) -> Array:
    """Steps so far as floating-point numbers, at least 1: evidence can be asked for before the first token."""
    xp = namespace(memory.step)
    return in_float64(xp.clip(memory.step, 1, None))


def names_of(references: Any) -> tuple[str, ...]:
    """The names of references, each once."""
    if isinstance(references, str) or not isinstance(references, (tuple, list)):
        raise ValueError(f"references must be a tuple of names, got {inputs.shown(references)}")
    if not all(isinstance(name, str) for name in references) or len(set(references)) < len(references):
        raise ValueError(f"references must be names, each once, got {inputs.shown(references)}")
    return tuple(references)
