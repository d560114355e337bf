"""What is refused, and how it is said: one check per kind of argument, each naming what it got and what it wants."""

import math
import numbers
import reprlib
from typing import Any

import numpy as np

from .arrays import Array, as_array, astype, device, first, in_float64, namespace, to_numpy, total

SUM_TOLERANCE = 1e-6


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def finite(value: Any, name: str) -> float:
    """A finite number."""
    if not _is_real(value) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def positive(value: Any, name: str) -> float:
    """A finite number above zero."""
    if not _is_real(value) or not (0 < value < math.inf):
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return float(value)


def not_negative(value: Any, name: str) -> float:
    """A finite number, zero or more."""
    if not _is_real(value) or not (0 <= value < math.inf):
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
    return float(value)


def probability(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    if not _is_real(value) or not (0 < value < 1):
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}")
    return float(value)


def whole(value: Any, name: str, least: int = 1) -> int:
    """An integer, at least ``least``."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


def horizon_or_none(value: Any) -> int | None:
    """A number of steps, or None for unknown."""
    return None if value is None else whole(value, "horizon")


def batch_shape_of(value: Any) -> tuple[int, ...]:
    """A tuple of axis lengths (an int stands for one axis)."""
    shape = (value,) if isinstance(value, numbers.Integral) else value
    if not isinstance(shape, (tuple, list)):
        raise ValueError(f"batch_shape must be a tuple of whole numbers, got {value!r}")
    return tuple(whole(n, "batch_shape", least=0) for n in shape)


def generator(seed: Any) -> np.random.Generator:
    """An int or a NumPy Generator, as a Generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(whole(seed, "seed", least=0))


def array_of(values: Any, name: str) -> Array:
    """Arrays pass through; lists become NumPy arrays, if they can."""
    try:
        return as_array(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array or a list with rows of one length, got {reprlib.repr(values)}"
        ) from error


def tokens_of(
    tokens: Any, n_states: int, name: str = "tokens", shape: tuple[int, ...] | None = None, like: Array | None = None
) -> Array:
    """Integers in ``0 .. n_states - 1``, of the given shape if one is asked for, beside ``like`` if it is given."""
    if type(tokens) is int and shape == ():  # one stream, one step: the path that must cost nothing
        if not 0 <= tokens < n_states:
            raise ValueError(f"{name} must lie in 0..{n_states - 1}, got {tokens}")
        return beside(np.asarray(tokens), like)
    alone = shape == () and type(tokens) is np.ndarray and tokens.ndim == 0 and tokens.dtype == np.int64
    if alone and 0 <= tokens.item() < n_states:
        return beside(tokens, like)  # the same, already an array
    tokens = array_of(tokens, name)
    xp = namespace(tokens)
    if not _is(tokens, "integral"):
        raise ValueError(f"{name} must be integers in 0..{n_states - 1} (names only print), got dtype {tokens.dtype}")
    if shape is not None and tuple(tokens.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(tokens.shape)}")
    if xp is not np:
        tokens = astype(tokens, xp.int64)  # small integers could not be compared with the number of states
    if 0 not in tokens.shape and bool(((tokens < 0) | (tokens >= n_states)).any()):
        low, high = int(xp.min(tokens)), int(xp.max(tokens))
        raise ValueError(f"{name} must lie in 0..{n_states - 1}, got values from {low} to {high}")
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
    """A table of laws as a NumPy array in float64, of its own; what the numbers are is for ``probs_of`` to check."""
    return np.array(to_numpy(_floats(values, name)), dtype=np.float64)


def probs_of(probs: Any, n_states: int, name: str = "probs", shape: tuple[int, ...] | None = None) -> Array:
    """Probability vectors along the last axis, which has length ``n_states``."""
    probs = _floats(probs, name)
    if probs.ndim == 0 or probs.shape[-1] != n_states:
        raise ValueError(f"{name} must have a last axis of length {n_states}, got shape {tuple(probs.shape)}")
    if shape is not None and tuple(probs.shape) != (*shape, n_states):
        raise ValueError(f"{name} must have shape {(*shape, n_states)}, got {tuple(probs.shape)}")
    if 0 in probs.shape:
        return probs
    if n_states <= 32 and probs.ndim == 1 and isinstance(probs, np.ndarray):  # one stream, one step, once more
        values = probs.tolist()
        if min(values) >= 0 and abs(sum(values) - 1) <= SUM_TOLERANCE:  # a NaN is in the sum
            return probs
    xp = namespace(probs)
    least = xp.min(probs)
    with np.errstate(over="ignore"):
        sums = total(first(in_float64(probs)))
    low, high = (sums, sums) if sums.ndim == 0 else (xp.min(sums), xp.max(sums))
    if bool((least >= 0) & (low >= 1 - SUM_TOLERANCE) & (high <= 1 + SUM_TOLERANCE)):  # a NaN fails any of these
        return probs
    if bool(xp.any(xp.isnan(probs))):
        raise ValueError(f"{name} must be numbers that sum to one, got NaN")
    if bool(least < 0):
        raise ValueError(f"{name} must not be negative, got {float(least):.6g}: if these are logits, take the softmax")
    off = abs(sums - 1)
    where = np.unravel_index(int(xp.argmax(off)), tuple(off.shape)) if off.ndim else ()
    place = f" at index {tuple(map(int, where))}" if where else ""
    raise ValueError(
        f"{name} must sum to one within {SUM_TOLERANCE:g}, got a sum off by {float(xp.max(off)):.3g}{place}; "
        + (
            "if that is rounding, divide by the sum: probs / probs.sum(-1, keepdims=True)"
            if float(xp.max(off)) < 0.01
            else "if these are logits, take the softmax; if they are percentages or counts, divide by the sum"
        )
    )


def _floats(values: Any, name: str) -> Array:
    """Single or double precision numbers; integers count as such."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    values = array_of(values, name)
    if _is(values, "integral"):
        values = namespace(values).asarray(values, dtype=namespace(values).float64)
    if not _is(values, "real floating"):
        raise ValueError(f"{name} must be real floating-point numbers, got dtype {values.dtype}")
    if values.dtype.itemsize > 8:
        raise ValueError(f"{name} must be float32 or float64, got dtype {values.dtype}")
    if values.dtype.itemsize < 4:
        raise ValueError(f"{name} come in half precision ({values.dtype}): upcast them to float32 or float64 first")
    return values


def beside(tokens: Array, like: Array | None) -> Array:
    """Tokens as the kind of array that ``like`` is, on its device."""
    if (
        like is None
        or type(tokens) is type(like) is np.ndarray
        or (namespace(tokens) is namespace(like) and device(tokens) == device(like))
    ):
        return tokens
    return namespace(like).asarray(to_numpy(tokens).astype(np.int64), device=device(like))


def _is(array: Array, kind: str) -> bool:
    if isinstance(array, (np.ndarray, np.generic)):
        return array.dtype.kind in ("iu" if kind == "integral" else "f")
    return bool(namespace(array).isdtype(array.dtype, kind))
