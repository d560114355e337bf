"""Logs as Polars queries: files, folders, globs, frames; every row keeps its number (extra: ``data``)."""

import csv
import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from .. import inputs
from ..tables import printable

try:
    import polars as pl
    import polars.selectors as cs
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("tables need Polars: pip install 'lowregret[data]'", name="polars") from error

ROW = "\x00row"  # the column with the number of a row over all files; no column of a log is called so
FRAME = "the frame"
TEXTS = (pl.String, pl.Categorical, pl.Enum)  # types of columns of texts
_KINDS = {
    **dict.fromkeys((".csv", ".tsv"), "text"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow"), "ipc"),
    **dict.fromkeys((".ndjson", ".jsonl"), "ndjson"),
}
ENDINGS = ", ".join(_KINDS)
_PACKED = (".gz", ".zst")
_SAMPLE = 1000  # lines of a text from which its format is known
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # how texts write that there is nothing
_COMMA = re.compile(r"[+-]?\d*,\d+\s*%?", re.ASCII)
_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?\s*%?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+\s*%?", re.ASCII)
UNREADABLE = (pl.exceptions.PolarsError, OSError)


class Refused(ValueError):
    """A log that cannot be read: which file, which row (the first below the header is 1), and why."""

    def __init__(self, where: str, row: int | None, reason: str) -> None:
        super().__init__(printable(f"{where}{'' if row is None else f', row {row}'}: {reason}"))
        self.where, self.row, self.reason = where, row, reason

    def __reduce__(self) -> Any:
        return Refused, (self.where, self.row, self.reason)


def first_line(error: Exception) -> str:
    """What an error says in its first line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def column(*names: str) -> pl.Expr:
    """Columns by their names as they stand: ``pl.col`` takes ``*`` and ``^...$`` for patterns."""
    return cs.by_name(*names).as_expr()


class Log(NamedTuple):
    """A log that is read later; of a text file all columns are texts."""

    rows: pl.LazyFrame  # with a column ROW
    paths: tuple[Path, ...] = ()  # of its files
    kind: str = "frame"
    has_commas: bool = False  # whether numbers in a text have decimal commas
    lacking: Mapping[str, Path] = {}  # columns that only some files have, each with a file that has it not

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The type of each column."""
        try:
            return {name: kind for name, kind in self.rows.collect_schema().items() if name != ROW}
        except UNREADABLE as error:
            raise Refused(self.source, None, f"it cannot be read: {first_line(error)}") from error

    @property
    def source(self) -> str:
        """What it is called."""
        return str(self.paths[0]) if self.paths else FRAME

    @property
    def files(self) -> str:
        """The names of its files."""
        return ", ".join([*(path.name for path in self.paths[:3]), *["..."] * (len(self.paths) > 3)]) or FRAME

    def place(self, row: int) -> tuple[str, int]:
        """The file of a row, and which row of that file it is, from 1."""
        for path in self.paths[:-1]:  # only where there is a fault: files are counted then
            n = scanned([path]).rows.select(pl.len()).collect().item()
            if row < n:
                return str(path), row + 1
            row -= n
        return str(self.paths[-1]) if self.paths else FRAME, row + 1

    def refused(self, row: int, reason: str) -> Refused:
        """The refusal of a row."""
        return Refused(*self.place(row), reason)

    def unreadable(self, error: Exception) -> Refused:
        """The refusal of what Polars cannot read: which file, and of a text the first row that is too long."""
        for path in self.paths:
            try:
                scanned([path]).rows.select(pl.all().null_count()).collect(engine="streaming")
            except UNREADABLE as own:
                lines = _cells(_lines(path), _format(path).separator) if self.kind == "text" else [[""]]
                cells = [len(row) for row in lines]
                if (most := max(cells)) > cells[0]:
                    return Refused(str(path), cells.index(most), f"it has {most} cells, and the header {cells[0]}")
                return Refused(str(path), None, f"it cannot be read: {first_line(own)}")
        return Refused(self.source, None, f"it cannot be read: {first_line(error)}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What Polars cannot read is refused."""
        try:
            yield
        except UNREADABLE as error:
            raise self.unreadable(error) from error

    def collected(self, query: pl.LazyFrame) -> pl.DataFrame:
        """The rows of a query, in memory."""
        with self.reading():
            return query.collect(engine="streaming")

    def cell(self, name: str, row: int) -> Any:
        """What stands in a column of a row."""
        return self.rows.filter(pl.col(ROW) == row).select(column(name)).collect().rows()[0][0]

    def head(self, names: Sequence[str], most: int = _SAMPLE) -> dict[str, list[str]]:
        """The first values of some columns as texts, without those that are missing."""
        if not names:
            return {}
        frame = self.collected(self.rows.select(column(*names).cast(pl.String)).head(most))
        return {name: frame[name].drop_nulls().str.strip_chars().to_list() for name in names}

    def number(self, name: str, is_chance: bool = False) -> pl.Expr:
        """A column as numbers, null where there are none: 70% is 0.7. A chance has no thousands, so 0,5 is one half."""
        own, kind = column(name), self.schema[name]
        if kind in TEXTS:
            read = partial(numbers_in, has_commas=is_chance or self.has_commas)
            return own.cast(pl.String).map_batches(read, return_dtype=pl.Float64, is_elementwise=True)
        if not (kind.is_numeric() or kind == pl.Null):
            raise Refused(self.source, None, f"the column {name} must hold numbers, got {kind}")
        return own.cast(pl.Float64)

    def filled(self, names: Sequence[str]) -> pl.LazyFrame:
        """Its rows; of a text without those in which all of these columns are empty, as in blank lines."""
        return self.rows.filter(~pl.all_horizontal(column(*names).is_null())) if self.kind == "text" else self.rows


def numbers_in(texts: pl.Series, has_commas: bool) -> pl.Series:
    """Texts as numbers, null where there is none: 70% is 0.7, and with ``has_commas`` 0,5 one half."""
    plain = texts.cast(pl.Float64, strict=False)
    if plain.null_count() == texts.null_count():
        return plain
    texts = texts.str.strip_chars()
    digits = texts.str.strip_suffix("%").str.strip_chars()
    if has_commas:
        digits = digits.str.replace(r"^([+-]?\d*),(\d+)$", "${1}.${2}")
    value = digits.cast(pl.Float64, strict=False)
    return (value / 100).zip_with(texts.str.ends_with("%").fill_null(False), value)


def log_of(source: Any) -> Log:
    """The log in a path, a glob, a folder, a list of paths, or a frame of any package that exports Arrow."""
    if isinstance(source, Log):
        return source
    is_lazy = isinstance(source, pl.LazyFrame)
    if is_lazy or (hasattr(source, "__arrow_c_stream__") and not hasattr(source, "__array_namespace__")):
        return Log((source if is_lazy else _polars_of(source).lazy()).with_row_index(ROW))
    several = source if isinstance(source, (list, tuple)) else [source]
    if not several or not all(isinstance(one, (str, Path)) for one in several):
        raise ValueError(f"a log must be a path, several paths, or a frame, got {inputs.shown(source)}")
    return scanned(list(dict.fromkeys(path for one in several for path in _files(Path(one)))))


def _polars_of(frame: Any) -> pl.DataFrame:
    try:
        if type(frame).__module__.split(".")[0] != "pandas" or frame.ndim != 2:
            return pl.DataFrame(frame)
        columns = {str(name): frame.iloc[:, i] for i, name in enumerate(frame.columns)}
        if len(columns) < len(frame.columns):
            raise ValueError("columns must have different names")
        levels = frame.index.to_frame(index=False)  # which may be times, or have names
        for i, name in enumerate(frame.index.names):
            if name is not None or levels.iloc[:, i].dtype.kind == "M":
                columns.setdefault("index" if name is None else str(name), levels.iloc[:, i])
        return pl.DataFrame([_series(name, values) for name, values in columns.items()])
    except (pl.exceptions.PolarsError, TypeError, ValueError, ImportError) as error:
        raise ValueError(f"the frame must have columns that Polars knows: {first_line(error)}") from error


def _series(name: str, values: Any) -> pl.Series:
    """A column of pandas; what Polars has no type for is written out: moments each in its own zone, UUIDs."""
    with suppress(pl.exceptions.PolarsError, TypeError, ValueError):
        if (zone := getattr(values.dtype, "tz", None)) is not None:
            moments = pl.Series(name, values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
            return moments.dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
        if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biufmM":
            return pl.Series(name, values.to_numpy())
    own = [None if gone else value for value, gone in zip(values.tolist(), values.isna(), strict=True)]
    with suppress(pl.exceptions.PolarsError, TypeError, ValueError):
        made = pl.Series(name, own)
        if made.dtype != pl.Object and not any(getattr(value, "tzinfo", None) is not None for value in own):
            return made
    written = [None if value is None else str(getattr(value, "isoformat", value.__str__)()) for value in own]
    return pl.Series(name, written, dtype=pl.String)


def _files(path: Path) -> list[Path]:
    """The file, or those of a folder or a glob by name, without the hidden ones that programs leave there."""
    if path.is_dir():
        inside = [(file, file.relative_to(path).parts) for file in sorted(path.rglob("*")) if not file.is_dir()]
        found = [file for file, parts in inside if _kind(file) and not any(part[0] in "._" for part in parts)]
    elif path.exists() or path.is_symlink():
        found = [path]
    else:
        found = [file for one in sorted(glob.glob(str(path), recursive=True)) for file in _files(Path(one))]
    if not found and not path.is_dir():
        raise ValueError(f"there is no file, folder or glob of a log at {path}")
    if not found or None in map(_kind, found):
        raise ValueError(f"a log must be a file that ends in {ENDINGS}, a folder or a glob of them, got {path}")
    for file in found:
        if not file.is_file():  # a link that leads nowhere, or a pipe that never ends
            raise Refused(str(file), None, "it is not a regular file")
    return found


def _kind(path: Path) -> str | None:
    ends = [end.lower() for end in path.suffixes]
    return _KINDS.get(ends[-2] if len(ends) > 1 and ends[-1] in _PACKED else ends[-1]) if ends else None


def scanned(paths: Sequence[Path]) -> Log:
    """Files of one kind, one after the other."""
    kinds = {_kind(path) for path in paths}
    if len(kinds) != 1:
        raise ValueError(f"a log must be files of one kind, got {', '.join(path.name for path in paths[:4])}")
    kind = str(kinds.pop())
    kept = [path for path in paths if kind != "ndjson" or path.stat().st_size] or [paths[0]]
    formats = {path: _format(path) if kind == "text" else None for path in kept}
    parts = {path: _part(path, kind, how) for path, how in formats.items()}
    schemas = {path: Log(part, (path,)).schema for path, part in parts.items()}
    names = dict.fromkeys(name for own in schemas.values() for name in own)
    for name in names:
        types = {path: own[name] for path, own in schemas.items() if own.get(name, pl.Null) != pl.Null}
        for path, other in types.items():
            first, its = next(iter(types.items()))
            if _sort(other) != _sort(its):
                raise Refused(str(path), None, f"the column {name} holds {other}, and {its} in {first}")
    lacks = {name: path for path, own in schemas.items() for name in names if name not in own and kind != "ndjson"}
    if len(parts) > 1:
        texts = (cs.categorical() | cs.enum()).cast(pl.String)
        parts = {path: part.with_columns(texts) for path, part in parts.items()}
    rows = pl.concat(parts.values(), how="diagonal_relaxed").with_row_index(ROW)
    return Log(rows, tuple(paths), kind, any(how.has_commas for how in formats.values() if how), lacks)


def _sort(kind: pl.DataType) -> str:
    """What a column may hold in one file where it has this type in another."""
    if kind == pl.Date or isinstance(kind, pl.Datetime):
        return f"times in {getattr(kind, 'time_zone', None)}"
    return "cells" if kind.is_numeric() or kind in TEXTS else str(kind.base_type())


class Format(NamedTuple):
    """How a text is written."""

    separator: str
    has_commas: bool  # whether numbers have decimal commas


def _part(path: Path, kind: str, how: Format | None) -> pl.LazyFrame:
    """A file; what the names of its folders say of it, town=Aa/, as Hive and Spark write them, are columns of texts."""
    if how is not None:
        rows = pl.scan_csv(path, separator=how.separator, infer_schema=False, glob=False).rename(str.strip)
    elif kind == "parquet":
        rows = pl.scan_parquet(path, hive_partitioning=False, glob=False)
    elif kind == "ipc":
        rows = pl.scan_ipc(path, hive_partitioning=False, glob=False)
    else:
        rows = pl.scan_ndjson(glob.escape(str(path)), infer_schema_length=None)
    keys = dict[str, str]()
    for folder in path.parents:
        if "=" not in folder.name:
            break
        key, value = map(unquote, folder.name.split("=", 1))
        keys.setdefault(key, value)
    there = Log(rows, (path,)).schema if keys else {}
    return rows.with_columns(pl.lit(own, pl.String).alias(key) for key, own in keys.items() if key not in there)


def _format(path: Path) -> Format:
    """How a text is written, by its first lines."""
    try:
        lines = _lines(path, _SAMPLE)
    except pl.exceptions.NoDataError:
        raise Refused(str(path), None, "it is empty") from None
    except UNREADABLE as error:
        raise Refused(str(path), None, f"it is not CSV in UTF-8: {first_line(error)}") from error
    tried = "\t" if ".tsv" in path.suffixes else ",;\t|"
    separator = max(tried, key=lambda sign: len(next(_cells(lines, sign), [])))  # the first of those with as many
    cells = [cell.strip() for row in [*_cells(lines, separator)][1:] for cell in row]
    commas = any(_COMMA.fullmatch(cell) and not _THOUSANDS.fullmatch(cell) for cell in cells)
    return Format(separator, commas and not any(map(_POINT.fullmatch, cells)))


def _lines(path: Path, most: int | None = None) -> list[str]:
    lines = pl.read_csv(
        path, has_header=False, separator="\x01", quote_char=None, n_rows=most, infer_schema=False, glob=False
    )
    return [line or "" for line in lines.to_series()]


def _cells(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    """The cells of each row; what is too long for Python's reader ends them."""
    with suppress(csv.Error):
        yield from csv.reader((f"{line}\n" for line in lines), delimiter=separator)
