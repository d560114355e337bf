"""One array language: the few questions the rest of the package asks of NumPy, torch and their kin.

The numerical core is written against the Python array API standard. Inside it the axis that is short (states,
actions) comes *first*, so that every operation runs over long contiguous memory: ``probs_SxNxT``.

What a predictor or policy of your own needs is in ``__all__``; the rest is the package's own and may change.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import array_api_compat
import numpy as np

__all__ = [
    "Array",
    "constant",
    "count_up",
    "device",
    "first",
    "first_true",
    "float_type",
    "in_float64",
    "last",
    "mix",
    "namespace",
    "one_hot",
    "pick",
    "running_sum",
    "softmax",
    "to_numpy",
    "total",
]

Array = Any  # a NumPy array or any array that follows the standard

_NUMPY = (np.ndarray, np.generic, int, float, list, tuple, type(None))  # what NumPy's functions work on
_ROWS_ON_CPU = 1 << 16  # elements of one work array: a few of them fit the second-level cache
_ROWS_ON_DEVICE = 1 << 24


def namespace(*arrays: Array) -> Any:
    """The module whose functions work on these arrays (NumPy for scalars, lists, None and NumPy arrays).

    >>> namespace(np.ones(3)).__name__
    'numpy'
    """
    for array in arrays:
        if type(array) is np.ndarray or type(array) is np.float64:
            continue
        if not isinstance(array, _NUMPY):
            return array_api_compat.array_namespace(array)
    return np


def as_array(values: Any) -> Array:
    """Arrays pass through; lists and scalars become NumPy arrays."""
    return values if array_api_compat.is_array_api_obj(values) else np.asarray(values)


def device(array: Array) -> Any:
    """Where the array lives; None for NumPy and for None."""
    return None if isinstance(array, _NUMPY) else array_api_compat.device(array)


def float_type(xp: Any, where: Any = None) -> Any:
    """What statistics accumulate in: float64, or float32 on a device that has no doubles."""
    return xp.float32 if getattr(where, "type", None) == "mps" else xp.float64


def in_float64(array: Array) -> Array:
    """The array in the precision that statistics accumulate in: double, where the device has it."""
    return astype(array, float_type(namespace(array), device(array)))


def is_integral(array: Array) -> bool:
    """Whether the type of these numbers is an integer type."""
    return array.dtype.kind in "iu" if isinstance(array, (np.ndarray, np.generic)) else _of_kind(array, "integral")


def is_floating(array: Array) -> bool:
    """Whether the type of these numbers is a real floating-point type."""
    return array.dtype.kind == "f" if isinstance(array, (np.ndarray, np.generic)) else _of_kind(array, "real floating")


def _of_kind(array: Array, kind: str) -> bool:
    return bool(namespace(array).isdtype(array.dtype, kind))


def astype(array: Array, dtype: Any) -> Array:
    """A cast that copies only when it must."""
    if array.dtype == dtype:
        return array
    return array.astype(dtype) if isinstance(array, (np.ndarray, np.generic)) else namespace(array).astype(array, dtype)


def constant(values: np.ndarray, like: Array) -> Array:
    """Parameters in NumPy as an array of the kind of ``like``, on its device (kept, so they are sent there once).

    For NumPy it is the array itself: do not write to what comes back.

    >>> constant(np.array([0.2, 0.8]), like=np.zeros(5))
    array([0.2, 0.8])
    """
    if isinstance(like, (np.ndarray, np.generic)):
        return values
    if compiling(like):
        return namespace(like).as_tensor(values, device=like.device)  # a constant of the graph
    return _constant(values.tobytes(), values.dtype.str, values.shape, namespace(like), device(like))


def compiling(array: Array) -> bool:
    """Whether torch is tracing a graph rather than computing."""
    return array_api_compat.is_torch_array(array) and namespace(array).compiler.is_compiling()


@lru_cache(maxsize=256)
def _constant(data: bytes, dtype: str, shape: tuple[int, ...], xp: Any, where: Any) -> Array:
    values = np.frombuffer(data, dtype=dtype).reshape(shape)
    if values.dtype == np.float64 and float_type(xp, where) != xp.float64:
        values = values.astype(np.float32)
    return xp.asarray(values.copy(), device=where)


def first(array: Array) -> Array:
    """The last axis moved to the front: ``[..., S] -> [S, ...]`` (a view).

    >>> first(np.zeros((7, 5, 2))).shape
    (2, 7, 5)
    """
    if type(array) is np.ndarray and array.ndim > 1:
        return array.transpose(array.ndim - 1, *range(array.ndim - 1))  # moveaxis, without asking which axes those are
    return array if array.ndim == 1 else namespace(array).moveaxis(array, -1, 0)


def last(array: Array) -> Array:
    """The first axis moved to the back: ``[S, ...] -> [..., S]`` (a view).

    >>> last(np.zeros((2, 7, 5))).shape
    (7, 5, 2)
    """
    if type(array) is np.ndarray and array.ndim > 1:
        return array.transpose(*range(1, array.ndim), 0)
    return array if array.ndim == 1 else namespace(array).moveaxis(array, 0, -1)


def total(rows: Sequence[Array] | Array) -> Array:
    """The sum over the leading axis; adding row by row beats a reduction when the axis is short.

    >>> total(np.array([[1, 2], [3, 4]]))
    array([4, 6])
    """
    if len(rows) > 32:
        return namespace(rows).sum(rows, axis=0)
    result = rows[0]
    for row in rows[1:]:
        result = result + row
    return result


def row_sums(rows: Array) -> Array:
    """Sums over the last axis, ``[..., 1]``.

    >>> row_sums(np.array([[1, 2], [3, 4]])).tolist()
    [[3], [7]]
    """
    return _across(np.add, rows) if _is_narrow(rows) else namespace(rows).sum(rows, axis=-1, keepdims=True)


def row_maxima(rows: Array) -> Array:
    """The largest along the last axis, ``[..., 1]``."""
    return _across(np.maximum, rows) if _is_narrow(rows) else namespace(rows).max(rows, axis=-1, keepdims=True)


def _is_narrow(rows: Array) -> bool:
    """Whether to go column by column, twenty times as fast in NumPy; sums of fewer than 8 are the same to the bit."""
    return isinstance(rows, np.ndarray) and 0 < rows.shape[-1] < 8


def _across(combine: np.ufunc, rows: np.ndarray) -> np.ndarray:
    found = rows[..., :1]
    for a in range(1, rows.shape[-1]):
        found = combine(found, rows[..., a : a + 1])
    return found


def mix(matrix: np.ndarray, rows_S: Array) -> Array:
    """``matrix[A, S]``, in NumPy, applied to the leading axis of any array: ``[S, ...] -> [A, ...]``.

    >>> mix(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.2, 0.6], [0.8, 0.4]]))
    array([[0.2, 0.6],
           [0.5, 0.5]])
    """
    if type(rows_S) is np.ndarray and rows_S.ndim == 1:  # one stream, one step: the quickest path
        return matrix @ rows_S
    matrix = constant(matrix, rows_S)
    xp, shape = namespace(rows_S), rows_S.shape
    if shape[0] == 1:  # an outer product
        return xp.reshape(matrix, (-1, *(1,) * (rows_S.ndim - 1))) * rows_S
    if rows_S.ndim <= 2:
        return matrix @ rows_S
    return xp.reshape(matrix @ xp.reshape(rows_S, (shape[0], math.prod(shape[1:]))), (matrix.shape[0], *shape[1:]))


def pick(rows_S: Array, index: Array) -> Array:
    """``rows_S[index[...], ...]``: for each place the row that the index names there.

    >>> pick(np.array([[1, 2, 3], [10, 20, 30]]), np.array([0, 1, 1]))
    array([ 1, 20, 30])
    """
    if index.ndim == 0 and isinstance(index, (np.ndarray, np.generic)):
        return rows_S[int(index)]
    xp = namespace(index)
    chosen = rows_S[0]
    for i in range(1, len(rows_S)):
        chosen = xp.where(index == i, rows_S[i], chosen)
    return chosen


def one_hot(token: Array, n_states: int) -> Array:
    """Which state the token is, ``[S, ...]``: true in one of the rows.

    >>> one_hot(np.array([2, 0]), 3)
    array([[False,  True],
           [False, False],
           [ True, False]])
    """
    states = count_up(token, 0, n_states)
    return token == (states if token.ndim == 0 else namespace(token).reshape(states, (-1, *(1,) * token.ndim)))


def softmax(scores_A: Array) -> Array:
    """Softmax over the leading axis; no score is too large for it.

    >>> softmax(np.array([1e9, 1e9]))
    array([0.5, 0.5])
    """
    xp = namespace(scores_A)
    weights_A = xp.exp(scores_A - xp.max(scores_A, axis=0))
    return weights_A / total(weights_A)


def running_sum(array: Array) -> Array:
    """Cumulative sums along the last axis.

    >>> running_sum(np.array([1, 2, 3]))
    array([1, 3, 6])
    """
    return namespace(array).cumulative_sum(array, axis=-1)


def some(flags: Array) -> bool:
    """Whether any is set (or not 0); True where asking would make a device wait."""
    if not isinstance(flags, (np.ndarray, np.generic)):
        return True
    return bool(flags) if flags.ndim == 0 else bool(flags.any())


def first_true(flags: Array) -> Array:
    """The index of the first True along the last axis; its length where there is none.

    >>> first_true(np.array([[False, True, True], [False, False, False]]))
    array([1, 3])
    """
    xp = namespace(flags)
    at = xp.argmax(flags if xp is np else xp.astype(flags, xp.uint8), axis=-1)
    return xp.where(xp.any(flags, axis=-1), at, flags.shape[-1])


def count_up(like: Array, start: int, stop: int) -> Array:
    """The integers ``start .. stop - 1``, as an array of the kind of ``like`` and on its device.

    >>> count_up(np.zeros(5), 1, 4)
    array([1, 2, 3])
    """
    xp = namespace(like)
    return np.arange(start, stop) if xp is np else xp.arange(start, stop, dtype=xp.int64, device=device(like))


def row_blocks(n_rows: int, row_len: int, like: Array) -> Iterator[slice]:
    """Slices over the rows that keep each work array small: memory stays linear in the input."""
    size = _ROWS_ON_CPU if str(device(like) or "cpu") == "cpu" else _ROWS_ON_DEVICE
    if isinstance(like, np.ndarray):
        _hold_work_memory()
    step = max(1, size // max(1, row_len))
    for begin in range(0, n_rows, step):
        yield slice(begin, min(n_rows, begin + step))


@cache
def _hold_work_memory() -> None:
    """Let go of one large array: the C library then keeps freed work arrays, which halves the time of a pass."""
    np.empty(1 << 21)


def copied(array: Array) -> Array:
    """A copy: a caller may write to what is handed out of a memory, but not to the memory."""
    return array.copy() if isinstance(array, np.ndarray) else namespace(array).asarray(array, copy=True)


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, read-only: callers must not change what a public object is made of."""
    array.setflags(write=False)
    return array


def detached(array: Array) -> Array:
    """The array without its gradients: what is kept must not keep the graph that made it."""
    return array.detach() if hasattr(array, "detach") else array


def to_numpy(array: Array) -> np.ndarray:
    """A NumPy copy or view, from any device and without gradients.

    >>> to_numpy(np.float64(0.5))
    array(0.5)
    """
    if isinstance(array, (np.ndarray, np.generic)):
        return np.asarray(array)
    array = detached(array)
    return np.asarray(array_api_compat.to_device(array, "cpu"))


def beside(tokens: Array, like: Array | None) -> Array:
    """Tokens, checked before, as the kind of array that ``like`` is, on its device."""
    if like is None or type(tokens) is type(like) is np.ndarray:
        return tokens
    if namespace(tokens) is namespace(like) and device(tokens) == device(like):
        return tokens
    return namespace(like).asarray(to_numpy(tokens).astype(np.int64), device=device(like))
