"""Where each row stands in its stream: by steps that are counted, or by times."""

from typing import Any

import numpy as np

from .. import inputs
from .cells import Refused, arrow, one_column, without_nulls
from .times import Every


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
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _written(column, name, where, before)
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


def _written(column: Any, name: str, where: str, before: int) -> Any:
    """Times that are written out, as ISO 8601 does, with a zone or without."""
    pa = arrow()
    for zone in (None, "UTC"):
        try:
            return column.cast(pa.timestamp("ns", zone))
        except pa.ArrowInvalid:
            continue
    values = column.to_pylist()
    at = next((row for row, value in enumerate(values) if not _is_time(value)), 0)
    reason = f"the step ({name}) must be a whole number, or a time such as 2026-01-31 or 2026-01-31 12:00:00"
    advice = f"frame[{name!r}] = pd.to_datetime(frame[{name!r}]) in pandas makes times of others"
    raise Refused(where, before + at + 1, f"{reason}, all with a zone or none, got {values[at][:80]!r}: {advice}")


def _is_time(value: str) -> bool:
    pa = arrow()
    for zone in (None, "UTC"):
        try:
            pa.scalar(value).cast(pa.timestamp("ns", zone))
        except pa.ArrowInvalid:
            continue
        return True
    return False


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
