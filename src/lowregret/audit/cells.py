"""Columns of an Arrow table as they stand (extra: ``data``), and how bad cells in them are refused."""

from typing import Any

import numpy as np

_ALSO = 4  # rows beside the first that are named


class Refused(ValueError):
    """A log that cannot be audited: which file, which row (the first below the header is 1), and why."""

    def __init__(self, where: str, row: int | None, reason: str) -> None:
        super().__init__(printable(f"{where}{'' if row is None else f', row {row}'}: {reason}"))
        self.where, self.row, self.reason = where, row, reason

    def __reduce__(self) -> Any:
        return Refused, (self.where, self.row, self.reason)


def printable(text: str, most: int = 2000) -> str:
    """Text from a log, safe to print on a terminal: control characters are spelt out, and long text is cut."""
    shown = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[:most])
    return shown if len(text) <= most else shown + "..."


def arrow() -> Any:
    """The package that reads tables."""
    try:
        import pyarrow
        import pyarrow.compute
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("tables need pyarrow: pip install 'lowregret[data]'", name="pyarrow") from error
    return pyarrow


def one_column(table: Any, name: str) -> Any:
    column = table.column(name)
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if column.type == "string_view":  # as polars hands texts over
        column = column.cast("string")
    return column


def without_nulls(column: Any, what: str, where: str, before: int) -> None:
    listed = getattr(column, "dictionary", None)
    if column.null_count or (listed is not None and listed.null_count):  # a dictionary may have a null in it
        whole = column if listed is None else column.dictionary_decode()
        bad = np.flatnonzero(whole.is_null().to_numpy(zero_copy_only=False))
        if not len(bad):
            return
        raise Refused(where, before + int(bad[0]) + 1, f"{what} is missing{also(bad, before)}")


def also(bad: np.ndarray, before: int) -> str:
    """Which other rows have the same fault, among those read so far: the first few, and how many more."""
    if len(bad) < 2:
        return ""
    more = f" and {len(bad) - 1 - _ALSO:,} more" if len(bad) > 1 + _ALSO else ""
    return f"; likewise in row {', '.join(str(before + int(row) + 1) for row in bad[1 : 1 + _ALSO])}{more}"


def numbers_in(column: Any, name: str, what: str, where: str, before: int = 0) -> np.ndarray:
    """A column as numbers, NaN where there are none; numbers written as text may have percent signs."""
    pa = arrow()
    if hasattr(column, "dictionary"):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _written(column, name, what, where, before)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise Refused(where, None, f"the {what} ({name}) must be numbers, got {column.type}")
    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _written(column: Any, name: str, what: str, where: str, before: int) -> np.ndarray:
    """Numbers as people write them: 0.7, 70 %; of probabilities, which are below a thousand, also 0,7."""
    pa, compute = arrow(), arrow().compute
    text = compute.utf8_trim_whitespace(column)
    percent_R = np.asarray(compute.fill_null(compute.ends_with(text, "%"), False))
    text = compute.replace_substring_regex(text, r"\s*%$", "")
    if what == "probabilities":
        text = compute.replace_substring_regex(text, r"^([+-]?\d*),(\d+)$", r"\1.\2")
    text = compute.if_else(compute.equal(text, ""), None, text)
    try:
        found_R = np.asarray(text.cast(pa.float64()))
    except pa.ArrowInvalid:
        for row, cell in enumerate(text):
            try:
                cell.cast(pa.float64())
            except pa.ArrowInvalid:
                said = f"the {what} ({name}) must be numbers, got {column[row].as_py()[:80]!r}"
                raise Refused(where, before + row + 1, said) from None
        raise
    return np.where(percent_R, found_R / 100, found_R)
