"""Where rows stand in their streams: numbered steps, or times; how far apart these are, and how they are written."""

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from .reading import column

NUMBERS, ROWS = "whole numbers", "rows as they stand"  # kinds of steps
TIMES, ZONED, CLOCK, SPANS = "times without a zone", "times with a zone", "times of day", "durations"
UNIX = {10**9: "Unix seconds", 10**6: "Unix milliseconds", 10**3: "Unix microseconds", 1: "Unix nanoseconds"}
_FROM, _UNTIL = 631_152_000, 4_102_444_800  # Unix seconds: 1990 and 2100; steps are not numbered from there
ZONE = r"(Z|UTC|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)"
_LOCAL = r"^\s*(\d{4}-\d\d-\d\d)(?:[T ]([01]\d|2[0-3])(?::([0-5]\d)(?::([0-5]\d)(?:[.,](\d+))?)?)?)?\s*"
ISO = rf"{_LOCAL}{ZONE}?\s*$"
_OFFSETS = {"Z": 0, "UTC": 0} | {  # in seconds
    f"{sign}{minutes // 60:02}{colon}{minutes % 60:02}": int(f"{sign}{60 * minutes}")
    for sign in "+-"
    for minutes in range(24 * 60)
    for colon in ("", ":")
}
_OFFSETS |= {zone[:3]: ahead for zone, ahead in _OFFSETS.items() if zone.endswith(":00")}
_NS = 10**9
_UNITS: dict[float, str] = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 7 * 86_400: "week"}
_MONTHS = {1: "month", 3: "quarter", 12: "year"}
_REGULAR = 0.5  # a stream has a rhythm where at least this share of its steps are equally far apart
_MOST = 0.9  # steps have a name where at least this share of them are in streams of one rhythm


class Clock(NamedTuple):
    """The steps of rows: numbers, or moments in nanoseconds, in UTC where there are zones."""

    at_R: np.ndarray
    kind: str
    zone: str | None = None  # of a column of times with one
    offset_R: np.ndarray | None = None  # seconds by which the log's clock is ahead of UTC, where each text has its own

    @property
    def is_dated(self) -> bool:
        """Whether steps have a date."""
        return self.kind in (TIMES, ZONED, *UNIX.values())

    @property
    def local_R(self) -> np.ndarray:
        """The moments by the clock of the log."""
        if self.zone is None and self.offset_R is None:
            return self.at_R
        rows = pl.DataFrame({"at": self.at_R, "offset": np.int64(0) if self.offset_R is None else self.offset_R})
        local_R: np.ndarray = rows.select(local(pl.col("at"), pl.col("offset"), self.zone)).to_series().to_numpy()
        return local_R

    def part(self, rows: Any) -> "Clock":
        """Some of the rows."""
        offset_R = None if self.offset_R is None else self.offset_R[rows]
        return self._replace(at_R=self.at_R[rows], offset_R=offset_R)

    def texts(self, rows: Any) -> list[str]:
        """Some rows as the log has them: a time in its own zone, or the number of the step."""
        part = self.part(np.asarray(rows, dtype=np.int64))
        return [part._text(*each) for each in zip(part.at_R.tolist(), part.local_R.tolist(), strict=True)]

    def _text(self, at: int, here: int) -> str:
        if not self.is_dated:
            return str(datetime.timedelta(microseconds=at / 1000)) if self.kind in (CLOCK, SPANS) else str(at)
        shown = str(np.datetime64(here, "ns"))
        shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
        if self.kind == TIMES:
            return shown.removesuffix("T00:00:00")
        minutes = abs(ahead := (here - at) // _NS) // 60
        return shown + (f"{'-' if ahead < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}" if ahead else "Z")


def local(at: pl.Expr, offset: pl.Expr, zone: str | None) -> pl.Expr:
    """Moments in UTC by the clock of a zone, or by one that is so many seconds ahead."""
    if zone is None:
        return at + offset.cast(pl.Int64) * _NS
    there = at.cast(pl.Datetime("ns", "UTC")).dt.convert_time_zone(zone)
    return there.dt.replace_time_zone(None).to_physical()


class Moments(NamedTuple):
    """A column of steps as Polars expressions; null where a cell is none."""

    at: pl.Expr  # Int64
    kind: str
    zone: str | None = None
    offset: pl.Expr | None = None  # in seconds


def moments_of(name: str, kind: pl.DataType, has_zones: bool = False) -> Moments:
    """How a column of this type is read; ``has_zones``: whether its texts have offsets."""
    own = column(name)
    if kind.is_integer():
        return Moments(own.cast(pl.Int64, strict=False), NUMBERS)
    if kind.is_float() or kind.is_decimal():
        number = own.cast(pl.Float64)
        whole = pl.when(number == number.floor()).then(number).cast(pl.Int64, strict=False)
        is_unix = number.is_between(_FROM, _UNTIL, closed="left")  # in seconds, whose fractions count too
        return Moments(pl.when(is_unix).then((number * 1e6).round().cast(pl.Int64) * 1000).otherwise(whole), NUMBERS)
    if kind == pl.Time:
        return Moments(own.to_physical(), CLOCK)
    if isinstance(kind, pl.Duration):
        return Moments(own.cast(pl.Duration("ns"), strict=False).to_physical(), SPANS)
    if kind == pl.Date or isinstance(kind, pl.Datetime):
        zone = getattr(kind, "time_zone", None)
        at = own.cast(pl.Datetime("ns", zone), strict=False).to_physical()
        return Moments(at, TIMES if zone is None else ZONED, zone)
    parts = own.cast(pl.String).str.extract_groups(rf"{_LOCAL}{ZONE if has_zones else ''}\s*$").struct
    hour, minute, second = (parts.field(each).cast(pl.Int64).fill_null(0) for each in "234")
    fraction = (parts.field("5").fill_null("") + "0" * 9).str.slice(0, 9).cast(pl.Int64)
    date = parts.field("1").str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("ns"), strict=False).to_physical()
    at = date + (hour * 3600 + minute * 60 + second) * _NS + fraction
    if not has_zones:
        return Moments(at, TIMES)
    offset = parts.field("6").replace_strict(_OFFSETS, return_dtype=pl.Int64)
    return Moments(at - offset * _NS, ZONED, None, offset)


