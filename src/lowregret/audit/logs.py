"""Logs, wherever their rows are, read a piece at a time (extra: ``data``)."""

import re
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..problems import DecisionProblem
from .cells import Refused, arrow
from .columns import Columns, alone_told, columns_of
from .laws import lone
from .rows import Rows, plainly, rows_of, sorted_rows
from .tables import Part, Table, Wanted, held, tables_at, words

_FILE = 40  # bits of a row's number within its file; those above say which file
_PARTITION = 800_000  # rows: streams that are judged together
_FEWEST, _MOST = 4, 4096  # partitions


class Fragment(NamedTuple):
    """A part of a file that is read on its own."""

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

    @property
    def paths(self) -> tuple[str, ...]:
        """What refusals call them."""
        return tuple(table.where for table in self.tables)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the answer must know of how the files were read: the same is said of the first alone."""
        return next((table.notes for table in self.tables if table.notes), ())

    @property
    def partitions(self) -> int:
        """Into how many parts its streams are dealt out: by the log alone, so that everyone deals alike."""
        return int(min(max(-(-self.rows // _PARTITION), _FEWEST), _MOST))

    @property
    def exact(self) -> bool:
        """Whether ``rows`` is how many there are, as all but text says beforehand."""
        return all(table.counts for table in self.tables)

    def where(self, row: int) -> tuple[str, int]:
        """Of which file a row is, and which row of it, from 1."""
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


def record_of(n_states: int, columns: Columns) -> np.dtype:
    """What is kept of a row."""
    return np.dtype(
        [
            *(("stream", "<i4"), ("state", "<i4")),
            *(("order", "<i8"), ("offset", "<i8")),  # as ``Steps`` has them
            *(("row", "<i8"), ("probs", "<f8", (n_states,))),
            *([("known", "<i8")] if columns.known_at is not None else []),  # when the outcome was
        ]
    )


def log_at(
    log: Any,
    problem: DecisionProblem,
    told: dict[str, Any] | None = None,
    found_in: Callable[[list[str], DecisionProblem, Any], Columns] = columns_of,
) -> Log:
    """The log in a file or a folder, or in what hands over columns by Arrow: what it holds is read later.

    ``found_in`` says which of its columns matter.
    """
    tables = [log] if isinstance(log, Table) else tables_at(log) if isinstance(log, Path) else [held(log, "the frame")]
    columns, fragments = None, list[Fragment]()
    for i, table in enumerate(tables):
        before = 0
        for part in table.parts():
            fragments.append(Fragment(i, table.where, part.groups, before, part.rows))
            before += part.rows
        try:
            here = found_in(table.names(), problem, told)
        except Refused:
            raise
        except ValueError as error:
            raise Refused(table.where, None, str(error)) from error
        if columns is not None:
            if here._replace(guesses=None) != columns._replace(guesses=None):
                raise Refused(table.where, None, f"its columns are others than those of {tables[0].where}")
            if here.guesses is not None:
                here = here._replace(guesses=tuple(name for name in here.guesses if name in (columns.guesses or ())))
        columns = here
        if not table.lists and len(columns.probs) != problem.n_states:
            hint = lone(columns.probs[0], problem.states)
            raise Refused(table.where, None, f"a CSV file must have one column of probabilities a state{hint}")
    assert columns is not None
    if not fragments:
        raise Refused(tables[0].where, None, "there is no row in it")
    return Log(tuple(tables), sum(f.rows for f in fragments), tuple(fragments), columns)


def records_in(
    fragment: Fragment, log: Log, problem: DecisionProblem, tolerance: float, names: StreamNumbers, digest: Any
) -> Iterator[tuple[np.ndarray, str, int]]:
    """Checked rows of a fragment as records, what their steps are, and how many were renormalised.

    ``digest``, as ``hashlib`` has them, is told of all that is kept of them, in whatever batches they come.
    """
    before, pa = fragment.before, arrow()
    record = record_of(problem.n_states, log.columns)
    batches = _batches(fragment, log)
    while True:
        try:
            table = next(batches, None)
            if table is None:
                return
            rows = rows_of(table, log.columns, problem, tolerance, fragment.path, before)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise Refused(fragment.path, _row_said(error), words(error)) from error
        found = np.empty(len(rows.stream_R), dtype=record)
        named = list(map(plainly, rows.names))
        found["state"], found["probs"] = rows.states_R, rows.probs_RxS
        found["order"], found["offset"] = rows.steps.at_R, rows.steps.offset_R
        if rows.known_R is not None:
            found["known"] = rows.known_R
        found["row"] = np.arange(before, before + len(found)) + (fragment.file << _FILE)
        if log.columns.order is None:  # as they stand, one file after the other
            found["order"] = found["row"]
        _refuse_crowd(rows, found["row"], log)
        sums = np.array([zlib.crc32(_bytes(name)) for name in named], dtype=np.uint32)
        found["stream"] = sums.astype(np.int32)[rows.stream_R]  # the names themselves: their numbers are of this run
        digest.update(found.view(np.uint8))
        found["stream"] = names.of(named)[rows.stream_R]
        before += len(found)
        yield found, rows.steps.kind, rows.renormalised


def _refuse_crowd(rows: Rows, row_R: np.ndarray, log: Log) -> None:
    """Refuse rows that are more than their streams have steps for, before all the others are gathered."""
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
    """Where a stream belongs: the same on every machine."""
    return zlib.crc32(_bytes(name)) % partitions


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _batches(fragment: Fragment, log: Log) -> Iterator[Any]:
    columns = log.columns
    named = [name for name in (columns.stream, columns.state) if name is not None]
    theirs = (name for _, names in columns.references for name in names)
    numbers = [name for name in (*columns.probs, *theirs) if name is not None]
    wanted = Wanted(columns.needed, named, numbers, columns.order)
    return log.tables[fragment.file].batches(Part(fragment.groups, fragment.rows), wanted)


def _row_said(error: Exception) -> int | None:
    """The row that a reader of CSV names, which counts the header too."""
    found = re.search(r"Row #(\d+)", str(error))
    return None if found is None else max(int(found.group(1)) - 1, 1)
