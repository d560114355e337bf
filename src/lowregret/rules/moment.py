"""What a rule sees of a step and what it remembers (Algorithm 1), and what follows a trip."""

from typing import Any, NamedTuple

from ..arrays import Array, astype, float_type, in_float64, namespace


class RuleMemory(NamedTuple):
    fallback: Any  # the fallback's memory: it runs from the first step
    step: Array  # [...], tokens seen
    tripped_at: Array  # [...], tokens seen when it tripped, 0 for not yet
    statistics: Any


class Moment(NamedTuple):
    """What a rule sees of one step, or of every step of a block of sequences; the short axis first."""

    base_A1: Array  # the answer to the base model: the chances of every action but the first (or state: VRegret)
    fallback_A1: Array  # the answer to the fallback, likewise (None: not asked)
    probs_S: Array  # the base model's law
    token: Array  # what came


def spliced(late: Array, fallback: Array, base: Array) -> Array:
    """The fallback's law where ``late``, else the base's own, in the base's precision."""
    return namespace(base).where(late[..., None], astype(fallback, base.dtype), base)


def zeros(shape: tuple[int, ...], xp: Any, where: Any) -> Array:
    return xp.zeros(shape, dtype=float_type(xp, where), device=where)


def steps_so_far(memory: RuleMemory) -> Array:
    """Steps so far as floating-point numbers, at least 1: evidence can be asked for before the first token."""
    xp = namespace(memory.step)
    return in_float64(xp.clip(memory.step, 1, None))
