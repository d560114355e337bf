"""Where each row stands in its stream: by steps that are counted, or by times."""

import datetime
from typing import Any

import numpy as np

from .. import inputs
from .cells import Refused, arrow, one_column, without_nulls
from .times import CLOCK, NUMBERS, ROWS, SPANS, TIMES, ZONED, Every, Steps

_OFFSET = r"(Z|[+-]\d{2}(:?\d{2})?)$"  # where ISO 8601 writes a zone


def order_in(table: Any, name: str | None, where: str, before: int = 0, every: Every | None = None) -> Steps:
    """Where each row stands in its stream: a step that is counted, or a time."""
    steps = _order(table, name, where, before)
    if steps.counted and every is not None:
        raise Refused(where, None, f"every {every} needs times, and the steps ({name}) are whole numbers")
    if every is not None and every.unit in ("b", "mo") and not steps.dated:
        raise Refused(where, None, f"every {every} needs dates, and the steps ({name}) are {steps.kind}")
    return steps


def with_own_clocks(table: Any, frame: Any, name: str | None) -> Any:
    """The table of a frame, whose times are strings where pandas has them as Python's own, each with a zone of its own.

    Arrow would read them by the zone of the first, and those without one as if they were in UTC.
    """
    if name is None or type(frame).__module__.split(".")[0] != "pandas" or frame[name].dtype != object:
        return table
    values = frame[name].tolist()
    if not any(isinstance(value, datetime.datetime) and value.tzinfo is not None for value in values):
        return table
    spelt = [_spelt(value) for value in values]
    return table.set_column(table.column_names.index(name), name, arrow().array(spelt))


def _spelt(value: Any) -> str | None:
    if value is None or value != value:
        return None
    return value.isoformat() if isinstance(value, datetime.datetime) else str(value)


def _order(table: Any, name: str | None, where: str, before: int) -> Steps:
    if name is None:
        return _unzoned(np.arange(before, before + table.num_rows, dtype=np.int64), ROWS)
    pa, column = arrow(), one_column(table, name)
    without_nulls(column, f"the step ({name})", where, before)
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _written(column, name, where, before)
    kind = column.type
    if pa.types.is_integer(kind):
        if kind == pa.uint64() and len(bad := np.flatnonzero(np.asarray(column) > np.uint64(2**63 - 1))):
            raise Refused(where, before + int(bad[0]) + 1, f"the step ({name}) must be below 2^63")
        return _unzoned(np.asarray(column.cast(pa.int64())), NUMBERS)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _times(column, name, where)
    if pa.types.is_floating(kind):
        values = np.asarray(column.cast(pa.float64()))
        bad = np.flatnonzero(~(values == np.floor(values)) | (np.abs(values) > inputs.MOST))
        if not len(bad):
            return _unzoned(values.astype(np.int64), NUMBERS)
        raise Refused(
            where,
            before + int(bad[0]) + 1,
            f"the step ({name}) must be a whole number or a time, got {values[bad[0]]:g}",
        )
    raise Refused(where, None, f"the steps ({name}) must be whole numbers or times, got {kind}")


def _unzoned(at_R: np.ndarray, kind: str) -> Steps:
    return Steps(at_R, np.zeros(len(at_R), dtype=np.int64), kind)


def _written(column: Any, name: str, where: str, before: int) -> Steps:
    """Times that are written out, as ISO 8601 does, with a zone or without."""
    pa = arrow()
    for zone in (None, "UTC"):
        try:
            moments = column.cast(pa.timestamp("ns", zone))
        except pa.ArrowInvalid:
            continue
        at_R = np.asarray(moments.cast(pa.int64()))
        if zone is None:
            return _unzoned(at_R, TIMES)
        clock = pa.compute.replace_substring_regex(column, _OFFSET, "").cast(pa.timestamp("ns"))
        return Steps(at_R, np.asarray(clock.cast(pa.int64())) - at_R, ZONED)
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


def _times(column: Any, name: str, where: str) -> Steps:
    """Times in nanoseconds, whatever the file has them in: another file may have others."""
    pa = arrow()
    kind, zone = column.type, getattr(column.type, "tz", None)
    if pa.types.is_time(kind):
        column, wide = column.cast(pa.time64("ns")), pa.time64("ns")
    else:
        wide = pa.duration("ns") if pa.types.is_duration(kind) else pa.timestamp("ns", zone)
    try:
        column = column.cast(wide)
    except pa.ArrowInvalid as error:
        raise Refused(where, None, f"the times ({name}) must lie between the years 1678 and 2262") from error
    at_R = np.asarray(column.cast(pa.int64()))
    if zone is None:
        return _unzoned(at_R, CLOCK if pa.types.is_time(kind) else SPANS if pa.types.is_duration(kind) else TIMES)
    try:
        clock = pa.compute.local_timestamp(column)
    except pa.ArrowInvalid:  # a zone that this machine does not know: told in UTC
        return _unzoned(at_R, ZONED)
    return Steps(at_R, np.asarray(clock.cast(pa.int64())) - at_R, ZONED)
