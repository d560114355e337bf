"""What is refused, and in which words: one check per kind of argument, each naming what it got and what it wants.

All arguments come in through them: what a check returns is what is stored, a plain int or float for any number.

What a predictor, policy or rule of your own needs is in ``__all__``; the rest is the package's own and may change.
"""

import math
import numbers
import reprlib
from typing import Any

import numpy as np

from .arrays import (
    Array,
    as_array,
    astype,
    beside,
    first,
    in_float64,
    is_floating,
    is_integral,
    namespace,
    to_numpy,
    total,
)

__all__ = [
    "batch_shape_of",
    "choice",
    "finite",
    "keep",
    "numbers_of",
    "positive",
    "probability",
    "probs_of",
    "sequences_of",
    "tokens_of",
    "whole",
]

_ROUNDED = "if that is rounding, divide by the sum: probs / probs.sum(-1, keepdims=True)"
_UNFIT = "if these are logits, take the softmax; if they are percentages or counts, divide by the sum"
SUM_TOLERANCE = 1e-6
_DOUBLE = np.dtype(np.float64)
_NUMBERED = ": give names as their positions in the problem, counted from 0; convert bools and floats to int first"

_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxlong = _SHORT.maxstring = 80


def shown(value: Any) -> str:
    """A value as it is printed, cut short."""
    return _SHORT.repr(value)


# One value


