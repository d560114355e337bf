"""Rows of a table as numbers, each checked: who trusts a log trusts whoever wrote it."""

from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..problems import DecisionProblem
from .columns import Columns
from .law_columns import lone
from .times import Every, spelt


class Refused(ValueError):
    """A log that cannot be answered for: which file, which row (the first below the header is 1), and why."""

    def __init__(self, where: str, row: int | None, reason: str) -> None:
        super().__init__(printable(f"{where}{'' if row is None else f', row {row}'}: {reason}"))
        self.where, self.row, self.reason = where, row, reason

    def __reduce__(self) -> Any:
        return Refused, (self.where, self.row, self.reason)


def printable(text: str, most: int = 2000) -> str:
    """What a log says, for a terminal: signs that would steer it are spelt out, and it ends somewhere."""
    shown = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[:most])
    return shown if len(text) <= most else shown + "..."


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
    names, stream_R = streams_in_rows(table, columns.stream, where, before)
    order_R, counted = order_in(table, columns.order, where, before, columns.every)
    states_R = _states(table, columns.state, problem, where, before)
    probs_RxS, renormalised = laws_in(table, columns.probs, problem.states, tolerance, where, before)
    return Rows(names, stream_R, order_R, counted, states_R, probs_RxS, renormalised)


def sorted_rows(
    names: list[Any],
    stream_R: np.ndarray,
    order_R: np.ndarray,
    counted: bool,
    row_R: np.ndarray,
    where: Any,
    every: Every | None = None,
) -> np.ndarray:
    """Places of the rows by stream and step; a step that is there twice, or that is missing, is refused.

    ``row_R`` says which row of the log each is, ``where(row)`` of which file that is and which row of it.
    """
    place_R = np.lexsort((order_R, stream_R))
    stream_R, order_R = stream_R[place_R], order_R[place_R]
    apart, same = np.diff(order_R), stream_R[1:] == stream_R[:-1]
    wrong_R = (apart != 1) if counted else (apart == 0)
    if every is not None and not counted:
        wrong_R = wrong_R | ~every.kept(order_R[:-1], order_R[1:])
    wrong = np.flatnonzero(same & wrong_R)
    if len(wrong):
        at = int(wrong[0])
        name, step, after = inputs.shown(names[stream_R[at]]), int(order_R[at]), int(order_R[at + 1])
        first, second = sorted((int(row_R[place_R[at]]), int(row_R[place_R[at + 1]])))
        file, row = where(second)
        if step == after:
            which, (other, its_row) = f"step {step}" if counted else "a time", where(first)
            also = f"row {its_row}" if other == file else f"{other}, row {its_row}"
            raise Refused(file, row, f"{which} of stream {name} is there twice, also in {also}")
        file, row = where(int(row_R[place_R[at + 1]]))
        if counted:
            raise Refused(file, row, f"step {step + 1} of stream {name} is missing: {step} is followed by {after}")
        told = f"{spelt(step)} is followed by {spelt(after)}, and every step must be {every}"
        raise Refused(file, row, f"a time of stream {name} is missing or between two: {told}")
    return place_R


def one_column(table: Any, name: str) -> Any:
    column = table.column(name)
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def without_nulls(column: Any, what: str, where: str, before: int) -> None:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise Refused(where, before + row + 1, f"{what} is missing")


def streams_in_rows(table: Any, name: str | None, where: str, before: int = 0) -> tuple[list[Any], np.ndarray]:
    if name is None:
        return [0], np.zeros(table.num_rows, dtype=np.int32)
    column = one_column(table, name)
    without_nulls(column, f"the stream ({name})", where, before)
    column = _encoded(column, f"the streams ({name})", where)
    names, stream_R = column.dictionary.to_pylist(), np.asarray(column.indices).astype(np.int32, copy=False)
    if bad := [i for i, value in enumerate(names) if value != value]:
        row = int(np.flatnonzero(stream_R == bad[0])[0])
        raise Refused(where, before + row + 1, f"the stream ({name}) is not a number")
    return names, stream_R


def _encoded(column: Any, what: str, where: str) -> Any:
    """A column by its different values, which must be names or numbers."""
    pa = arrow()
    kind = column.dictionary.type if hasattr(column, "dictionary") else column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise Refused(where, None, f"{what} must be names or numbers, got {kind}")
    return column if hasattr(column, "dictionary") else column.dictionary_encode()


def order_in(
    table: Any, name: str | None, where: str, before: int = 0, every: Every | None = None
) -> tuple[np.ndarray, bool]:
    """Where each row stands in its stream, and whether that counts steps; times are in nanoseconds."""
    order_R, counted = _order(table, name, where, before)
    if counted and every is not None:
        raise Refused(where, None, f"every {every} needs times, and the steps ({name}) are whole numbers")
    return order_R, counted


