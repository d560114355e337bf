"""Logs on a disk, CSV or Parquet, read a piece at a time (extra: ``data``)."""

import csv
import re
import threading
import zlib
from collections.abc import Iterator
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

_FILE = 40  # bits of a row's number within its file; those above say which file
_BATCH = 1 << 17  # rows that are decoded at a time
_FRAGMENT = 1 << 18  # rows of a fragment, in whole row groups
_CSV_BLOCK = 1 << 23  # bytes
_CSV_ROW = 32  # bytes that a row of CSV may be taken to have, where rows are not counted beforehand
_PARTITION = 800_000  # rows: streams that are judged together
_FEWEST, _MOST = 4, 4096  # partitions


class Fragment(NamedTuple):
    """A part of a file that is read on its own."""

    file: int
    path: str
    groups: tuple[int, ...] | None  # row groups of Parquet; None: all of a CSV
    before: int  # rows of the file before it
    rows: int  # about how many it has


class Log(NamedTuple):
    """A file, or the files of a folder in the order of their names."""

    paths: tuple[str, ...]
    rows: int  # about how many
    fragments: tuple[Fragment, ...]
    columns: Columns
    contexts: tuple[Any, ...] | None = None  # which there are

    @property
    def tells(self) -> Tells:
        """Of what kind that is which was known before the state."""
        columns = self.columns
        kind = "change" if columns.payoffs else "scaled" if columns.scale else None
        labels = None if self.contexts is None else tuple(map(plainly, self.contexts))
        return Tells(tuple(name for name, _ in columns.references), labels, kind, columns.act)

    @property
    def partitions(self) -> int:
        """Into how many parts its streams are dealt out: by the log alone, so that everyone deals alike."""
        return int(min(max(-(-self.rows // _PARTITION), _FEWEST), _MOST))

    @property
    def exact(self) -> bool:
        """Whether ``rows`` is how many there are, as Parquet says beforehand."""
        return all(fragment.groups is not None for fragment in self.fragments)

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


def record_of(problem: DecisionProblem | Payoff, columns: Columns) -> np.dtype:
    """What is kept of a row; what else was known is called as in ``Told``."""
    A, S = problem.n_actions, len(columns.levels) or problem.n_states  # type: ignore[union-attr]
    told: list[tuple[str, str, tuple[int, ...]]] = []
    if columns.references:
        told.append(("laws", "<f8", (len(columns.references), A if columns.act else S)))
    told += [("context", "<i8", ())] if columns.context else []
    told += [("payoffs", "<f8", (A, S))] if columns.payoffs else []
    told += [("scale", "<f8", ())] if columns.scale else []
    return np.dtype(
        [
            *(("stream", "<i4"), ("state", "<f8" if columns.levels else "<i4")),
            *(("order", "<i8"), ("offset", "<i8")),  # as ``Steps`` has them
            *(("row", "<i8"), ("probs", "<f8", (S,))),
            *told,
        ]
    )


def log_at(path: Path, problem: DecisionProblem | Payoff, told: dict[str, Any] | None = None) -> Log:
    """The log in a file or a folder: what it holds is read later."""
    if not path.exists():
        raise ValueError(f"LOG must be a .csv or .parquet file, or a folder of them, and {path} is not there")
    found = [path]
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in (".csv", ".parquet") and not p.is_dir())
    for file in found:
        if not file.is_file():  # a link that leads nowhere, or a pipe that never ends
            raise Refused(str(file), None, "it is no file")
    kinds = {p.suffix.lower() for p in found}
    if len(kinds) != 1 or not kinds <= {".csv", ".parquet"}:
        held = "holds " + (" and ".join(sorted(kinds)) or "none") if path.is_dir() else f"ends in {path.suffix!r}"
        raise ValueError(f"LOG must be a .csv or .parquet file, or a folder of one kind, and {path} {held}")
    columns, fragments = None, []
    for i, file in enumerate(found):
        names, own = (_csv if file.suffix.lower() == ".csv" else _parquet)(i, file)
        fragments += own
        try:
            here = quantile_columns(names, told) if isinstance(problem, Payoff) else columns_of(names, problem, told)
        except ValueError as error:
            raise Refused(str(file), None, str(error)) from error
        if columns is not None:
            if here._replace(guesses=None) != columns._replace(guesses=None):
                raise Refused(str(file), None, f"its columns are others than those of {found[0]}")
            if here.guesses is not None:
                here = here._replace(guesses=tuple(name for name in here.guesses if name in (columns.guesses or ())))
        columns = here
        if (
            file.suffix.lower() == ".csv"
            and isinstance(problem, DecisionProblem)
            and len(columns.probs) != problem.n_states
        ):
            hint = lone(columns.probs[0], problem.states)
            raise Refused(str(file), None, f"a CSV file must have one column of probabilities a state{hint}")
    assert columns is not None
    if not fragments:
        raise Refused(str(path), None, "there is no row in it")
    return _looked_over(Log(tuple(map(str, found)), sum(f.rows for f in fragments), tuple(fragments), columns))


def _looked_over(log: Log) -> Log:
    """The log with what must be known of all rows before one is read: the contexts, and whether a forecast is a median.

    Columns that are told are read twice.
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
            yield from _batches(fragment, log.columns, names)
        except (arrow().ArrowException, OSError, UnicodeDecodeError) as error:
            raise Refused(fragment.path, _row_said(error), _words(error)) from error


def records_in(
    fragment: Fragment, log: Log, problem: Any, tolerance: float, names: StreamNumbers, digest: Any
) -> Iterator[tuple[np.ndarray, str, int]]:
    """Checked rows of a fragment as records, what their steps are, and how many were renormalised.

    ``digest``, as ``hashlib`` has them, is told of all that is kept of them, in whatever batches they come.
    """
    before, pa = fragment.before, arrow()
    record = record_of(problem, log.columns)
    batches = _batches(fragment, log.columns)
    while True:
        try:
            table = next(batches, None)
            if table is None:
                return
            rows = rows_in(table, log.columns, problem, tolerance, fragment.path, before)
            told, _ = told_in(table, log.columns, problem, tolerance, fragment.path, before, log.contexts)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise Refused(fragment.path, _row_said(error), _words(error)) from error
        found = np.empty(len(rows.stream_R), dtype=record)
        named = list(map(plainly, rows.names))
        found["state"], found["probs"] = rows.states_R, rows.probs_RxS
        for part, values in told._asdict().items():
            if values is not None:
                found[part] = values
        found["order"], found["offset"] = rows.steps.at_R, rows.steps.offset_R
        found["row"] = np.arange(before, before + len(found)) + (fragment.file << _FILE)
        if log.columns.order is None:  # as they stand, one file after the other
            found["order"] = found["row"]
        _refuse_crowd(rows, found["row"], log)
        sums = np.array([zlib.crc32(_bytes(name)) for name in named], dtype=np.uint32)
        found["stream"] = sums.astype(np.int32)[rows.stream_R]  # the names themselves: their numbers are of this run
        digest.update(found.tobytes())
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


def partition_of(name: str, partitions: int) -> int:
    """Where a stream belongs: the same on every machine."""
    return zlib.crc32(_bytes(name)) % partitions


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _batches(fragment: Fragment, columns: Columns, only: list[str] | None = None) -> Iterator[Any]:
    needed = columns.needed if only is None else only
    if fragment.groups is None:
        yield from _csv_batches(fragment.path, columns, needed)
        return
    import pyarrow.parquet as pq

    pa, kinds = arrow(), pq.read_schema(fragment.path)
    names = [name for name in (columns.stream, *columns.named) if name in needed]
    named = [name for name in names if pa.types.is_string(kinds.field(name).type)]
    with pq.ParquetFile(fragment.path, read_dictionary=named) as f:
        yield from f.iter_batches(_BATCH, row_groups=list(fragment.groups), columns=needed, use_threads=False)


def _csv_batches(path: str, columns: Columns, needed: list[str]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv as text

    types = {name: pa.float64() for name in columns.numbers}
    types |= {name: pa.string() for name in (columns.stream, *columns.named) if name is not None}

    def opened() -> Any:
        return text.open_csv(
            path,
            read_options=text.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
            parse_options=text.ParseOptions(newlines_in_values=True),
            convert_options=text.ConvertOptions(include_columns=needed, column_types=types),
        )

    reader = opened()
    if columns.order in needed and getattr(reader.schema.field(columns.order).type, "tz", None) is not None:
        types[columns.order] = pa.string()  # as it stands: read as times, all would be in UTC
        reader.close()
        reader = opened()
    with reader:
        yield from reader


def _csv(at: int, path: Path) -> tuple[list[str], list[Fragment]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refused(str(path), None, f"it is no CSV in UTF-8: {error}") from error
    if not header:
        raise Refused(str(path), None, "it is empty")
    return header, [Fragment(at, str(path), None, 0, -(-path.stat().st_size // _CSV_ROW))]


def _parquet(at: int, path: Path) -> tuple[list[str], list[Fragment]]:
    pa = arrow()
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            about, names = file.metadata, file.schema_arrow.names
            sizes = [about.row_group(g).num_rows for g in range(about.num_row_groups)]
    except (pa.ArrowException, OSError) as error:
        raise Refused(str(path), None, f"it is no Parquet file: {_words(error)}") from error
    found, begin, before = [], 0, 0
    for g in range(len(sizes)):
        rows = sum(sizes[begin : g + 1])
        if rows >= _FRAGMENT or (g == len(sizes) - 1 and rows):
            found.append(Fragment(at, str(path), tuple(range(begin, g + 1)), before, rows))
            begin, before = g + 1, before + rows
    return names, found


def _row_said(error: Exception) -> int | None:
    """The row that a reader of CSV names, which counts the header too."""
    found = re.search(r"Row #(\d+)", str(error))
    return None if found is None else max(int(found.group(1)) - 1, 1)


def _words(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
