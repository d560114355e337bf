"""Steps as numbers and as times: what is read, how it is written back, and how far apart they usually are."""

import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from lowregret.audits.times import (
    NUMBERS,
    ROWS,
    TIMES,
    UNIX,
    ZONED,
    Clock,
    Spelling,
    kind_of,
    moments_of,
    rhythms_of,
    together,
)

DAY = 86_400 * 10**9


def ns(moment: datetime.datetime) -> int:
    """Since 1970, in UTC where there is no zone."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1) * 1000


def read(
    values: Any, dtype: Any = None, has_zones: bool = False, is_counted: bool = False
) -> tuple[list[int | None], Clock]:
    """The moments of a column, and its clock."""
    frame = pl.DataFrame({"t": pl.Series(values, dtype=dtype)})
    moments = moments_of("t", frame.schema["t"], Spelling(has_zones, is_counted))
    at = frame.select(moments.at).to_series()
    offset = None if moments.offset is None else frame.select(moments.offset).to_series().to_numpy()
    return at.to_list(), Clock(at.fill_null(0).to_numpy(), moments.kind, moments.zone, offset)


TEXTS = {
    "2024-03-31": "2024-03-31",
    "2024-03-31 07": "2024-03-31T07:00:00",
    " 2024-03-31T07:05 ": "2024-03-31T07:05:00",
    "2024-03-31 07:05:09": "2024-03-31T07:05:09",
    "2024-03-31T07:05:09,250": "2024-03-31T07:05:09.25",
    "2024-03-31T07:05:09.000000001": "2024-03-31T07:05:09.000000001",
    "2024-03-31 UTC": "2024-03-31T00:00:00Z",
    "2024-03-31T07:05Z": "2024-03-31T07:05:00Z",
    "2024-03-31T07:05:09.5+02:00": "2024-03-31T07:05:09.5+02:00",
    "2024-03-31 07:05:09 -0330": "2024-03-31T07:05:09-03:30",
    "2024-03-31T07+01": "2024-03-31T07:00:00+01:00",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_the_moment_that_python_makes_of_it(text: str) -> None:
    (at,), clock = read([text], has_zones=TEXTS[text][19:].lstrip(".0123456789") != "")
    plain = TEXTS[text].replace("09.000000001", "09")
    assert at == ns(datetime.datetime.fromisoformat(plain)) + text.endswith("001")
    assert clock.texts([0]) == [TEXTS[text]]


@pytest.mark.parametrize(
    "text", ["31.03.2024", "31/03/2024", "03-31-2024", "2024-02-30", "2024-03-31T24:00", "2024-03-31T07:60", "2024", ""]
)
def test_no_other_text_is_a_time(text: str) -> None:
    assert read([text])[0] == [None]


def test_zones_are_there_for_all_or_none() -> None:
    both = ["2024-03-31T07:05", "2024-03-31T07:05+01:00"]
    assert [at is None for at in read(both, has_zones=False)[0]] == [False, True]
    assert [at is None for at in read(both, has_zones=True)[0]] == [True, False]


BERLIN = ZoneInfo("Europe/Berlin")
MOMENT = datetime.datetime(2024, 7, 1, 12, 30)
COLUMNS: dict[str, tuple[Any, Any, str]] = {
    "day": (MOMENT.date(), pl.Date, "2024-07-01"),
    "ms": (MOMENT, pl.Datetime("ms"), "2024-07-01T12:30:00"),
    "ns": (MOMENT, pl.Datetime("ns"), "2024-07-01T12:30:00"),
    "zone": (MOMENT.replace(tzinfo=BERLIN), pl.Datetime("us", "Europe/Berlin"), "2024-07-01T12:30:00+02:00"),
    "number": (7, pl.UInt8, "7"),
    "float": (7.0, pl.Float32, "7"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_every_type_is_written_as_the_log_has_it(name: str) -> None:
    value, dtype, text = COLUMNS[name]
    assert read([value], dtype)[1].texts([0]) == [text]


def test_what_no_step_can_be_is_none() -> None:
    assert read([1.5, float("nan"), 1e300])[0] == [None] * 3
    assert read([2**64 - 1], pl.UInt64)[0] == [None]
    far = [datetime.date(9999, 12, 31), datetime.date(1500, 1, 1)]
    assert read(far)[0] == read([str(day) for day in far])[0] == [None] * 2
    assert read(far, pl.Datetime("us"))[0] == [None] * 2


@pytest.mark.parametrize("unit", [10**9, 10**6, 10**3, 1])
def test_numbers_that_may_be_unix_times_are(unit: int) -> None:
    """Each by its size; beyond 1990 and 2100 they are numbers, and both together are refused."""
    low, high = (int(datetime.datetime(year, 1, 1, tzinfo=datetime.UTC).timestamp()) for year in (1990, 2100))
    ends = [low * 10**9 // unit, high * 10**9 // unit - 1]
    at = [low * 10**9, (high * 10**9 // unit - 1) * unit]
    assert read(ends)[0] == read(list(map(str, ends)), is_counted=True)[0] == at
    assert kind_of(NUMBERS, *at) == UNIX
    before = read([ends[0] - 1])[0][0]
    assert before == ends[0] - 1
    assert kind_of(NUMBERS, 0, before) == NUMBERS
    assert kind_of(TIMES, *at) == TIMES
    with pytest.raises(ValueError, match=r"steps must be numbers or Unix times .*, got some of both"):
        kind_of(NUMBERS, before, at[0])
    assert read([1.7e9, 1.7e9 + 0.25, 1.7e9 + 0.1])[0] == [17 * 10**17 + n * 10**7 for n in (0, 25, 10)]


def test_the_local_clock_goes_by_its_zone_over_a_change() -> None:
    hours = [datetime.datetime(2024, 10, 26, tzinfo=datetime.UTC) + datetime.timedelta(hours=h) for h in range(48)]
    there = [hour.astimezone(BERLIN) for hour in hours]
    wanted = [ns(hour.replace(tzinfo=None)) for hour in there]
    by_zone = read(there, pl.Datetime("us", "Europe/Berlin"))[1]
    by_text = read([hour.isoformat() for hour in there], has_zones=True)[1]
    for clock in (by_zone, by_text):
        assert clock.at_R.tolist() == [ns(hour) for hour in hours]
        assert clock.local_R.tolist() == wanted
        assert clock.texts(range(48)) == [hour.isoformat() for hour in there]


def days(*apart: int, zone: ZoneInfo | None = None) -> list[datetime.datetime]:
    """Midnights so many days apart, the first a Monday."""
    first = datetime.datetime(2024, 1, 1)
    return [(first + datetime.timedelta(days=int(d))).replace(tzinfo=zone) for d in np.cumsum([0, *apart])]


def rhythm(times: list[datetime.datetime], code: list[int] | None = None) -> tuple[str, int]:
    """What steps are called, and how many of them are gaps."""
    zone = times[0].tzinfo
    clock = Clock(np.array([ns(time) for time in times]), ZONED if zone else TIMES, zone and str(zone))
    found = rhythms_of(clock, np.array(code or [0] * len(times)))
    return found.unit, found.gaps[0]


MONTHS = [datetime.datetime(2024 + m // 12, 1 + m % 12, 1) for m in range(36)]
RHYTHMS = {
    "days": (days(*[1] * 9), ("day", 0)),
    "a missing day": (days(1, 1, 1, 2, 1, 1), ("day", 1)),
    "days of a zone whose clocks change": (days(*[1] * 200, zone=BERLIN), ("day", 0)),
    "business days": (days(*[1, 1, 1, 1, 3] * 6), ("business day", 0)),
    "a holiday": (days(*[1, 1, 1, 1, 3] * 6, 2, 1, 1), ("business day", 1)),
    "weeks": (days(*[7] * 9), ("week", 0)),
    "months": (MONTHS, ("month", 0)),
    "a missing month": (MONTHS[:5] + MONTHS[6:], ("month", 1)),
    "the last days of months": ([time - datetime.timedelta(days=1) for time in MONTHS], ("month", 0)),
    "quarters": (MONTHS[::3], ("quarter", 0)),
    "years": (MONTHS[::12], ("year", 0)),
    "36 hours": ([MOMENT + h * datetime.timedelta(hours=36) for h in range(9)], ("step", 0)),
    "no rhythm": (days(1, 2, 3, 4, 5, 6), ("step", 0)),
    "one step": (days(1), ("step", 0)),
}


@pytest.mark.parametrize("name", RHYTHMS)
def test_what_steps_are_called_and_which_are_gaps(name: str) -> None:
    times, found = RHYTHMS[name]
    assert rhythm(times) == found


def test_a_few_streams_of_another_rhythm_do_not_change_what_a_step_is_called() -> None:
    daily, weekly = days(*[1] * 60), days(7)
    assert rhythm(daily + weekly, [0] * len(daily) + [1] * 2) == ("day", 0)
    assert rhythm(daily[:9] + weekly * 9, [0] * 9 + [i for i in range(1, 10) for _ in range(2)])[0] == "step"


def test_gaps_beside_a_literal_count() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        lengths, at, code, wanted = rng.integers(1, 9, 5), [], [], 0
        for b, T in enumerate(lengths):
            apart = rng.choice([1, 1, 1, 2, 5], T - 1).tolist()
            at += np.cumsum([3, *apart]).tolist()
            code += [b] * int(T)
            usual = max(map(apart.count, apart), default=0)
            wanted += len(apart) - usual if 2 * usual >= len(apart) else 0
        assert rhythms_of(Clock(np.array(at), NUMBERS), np.array(code)).gaps[0] == wanted
        assert rhythms_of(Clock(np.array(at), ROWS), np.array(code)).gaps == (0, 0)


def test_the_rhythm_of_parts_is_that_of_the_whole() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        apart = [rng.choice([1, 1, 1, 1, 3], int(rng.integers(1, 20))) for _ in range(6)]
        at_R = np.concatenate([np.cumsum([0, *own]) * DAY + (0 if rng.random() < 0.5 else DAY) for own in apart])
        code_R = np.repeat(np.arange(6), [len(own) + 1 for own in apart])
        parts = [rhythms_of(Clock(at_R[code_R % 2 == k], TIMES), code_R[code_R % 2 == k]) for k in range(2)]
        whole = rhythms_of(Clock(at_R, TIMES), code_R)
        assert together(parts).usual.equals(whole.usual)
        assert together([*parts, rhythms_of(Clock(np.array([0]), TIMES), np.array([9]))]).unit == whole.unit
