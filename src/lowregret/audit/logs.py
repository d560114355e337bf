"""Logs, wherever their rows are, read a piece at a time (extra: ``data``)."""

import re
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..problems import DecisionProblem, Payoff
from .cells import Refused, arrow
from .columns import Columns, alone_told, columns_of
from .frames import told_in
from .known import Tells, labelled
from .laws import lone
from .outcome_frames import quantile_columns, rows_in, with_median
from .rows import Rows, plainly, sorted_rows
from .tables import Part, Table, Wanted, held, tables_at, words

_FILE = 40  # bits of a row's number within its file; those above say which file
_PARTITION = 800_000  # rows: streams that are judged together
_FEW, _MOST = 4, 4096  # partitions
_SMALL = 50_000  # rows: a log is divided for so many at least


class Fragment(NamedTuple):
    """A part of a file that can be read on its own."""

    file: int
    path: str
    groups: tuple[int, ...] | None  # as its ``Part`` has them
    before: int  # rows of the file before it
    rows: int  # about how many it has


class Log(NamedTuple):
    """A file, the files of a folder in the order of their names, or rows in memory."""

    tables: tuple[Table, ...]
    rows: int  # about how many
    fragments: tuple[Fragment, ...]
    columns: Columns
    contexts: tuple[Any, ...] | None = None  # which there are

    @property
    def tells(self) -> Tells:
        """What kinds of things were known before each state."""
        columns = self.columns
        kind = "change" if columns.payoffs else "scaled" if columns.scale else None
        labels = None if self.contexts is None else tuple(map(plainly, self.contexts))
        return Tells(tuple(name for name, _ in columns.references), labels, kind)

    @property
    def paths(self) -> tuple[str, ...]:
        """What refusals call them."""
        return tuple(table.where for table in self.tables)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the answer should know of how the files were read; the same note is given once."""
        return next((table.notes for table in self.tables if table.notes), ())

    @property
    def partitions(self) -> int:
        """Into how many parts its streams are dealt out: by the log alone, so that every process agrees."""
        few = min(_FEW, max(1, self.rows // _SMALL))
        return int(min(max(-(-self.rows // _PARTITION), few), _MOST))

    @property
    def exact(self) -> bool:
        """Whether ``rows`` is exact: all formats but text say it beforehand."""
        return all(table.counts for table in self.tables)

    def where(self, row: int) -> tuple[str, int]:
        """The file of a row, and which row of that file it is, from 1."""
        return self.paths[row >> _FILE], (row & ((1 << _FILE) - 1)) + 1


class StreamNumbers:
    """Streams by number, in the order in which they are first met."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, names: list[str]) -> np.ndarray:
        with self._lock:
            numbers = self.numbers
            return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int32)


def record_of(problem: DecisionProblem | Payoff, columns: Columns) -> np.dtype:
    """What is kept of a row; fields of what else was known have the names that ``Told`` gives them."""
    A, S = problem.n_actions, len(columns.levels) or problem.n_states  # type: ignore[union-attr]
    told: list[tuple[str, str, tuple[int, ...]]] = []
    if columns.references:
        told.append(("laws", "<f8", (len(columns.references), S)))
    told += [("context", "<i8", ())] if columns.context else []
    told += [("payoffs", "<f8", (A, S))] if columns.payoffs else []
    told += [("scale", "<f8", ())] if columns.scale else []
    return np.dtype(
        [
            *(("stream", "<i4"), ("state", "<f8" if columns.levels else "<i4")),
            *(("order", "<i8"), ("offset", "<i8")),  # as ``Steps`` has them
            *(("row", "<i8"), ("probs", "<f8", (S,))),
            *([("known", "<i8")] if columns.known_at is not None else []),  # when the outcome was
            *told,
        ]
    )


def _of_quantiles(names: list[str], _: Payoff, told: dict[str, Any] | None) -> Columns:
    return quantile_columns(names, told)


def log_at(
    log: Any,
    problem: DecisionProblem | Payoff,
    told: dict[str, Any] | None = None,
    found_in: Callable[[list[str], Any, Any], Columns] | None = None,
) -> Log:
    """The log in a file, a folder, or anything with columns by Arrow; its rows are read later.

    ``found_in`` says which of its columns matter.
    """
    find: Callable[[list[str], Any, Any], Columns] = _of_quantiles if isinstance(problem, Payoff) else columns_of
    tables = [log] if isinstance(log, Table) else tables_at(log) if isinstance(log, Path) else [held(log, "the frame")]
    columns, fragments = None, list[Fragment]()
    for i, table in enumerate(tables):
        before = 0
        for part in table.parts():
            fragments.append(Fragment(i, table.where, part.groups, before, part.rows))
            before += part.rows
        try:
            here = (found_in or find)(table.names(), problem, told)
        except Refused:
            raise
        except ValueError as error:
            raise Refused(table.where, None, str(error)) from error
        if columns is not None:
            if here._replace(guesses=None) != columns._replace(guesses=None):
                raise Refused(table.where, None, f"its columns differ from those of {tables[0].where}")
            if here.guesses is not None:
                here = here._replace(guesses=tuple(name for name in here.guesses if name in (columns.guesses or ())))
        columns = here
        if not table.lists and isinstance(problem, DecisionProblem) and len(columns.probs) != problem.n_states:
            hint = lone(columns.probs[0], problem.states)
            raise Refused(table.where, None, f"a CSV file must have one column of probabilities per state{hint}")
    assert columns is not None
    if not fragments:
        raise Refused(tables[0].where, None, "it has no rows")
    return _looked_over(Log(tuple(tables), sum(f.rows for f in fragments), tuple(fragments), columns))


