"""Times with a zone: told by the clock of the log, in order by the moment, never mixed with times that have none."""

import datetime
import json
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit import audit_log
from lowregret.audit.page import page

from ..audit_logs import PAYOFFS, SHOP, broken, shuffled, written
from ..cli.test_audit import run

UTC = datetime.UTC


def clocks(zone, days=150, start=datetime.datetime(2026, 1, 5), business=False, hours=24):
    """Times by the clock of a place: midnights from a Monday on, or so many hours apart."""
    zone = zone if isinstance(zone, datetime.tzinfo) else ZoneInfo(zone)
    if hours != 24:
        begin = start.replace(tzinfo=zone).astimezone(UTC)
        return [(begin + datetime.timedelta(hours=hours * d)).astimezone(zone) for d in range(days)]
    found = (start + datetime.timedelta(days=d) for d in range(2 * days))
    return [day.replace(tzinfo=zone) for day in found if not business or day.weekday() < 5][:days]


def log_of(times, kind="zone"):
    """A stream at these times: a column with a zone, strings as ISO 8601 has them, or times without a zone."""
    table = broken(len(times)).drop_columns(["step"])
    if kind == "text":
        column = pa.array([time.isoformat(sep=" ") for time in times])
    elif kind == "naive":
        column = pa.array([time.replace(tzinfo=None) for time in times], pa.timestamp("us"))
    else:
        column = pa.array(times, pa.timestamp("us", str(times[0].tzinfo)))
    return table.append_column("ds", column)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Europe/Berlin", "America/New_York", "UTC", "Asia/Kolkata"])
@pytest.mark.parametrize(("kind", "suffix"), [("zone", ".parquet"), ("text", ".parquet"), ("text", ".csv")])
def test_a_switch_is_dated_by_the_clock_of_the_log(tmp_path, zone, kind, suffix):
    times = clocks(zone)
    found = audit_log(written(shuffled(log_of(times, kind)), tmp_path / f"log{suffix}"), SHOP, delta=0.05)
    (one,) = found.streams
    assert one.switched_at
    for step, told in ((one.switched_at, one.switched_time), (one.since, one.since_time)):
        own = times[step - 1]
        asked = own.isoformat().replace("+00:00", "Z")
        assert told == asked
        assert told[:10] == str(own.date())
    assert json.loads(found.to_json())["streams"][0]["switched_time"] == one.switched_time
    assert one.switched_time in page(found)
    assert found.gaps == (0, 0)


def test_times_without_a_zone_stay_as_they_are(tmp_path):
    times = clocks("Asia/Tokyo")
    (one,) = audit_log(written(log_of(times, "naive"), tmp_path / "log.parquet"), SHOP, delta=0.05).streams
    assert one.switched_time == str(times[one.switched_at - 1].date())


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_folder_with_and_without_zones_is_refused(tmp_path, suffix):
    times = clocks("Asia/Tokyo", 40)
    table = log_of(times)
    kinds = {".csv": ("text", "naive"), ".parquet": ("zone", "naive")}[suffix]
    for i, kind in enumerate(kinds):
        written(log_of(times, kind).slice(20 * i, 20), tmp_path / f"{i}{suffix}")
    with pytest.raises(
        lr.audit.Refused, match=rf"1{suffix}: the steps are times without a zone, and times with a zone in .*0{suffix}"
    ):
        audit_log(tmp_path, SHOP)
    assert audit_log(written(table, tmp_path / "0.parquet"), SHOP).steps == 40


@pytest.mark.parametrize(
    "other",
    [
        pa.array([datetime.time(h) for h in range(6)]),
        pa.array([datetime.timedelta(days=d) for d in range(6)]),
        pa.array(range(6)),
    ],
    ids=str,
)
def test_other_kinds_of_steps_are_not_mixed_either(tmp_path, other):
    written(log_of(clocks("UTC", 6), "naive"), tmp_path / "0.parquet")
    table = log_of(clocks("UTC", 6), "naive").drop_columns(["ds"]).append_column("ds", other)
    written(table, tmp_path / "1.parquet")
    with pytest.raises(lr.audit.Refused, match=r"1.parquet: the steps are .*, and times without a zone in .*0.parquet"):
        audit_log(tmp_path, SHOP)


