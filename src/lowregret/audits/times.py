"""Where rows stand in their streams: numbered steps, or times; how far apart these are, and how they are written."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from .reading import TEXTS, column

NUMBERS, ROWS = "whole numbers", "rows as they stand"  # kinds of steps
TIMES, ZONED, UNIX = "times without a zone", "times with a zone", "Unix times"
_FROM, _UNTIL = 631_152_000, 4_102_444_800  # Unix seconds: 1990 and 2100; steps are not numbered from there
_LOCAL = r"^\s*(\d{4}-\d\d-\d\d)(?:[T ]([01]\d|2[0-3])(?::([0-5]\d)(?::([0-5]\d)(?:[.,](\d+))?)?)?)?\s*"
_ZONE = r"(Z|UTC|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)"
ISO = rf"{_LOCAL}{_ZONE}?\s*$"
_NUMBER = re.compile(r"[+-]?\d{1,19}([.,]\d*)?([eE][+-]?\d+)?", re.ASCII)
_NS = 10**9
_SECONDS = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 7 * 86_400: "week"}
_MEASURES = ("numbers", "time", "local time", "months", "business days")  # of how far apart: of equal ones the first
_UNITS = {(measure, n * _NS): name for n, name in _SECONDS.items() for measure in _MEASURES[1:3]}
_UNITS |= {("months", 1): "month", ("months", 3): "quarter", ("months", 12): "year"}
_UNITS[("business days", 1)] = "business day"
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
        return self.kind in (TIMES, ZONED, UNIX)

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
            return str(at)
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

    has_zones: bool = False  # whether they have offsets from UTC
    is_counted: bool = False  # whether most of them are numbers


PLAIN = Spelling()


def spelling(texts: Sequence[str]) -> Spelling:
    """By the first of them."""
    has_zones = any(found[6] for text in texts if (found := re.match(ISO, text)))
    return Spelling(has_zones, 2 * sum(bool(_NUMBER.fullmatch(text)) for text in texts) > len(texts))


class Moments(NamedTuple):
    """A column of steps as Polars expressions; null where a cell is none."""

    at: pl.Expr  # Int64
    kind: str
    zone: str | None = None
    offset: pl.Expr | None = None  # in seconds


def moments_of(name: str, kind: pl.DataType, spelled: Spelling = PLAIN) -> Moments:
    """How a column of this type is read."""
    own = column(name)
    if kind.is_integer():
        return Moments(_nanoseconds(own.cast(pl.Int64, strict=False)), NUMBERS)
    if kind.is_numeric():
        return Moments(_at_of(own.cast(pl.Float64)), NUMBERS)
    if kind == pl.Date or isinstance(kind, pl.Datetime):
        zone = getattr(kind, "time_zone", None)
        at = own.cast(pl.Datetime("ns", zone), strict=False).to_physical()
        return Moments(at, TIMES if zone is None else ZONED, zone)
    if kind not in TEXTS:
        raise ValueError(f"steps and times ({name}) must be whole numbers, times or texts, got {kind}")
    text = own.cast(pl.String)
    if spelled.is_counted:
        text = text.str.strip_chars().str.replace(",", ".", literal=True)
        whole = _nanoseconds(text.cast(pl.Int64, strict=False))
        return Moments(pl.coalesce(whole, _at_of(text.cast(pl.Float64, strict=False))), NUMBERS)
    parts = text.str.extract_groups(rf"{_LOCAL}{_ZONE if spelled.has_zones else ''}\s*$").struct
    hour, minute, second = (parts.field(each).cast(pl.Int64).fill_null(0) for each in "234")
    fraction = (parts.field("5").fill_null("") + "0" * 9).str.slice(0, 9).cast(pl.Int64)
    date = parts.field("1").str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("ns"), strict=False).to_physical()
    at = date + (hour * 3600 + minute * 60 + second) * _NS + fraction
    if not spelled.has_zones:
        return Moments(at, TIMES)
    hours, minutes = (parts.field(each).cast(pl.Int64).fill_null(0) for each in "89")
    offset = (hours * 3600 + minutes * 60) * pl.when(parts.field("7") == "-").then(-1).otherwise(1)
    return Moments(at - offset * _NS, ZONED, None, offset)


def _at_of(number: pl.Expr) -> pl.Expr:
    """Steps that are floats: whole, or Unix seconds, whose fractions count too."""
    whole = pl.when(number == number.floor()).then(number).cast(pl.Int64, strict=False)
    is_unix = number.is_between(_FROM, _UNTIL, closed="left")
    micros = (number * 1e6).round().cast(pl.Int64, strict=False)
    return pl.when(is_unix).then(micros * 1000).otherwise(_nanoseconds(whole))


def _nanoseconds(at: pl.Expr) -> pl.Expr:
    """Steps; those that are Unix times of 1990 to 2100, of any unit, in nanoseconds."""
    found = at
    for unit in (10**9, 10**6, 10**3):
        is_unix = at.is_between(_FROM * _NS // unit, _UNTIL * _NS // unit, closed="left")
        found = pl.when(is_unix).then(at * unit).otherwise(found)
    return found


def kind_of(kind: str, low: int, high: int) -> str:
    """What steps between these ends are: numbers may be Unix times."""
    if kind != NUMBERS or high < _FROM * _NS:
        return kind
    if low < _FROM * _NS:
        raise ValueError("steps must be numbers or Unix times (of 1990 to 2100), got some of both")
    return UNIX


class Rhythms(NamedTuple):
    """How far apart steps usually are."""

    # By ``measure`` and distance ``apart`` the streams for which it is so: their ``steps``, how many are as far from
    # the one before (``kept``), how many are not (``gaps``), and how many ``streams`` have such.
    usual: pl.DataFrame

    @property
    def best(self) -> pl.DataFrame:
        """By the measure by which most steps are as far from the one before as is usual."""
        kept, measure = pl.col("kept").sum().over("measure"), pl.col("measure")
        return self.usual.filter(kept == kept.max()).filter(measure == measure.first())

    @property
    def gaps(self) -> tuple[int, int]:
        """How many steps are not, and in how many streams."""
        return int(self.best["gaps"].sum()), int(self.best["streams"].sum())

    @property
    def unit(self) -> str:
        """What a step is called."""
        best = self.best.sort("steps", descending=True, maintain_order=True)
        if best["kept"].sum() < 2 or best["steps"][0] < _MOST * int(best["steps"].sum()):
            return "step"
        return _UNITS.get((best["measure"][0], best["apart"][0]), "step")


def rhythms_of(clock: Clock, code_R: np.ndarray) -> Rhythms:
    """The rhythms of rows by stream and step; a stream in which less than half of the steps are alike has none."""
    same = np.flatnonzero((code_R[1:] == code_R[:-1]) & (clock.kind != ROWS))
    first = "numbers" if clock.kind == NUMBERS else "time"
    tried = {first: clock.at_R[same + 1] - clock.at_R[same]}
    if clock.is_dated:
        local_R = clock.local_R.astype("datetime64[ns]")
        before, after = local_R[same], local_R[same + 1]
        if clock.kind == ZONED:
            tried["local time"] = (after - before).astype(np.int64)
        tried["months"] = (after.astype("datetime64[M]") - before.astype("datetime64[M]")).astype(np.int64)
        days = before.astype("datetime64[D]"), after.astype("datetime64[D]")
        are_business = np.is_busday(days[0]) & np.is_busday(days[1])
        tried["business days"] = np.where(are_business, np.busday_count(*days), -1)
    stream, apart, kept = ["measure", "code"], pl.col("apart"), pl.col("kept")
    steps = [
        pl.LazyFrame({"code": code_R[same], "apart": own}).with_columns(measure=pl.lit(name, pl.Enum(_MEASURES)))
        for name, own in tried.items()
    ]
    each = pl.concat(steps).group_by(*stream, "apart").agg(kept=pl.len().cast(pl.Int64)).sort("apart")
    each = each.with_columns(steps=kept.sum().over(stream), is_measured=(apart >= 0).all().over(stream))
    each = each.filter(kept == kept.max().over(stream), kept >= _REGULAR * pl.col("steps"), pl.col("is_measured"))
    each = each.filter((apart > 0) | (pl.col("measure") == first)).unique(stream, keep="first", maintain_order=True)
    gaps = pl.col("steps") - kept
    usual = each.group_by("measure", "apart").agg(pl.sum("steps", "kept"), gaps=gaps.sum(), streams=(gaps > 0).sum())
    return Rhythms(usual.sort("measure", "apart").collect())


def together(parts: Sequence[Rhythms]) -> Rhythms:
    """The rhythms of all streams, by those of some."""
    each = pl.concat([part.usual for part in parts]).group_by("measure", "apart")
    return Rhythms(each.agg(pl.all().sum()).sort("measure", "apart"))
