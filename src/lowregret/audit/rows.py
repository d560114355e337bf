"""Rows of a table as numbers, each checked: who trusts a log trusts whoever wrote it."""

from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..problems import DecisionProblem
from .columns import Columns


class Refused(ValueError):
    """A log that cannot be answered for: which file, which row (the first below the header is 1), and why."""

    def __init__(self, where: str, row: int | None, reason: str) -> None:
        super().__init__(f"{where}{'' if row is None else f', row {row}'}: {reason}")
        self.where, self.row, self.reason = where, row, reason

    def __reduce__(self) -> Any:
        return Refused, (self.where, self.row, self.reason)


class Rows(NamedTuple):
    """Some rows of a log, as they stand there."""

    names: list[Any]  # of the streams
    stream_R: np.ndarray  # which of them
    order_R: np.ndarray  # int64
    counted: bool  # the order counts steps: none may be missing
    states_R: np.ndarray
    probs_RxS: np.ndarray
    renormalised: int  # rows whose probabilities were off by more than they may


def arrow() -> Any:
    """The package that reads tables."""
    try:
        import pyarrow
        import pyarrow.compute
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("tables need pyarrow: pip install 'lowregret[data]'", name="pyarrow") from error
    return pyarrow


def rows_of(
    table: Any, columns: Columns, problem: DecisionProblem, tolerance: float, where: str, before: int = 0
) -> Rows:
    """The rows of an Arrow table, of which ``before`` others come before in ``where``; refused at the first bad one."""
    names, stream_R = _streams(table, columns.stream, where, before)
    order_R, counted = _order(table, columns.order, where, before)
    states_R = _states(table, columns.state, problem, where, before)
    probs_RxS = _laws(table, columns.probs, problem.n_states, where, before)
    probs_RxS, renormalised = _normal(probs_RxS, tolerance, where, before)
    return Rows(names, stream_R, order_R, counted, states_R, probs_RxS, renormalised)


def sorted_rows(
    names: list[Any], stream_R: np.ndarray, order_R: np.ndarray, counted: bool, row_R: np.ndarray, where: Any
) -> np.ndarray:
    """Places of the rows by stream and step; a step that is there twice, or that is missing, is refused.

    ``row_R`` says which row of the log each is, ``where(row)`` of which file that is and which row of it.
    """
    place_R = np.lexsort((order_R, stream_R))
    stream_R, order_R = stream_R[place_R], order_R[place_R]
    apart = np.diff(order_R)
    same = stream_R[1:] == stream_R[:-1]
    wrong = np.flatnonzero(same & ((apart != 1) if counted else (apart == 0)))
    if len(wrong):
        at = int(wrong[0])
        name, step, after = inputs.shown(names[stream_R[at]]), int(order_R[at]), int(order_R[at + 1])
        first, second = sorted((int(row_R[place_R[at]]), int(row_R[place_R[at + 1]])))
        file, row = where(second)
        if step == after:
            which = f"step {step}" if counted else "a time"
            raise Refused(file, row, f"{which} of stream {name} is there twice, also in row {where(first)[1]}")
        file, row = where(int(row_R[place_R[at + 1]]))
        raise Refused(file, row, f"step {step + 1} of stream {name} is missing: {step} is followed by {after}")
    return place_R


def _column(table: Any, name: str) -> Any:
    column = table.column(name)
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _no_nulls(column: Any, what: str, where: str, before: int) -> None:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise Refused(where, before + row + 1, f"{what} is missing")


def _streams(table: Any, name: str | None, where: str, before: int) -> tuple[list[Any], np.ndarray]:
    if name is None:
        return [0], np.zeros(table.num_rows, dtype=np.int32)
    column = _column(table, name)
    _no_nulls(column, f"the stream ({name})", where, before)
    if not hasattr(column, "dictionary"):
        column = column.dictionary_encode()
    return column.dictionary.to_pylist(), np.asarray(column.indices).astype(np.int32, copy=False)


def _order(table: Any, name: str | None, where: str, before: int) -> tuple[np.ndarray, bool]:
    if name is None:
        return np.arange(before, before + table.num_rows, dtype=np.int64), False
    pa, column = arrow(), _column(table, name)
    _no_nulls(column, f"the step ({name})", where, before)
    kind = column.type
    if pa.types.is_integer(kind):
        return np.asarray(column.cast(pa.int64())), True
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("ms"))
    if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        bits = pa.int32() if column.type.bit_width == 32 else pa.int64()
        return np.asarray(column.cast(bits)).astype(np.int64, copy=False), False
    if pa.types.is_floating(kind):
        values = np.asarray(column.cast(pa.float64()))
        bad = np.flatnonzero(~(values == np.floor(values)) | (np.abs(values) > inputs.MOST))
        if not len(bad):
            return values.astype(np.int64), True
        raise Refused(
            where,
            before + int(bad[0]) + 1,
            f"the step ({name}) must be a whole number or a time, got {values[bad[0]]:g}",
        )
    raise Refused(where, None, f"the steps ({name}) must be whole numbers or times, got {kind}")


