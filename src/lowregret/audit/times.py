"""Times of steps: how far apart they are, which are missing, what a stream's own rhythm is, and how they are spelt."""

import datetime
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from .cells import Refused, arrow, one_column, without_nulls

NUMBERS, ROWS = "whole numbers", "rows as they stand"  # kinds of steps
TIMES, ZONED, CLOCK, SPANS = "times without a zone", "times with a zone", "times of day", "durations"
UNIX = {10**9: "Unix seconds", 10**6: "Unix milliseconds", 10**3: "Unix microseconds", 1: "Unix nanoseconds"}
_UNIX_FROM, _UNIX_TO = 631_152_000, 4_102_444_800  # seconds: 1990 and 2100; steps are not counted from there
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_CLOCKS_CHANGE = 3600  # seconds by which days may be longer or shorter
_NS = 10**9
_REGULAR = 0.5  # a stream has a rhythm where at least this share of its steps keeps it
_LONGEST = 999_999  # of one unit
UNITS = "a whole number of s, min, h, d, w, b (business days) or mo (months), such as 1h, 1d or 3mo"


class Steps(NamedTuple):
    """Where rows stand in their streams."""

    at_R: np.ndarray  # int64: the number of the step, or the moment in nanoseconds, in UTC where there are zones
    offset_R: np.ndarray  # int64: by how many nanoseconds the clock of the log is ahead of that
    kind: str

    @property
    def counted(self) -> bool:
        """Whether they count steps, so that none may be missing."""
        return self.kind == NUMBERS

    @property
    def dated(self) -> bool:
        """Whether they have a date, by the clock of the log."""
        return self.kind in (TIMES, ZONED, *UNIX.values())

    @property
    def clock_R(self) -> np.ndarray:
        """The times that the clock of the log showed."""
        return self.at_R + self.offset_R

    def of(self, place: Any) -> "Steps":
        return Steps(self.at_R[place], self.offset_R[place], self.kind)

    def spelt(self, row: int) -> str:
        return spelt(int(self.at_R[row]), int(self.offset_R[row]), self.kind)


class Every(NamedTuple):
    """How far apart the times of a stream must be."""

    number: int
    unit: str

    def __str__(self) -> str:
        return f"{self.number}{self.unit}"

    def kept(self, steps: Steps) -> np.ndarray:
        """Which steps are that far from the next: days, weeks and months go by the clock of the log."""
        clock_R = steps.clock_R
        if self.unit == "mo":
            return np.diff(_months(clock_R)) == self.number
        if self.unit == "b":
            return _business_days(clock_R[:-1], clock_R[1:]) == self.number
        asked = self.number * _SECONDS[self.unit] * _NS
        if self.unit not in ("d", "w"):
            return np.diff(steps.at_R) == asked
        off = np.minimum(np.abs(np.diff(steps.at_R) - asked), np.abs(np.diff(clock_R) - asked))
        return off <= _CLOCKS_CHANGE * _NS


def every_of(text: Any) -> Every:
    """How far apart, as a user writes it.

    >>> every_of("15min"), str(every_of("1b"))
    (Every(number=15, unit='min'), '1b')
    """
    found = re.fullmatch(r"([1-9][0-9]{0,5})(s|min|h|d|w|b|mo)", text, re.ASCII) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"every must be {UNITS}, got {inputs.shown(text)}")
    return Every(int(found.group(1)), found.group(2))