def test_an_object_column_of_times(tmp_path):
    """Python's own datetimes in pandas: some without a zone are refused, other offsets are kept."""
    times = clocks("Europe/Berlin", 110, business=True)
    fixed = [time.astimezone(datetime.timezone(time.utcoffset())) for time in times]
    assert len({time.utcoffset() for time in times}) == 2
    frame = log_of(times, "naive").to_pandas()
    frame["ds"] = pd.Series(fixed, dtype=object)
    assert lr.backtest(SHOP, frame, columns={"every": "1b"}).steps == 110
    for at in (0, 7):
        frame["ds"] = pd.Series([t.replace(tzinfo=None) if i == at else t for i, t in enumerate(fixed)], dtype=object)
        with pytest.raises(lr.audit.Refused, match="zone"):
            lr.backtest(SHOP, frame)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Europe/Berlin", "America/New_York", "Pacific/Auckland", "UTC"])
@pytest.mark.parametrize("kind", ["zone", "text"])
def test_business_days_months_and_days_go_by_the_clock(tmp_path, zone, kind):
    days = clocks(zone, 110, business=True)
    months = [datetime.datetime(2026 + m // 12, 1 + m % 12, 1, tzinfo=ZoneInfo(zone)) for m in range(20)]
    for times, every in ((days, "1b"), (months, "1mo"), (clocks(zone, 200), "1d"), (clocks(zone, 200, hours=1), "1h")):
        whole, n = log_of(times, kind), len(times)
        assert lr.backtest(SHOP, whole, columns={"every": every}).steps == n
        path = written(whole, tmp_path / "log.csv") if kind == "text" else written(whole, tmp_path / "log.parquet")
        found = audit_log(path, SHOP, columns={"every": every})
        assert (found.steps, found.gaps) == (n, (0, 0))
        holed = log_of(times[:9] + times[10:], kind)
        found = lr.backtest(SHOP, holed)
        assert any(f"--every {every}, or columns={{'every': '{every}'}}" in w for w in found.warnings), found.warnings
        with pytest.raises(lr.audit.Refused, match=f"every step must be {every}") as refused:
            lr.backtest(SHOP, holed, columns={"every": every})
        for time in (times[8], times[10]):
            assert time.isoformat().replace("+00:00", "Z") in str(refused.value)


def test_offsets_of_two_clocks_keep_the_warning(tmp_path):
    """Rows of one stream from two places: a missing day is told of, and so are the offsets."""
    here, there = datetime.timezone(datetime.timedelta(hours=9)), UTC
    midnights = [datetime.datetime(2026, 1, 5) + datetime.timedelta(days=d) for d in range(60) if d != 30]
    times = [day.replace(tzinfo=there if i % 2 else here) for i, day in enumerate(midnights)]
    table = log_of(times, "text")
    found = audit_log(written(table, tmp_path / "log.csv"), SHOP)
    assert found.gaps == (1, 1)
    says = "the times of 1 streams have offsets more than an hour apart"
    assert any(says in warning for warning in found.warnings)
    assert found.warnings == lr.backtest(SHOP, table).warnings
    summer = lr.backtest(SHOP, log_of(clocks("Europe/Berlin", 200), "text"))
    assert not any("offsets" in warning for warning in summer.warnings)


def test_a_day_is_a_day_whichever_clock_wrote_it():
    """Rows 24 hours apart, written by clocks that are nine hours apart in turn."""
    noons = [datetime.datetime(2026, 1, 5, 12, tzinfo=UTC) + datetime.timedelta(days=d) for d in range(60)]
    there = datetime.timezone(datetime.timedelta(hours=9))
    table = log_of([noon.astimezone(there) if i % 2 else noon for i, noon in enumerate(noons)], "text")
    assert lr.backtest(SHOP, table, columns={"every": "1d"}).steps == 60


def test_the_advice_is_the_rhythm_of_the_log(tmp_path):
    (tmp_path / "shop.csv").write_text(PAYOFFS)
    utc = datetime.UTC
    for hours, every in ((1, "1h"), (24, "1d"), (0.25, "15min"), (7 * 24, "1w"), (36, "36h"), (1 / 3600, "1s")):
        times = [datetime.datetime(2026, 1, 3, tzinfo=utc) + datetime.timedelta(hours=hours * d) for d in range(80)]
        log = written(log_of(times[:33] + times[34:], "naive"), tmp_path / "log.parquet")
        done = run(log, "--payoffs", tmp_path / "shop.csv", "--out", tmp_path / "out")
        assert f"--every {every}, or columns={{'every': '{every}'}}, refuses that" in done.output, done.output
        with pytest.raises(lr.audit.Refused, match=f"every step must be {every}"):
            audit_log(log, SHOP, columns={"every": every})
        assert audit_log(written(log_of(times, "naive"), log), SHOP, columns={"every": every}).steps == 80
    slow = [datetime.datetime(2026, 1, 3, tzinfo=utc) + datetime.timedelta(hours=d) for d in range(80) if d != 9]
    quick = [slow[0] + datetime.timedelta(milliseconds=100 * d) for d in range(80) if d != 9]
    both = [log_of(slow, "naive"), log_of(clocks("UTC", 40), "naive").set_column(0, "stream", pa.array(["b"] * 40))]
    (warning,) = (w for w in lr.backtest(SHOP, pa.concat_tables(both)).warnings if "usual" in w)
    assert "streams keep 1d and 1h, and --every is one for all" in warning
    (warning,) = (w for w in lr.backtest(SHOP, log_of(quick, "naive")).warnings if "usual" in w)
    assert "--every" not in warning


def test_times_of_day_and_durations_are_spelt_as_such(tmp_path):
    table = broken(150).drop_columns(["step"])
    spans = pa.array([datetime.timedelta(hours=d) for d in range(150)])
    (one,) = audit_log(written(table.append_column("t", spans), tmp_path / "a.parquet"), SHOP, delta=0.05).streams
    assert one.switched_time == str(datetime.timedelta(hours=one.switched_at - 1))
    for every in ("1b", "1mo"):
        with pytest.raises(lr.audit.Refused, match=rf"every {every} needs dates, and the steps \(t\) are durations"):
            audit_log(tmp_path / "a.parquet", SHOP, columns={"every": every})
    begin = datetime.datetime(2026, 1, 1)
    times = [(begin + datetime.timedelta(minutes=d)).time() for d in range(150)]
    (one,) = audit_log(
        written(table.append_column("t", pa.array(times)), tmp_path / "b.parquet"), SHOP, delta=0.05
    ).streams
    assert one.switched_time == str(times[one.switched_at - 1])


def test_when_a_forecast_was_made_has_a_zone_too():
    orders = np.arange(0.0, 60, 10)
    stall = lr.Payoff(
        lambda order, demand: 5 * np.minimum(order, demand) - 3 * order,
        orders,
        low=-150,
        high=100,
        knots=orders,
        outcomes=(0, np.inf),
    )
    days = pd.date_range("2026-01-01", periods=30, tz="America/New_York")
    frame = pd.DataFrame({"unique_id": "a", "ds": days, "y": 20.0, "0.1": 5.0, "0.5": 20.0, "0.9": 40.0})
    made = days - pd.Timedelta(days=1)
    on_time = lr.backtest(stall, frame.assign(cutoff=made))
    assert not any("made before" in warning for warning in on_time.warnings)
    with pytest.raises(lr.audit.Refused, match=r"cutoff.* times without a zone, and .*ds.* times with a zone"):
        lr.backtest(stall, frame.assign(cutoff=made.tz_localize(None)))
