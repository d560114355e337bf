"""The files a log may be, each read by pyarrow's own reader (extra: ``data``): text, Parquet, Feather, a workbook."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from urllib.parse import unquote

from .cells import Refused, arrow

_BATCH = 1 << 17  # rows that are decoded at a time
_PART = 1 << 18  # rows of a part, in whole row groups
_CSV_BLOCK = 1 << 23  # bytes
_CSV_ROW = 32  # the assumed bytes of a row of CSV, where rows are not counted beforehand
_UNPACKED = 4  # by how much compressed text is assumed to grow
_SAMPLE, _SEEN = 1 << 18, 1000  # bytes and rows of a text that are looked at before it is read
_DELIMITERS = (",", ";", "\t", "|")
_PACKED = (".gz", ".bz2", ".zst")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the name of the folder of rows that have none
_COMMA = re.compile(r"[+-]?\d*,\d+\s*%?", re.ASCII)
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?\s*%?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+\s*%?", re.ASCII)


class Wanted(NamedTuple):
    """Which columns are read, and which of them are names or numbers whatever they look like; ``order`` holds times."""

    needed: list[str]
    texts: list[str]
    numbers: list[str]
    order: str | None


class Part(NamedTuple):
    """A part that is read on its own: some row groups of a file (None: all of it), and about how many rows it has."""

    groups: tuple[int, ...] | None
    rows: int


@dataclass(frozen=True)
class Table:
    """Rows in one place.

    Parameters
    ----------
    where
        What a refusal calls it: a path if it is a file.
    keys
        Columns from the names of its folders, ``town=Aa/``, with their values.
    """

    where: str
    keys: tuple[tuple[str, str | None], ...] = ()

    counts = True  # whether the number of its rows is known before they are read
    lists = True  # whether a cell may be a list

    @property
    def size(self) -> int:
        return Path(self.where).stat().st_size

    def names(self) -> list[str]:
        """The names of its columns."""
        own = self._names()
        return [*own, *(name for name, _ in self.keys if name not in own)]

    def batches(self, part: Part, wanted: Wanted) -> Iterator[Any]:
        """The rows of a part, in order, piece by piece, as Arrow tables or batches."""
        own = set(self._names())
        added = {name: value for name, value in self.keys if name in wanted.needed and name not in own}
        if not added:
            yield from self._batches(part, wanted)
            return
        pa = arrow()
        for batch in self._batches(part, wanted._replace(needed=[name for name in wanted.needed if name in own])):
            for name, value in added.items():
                batch = batch.append_column(name, pa.repeat(pa.scalar(value, pa.string()), batch.num_rows))
            yield batch

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the answer should know of how it was read."""
        return ()

    def _names(self) -> list[str]:
        raise NotImplementedError

    def parts(self) -> list[Part]:
        raise NotImplementedError

    def _batches(self, part: Part, wanted: Wanted) -> Iterator[Any]:
        raise NotImplementedError


class Look(NamedTuple):
    """The format of a text file, judged by its first lines."""

    header: list[str]
    delimiter: str
    decimal: str
    percents: tuple[str, ...]  # columns with percent signs