def spelt(time: int, offset: int = 0, kind: str = TIMES) -> str:
    """A time as people write it, by the clock of the log; one with a zone has its offset from UTC.

    >>> spelt(0), spelt(0, 9 * 3600 * 10**9, ZONED), spelt(0, 0, ZONED)
    ('1970-01-01', '1970-01-01T09:00:00+09:00', '1970-01-01T00:00:00Z')
    """
    if kind == SPANS:
        return str(datetime.timedelta(microseconds=time / 1000))
    text = str(np.datetime64(time + offset, "ns"))
    text = text.rstrip("0").rstrip(".") if "." in text else text
    if kind == CLOCK:
        return text.partition("T")[2]
    if kind == ZONED or kind in UNIX.values():
        return text + _zone(offset // _NS)
    return text.removesuffix("T00:00:00")


def _zone(seconds: int) -> str:
    if not seconds:
        return "Z"
    hours, rest = divmod(abs(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{minutes:02}" + (f":{left:02}" if left else "")


class Rhythms(NamedTuple):
    """What the times of some streams say of missing steps."""

    gaps: int  # times that are not as far from the one before as is usual in their stream
    streams: int  # that have such
    kept: dict[str, int]  # how many streams keep each rhythm, spelt as for ``every`` ("": it has no spelling)
    zones: int  # streams whose offsets are further apart than clocks change

    @staticmethod
    def together(parts: "Iterable[Rhythms]") -> "Rhythms":
        gaps, streams, zones, kept = 0, 0, 0, dict[str, int]()
        for part in parts:
            gaps, streams, zones = gaps + part.gaps, streams + part.streams, zones + part.zones
            for every, n in part.kept.items():
                kept[every] = kept.get(every, 0) + n
        return Rhythms(gaps, streams, kept, zones)

    @property
    def told(self) -> tuple[str, ...]:
        """The same in words, if there is anything to report."""
        found = []
        if self.gaps:
            found.append(
                f"{self.gaps:,} times in {self.streams:,} streams are not as far from the one before as is usual in "
                f"their stream: steps may be missing{self._advice}"
            )
        if self.zones:
            found.append(
                f"the times of {self.zones:,} streams have offsets more than an hour apart: they are put in order by "
                "the moment, not by the clock"
            )
        return tuple(found)

    @property
    def _advice(self) -> str:
        known = sorted(every for every in self.kept if every)
        if len(self.kept) == 1 and known:
            return f" (--every {known[0]}, or columns={{'every': {known[0]!r}}}, refuses that)"
        return f" (streams keep {' and '.join(known[:4])}, and --every is one for all)" if len(known) > 1 else ""


def irregular(stream_R: np.ndarray, steps: Steps) -> Rhythms:
    """How many steps of sorted rows break the rhythm of their stream.

    The rhythm is the most common distance, between moments or by the clock of the log; in months, or in business days
    where no time is on a weekend, if more steps keep that. A stream in which less than half of the steps keep any has
    none, and is not counted.
    """
    same = np.flatnonzero(stream_R[1:] == stream_R[:-1])
    if not len(same) or steps.kind in (NUMBERS, ROWS):
        return Rhythms(0, 0, {}, 0)
    streams, owner = np.unique(stream_R[same], return_inverse=True)
    N, clock_R = len(streams), steps.clock_R
    before, after = clock_R[same], clock_R[same + 1]
    tried = [("", _most_common(owner, steps.at_R[same + 1] - steps.at_R[same], N))]
    if steps.kind == ZONED:
        tried.append(("", _most_common(owner, after - before, N, least=1)))
    if steps.dated:
        tried.append(("mo", _most_common(owner, _months(after) - _months(before), N, least=1)))
        off = np.bincount(owner, _on_weekends(before) | _on_weekends(after), N) > 0
        if not off.all():
            often_N, apart_N = _most_common(owner, _business_days(before, after), N, least=1)
            tried.append(("b", (np.where(off, 0, often_N), apart_N)))
    steps_N, most_KxN = np.bincount(owner), np.stack([often_N for _, (often_N, _) in tried])
    best_N = most_KxN.argmax(axis=0)  # the first of those that are kept as often
    most_N = most_KxN.max(axis=0)
    regular_N = most_N >= _REGULAR * steps_N
    broken_N = np.where(regular_N, steps_N - most_N, 0)
    kept: dict[str, int] = {}
    for k, (unit, (_, apart_N)) in enumerate(tried):
        own = np.flatnonzero(regular_N & (most_N > 1) & (best_N == k))
        for apart, n in zip(*np.unique(apart_N[own], return_counts=True), strict=True):
            word = _word(int(apart), unit)
            kept[word] = kept.get(word, 0) + int(n)
    return Rhythms(int(broken_N.sum()), int((broken_N > 0).sum()), kept, _of_several_zones(stream_R, steps.offset_R))


def _word(apart: int, unit: str) -> str:
    """A distance as ``every`` spells it; empty where it cannot."""
    if unit:
        return f"{apart}{unit}" if apart <= _LONGEST else ""
    for name in ("w", "d", "h", "min", "s"):
        number, rest = divmod(apart, _SECONDS[name] * _NS)
        if not rest and 1 <= number <= _LONGEST:
            return f"{number}{name}"
    return ""


def _of_several_zones(stream_R: np.ndarray, offset_R: np.ndarray) -> int:
    if not offset_R.any():
        return 0
    first = np.flatnonzero(np.append(True, stream_R[1:] != stream_R[:-1]))
    apart = np.maximum.reduceat(offset_R, first) - np.minimum.reduceat(offset_R, first)
    return int((apart > _CLOCKS_CHANGE * _NS).sum())


def _most_common(
    owner: np.ndarray, apart: np.ndarray, streams: int, least: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """How many steps of each stream have its most common distance, of those above a minimum; and that distance."""
    if least is not None:
        owner, apart = owner[apart >= least], apart[apart >= least]
    most, usual = np.zeros(streams, dtype=np.int64), np.zeros(streams, dtype=np.int64)
    if len(owner):
        order = np.lexsort((apart, owner))
        owner, apart = owner[order], apart[order]
        first = np.flatnonzero(np.append(True, (np.diff(owner) != 0) | (np.diff(apart) != 0)))
        owner, apart, often = owner[first], apart[first], np.diff(np.append(first, len(owner)))
        last = np.lexsort((-apart, often, owner))  # of each stream the most common, the shortest of such
        most[owner[last]], usual[owner[last]] = often[last], apart[last]
    return most, usual


def _days(time: np.ndarray) -> np.ndarray:
    return time.astype("datetime64[ns]").astype("datetime64[D]")


def _months(time: np.ndarray) -> np.ndarray:
    return time.astype("datetime64[ns]").astype("datetime64[M]").astype(np.int64)


def _business_days(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return np.busday_count(_days(before), _days(after))


def _on_weekends(time: np.ndarray) -> np.ndarray:
    return ~np.is_busday(_days(time))


# Where each row stands in its stream: by steps that are counted, or by times.


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
    """The table of a frame; times that pandas holds as Python objects, each with its own zone, become strings.

    Arrow would read them all in the zone of the first, and those without one as if they were in UTC.
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
        return _numbered(np.asarray(column.cast(pa.int64())))
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _times(column, name, where)
    if pa.types.is_floating(kind):
        values = np.asarray(column.cast(pa.float64()))
        if len(values) and values.min() >= _UNIX_FROM and values.max() < _UNIX_TO:  # with fractions, as time.time()
            return _unzoned(np.round(values * 1e6).astype(np.int64) * 1000, UNIX[_NS])
        bad = np.flatnonzero(~(values == np.floor(values)) | (np.abs(values) > inputs.MOST))
        if not len(bad):
            return _numbered(values.astype(np.int64))
        raise Refused(
            where,
            before + int(bad[0]) + 1,
            f"the step ({name}) must be a whole number or a time, got {values[bad[0]]:g}",
        )
    raise Refused(where, None, f"the steps ({name}) must be whole numbers or times, got {kind}")


def _numbered(number_R: np.ndarray) -> Steps:
    """Steps that are counted; or Unix times, where all numbers fit one unit and a plausible year."""
    if len(number_R):
        low, high = int(number_R.min()), int(number_R.max())
        for each, kind in UNIX.items():  # nanoseconds
            if low * each >= _UNIX_FROM * _NS and high * each < _UNIX_TO * _NS:
                return _unzoned(number_R * each, kind)
    return _unzoned(number_R, NUMBERS)


def unix_told(name: str | None, kind: str) -> tuple[str, ...]:
    """A note where numbers were read as times."""
    return (f"the steps ({name}) are read as times: {kind}",) if kind in UNIX.values() else ()


def _unzoned(at_R: np.ndarray, kind: str) -> Steps:
    return Steps(at_R, np.zeros(len(at_R), dtype=np.int64), kind)


def _written(column: Any, name: str, where: str, before: int) -> Steps:
    """Times written as text in ISO 8601, with a zone or without."""
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
    """Times in nanoseconds, whatever unit the file has: another file may have a different one."""
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
    except pa.ArrowInvalid:  # a zone that this machine does not know: shown in UTC
        return _unzoned(at_R, ZONED)
    return Steps(at_R, np.asarray(clock.cast(pa.int64())) - at_R, ZONED)