def _states(table: Any, name: str, problem: DecisionProblem, where: str, before: int) -> np.ndarray:
    """Indices of states: by name, or by number where no name is one."""
    pa, column = arrow(), _column(table, name)
    _no_nulls(column, f"the state ({name})", where, before)
    place = {state: i for i, state in enumerate(problem.states)}
    if not any(state.lstrip("-").isdecimal() for state in place):
        place |= {str(i): i for i in range(problem.n_states)}
    if not hasattr(column, "dictionary"):
        column = (column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column).dictionary_encode()
    distinct = [_spelt(value) for value in column.dictionary.to_pylist()]
    found = np.array([place.get(value, -1) for value in distinct], dtype=np.int32)
    states_R = found[np.asarray(column.indices)] if len(found) else np.zeros(0, dtype=np.int32)
    if len(found) and found.min() < 0 and len(bad := np.flatnonzero(states_R < 0)):
        value = distinct[int(np.asarray(column.indices)[bad[0]])]
        known = ", ".join(problem.states[:8]) + (", ..." if problem.n_states > 8 else "")
        raise Refused(where, before + int(bad[0]) + 1, f"the state ({name}) must be one of {known}, got {value[:80]!r}")
    return states_R


def _spelt(value: Any) -> str:
    """A state as its name would be: 1.0 is 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _laws(table: Any, names: tuple[str, ...], S: int, where: str, before: int) -> np.ndarray:
    """Probabilities ``[R, S]``, NaN where there are none."""
    pa = arrow()
    if len(names) == 1 and (S != 1 or pa.types.is_nested(table.schema.field(names[0]).type)):
        column = _column(table, names[0])
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)) and not (
            pa.types.is_fixed_size_list(column.type)
        ):
            raise Refused(where, None, f"the probabilities ({names[0]}) must be lists of {S}, got {column.type}")
        _no_nulls(column, f"the list of probabilities ({names[0]})", where, before)
        lengths = np.asarray(pa.compute.list_value_length(column)) if len(column) else np.zeros(0)
        if len(bad := np.flatnonzero(lengths != S)):
            reason = f"there must be {S} probabilities ({names[0]}), one a state, got {int(lengths[bad[0]])}"
            raise Refused(where, before + int(bad[0]) + 1, reason)
        return _floats(column.flatten(), names[0], where).reshape(-1, S)
    probs_RxS = np.empty((table.num_rows, S))
    for s, name in enumerate(names):
        probs_RxS[:, s] = _floats(_column(table, name), name, where)
    return probs_RxS


def _floats(column: Any, name: str, where: str) -> np.ndarray:
    pa = arrow()
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise Refused(where, None, f"the probabilities ({name}) must be numbers, got {column.type}")
    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _normal(probs_RxS: np.ndarray, tolerance: float, where: str, before: int) -> tuple[np.ndarray, int]:
    """The laws, made to sum to one where they are off by more than floating point explains and no more than may be."""
    if not len(probs_RxS):
        return probs_RxS, 0
    sums_R = probs_RxS[:, 0].copy()
    for s in range(1, probs_RxS.shape[1]):
        sums_R += probs_RxS[:, s]
    off = np.abs(sums_R - 1)
    if probs_RxS.min() >= 0 and off.max() <= inputs.SUM_TOLERANCE:  # a NaN is neither
        return probs_RxS, 0
    bad_R = ~(off <= tolerance) | ~(probs_RxS >= 0).all(axis=1)
    if bad_R.any():
        at = int(np.flatnonzero(bad_R)[0])
        law = probs_RxS[at]
        shown = ", ".join(f"{p:.6g}" for p in law[:8]) + (", ..." if len(law) > 8 else "")
        if np.isnan(law).any():
            reason = f"a probability is missing or not a number: {shown}"
        elif not (np.isfinite(law).all() and (law >= 0).all()):
            reason = f"probabilities must lie in [0, 1], got {shown}"
        else:
            reason = f"probabilities must sum to one, and sum to {sums_R[at]:.9g} (tolerance {tolerance:g}): {shown}"
        raise Refused(where, before + at + 1, reason)
    off_R = off > inputs.SUM_TOLERANCE
    probs_RxS = probs_RxS.copy()
    probs_RxS[off_R] /= sums_R[off_R, None]
    return probs_RxS, int(off_R.sum())