@dataclass(frozen=True)
class Text(Table):
    """CSV and its kin; compressed where its name says so."""

    look: Look | None = None

    counts = False
    lists = False

    @classmethod
    def at(cls, where: str, keys: Any) -> "Text":
        return cls(where, keys, _look_at(where))

    @property
    def notes(self) -> tuple[str, ...]:
        assert self.look is not None
        name, found = PurePath(self.where).name, []
        if self.look.decimal == ",":
            found.append(f"{name}: numbers are read with decimal commas")
        if self.look.percents:
            found.append(f"{name}: percent signs are read as hundredths, in {', '.join(self.look.percents[:12])}")
        return tuple(found)

    def _names(self) -> list[str]:
        assert self.look is not None
        return self.look.header

    def parts(self) -> list[Part]:
        packed = Path(self.where).suffix.lower() in _PACKED
        return [Part(None, -(-self.size * (_UNPACKED if packed else 1) // _CSV_ROW))]

    def _batches(self, part: Part, wanted: Wanted) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.csv as text

        assert self.look is not None
        look = self.look
        types = {name: pa.string() if name in look.percents else pa.float64() for name in wanted.numbers}
        types |= {name: pa.string() for name in wanted.texts}

        def opened() -> Any:
            return text.open_csv(
                self.where,
                read_options=text.ReadOptions(block_size=_CSV_BLOCK, use_threads=False),
                parse_options=text.ParseOptions(delimiter=look.delimiter, newlines_in_values=True),
                convert_options=text.ConvertOptions(
                    include_columns=wanted.needed, column_types=types, decimal_point=look.decimal
                ),
            )

        reader = opened()
        order = wanted.order
        if order in wanted.needed and getattr(reader.schema.field(order).type, "tz", None) is not None:
            types[order] = pa.string()  # as it stands: read as times, all would be in UTC
            reader.close()
            reader = opened()
        with reader:
            yield from reader


def _look_at(where: str) -> Look:
    """The header of a text, and how its numbers are written."""
    try:
        with arrow().input_stream(where, compression="detect") as file:
            found = file.read(_SAMPLE)
        if len(found) == _SAMPLE:  # what is cut off is not looked at
            found = found[: found.rfind(b"\n") + 1] or found
        sample = found.decode("utf-8-sig")
        tried = _DELIMITERS if ".tsv" not in [s.lower() for s in PurePath(where).suffixes] else ("\t",)
        rows = {sign: csv.reader(io.StringIO(sample, newline=""), delimiter=sign) for sign in tried}
        headers = {sign: next(lines, []) for sign, lines in rows.items()}
        delimiter = max(tried, key=lambda sign: len(headers[sign]))  # the first of those with as many
        header, cells = headers[delimiter], [row for row, _ in zip(rows[delimiter], range(_SEEN), strict=False)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refused(where, None, f"it is not CSV in UTF-8: {error}") from error
    except (arrow().ArrowException, OSError) as error:
        raise Refused(where, None, f"it cannot be read: {words(error)}") from error
    if not header:
        raise Refused(where, None, "it is empty")
    written = [cell.strip() for row in cells for cell in row]
    commas = any(_COMMA.fullmatch(cell) and not _THOUSANDS.fullmatch(cell) for cell in written)
    decimal = "," if commas and not any(map(_POINT.fullmatch, written)) else "."
    percents = {name for row in cells for name, cell in zip(header, row, strict=False) if cell.rstrip().endswith("%")}
    return Look(header, delimiter, decimal, tuple(name for name in header if name in percents))


@dataclass(frozen=True)
class Parquet(Table):
    """A file of row groups, some of which make a part."""

    def _names(self) -> list[str]:
        names: list[str] = self._about()[0]
        return names

    def _about(self) -> Any:
        pa = arrow()
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.where) as file:
                about = file.metadata
                sizes = [about.row_group(g).num_rows for g in range(about.num_row_groups)]
                return file.schema_arrow.names, sizes
        except (pa.ArrowException, OSError) as error:
            raise Refused(self.where, None, f"it is not a Parquet file: {words(error)}") from error

    def parts(self) -> list[Part]:
        sizes, found, begin = self._about()[1], list[Part](), 0
        for g in range(len(sizes)):
            rows = sum(sizes[begin : g + 1])
            if rows >= _PART or (g == len(sizes) - 1 and rows):
                found.append(Part(tuple(range(begin, g + 1)), rows))
                begin = g + 1
        return found

    def _batches(self, part: Part, wanted: Wanted) -> Iterator[Any]:
        import pyarrow.parquet as pq

        assert part.groups is not None
        pa, kinds = arrow(), pq.read_schema(self.where)
        named = [name for name in wanted.texts if name in wanted.needed and pa.types.is_string(kinds.field(name).type)]
        with pq.ParquetFile(self.where, read_dictionary=named) as file:
            yield from file.iter_batches(_BATCH, row_groups=list(part.groups), columns=wanted.needed, use_threads=False)


@dataclass(frozen=True)
class Feather(Table):
    """Arrow's own format, as files have it."""

    def _open(self, names: list[str] | None = None) -> Any:
        pa = arrow()
        try:
            file = pa.ipc.open_file(pa.memory_map(self.where))
            if names is None:
                return file.schema.names, sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))
            fields = [file.schema.get_field_index(name) for name in names]
            options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
            return pa.ipc.open_file(pa.memory_map(self.where), options=options)
        except (pa.ArrowException, OSError) as error:
            raise Refused(self.where, None, f"it is not a Feather file: {words(error)}") from error

    def _names(self) -> list[str]:
        names: list[str] = self._open()[0]
        return names

    def parts(self) -> list[Part]:
        rows = self._open()[1]
        return [Part(None, rows)] if rows else []

    def _batches(self, part: Part, wanted: Wanted) -> Iterator[Any]:
        file = self._open(wanted.needed)
        for i in range(file.num_record_batches):
            yield from _sliced(file.get_batch(i))


@dataclass(frozen=True)
class Held(Table):
    """Rows in memory: a frame, what a query gave, the first sheet of a workbook."""

    rows: Any = None
    said: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return int(self.rows.nbytes)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.said

    def _names(self) -> list[str]:
        names: list[str] = self.rows.column_names
        return names

    def parts(self) -> list[Part]:
        return [Part((begin,), min(_PART, len(self.rows) - begin)) for begin in range(0, len(self.rows), _PART)]

    def _batches(self, part: Part, wanted: Wanted) -> Iterator[Any]:
        assert part.groups is not None
        yield from _sliced(self.rows.select(wanted.needed).slice(part.groups[0], part.rows))


def _sliced(rows: Any) -> Iterator[Any]:
    for begin in range(0, rows.num_rows, _BATCH):
        yield rows.slice(begin, _BATCH)


def _workbook(where: str, keys: Any) -> Held:
    """The first sheet: a header, then one row per step; empty rows at the end are dropped."""
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("an .xlsx needs openpyxl: pip install 'lowregret[excel]'", name="openpyxl") from error
    pa = arrow()
    try:
        book = openpyxl.load_workbook(where, read_only=True, data_only=True)
        lines, others = [list(line) for line in book.worksheets[0].iter_rows(values_only=True)], book.sheetnames[1:]
        book.close()
    except Exception as error:  # a broken archive, whatever its reader says of it
        raise Refused(where, None, f"it is not a workbook: {words(error)}") from error
    while lines and not any(cell is not None for cell in lines[-1]):
        lines.pop()
    if not lines:
        raise Refused(where, None, "it is empty")
    header = ["" if cell is None else str(cell) for cell in lines[0]]
    cells = [[line[i] if i < len(line) else None for line in lines[1:]] for i in range(len(header))]
    said = (f"{PurePath(where).name}: the first of {1 + len(others)} sheets is read",) if others else ()
    table = pa.Table.from_arrays([_column(column) for column in cells], names=header)
    return Held(where, keys, table, said)


def _column(cells: list[Any]) -> Any:
    pa = arrow()
    try:
        return pa.array(cells)
    except (pa.ArrowException, TypeError):  # of several kinds, as people type them
        return pa.array([None if cell is None else str(cell) for cell in cells])


def held(frame: Any, where: str) -> Held:
    """The rows of anything with columns by the Arrow PyCapsule interface."""
    pa = arrow()
    try:
        return Held(where, (), pa.table(frame))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"{where} must have columns that Arrow knows: {words(error)}") from error