def _real(value: Any, name: str, wants: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A real number strictly between these."""
    number = float(value) if isinstance(value, numbers.Real) else math.nan
    if not low < number < high:  # NaN is not
        raise ValueError(f"{name} must {wants}, got {shown(value)}")
    return number


def finite(value: Any, name: str) -> float:
    """A finite number."""
    return _real(value, name, "be a finite number")


def positive(value: Any, name: str) -> float:
    """A finite number above zero."""
    return _real(value, name, "be a positive finite number", 0)


def not_negative(value: Any, name: str) -> float:
    """A finite number, zero or more."""
    return _real(value, name, "be a finite number >= 0", -math.ulp(0.0))


def probability(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    return _real(value, name, "lie strictly between 0 and 1", 0, 1)


def finite_or_none(value: float) -> float | None:
    """A number as JSON has it, which has no infinities and no NaN: None in their place.

    >>> [finite_or_none(number) for number in (1.5, 3, math.inf, math.nan)]
    [1.5, 3, None, None]
    """
    return value if math.isfinite(value) else None


def whole(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """An integer from ``least`` to ``most``."""
    number = int(value) if isinstance(value, numbers.Integral) else least - 1
    if number < least or (most is not None and number > most):
        limits = f">= {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be a whole number {limits}, got {shown(value)}")
    return number


def horizon_or_none(value: Any) -> int | None:
    """A number of steps, or None for unknown."""
    return None if value is None else whole(value, "horizon")


def generator(seed: Any) -> np.random.Generator:
    """An int or a NumPy Generator, as a Generator."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(whole(seed, "seed", least=0))


def of_kind(value: Any, kind: Any, name: str, such: str) -> Any:
    """An object of one of these kinds, and not a class of them."""
    if isinstance(value, type) or not isinstance(value, kind):
        raise ValueError(f"{name} must be {such}, got {shown(value)}")
    return value


def choice(value: Any, name: str, options: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in options:
        quoted = " or ".join(f'"{option}"' for option in options)
        raise ValueError(f"{name} must be {quoted}, got {shown(value)}")
    return value


def function(value: Any, name: str, of: str) -> Any:
    """Something that can be called."""
    if not callable(value):
        raise ValueError(f"{name} must be a function of {of}, got {shown(value)}")
    return value


def names_of(values: Any, name: str) -> tuple[str, ...]:
    """Names, at least one and each once."""
    listed = list(values) if isinstance(values, (list, tuple)) else None
    if not listed or not all(isinstance(one, str) and one for one in listed) or len(set(listed)) < len(listed):
        raise ValueError(f"{name} must be names, at least one and each once, got {shown(values)}")
    return tuple(listed)


def batch_shape_of(value: Any) -> tuple[int, ...]:
    """A tuple of axis lengths (an int stands for one axis)."""
    shape = (value,) if isinstance(value, numbers.Integral) else value
    if not isinstance(shape, (tuple, list)):
        raise ValueError(f"batch_shape must be a tuple of whole numbers, got {shown(value)}")
    return tuple(whole(n, "batch_shape", least=0) for n in shape)


def keep(owner: Any, **settings: Any) -> None:
    """Store the settings of a frozen dataclass as the checks returned them."""
    for name, value in settings.items():
        object.__setattr__(owner, name, value)


# Arrays


def array_of(values: Any, name: str, wants: str = "an array or a list with rows of one length") -> Array:
    """Arrays pass through; lists become NumPy arrays, if they can."""
    if type(values) is np.ndarray:
        return values
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} must not be masked (fill it, or leave those entries out), got {shown(values)}")
    try:
        return np.asarray(values) if isinstance(values, np.ndarray) else as_array(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be {wants}, got {shown(values)}: {error}") from error


def amount(value: Any, name: str) -> Any:
    """A number or an array of numbers; NaN is allowed."""
    return float(value) if isinstance(value, numbers.Real) else array_of(value, name)


def numbers_of(values: Any, name: str, wants: str) -> np.ndarray:
    """Real numbers in NumPy and float64, a copy: what ``wants`` says they must be; of any shape, finite or not."""
    array = to_numpy(array_of(values, name, wants))
    if array.size and array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be {wants}, got {shown(values)}")
    return np.array(array, dtype=np.float64)


def tokens_of(
    tokens: Any, n_states: int, name: str = "tokens", shape: tuple[int, ...] | None = None, like: Array | None = None
) -> Array:
    """Integers in ``0 .. n_states - 1``, of the given shape if there is one, beside ``like`` if it is given."""
    if type(tokens) is int and shape == ():  # one stream, one step: the path that must cost nothing
        if not 0 <= tokens < n_states:
            raise ValueError(f"{name} must lie in 0..{n_states - 1}, got {shown(tokens)}")
        return beside(np.asarray(tokens), like)
    tokens = array_of(tokens, name)
    if not is_integral(tokens):
        raise ValueError(f"{name} must be integers in 0..{n_states - 1}, got dtype {tokens.dtype}{_NUMBERED}")
    if shape is not None and tuple(tokens.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(tokens.shape)}")
    xp = namespace(tokens)
    tokens = astype(tokens, xp.int64)  # a small type could not be compared with the number of states
    if 0 not in tokens.shape and bool((outside := (tokens < 0) | (tokens >= n_states)).any()):
        low, high = int(xp.min(tokens)), int(xp.max(tokens))
        raise misplaced(f"{name} must lie in 0..{n_states - 1}, got values from {low} to {high}%s", outside)
    return beside(tokens, like)


def sequences_of(tokens: Any, n_states: int, name: str = "tokens") -> Array:
    """Token sequences ``[..., T]`` with at least one time step."""
    tokens = tokens_of(tokens, n_states, name)
    if tokens.ndim == 0 or tokens.shape[-1] == 0:
        raise ValueError(f"{name} must have a last axis of at least one time step, got shape {tuple(tokens.shape)}")
    return tokens


def probs_of(probs: Any, n_states: int, name: str = "probs", shape: tuple[int, ...] | None = None) -> Array:
    """Probability vectors along the last axis, which has length ``n_states``."""
    if type(probs) is not np.ndarray or probs.dtype != _DOUBLE:
        probs = _floats(probs, name)
    if probs.ndim == 0 or probs.shape[-1] != n_states:
        hint = "; for a chance p of state 1 give [1 - p, p]" if n_states == 2 else ""
        raise ValueError(f"{name} must have a last axis of length {n_states}, got shape {tuple(probs.shape)}{hint}")
    if shape is not None and probs.shape != (*shape, n_states):
        hint = "; predict_proba gives a row for each x: take row [0]" if probs.shape == (1, *shape, n_states) else ""
        raise ValueError(f"{name} must have shape {(*shape, n_states)}, got {tuple(probs.shape)}{hint}")
    if 0 in probs.shape:
        return probs
    if type(probs) is np.ndarray and probs.size <= 32:  # one step of a stream or a few: must cost nothing
        rows = [probs.tolist()] if probs.ndim == 1 else probs.reshape(-1, n_states).tolist()
        if all([min(row) >= 0 and abs(sum(row) - 1) <= SUM_TOLERANCE for row in rows]):  # a NaN is in the sum
            return probs
    xp = namespace(probs)
    least = xp.min(probs)
    with np.errstate(over="ignore"):
        off = abs(total(first(in_float64(probs))) - 1)
    if bool((least >= 0) & (xp.max(off) <= SUM_TOLERANCE)):  # a NaN fails either
        return probs
    if bool(xp.any(xp.isnan(probs))):
        raise misplaced(f"{name} must be numbers that sum to one, got NaN%s", xp.isnan(probs))
    if bool(least < 0):
        got = f"got {float(least):.6g}%s: if these are logits, take the softmax"
        raise misplaced(f"{name} must not be negative, {got}", probs == least)
    worst = float(xp.max(off))
    got = f"within {SUM_TOLERANCE:g}, got a sum off by {worst:.3g}%s; {_ROUNDED if worst < 0.01 else _UNFIT}"
    raise misplaced(f"{name} must sum to one {got}", off == xp.max(off))


def misplaced(words: str, bad: Any) -> ValueError:
    """The error, naming (at %s) the index of the first ``bad`` entry; its attribute ``index`` has it too."""
    index = tuple(np.argwhere(to_numpy(bad))[:1].ravel().tolist())
    error = ValueError(words.replace("%s", f" at index {index}" if index else ""))
    error.index = index  # type: ignore[attr-defined]
    return error


def _floats(values: Any, name: str) -> Array:
    """Numbers in single or double precision; integers and half precision are converted."""
    values = array_of(values, name)
    if is_floating(values) and values.dtype.itemsize in (4, 8):
        return values
    if not is_integral(values) and not is_floating(values):
        raise ValueError(f"{name} must be real floating-point numbers, got dtype {values.dtype}")
    return in_float64(values)
