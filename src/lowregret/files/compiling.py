"""Recurrences that are compiled once and kept on the disk (extra: ``fast``)."""

import contextlib
from functools import cache
from typing import Any

import numpy as np

_COMPILED: set[Any] = set()


def is_compiled(function: Any) -> bool:
    """Whether this process has used it already: then it is quicker than arrays, however little there is to do."""
    return function in _COMPILED


@cache
def compiled(function: Any) -> Any:
    """The function, compiled when it is first called, or read from the disk where another process has done so."""
    from numba import njit

    from .kernel_cache import KernelCache

    made: Any = njit(error_model="numpy", nogil=True)(function)  # threads may run it side by side
    # Where no folder can be written to there is none to keep it in, and each process compiles for itself.
    with contextlib.suppress(RuntimeError):
        made._cache = KernelCache(function)
    _COMPILED.add(function)
    return made


def to_read(array: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """The array in the one form that compiled functions read: any other would compile them again, for seconds."""
    array = np.ascontiguousarray(array, dtype)
    return array if array.flags.writeable else array.copy()
