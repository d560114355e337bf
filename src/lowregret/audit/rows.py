"""Rows of a table as numbers, each checked: nothing in a log is taken on trust."""

from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..problems import DecisionProblem, Names
from .cells import Refused, also, arrow, one_column, without_nulls
from .columns import Columns
from .known import known_in
from .laws import laws_in
from .times import Every, Steps, order_in


class Rows(NamedTuple):
    """Some rows of a log, as they stand there."""

    names: list[Any]  # of the streams
    stream_R: np.ndarray  # which of them
    steps: Steps
    states_R: np.ndarray
    probs_RxS: np.ndarray
    renormalised: int  # rows whose probabilities were off by more than they may
    known_R: np.ndarray | None  # when their outcomes were known, as ``Steps.at_R``; None: not given


def rows_of(
    table: Any, columns: Columns, problem: DecisionProblem, tolerance: float, where: str, before: int = 0
) -> Rows:
    """The rows of an Arrow table, which ``before`` others precede in ``where``; refused at the first bad one."""
    names, stream_R = streams_in_rows(table, columns.stream, where, before)
    steps = order_in(table, columns.order, where, before, columns.every)
    states_R = places_in(table, columns.state, problem.state_names, "the state", where, before)
    probs_RxS, renormalised = laws_in(table, columns.probs, problem.states, tolerance, where, before)
    known_R = None if columns.known_at is None else known_in(table, columns.known_at, steps, where, before)
    return Rows(names, stream_R, steps, states_R, probs_RxS, renormalised, known_R)


def sorted_rows(
    names: list[Any],
    stream_R: np.ndarray,
    steps: Steps,
    row_R: np.ndarray,
    where: Any,
    every: Every | None = None,
    alone: str = "",
    whole: bool = True,
) -> np.ndarray:
    """Places of the rows by stream and step; a repeated or missing step is refused.

    ``row_R`` says which row of the log each is, ``where(row)`` of which file that is and which row of it; ``alone``
    says why all rows are one stream, where no column names it; unless ``whole``, other rows may have what is missing.
    """
    place_R = _in_order(stream_R, steps.at_R)
    stream_R, steps = stream_R[place_R], steps.of(place_R)
    order_R, counted = steps.at_R, steps.counted
    apart, same = np.diff(order_R), stream_R[1:] == stream_R[:-1]
    wrong_R = (apart != 1) if counted and whole else (apart == 0)
    if every is not None and whole and not counted:
        wrong_R = wrong_R | ~every.kept(steps)
    wrong = np.flatnonzero(same & wrong_R)
    if len(wrong):
        at = int(wrong[0])
        step, after = int(order_R[at]), int(order_R[at + 1])
        of = "" if alone else f" of stream {inputs.shown(names[stream_R[at]])}"
        first, second = sorted((int(row_R[place_R[at]]), int(row_R[place_R[at + 1]])))
        file, row = where(second)
        if step == after:
            which, (other, its_row) = f"step {step}" if counted else "a time", where(first)
            also = f"row {its_row}" if other == file else f"{other}, row {its_row}"
            raise Refused(file, row, f"{which}{of} is there twice, also in {also}{alone}")
        file, row = where(int(row_R[place_R[at + 1]]))
        if counted:
            raise Refused(file, row, f"step {step + 1}{of} is missing: {step} is followed by {after}{alone}")
        told = f"{steps.spelt(at)} is followed by {steps.spelt(at + 1)}, and every step must be {every}{alone}"
        raise Refused(file, row, f"a time{of} is missing or between two: {told}")
    return place_R


def _in_order(stream_R: np.ndarray, at_R: np.ndarray) -> np.ndarray:
    """Places of rows by stream and step; often they are in that order already."""
    later = (stream_R[1:] > stream_R[:-1]) | ((stream_R[1:] == stream_R[:-1]) & (at_R[1:] >= at_R[:-1]))
    return np.arange(len(at_R)) if later.all() else np.lexsort((at_R, stream_R))


def streams_in_rows(table: Any, name: str | None, where: str, before: int = 0) -> tuple[list[Any], np.ndarray]:
    if name is None:
        return [0], np.zeros(table.num_rows, dtype=np.int32)
    column = one_column(table, name)
    without_nulls(column, f"the stream ({name})", where, before)
    column = encoded(column, f"the streams ({name})", where)
    names, stream_R = column.dictionary.to_pylist(), np.asarray(column.indices).astype(np.int32, copy=False)
    if bad := [i for i, value in enumerate(names) if value != value]:
        row = int(np.flatnonzero(stream_R == bad[0])[0])
        raise Refused(where, before + row + 1, f"the stream ({name}) is not a number")
    if bad := [i for i, value in enumerate(names) if isinstance(value, str) and value == ""]:
        row = int(np.flatnonzero(stream_R == bad[0])[0])  # as a missing value is written in CSV
        raise Refused(where, before + row + 1, f"the stream ({name}) is missing: the cell is empty")
    return names, stream_R


def encoded(column: Any, what: str, where: str) -> Any:
    """The different values of a column, which must be names or numbers, and which of them each row has."""
    pa = arrow()
    kind = column.dictionary.type if hasattr(column, "dictionary") else column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise Refused(where, None, f"{what} must be names or numbers, got {kind}")
    if not hasattr(column, "dictionary"):
        return column.dictionary_encode()
    listed = column.dictionary  # what a frame was filtered from may still be in it
    used = np.bincount(np.asarray(column.indices), minlength=len(listed)) > 0
    plain = used.all() and len(listed.unique()) == len(listed)
    return column if plain else column.dictionary_decode().dictionary_encode()


def places_in(table: Any, name: str, names: Names, what: str, where: str, before: int) -> np.ndarray:
    """Positions of states or actions, by name."""
    column = one_column(table, name)
    without_nulls(column, f"{what} ({name})", where, before)
    column = encoded(column, f"{what}s ({name})", where)
    distinct, index_R = _exactly(column.dictionary), np.asarray(column.indices)
    places = [names.position(value) for value in distinct]
    found = np.array([-1 if place is None else place for place in places], dtype=np.int32)
    states_R = found[index_R] if len(found) else np.zeros(0, dtype=np.int32)
    if len(bad := np.flatnonzero(states_R < 0)):
        said = names.refusal(distinct[int(index_R[bad[0]])])
        raise Refused(where, before + int(bad[0]) + 1, f"{what} ({name}) must be {said}{also(bad, before)}")
    return states_R


def _exactly(values: Any) -> list[Any]:
    """The values of a column, floats in their own precision: a float32 0.1 differs from Python's."""
    return list(values.to_numpy(zero_copy_only=False)) if arrow().types.is_floating(values.type) else values.to_pylist()


def plainly(value: Any) -> str:
    """A stream's value as its name: 1.0 is 1."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
