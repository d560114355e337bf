"""What is refused, and how it is said: one check per kind of argument, each naming what it got and what it wants."""

import math
import numbers
from typing import Any

import numpy as np

from .arrays import Array, as_array, first, namespace, total

SUM_TOLERANCE = 1e-6


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


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


def tokens_of(tokens: Any, n_states: int, name: str = "tokens", shape: tuple[int, ...] | None = None) -> Array:
    """Integers in ``0 .. n_states - 1``, of the given shape if one is asked for."""
    if type(tokens) is int and shape == ():  # one stream, one step: the path that must cost nothing
        if not 0 <= tokens < n_states:
            raise ValueError(f"{name} must lie in 0..{n_states - 1} ({n_states} states), got {tokens}")
        return np.asarray(tokens)
    tokens = as_array(tokens)
    xp = namespace(tokens)
    if not _is(tokens, "integral"):
        raise ValueError(f"{name} must be integers in 0..{n_states - 1}, got dtype {tokens.dtype}")
    if shape is not None and tuple(tokens.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(tokens.shape)}")
    if 0 not in tokens.shape and bool(xp.any((tokens < 0) | (tokens >= n_states))):
        low, high = int(xp.min(tokens)), int(xp.max(tokens))
        raise ValueError(f"{name} must lie in 0..{n_states - 1} ({n_states} states), got values from {low} to {high}")
    return tokens


def sequences_of(tokens: Any, n_states: int, name: str = "tokens") -> Array:
    """Token sequences ``[..., T]`` with at least one time step."""
    tokens = tokens_of(tokens, n_states, name)
    if tokens.ndim == 0 or tokens.shape[-1] == 0:
        raise ValueError(f"{name} must have a last axis of at least one time step, got shape {tuple(tokens.shape)}")
    return tokens


def probs_of(probs: Any, n_states: int, name: str = "probs", shape: tuple[int, ...] | None = None) -> Array:
    """Probability vectors along the last axis, which has length ``n_states``."""
    probs = as_array(probs)
    if _is(probs, "integral"):
        probs = namespace(probs).asarray(probs, dtype=namespace(probs).float64)
    if not _is(probs, "real floating"):
        raise ValueError(f"{name} must be real floating-point numbers, got dtype {probs.dtype}")
    if "16" in str(probs.dtype):
        raise ValueError(f"{name} come in half precision ({probs.dtype}): upcast them to float32 or float64 first")
    if probs.ndim == 0 or probs.shape[-1] != n_states:
        raise ValueError(f"{name} must have a last axis of length {n_states} (states), got shape {tuple(probs.shape)}")
    if shape is not None and tuple(probs.shape) != (*shape, n_states):
        raise ValueError(f"{name} must have shape {(*shape, n_states)}, got {tuple(probs.shape)}")
    if 0 in probs.shape:
        return probs
    xp = namespace(probs)
    off = abs(total(first(probs)) - 1)
    if bool(xp.min(probs) >= 0) and bool(xp.max(off) <= SUM_TOLERANCE):  # a NaN fails either comparison
        return probs
    if bool(xp.any(xp.isnan(probs))):
        raise ValueError(f"{name} contain NaN")
    if bool(xp.any(probs < 0)):
        raise ValueError(f"{name} must not be negative, the least is {float(xp.min(probs)):.6g}")
    raise ValueError(f"{name} must sum to one within {SUM_TOLERANCE:g}, one sum is off by {float(xp.max(off)):.3g}")


def _is(array: Array, kind: str) -> bool:
    if isinstance(array, (np.ndarray, np.generic)):
        return array.dtype.kind in ("iu" if kind == "integral" else "f")
    return bool(namespace(array).isdtype(array.dtype, kind))