def _looked_over(log: Log) -> Log:
    """The log with what must be known of all rows before the first is read: the contexts, and whether a forecast is a
    median. Such columns are read twice.
    """
    columns = log.columns
    contexts: dict[Any, None] = {}
    if columns.context is not None:
        for table in _tables(log, [columns.context]):
            contexts |= dict.fromkeys(table.column(columns.context).unique().to_pylist())
    if columns.point is not None:
        columns = with_median(columns, _tables(log, [columns.point, *filter(None, columns.probs)]), log.paths[0])
    given = [value for value in contexts if value is not None and value == value]  # a missing one is refused by its row
    labels = None if columns.context is None else labelled([given], f"the context ({columns.context})")[0]
    return log._replace(columns=columns, contexts=labels)


def _tables(log: Log, names: list[str]) -> Iterator[Any]:
    """These columns of all rows, piece by piece."""
    for fragment in log.fragments:
        try:
            yield from _batches(fragment, log, names)
        except (arrow().ArrowException, OSError, UnicodeDecodeError) as error:
            raise Refused(fragment.path, _row_said(error), words(error)) from error


def records_in(
    fragment: Fragment, log: Log, problem: Any, tolerance: float, names: StreamNumbers
) -> Iterator[tuple[np.ndarray, str, int]]:
    """Checked rows of a fragment as records, what their steps are, and how many were renormalised."""
    before, pa = fragment.before, arrow()
    record = record_of(problem, log.columns)
    batches = _batches(fragment, log)
    while True:
        try:
            table = next(batches, None)
            if table is None:
                return
            rows = rows_in(table, log.columns, problem, tolerance, fragment.path, before)
            told, _ = told_in(table, log.columns, problem, tolerance, fragment.path, before, log.contexts)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise Refused(fragment.path, _row_said(error), words(error)) from error
        found = np.empty(len(rows.stream_R), dtype=record)
        named = list(map(plainly, rows.names))
        found["state"], found["probs"] = rows.states_R, rows.probs_RxS
        for part, values in told._asdict().items():
            if values is not None:
                found[part] = values
        found["order"], found["offset"] = rows.steps.at_R, rows.steps.offset_R
        if rows.known_R is not None:
            found["known"] = rows.known_R
        found["row"] = np.arange(before, before + len(found)) + (fragment.file << _FILE)
        if log.columns.order is None:  # as they stand, one file after the other
            found["order"] = found["row"]
        _refuse_crowd(rows, found["row"], log)
        found["stream"] = names.of(named)[rows.stream_R]
        before += len(found)
        yield found, rows.steps.kind, rows.renormalised


def _refuse_crowd(rows: Rows, row_R: np.ndarray, log: Log) -> None:
    """Refuse more rows than their streams have steps for, before all the others are gathered."""
    at_R = rows.steps.at_R
    if log.columns.order is None or not len(at_R):
        return
    if len(at_R) > len(rows.names) * (int(at_R.max()) - int(at_R.min()) + 1):
        alone = alone_told(log.columns)
        sorted_rows(rows.names, rows.stream_R, rows.steps, row_R, log.where, alone=alone, whole=False)


def pieces_in(log: Log, read: Callable[[Any, str, int], Any]) -> Iterator[tuple[Any, np.ndarray]]:
    """What ``read(table, path, rows before it)`` makes of each piece of a log, and which rows those are."""
    pa = arrow()
    for fragment in log.fragments:
        before, batches = fragment.before, _batches(fragment, log)
        while True:
            try:
                table = next(batches, None)
                if table is None:
                    break
                found = read(table, fragment.path, before)
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise Refused(fragment.path, _row_said(error), words(error)) from error
            if table.num_rows:
                yield found, np.arange(before, before + table.num_rows) + (fragment.file << _FILE)
            before += table.num_rows


def partition_of(name: str, partitions: int) -> int:
    """The partition of a stream: the same on every machine."""
    return zlib.crc32(_bytes(name)) % partitions


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _batches(fragment: Fragment, log: Log, only: list[str] | None = None) -> Iterator[Any]:
    columns = log.columns
    needed = columns.needed if only is None else only
    named = [name for name in (columns.stream, *columns.named) if name in needed]
    numbers = [name for name in columns.numbers if name in needed]
    wanted = Wanted(needed, named, numbers, columns.order)
    return log.tables[fragment.file].batches(Part(fragment.groups, fragment.rows), wanted)


def _row_said(error: Exception) -> int | None:
    """The row that a CSV reader names, which counts the header too."""
    found = re.search(r"Row #(\d+)", str(error))
    return None if found is None else max(int(found.group(1)) - 1, 1)
