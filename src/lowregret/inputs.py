"""What is refused, and in which words: one check per kind of argument, each naming what it got and what it wants.

All arguments come in through them: what a check returns is what is stored, a plain int or float for any number.

What a predictor, policy or rule of your own needs is in ``__all__``; the rest is the package's own and may change.
"""

import math
import numbers
import reprlib
from collections.abc import Callable
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
    "flag",
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
SMALLEST, LARGEST = 1e-300, 1e300  # of a positive number: its inverse is one too
_NUMBERED = ": give names as their positions in the problem, counted from 0; convert bools and floats to int first"
MOST = 2**53  # of a count: every smaller one is exact as a float, and an int64


def shown(value: Any) -> str:
    """A value as it is printed, cut short; some cannot be printed at all (an int of 5,000 digits)."""
    try:
        return _SHORT.repr(value)
    except Exception:
        return f"a {type(value).__name__}"


_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxlong = _SHORT.maxstring = 80


def _number(value: Any) -> float:
    """Any real number as a float; NaN for what is not a number, infinity for one that is too large."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def _limits(number: float) -> str:
    """What to say of a number whose only fault is its size."""
    return f", from {SMALLEST:g} to {LARGEST:g}" if 0 < number < SMALLEST or LARGEST < number < math.inf else ""


def finite(value: Any, name: str) -> float:
    """A finite number."""
    number = _number(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {shown(value)}")
    return number


def finite_or_none(value: float) -> float | None:
    """A number as JSON has it, which has no infinities and no NaN: None in their place.

    >>> [finite_or_none(number) for number in (1.5, 3, math.inf, math.nan)]
    [1.5, 3, None, None]
    """
    return value if math.isfinite(value) else None


def positive(value: Any, name: str) -> float:
    """A finite number above zero."""
    number = _number(value)
    if not SMALLEST <= number <= LARGEST:
        raise ValueError(f"{name} must be a positive finite number{_limits(number)}, got {shown(value)}")
    return number


def not_negative(value: Any, name: str) -> float:
    """A finite number, zero or more."""
    number = _number(value)
    if not (number == 0 == value or SMALLEST <= number <= LARGEST):
        limits = _limits(number)
        raise ValueError(f"{name} must be a finite number >= 0{limits and f' (0 or{limits[1:]})'}, got {shown(value)}")
    return number


def probability(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    number = _number(value)
    if not SMALLEST <= number < 1:
        limits = f", at least {SMALLEST:g}" if 0 <= number < SMALLEST and value > 0 else ""
        raise ValueError(f"{name} must lie strictly between 0 and 1{limits}, got {shown(value)}")
    return number


def whole(value: Any, name: str, least: int = 1, most: int | None = MOST) -> int:
    """An integer from ``least`` to ``most``."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or int(value) < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {shown(value)}")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, got {shown(value)}")
    return int(value)


