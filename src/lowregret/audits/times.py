"""Where rows stand in their streams: numbered steps, or times; how far apart these are, and how they are written."""

import datetime
import re
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
_ZONED = re.compile(r"(Z|UTC|[+-]\d\d(:?\d\d)?)$", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,19}([.,]\d*)?([eE][+-]?\d+)?", re.ASCII)
_NS = 10**9
_SECONDS = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 7 * 86_400: "week"}
_MEASURES = (
    "numbers",
    "time",
    "local time",
    "months",
    "business days",
)  # of how far apart steps are: of equal ones the first
_UNITS = {(measure, n * _NS): name for n, name in _SECONDS.items() for measure in _MEASURES[1:3]}
_UNITS |= {
    ("months", 1): "month",
    ("months", 3): "quarter",
    ("months", 12): "year",
    ("business days", 1): "business day",
}
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


class Spelling(NamedTuple):
    """How times are written in texts."""

    has_zones: bool  # whether they have offsets from UTC
    is_counted: bool  # whether most of them are numbers


def spelling(texts: Sequence[str]) -> Spelling:
    """By the first of them."""
    has_zones = any(_ZONED.search(text[10:]) for text in texts if re.match(ISO, text))
    return Spelling(has_zones, 2 * sum(bool(_NUMBER.fullmatch(text)) for text in texts) > len(texts))


class Moments(NamedTuple):
    """A column of steps as Polars expressions; null where a cell is none."""

    at: pl.Expr  # Int64
    kind: str
    zone: str | None = None
    offset: pl.Expr | None = None  # in seconds


def moments_of(name: str, kind: pl.DataType, has_zones: bool = False, is_counted: bool = False) -> Moments:
    """How a column of this type is read; of texts as their ``Spelling`` has it."""
    own = column(name)
    if is_counted:
        text = own.cast(pl.String).str.strip_chars().str.replace(",", ".", literal=True)
        float_at = _at_of(text.cast(pl.Float64, strict=False))
        return Moments(pl.coalesce(text.cast(pl.Int64, strict=False), float_at), NUMBERS)
    if kind.is_integer():
        return Moments(own.cast(pl.Int64, strict=False), NUMBERS)
    if kind.is_float() or kind.is_decimal():
        return Moments(_at_of(own.cast(pl.Float64)), NUMBERS)
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


def _at_of(number: pl.Expr) -> pl.Expr:
    """Steps that are floats: whole, or Unix seconds, whose fractions count too."""
    whole = pl.when(number == number.floor()).then(number).cast(pl.Int64, strict=False)
    is_unix = number.is_between(_FROM, _UNTIL, closed="left")
    return pl.when(is_unix).then((number * 1e6).round().cast(pl.Int64, strict=False) * 1000).otherwise(whole)


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
    """Unix times of any unit, each recognised by its size."""
    found = at
    for each in sorted(UNIX)[1:]:  # nanoseconds stay
        found = pl.when(at < _UNTIL * _NS // each).then(at * each).otherwise(found)
    return found


class Rhythms(NamedTuple):
    """How far apart steps usually are: by a measure and a distance the streams for which it is so, as their number of
    steps, of those that are as far from the one before, of those that are not, and of streams that have such.
    """

    usual: dict[tuple[str, int], list[int]]

    @property
    def best(self) -> dict[tuple[str, int], list[int]]:
        """By the measure by which most steps are as far from the one before as is usual."""
        kept = Counter[str]()
        for (measure, _), (_, own, *_) in self.usual.items():
            kept[measure] += own
        return {key: own for key, own in self.usual.items() if key[0] == kept.most_common(1)[0][0]}

    @property
    def gaps(self) -> tuple[int, int]:
        """How many steps are not, and in how many streams."""
        best = self.best.values()
        return sum(gaps for *_, gaps, _ in best), sum(streams for *_, streams in best)

    @property
    def unit(self) -> str:
        """What a step is called."""
        best = self.best
        first = max(best, key=lambda key: best[key][0], default=None)
        if first is None or sum(kept for _, kept, *_ in best.values()) < 2:
            return "step"
        has_name = best[first][0] >= _MOST * sum(steps for steps, *_ in best.values())
        return _UNITS.get(first, "step") if has_name else "step"


def rhythms_of(clock: Clock, code_R: np.ndarray) -> Rhythms:
    """The rhythms of rows by stream and step; a stream in which less than half of the steps are alike has none."""
    same = np.flatnonzero(code_R[1:] == code_R[:-1])
    first = "numbers" if clock.kind == NUMBERS else "time"
    tried = {first: clock.at_R[same + 1] - clock.at_R[same]} if len(same) and clock.kind != ROWS else {}
    if tried and clock.is_dated:
        local_R = clock.local_R.astype("datetime64[ns]")
        before, after = local_R[same], local_R[same + 1]
        if clock.kind == ZONED:
            tried["local time"] = (after - before).astype(np.int64)
        tried["months"] = (after.astype("datetime64[M]") - before.astype("datetime64[M]")).astype(np.int64)
        days = before.astype("datetime64[D]"), after.astype("datetime64[D]")
        are_business = np.is_busday(days[0]) & np.is_busday(days[1])
        tried["business days"] = np.where(are_business, np.busday_count(*days), -1)
    steps, most, queries = pl.col("kept").sum().over("code"), pl.col("kept").max().over("code"), []
    for measure, apart in tried.items():
        each = pl.LazyFrame({"code": code_R[same], "apart": apart}).group_by("code", "apart").len("kept").sort("apart")
        each = each.with_columns(steps=steps, is_measured=(pl.col("apart") >= 0).all().over("code"))
        each = each.filter((pl.col("kept") == most) & (pl.col("kept") >= _REGULAR * steps) & pl.col("is_measured"))
        each = each.filter((pl.col("apart") > 0) | (measure == first)).unique("code", keep="first", maintain_order=True)
        each = each.with_columns(gaps=pl.col("steps").cast(pl.Int64) - pl.col("kept"))
        usual = each.group_by("apart").agg(pl.sum("steps", "kept", "gaps"), (pl.col("gaps") > 0).sum().alias("streams"))
        queries.append(usual.sort("apart"))
    found = zip(tried, pl.collect_all(queries), strict=True)
    return Rhythms({(measure, own): sums for measure, rows in found for own, *sums in rows.iter_rows()})


def together(parts: Sequence[Rhythms]) -> Rhythms:
    """The rhythms of all streams, by those of some."""
    keys = {key for part in parts for key in part.usual}
    each = {key: [part.usual[key] for part in parts if key in part.usual] for key in keys}
    order = sorted(keys, key=lambda key: (_MEASURES.index(key[0]), key[1]))
    return Rhythms({key: [sum(own) for own in zip(*each[key], strict=True)] for key in order})