def numbered(low: int, high: int) -> tuple[int, str]:
    """What numbers between these ends are: steps, or Unix times of 1990 to 2100 in a unit of so many nanoseconds."""
    first, last = (
        next((each for each in UNIX if _FROM * _NS <= end * each < _UNTIL * _NS), None) for end in (low, high)
    )
    if first is None or last is None:
        return 1, NUMBERS
    if first != last:
        raise ValueError(f"steps must be of one unit, got {UNIX[first]} and {UNIX[last]}")
    return first, UNIX[first]


def nanoseconds(at: pl.Expr) -> pl.Expr:
    """Unix times of any unit, each told by its size."""
    found = at
    for each in sorted(UNIX)[1:]:  # nanoseconds stay
        found = pl.when(at < _UNTIL * _NS // each).then(at * each).otherwise(found)
    return found


class Rhythm(NamedTuple):
    """How far apart the steps of streams are, by one of the ways to measure that."""

    name: str  # nanoseconds or numbers, "local" time, "business" days, or "month"s
    kept: int  # steps that are as far from the one before as is usual in their stream
    gaps: int  # steps that are not, in streams with a rhythm
    streams: int  # that have gaps
    usual: Counter[int]  # by how far apart steps usually are: the steps of such streams


class Rhythms(NamedTuple):
    """The rhythm of steps by every measure that fits all of them."""

    kind: str
    by_name: dict[str, Rhythm]

    @property
    def best(self) -> Rhythm:
        """By the measure by which most steps are regular."""
        return max(self.by_name.values(), key=lambda one: one.kept, default=Rhythm("", 0, 0, 0, Counter()))

    @property
    def unit(self) -> str:
        """What a step is called."""
        name, kept, *_, usual = self.best
        apart, steps = max(usual.items(), key=lambda pair: pair[1], default=(0, 0))
        if self.kind in (NUMBERS, ROWS) or kept < 2 or steps < _MOST * usual.total():
            return "step"
        if name == "business":
            return "business day" if apart == 1 else "step"
        return _MONTHS.get(apart, "step") if name == "month" else _UNITS.get(apart / _NS, "step")


def rhythms_of(clock: Clock, code_R: np.ndarray) -> Rhythms:
    """The rhythms of rows by stream and step; a stream in which less than half of the steps are alike has none."""
    same = np.flatnonzero(code_R[1:] == code_R[:-1])
    if not len(same) or clock.kind == ROWS:
        return Rhythms(clock.kind, {})
    tried = {"": clock.at_R[same + 1] - clock.at_R[same]}
    if clock.is_dated:
        local_R = clock.local_R.astype("datetime64[ns]")
        before, after = local_R[same], local_R[same + 1]
        if clock.kind == ZONED:
            tried["local"] = (after - before).astype(np.int64)
        tried["month"] = (after.astype("datetime64[M]") - before.astype("datetime64[M]")).astype(np.int64)
        days = before.astype("datetime64[D]"), after.astype("datetime64[D]")
        if np.is_busday(days[0]).all() and np.is_busday(days[1]).all():
            tried["business"] = np.busday_count(*days).astype(np.int64)
    found = {}
    for name, apart in tried.items():
        each = pl.DataFrame({"code": code_R[same], "apart": apart}).group_by("code", "apart").len()
        steps, most = pl.col("len").sum().over("code"), pl.col("len").max().over("code")
        each = each.with_columns(steps=steps).filter((pl.col("len") == most) & (pl.col("len") >= _REGULAR * steps))
        each = each.filter((pl.col("apart") > 0) | (name == "")).sort("apart").unique("code", keep="first")
        usual = each.group_by("apart").agg(pl.col("steps").sum())
        gaps = each["steps"] - each["len"]
        kept, rows = int(each["len"].sum()), dict(usual.iter_rows())
        found[name] = Rhythm(name, kept, int(gaps.sum()), int((gaps > 0).sum()), Counter(rows))
    return Rhythms(clock.kind, found)


def together(parts: Sequence[Rhythms]) -> Rhythms:
    """The rhythms of all streams, by those of some."""
    there = [part.by_name for part in parts if part.by_name]
    names = [name for name in (there[0] if there else ()) if all(name in own for own in there)]
    summed = {}
    for name in names:
        kept, gaps, streams, usual = zip(*(own[name][1:] for own in there), strict=True)
        summed[name] = Rhythm(name, sum(kept), sum(gaps), sum(streams), sum(usual, Counter()))
    return Rhythms(parts[0].kind, summed)