def flag(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


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


def listed(values: Any, name: str, each: Callable[[Any, str], float]) -> list[float]:
    """Numbers in a list (or another sequence), at least one, each checked."""
    try:
        items = [] if isinstance(values, (str, bytes, dict, set)) or _masked(values) else list(values)
    except TypeError:
        items = []
    if not items:
        raise ValueError(f"{name} must be a list of numbers with at least one value, got {shown(values)}")
    return [each(item, name) for item in items]


def names_of(values: Any, name: str) -> tuple[str, ...]:
    """Names, at least one and each once."""
    listed = list(values) if isinstance(values, (list, tuple)) else None
    if not listed or not all(isinstance(one, str) and one for one in listed) or len(set(listed)) < len(listed):
        raise ValueError(f"{name} must be names, at least one and each once, got {shown(values)}")
    return tuple(listed)


def amount(value: Any, name: str) -> Any:
    """A number or an array of numbers; NaN is allowed."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and abs(_number(value)) != math.inf:
        return float(value)
    array = array_of(value, name)
    if not is_integral(array) and not is_floating(array):
        raise ValueError(f"{name} must be a number or an array of numbers, got {shown(value)}")
    return array


def keep(owner: Any, **settings: Any) -> None:
    """Store the settings of a frozen dataclass as the checks returned them."""
    for name, value in settings.items():
        object.__setattr__(owner, name, value)


def horizon_or_none(value: Any) -> int | None:
    """A number of steps, or None for unknown."""
    return None if value is None else whole(value, "horizon")


def batch_shape_of(value: Any) -> tuple[int, ...]:
    """A tuple of axis lengths (an int stands for one axis)."""
    shape = (value,) if isinstance(value, numbers.Integral) else value
    if not isinstance(shape, (tuple, list)):
        raise ValueError(f"batch_shape must be a tuple of whole numbers, got {shown(value)}")
    return tuple(whole(n, "batch_shape", least=0) for n in shape)


def generator(seed: Any) -> np.random.Generator:
    """An int or a NumPy Generator, as a Generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(whole(seed, "seed", least=0, most=None))


def array_of(values: Any, name: str, wants: str = "an array or a list with rows of one length") -> Array:
    """Arrays pass through; lists become NumPy arrays, if they can."""
    if type(values) is np.ndarray:
        return values
    if _masked(values):
        raise ValueError(f"{name} must not be masked (fill it, or leave those entries out), got {shown(values)}")
    if isinstance(values, numbers.Rational) and not isinstance(values, numbers.Integral):
        values = _number(values)
    try:
        return np.asarray(values) if isinstance(values, np.ndarray) else as_array(values)
    except Exception as error:  # a caller's object may raise anything when it is made numbers
        raise ValueError(f"{name} must be {wants}, got {shown(values)}: {error}") from error


def numbers_of(values: Any, name: str, wants: str) -> np.ndarray:
    """Real numbers in NumPy and float64, a copy: what ``wants`` says they must be; of any shape, finite or not."""
    array = to_numpy(array_of(values, name, wants))
    if not array.size:  # of whatever type an empty list is
        return np.zeros(array.shape)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be {wants}, got {shown(values)}")
    return np.array(array, dtype=np.float64)


def _masked(values: Any) -> bool:
    """Whether there is a masked array here, or anywhere in these lists."""
    return any(map(_masked, values)) if isinstance(values, (list, tuple)) else isinstance(values, np.ma.MaskedArray)


def tokens_of(
    tokens: Any, n_states: int, name: str = "tokens", shape: tuple[int, ...] | None = None, like: Array | None = None
) -> Array:
    """Integers in ``0 .. n_states - 1``, of the given shape if there is one, beside ``like`` if it is given."""
    if type(tokens) is int and shape == ():  # one stream, one step: the path that must cost nothing
        if not 0 <= tokens < n_states:
            raise ValueError(f"{name} must lie in 0..{n_states - 1}, got {shown(tokens)}")
        return beside(np.asarray(tokens), like)
    alone = shape == () and type(tokens) is np.ndarray and tokens.ndim == 0 and tokens.dtype == np.int64
    if alone and 0 <= tokens.item() < n_states:
        return beside(tokens, like)  # the same, already an array
    tokens = array_of(tokens, name)
    xp = namespace(tokens)
    if not is_integral(tokens):
        raise ValueError(f"{name} must be integers in 0..{n_states - 1}, got dtype {tokens.dtype}{_NUMBERED}")
    if shape is not None and tuple(tokens.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(tokens.shape)}")
    if xp is not np:
        tokens = astype(tokens, xp.int64)  # small integers could not be compared with the number of states
    if 0 not in tokens.shape and bool((outside := (tokens < 0) | (tokens >= n_states)).any()):
        low, high = int(xp.min(tokens)), int(xp.max(tokens))
        raise misplaced(f"{name} must lie in 0..{n_states - 1}, got values from {low} to {high}%s", outside)
    if "uint64" in str(tokens.dtype):  # unsigned and signed 64-bit integers would meet as floats
        tokens = astype(tokens, xp.int64)
    return beside(tokens, like)


def sequences_of(tokens: Any, n_states: int, name: str = "tokens") -> Array:
    """Token sequences ``[..., T]`` with at least one time step."""
    tokens = tokens_of(tokens, n_states, name)
    if tokens.ndim == 0 or tokens.shape[-1] == 0:
        raise ValueError(f"{name} must have a last axis of at least one time step, got shape {tuple(tokens.shape)}")
    return tokens


def table_of(values: Any, name: str) -> np.ndarray:
    """A copy of a table of probabilities as a NumPy array in float64; ``probs_of`` checks the numbers."""
    return np.array(to_numpy(_floats(values, name)), dtype=np.float64)


def probs_of(probs: Any, n_states: int, name: str = "probs", shape: tuple[int, ...] | None = None) -> Array:
    """Probability vectors along the last axis, which has length ``n_states``."""
    if type(probs) is np.ndarray and shape == () and probs.shape == (n_states,) and n_states <= 32:
        row = probs.tolist() if probs.dtype == _DOUBLE else [-1.0]  # one stream, one step: must cost nothing
        if min(row) >= 0 and abs(sum(row) - 1) <= SUM_TOLERANCE:  # a NaN is in the sum
            return probs
    probs = _floats(probs, name)
    if probs.ndim == 0 or probs.shape[-1] != n_states:
        hint = "; for a chance p of state 1 give [1 - p, p]" if n_states == 2 else ""
        raise ValueError(f"{name} must have a last axis of length {n_states}, got shape {tuple(probs.shape)}{hint}")
    if shape is not None and tuple(probs.shape) != (*shape, n_states):
        hint = "; predict_proba gives a row for each x: take row [0]" if probs.shape == (1, *shape, n_states) else ""
        raise ValueError(f"{name} must have shape {(*shape, n_states)}, got {tuple(probs.shape)}{hint}")
    if 0 in probs.shape:
        return probs
    if isinstance(probs, np.ndarray) and probs.size <= 32:  # one stream or a few, one step, once more
        rows = [probs.tolist()] if probs.ndim == 1 else probs.reshape(-1, n_states).tolist()
        if all(min(row) >= 0 and abs(sum(row) - 1) <= SUM_TOLERANCE for row in rows):  # a NaN is in the sum
            return probs
    xp = namespace(probs)
    least = xp.min(probs)
    with np.errstate(over="ignore"):
        sums = total(first(in_float64(probs)))
    low, high = (sums, sums) if sums.ndim == 0 else (xp.min(sums), xp.max(sums))
    if bool((least >= 0) & (low >= 1 - SUM_TOLERANCE) & (high <= 1 + SUM_TOLERANCE)):  # a NaN fails any of these
        return probs
    if bool(xp.any(xp.isnan(probs))):
        raise misplaced(f"{name} must be numbers that sum to one, got NaN%s", xp.isnan(probs))
    if bool(least < 0):
        got = f"got {float(least):.6g}%s: if these are logits, take the softmax"
        raise misplaced(f"{name} must not be negative, {got}", probs == least)
    worst = float(xp.max(off := abs(sums - 1)))
    got = f"within {SUM_TOLERANCE:g}, got a sum off by {worst:.3g}%s; {_ROUNDED if worst < 0.01 else _UNFIT}"
    raise misplaced(f"{name} must sum to one {got}", off == xp.max(off))


def misplaced(words: str, bad: Any) -> ValueError:
    """The error, naming (at %s) the index of the first ``bad`` entry; its attribute ``index`` has it too."""
    index = tuple(np.argwhere(to_numpy(bad))[:1].ravel().tolist())
    error = ValueError(words.replace("%s", f" at index {index}" if index else ""))
    error.index = index  # type: ignore[attr-defined]
    return error


def _floats(values: Any, name: str) -> Array:
    """Numbers in single or double precision; integers are converted."""
    if type(values) is np.ndarray and values.dtype == _DOUBLE:
        return values
    values = array_of(values, name)
    if is_integral(values):
        values = in_float64(values)
    if not is_floating(values):
        raise ValueError(f"{name} must be real floating-point numbers, got dtype {values.dtype}")
    if values.dtype.itemsize > 8:
        raise ValueError(f"{name} must be float32 or float64, got dtype {values.dtype}")
    if values.dtype.itemsize < 4:
        raise ValueError(f"{name} come in half precision ({values.dtype}): upcast them to float32 or float64 first")
    return values