_KINDS: dict[str, Any] = {
    **dict.fromkeys((".csv", ".tsv"), Text),
    **dict.fromkeys((".parquet", ".pq"), Parquet),
    **dict.fromkeys((".feather", ".arrow"), Feather),
    ".xlsx": Held,
}
ENDINGS = ", ".join(_KINDS)


def kind_of(path: Path) -> Any:
    """The class that reads a file, by the ending of its name; None if there is none."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in _PACKED and _KINDS.get(suffixes[-2]) is Text:
        return Text
    return _KINDS.get(suffixes[-1]) if suffixes else None


def tables_at(path: Path) -> list[Table]:
    """The file, or those of a folder by name, without the hidden ones that programs leave there."""
    if not path.exists():
        raise ValueError(f"LOG must be a file that ends in {ENDINGS}, or a folder of them, and {path} is not there")
    found = [path]
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if kind_of(p) and not p.is_dir() and not _hidden(p, path))
    for file in found:
        if not file.is_file():  # a link that leads nowhere, or a pipe that never ends
            raise Refused(str(file), None, "it is not a regular file")
    kinds = {kind_of(p) for p in found}
    if len(kinds) != 1 or None in kinds:
        endings = " and ".join(sorted({p.suffix.lower() for p in found})) or "none"
        held = f"holds {endings}" if path.is_dir() else f"ends in {path.suffix!r}"
        raise ValueError(f"LOG must be a file that ends in {ENDINGS}, or a folder of one kind, and {path} {held}")
    (kind,) = kinds
    made = {Text: Text.at, Held: _workbook}.get(kind, kind)
    return [made(str(file), _keys(file, path)) for file in found]


def _hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _keys(file: Path, folder: Path) -> tuple[tuple[str, str | None], ...]:
    """What the names of folders say of all rows in them, town=Aa, as Hive and Spark write it."""
    if file == folder:
        return ()
    pairs = (part.split("=", 1) for part in file.relative_to(folder).parts[:-1] if "=" in part)
    return tuple((unquote(name), None if value == _NO_VALUE else unquote(value)) for name, value in pairs)


def asked(query: str, database: str | Path | None = None) -> Held:
    """The rows of a query, from an SQLite file or from DuckDB (extra: ``duckdb``), which can also read other files."""
    path = None if database is None else Path(database)
    if path is not None and not path.is_file():
        raise ValueError(f"--database must be a file of DuckDB or SQLite, and {path} is not there")
    if path is not None:
        with path.open("rb") as file:
            if file.read(16) == b"SQLite format 3\0":
                return _of_sqlite(query, path)
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("--query needs DuckDB: pip install 'lowregret[duckdb]'", name="duckdb") from error
    try:
        with duckdb.connect(":memory:" if path is None else str(path), read_only=path is not None) as connection:
            found = connection.sql(query)
            if found is None:
                raise ValueError(f"--query must be one that gives rows, got {query[:200]!r}")
            return held(found, "the query")
    except duckdb.Error as error:
        raise ValueError(f"--query cannot be answered: {words(error)}") from error


def _of_sqlite(query: str, path: Path) -> Held:
    import sqlite3
    from contextlib import closing

    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(query)
            if found.description is None:
                raise ValueError(f"--query must be one that gives rows, got {query[:200]!r}")
            names, rows = [about[0] for about in found.description], found.fetchall()
    except sqlite3.Error as error:
        raise ValueError(f"--query cannot be answered: {words(error)}") from error
    columns = [_column([row[i] for row in rows]) for i in range(len(names))]
    return Held("the query", (), arrow().Table.from_arrays(columns, names=names))


def words(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
