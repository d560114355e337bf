"""Recurrences that are compiled once and kept on the disk (extra: ``fast``)."""

import contextlib
from functools import cache
from typing import Any


@cache
def compiled(function: Any) -> Any:
    """The function, compiled when it is first called, or read from the disk where another process has done so."""
    from numba import njit

    from .kernel_cache import KernelCache

    made: Any = njit(error_model="numpy")(function)
    # Where no folder can be written to there is none to keep it in, and each process compiles for itself.
    with contextlib.suppress(RuntimeError):
        made._cache = KernelCache(function)
    return made