def _order(table: Any, name: str | None, where: str, before: int) -> tuple[np.ndarray, bool]:
    if name is None:
        return np.arange(before, before + table.num_rows, dtype=np.int64), False
    pa, column = arrow(), one_column(table, name)
    without_nulls(column, f"the step ({name})", where, before)
    kind = column.type
    if pa.types.is_integer(kind):
        if kind == pa.uint64() and len(bad := np.flatnonzero(np.asarray(column) > np.uint64(2**63 - 1))):
            raise Refused(where, before + int(bad[0]) + 1, f"the step ({name}) must be below 2^63")
        return np.asarray(column.cast(pa.int64())), True
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _times(column, name, where), False
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


def _times(column: Any, name: str, where: str) -> np.ndarray:
    """Times in nanoseconds, whatever the file has them in: another file may have others."""
    pa = arrow()
    kind = column.type
    if pa.types.is_time(kind):
        column, wide = column.cast(pa.time64("ns")), pa.time64("ns")
    else:
        wide = pa.duration("ns") if pa.types.is_duration(kind) else pa.timestamp("ns", getattr(kind, "tz", None))
    try:
        return np.asarray(column.cast(wide).cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise Refused(where, None, f"the times ({name}) must lie between the years 1678 and 2262") from error


def _states(table: Any, name: str, problem: DecisionProblem, where: str, before: int) -> np.ndarray:
    """Indices of states: by name, or by number where no name is one."""
    pa, column = arrow(), one_column(table, name)
    without_nulls(column, f"the state ({name})", where, before)
    place = {state: i for i, state in enumerate(problem.states)}
    if not any(state.lstrip("-").isdecimal() for state in place):
        place |= {str(i): i for i in range(problem.n_states)}
    column = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
    column = _encoded(column, f"the states ({name})", where)
    distinct = [plainly(value) for value in column.dictionary.to_pylist()]
    found = np.array([place.get(value, -1) for value in distinct], dtype=np.int32)
    states_R = found[np.asarray(column.indices)] if len(found) else np.zeros(0, dtype=np.int32)
    if len(found) and found.min() < 0 and len(bad := np.flatnonzero(states_R < 0)):
        value = distinct[int(np.asarray(column.indices)[bad[0]])]
        known = ", ".join(problem.states[:8]) + (", ..." if problem.n_states > 8 else "")
        raise Refused(where, before + int(bad[0]) + 1, f"the state ({name}) must be one of {known}, got {value[:80]!r}")
    return states_R


def plainly(value: Any) -> str:
    """A state or stream as its name would be: 1.0 is 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def laws_in(
    table: Any, names: tuple[str | None, ...], states: tuple[str, ...], tolerance: float, where: str, before: int = 0
) -> tuple[np.ndarray, int]:
    """Laws ``[R, S]``, and how many were made to sum to one."""
    return _normal(_laws(table, names, states, where, before), tolerance, where, before)


def _laws(table: Any, names: tuple[str | None, ...], states: tuple[str, ...], where: str, before: int) -> np.ndarray:
    """Probabilities ``[R, S]``, NaN where there are none."""
    pa, S, name = arrow(), len(states), names[0]
    if len(names) == 1 and name is not None and (S != 1 or pa.types.is_nested(table.schema.field(name).type)):
        column = one_column(table, name)
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)) and not (
            pa.types.is_fixed_size_list(column.type)
        ):
            reason = f"the probabilities ({name}) must be lists of {S}, got {column.type}{lone(name, states)}"
            raise Refused(where, None, reason)
        without_nulls(column, f"the list of probabilities ({name})", where, before)
        lengths = np.asarray(pa.compute.list_value_length(column)) if len(column) else np.zeros(0)
        if len(bad := np.flatnonzero(lengths != S)):
            reason = f"there must be {S} probabilities ({name}), one a state, got {int(lengths[bad[0]])}"
            raise Refused(where, before + int(bad[0]) + 1, reason)
        return numbers_in(column.flatten(), name, "probabilities", where).reshape(-1, S)
    probs_RxS = np.empty((table.num_rows, S))
    for s, name in enumerate(names):
        if name is not None:
            probs_RxS[:, s] = numbers_in(one_column(table, name), name, "probabilities", where)
    if None in names:  # of two states the other's
        probs_RxS[:, names.index(None)] = 1 - probs_RxS[:, 1 - names.index(None)]
    return probs_RxS


def numbers_in(column: Any, name: str, what: str, where: str) -> np.ndarray:
    """A column as numbers, NaN where there are none."""
    pa = arrow()
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise Refused(where, None, f"the {what} ({name}) must be numbers, got {column.type}")
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
