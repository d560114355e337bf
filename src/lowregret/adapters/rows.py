"""Rows as classifiers are given them, each by a key of its content: a label finds what was said of its row."""

from hashlib import blake2b
from typing import Any

import numpy as np

from .. import inputs


def keys_of(X: Any, last: int) -> list[bytes]:
    """The keys of the last so many rows: of arrays, frames, sparse matrices, or lists of anything."""
    if hasattr(X, "tocsr"):
        rows = X.tocsr()[-last:]
        rows.sort_indices()
        parts = zip(np.split(rows.indices, rows.indptr[1:-1]), np.split(rows.data, rows.indptr[1:-1]), strict=True)
        return [_digest(at.astype(np.int64).tobytes() + _numbers(values).tobytes()) for at, values in parts]
    try:
        table = np.asarray(X)[-last:]
    except ValueError:  # rows of different lengths
        return [key_of(row) for row in list(X)[-last:]]
    if table.dtype.kind in "biuf":
        return [_digest(row.tobytes()) for row in _numbers(table)]
    return [key_of(row) for row in table.tolist()]


def key_of(row: Any) -> bytes:
    """The key of one row by how it is written; of a dict whatever the order of its names."""
    return _digest(repr(sorted(row.items(), key=repr) if isinstance(row, dict) else row).encode())


def one_each(given: Any, n: int, name: str) -> np.ndarray:
    """One number for each of n rows, ``[N]``, or the number itself where there is one row; whole ones as such."""
    values = inputs.numbers_of(given, name, "numbers, one for each row").reshape(-1 if n == 1 else np.shape(given))
    if values.shape != (n,):
        raise ValueError(f"{name} must be one for each row, {n} of them, got shape {np.shape(given)}")
    return values.astype(np.int64) if name == "context" and (values == np.round(values)).all() else values


def refuse_unordered(X: Any) -> None:
    """Rows that are not in time order, as far as can be seen."""
    index: Any = getattr(X, "index", None)
    if "datetime" in str(getattr(index, "dtype", "")) and not index.is_monotonic_increasing:
        raise ValueError("X must have its rows in time order, got an index of times that go back: X.sort_index()")


def _numbers(values: np.ndarray) -> np.ndarray:
    """As one type: a row is the same whether its numbers are whole or not."""
    return np.ascontiguousarray(values, dtype=np.float64)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
