"""Since when, returns, episodes and missing times of an audit, beside backtests of the same log."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit import audit_log
from lowregret.audit.times import TIMES, Steps, every_of, irregular, spelt

from ..audit_logs import SHOP, shuffled, written

LENGTHS = {f"s{i}": T for i, T in enumerate((400, 400, 390, 250, 400, 31, 1))}


def log_of():
    """Models that are wrong for a while, so that some return; some are wrong to the end."""
    rng, parts = np.random.default_rng(4), []
    for i, (name, T) in enumerate(LENGTHS.items()):
        wet = rng.beta(0.4, 0.4, T)
        came = rng.random(T) < wet
        begin, end = (30, 110) if i % 2 else (160, T if i == 2 else 160)
        came[begin:end] = rng.random(len(came[begin:end])) >= wet[begin:end]
        states = np.array(SHOP.states)[came.astype(int)]
        parts.append(
            pa.table({"stream": [name] * T, "step": np.arange(T), "state": states, "p_dry": 1 - wet, "p_wet": wet})
        )
    return pa.concat_tables(parts)


def test_since_and_returns_are_those_of_a_backtest(tmp_path):
    table = log_of()
    path = written(shuffled(table), tmp_path / "log.parquet")
    found = audit_log(path, SHOP, delta=0.05)
    asked = lr.backtest(lr.Guard(SHOP, test=lr.ExactTest(horizon=400)), table)
    assert found.alarms
    for one, other in zip(found.streams, asked.streams, strict=True):
        events = [event for event in asked.switches if event.stream == one.stream]
        switches = [event for event in events if isinstance(event, lr.Alarm)]
        assert (one.stream, one.steps, one.switched_at) == (other.stream, other.steps, other.switched_at)
        assert (one.best_action, one.returns) == (other.best_action, other.returns)
        assert one.since == (switches[0].since if switches else None)
        assert one.earned == pytest.approx(other.earned, abs=1e-11)
        assert one.regret == pytest.approx(other.regret, abs=1e-12)
    assert found.certificate.regret_bound == asked.certificate.regret_bound
    assert found.alarms > 1
    assert sum(one.returns for one in found.streams)
    quick = audit_log(path, SHOP, delta=0.05, events=False)
    for one, other in zip(quick.streams, found.streams, strict=True):
        assert one.earned == pytest.approx(other.earned, abs=1e-11)
        assert (one.switched_at, one.log_e) == (other.switched_at, other.log_e)
        assert (one.since, one.returns) == (None, None)


def test_the_table_says_so(tmp_path):
    path = written(log_of(), tmp_path / "log.parquet")
    assert "returns to the model" in audit_log(path, SHOP, delta=0.05).report()
    assert "returns to the model" not in audit_log(path, SHOP, events=False).report()


DAY = datetime.datetime(2026, 1, 1)  # a Thursday


def dated(days, unit="us", stream="a"):
    times = pa.array([DAY + datetime.timedelta(days=d) for d in days], pa.timestamp(unit))
    n = len(days)
    return pa.table({"stream": [stream] * n, "ds": times, "y": ["dry"] * n, "dry": [0.5] * n, "wet": [0.5] * n})


BUSINESS = [d for d in range(60) if (DAY + datetime.timedelta(days=d)).weekday() < 5]
MONTHLY = [(datetime.datetime(2026 + m // 12, 1 + m % 12, 1) - DAY).days for m in range(20)]


@pytest.mark.parametrize(
    ("days", "gaps", "every", "broken"),
    [
        (range(40), 0, "1d", "1w"),
        ([d for d in range(40) if d != 20], 1, "1d", None),
        (BUSINESS, 0, "1b", "1d"),
        (BUSINESS[:20] + BUSINESS[21:], 1, "1b", None),
        (MONTHLY, 0, "1mo", "30d"),
        (MONTHLY[:7] + MONTHLY[8:], 1, "1mo", None),
        ([d * 7 for d in range(20)], 0, "1w", "1mo"),
        ([d * d / 24 for d in range(20)], 0, "1h", None),  # no rhythm at all
        ([d / 24 for d in range(50)], 0, "1h", "30min"),
    ],
)
def test_times_that_are_missing(tmp_path, days, gaps, every, broken):
    table = pa.concat_tables([dated(list(days)), dated([0, 1, 2], stream="whole")])
    path = written(shuffled(table), tmp_path / "log.parquet")
    found, asked = audit_log(path, SHOP), lr.backtest(SHOP, table)
    assert found.gaps == (gaps, int(gaps > 0))
    assert found.warnings == asked.warnings
    assert any("not as far from the one before" in warning for warning in found.warnings) == (gaps > 0)
    alone = dated(list(days))
    if gaps or broken is None:
        with pytest.raises(lr.audit.Refused, match=rf"row \d+: a time of stream 'a' is missing .* must be {every}"):
            audit_log(written(alone, tmp_path / "alone.parquet"), SHOP, columns={"every": every})
    else:
        assert audit_log(written(alone, tmp_path / "alone.parquet"), SHOP, columns={"every": every}).steps == len(days)
    for wrong in filter(None, (broken,)):
        with pytest.raises(lr.audit.Refused, match=rf"must be {wrong}"):
            lr.backtest(SHOP, alone, columns={"every": wrong})


def test_rhythms_by_a_loop():
    rng = np.random.default_rng(0)
    stream = np.sort(rng.integers(0, 30, 400))
    hours = np.concatenate([np.cumsum(rng.choice([1, 1, 1, 2], (stream == i).sum())) for i in range(30)])
    asked, streams = 0, 0
    for i in range(30):
        apart = np.diff(hours[stream == i])
        if len(apart):
            most = max(np.sum(apart == value) for value in set(apart.tolist()))
            off = len(apart) - most if most >= len(apart) / 2 else 0
            asked, streams = asked + off, streams + (off > 0)
    assert irregular(stream, Steps(hours * 3600 * 10**9, np.zeros(400, dtype=np.int64), TIMES))[:2] == (asked, streams)


def test_units_of_files_may_differ(tmp_path):
    written(dated(range(5), "s"), tmp_path / "0.parquet")
    written(dated(range(5, 10), "ns"), tmp_path / "1.parquet")
    found = audit_log(tmp_path, SHOP, columns={"every": "1d"})
    assert (found.steps, found.gaps) == (10, (0, 0))
    written(dated([9], "ms"), tmp_path / "2.parquet")
    with pytest.raises(lr.audit.Refused, match=r"2.parquet, row 1: a time .* there twice, also in .*1.parquet, row 5"):
        audit_log(tmp_path, SHOP)


def test_files_without_a_column_of_steps_follow_each_other(tmp_path):
    table = dated(range(6)).drop_columns(["ds"])
    written(table, tmp_path / "0.parquet")
    written(table, tmp_path / "1.parquet")
    assert [one.steps for one in audit_log(tmp_path, SHOP).streams] == [12]


def test_what_is_said_of_times():
    assert spelt(0) == "1970-01-01"
    assert spelt(3_600_000_000_000) == "1970-01-01T01:00:00"
    assert spelt(1_500_000_000) == "1970-01-01T00:00:01.5"
    for bad in ("d", "0d", "1.5h", "1y", "-1d", 1, None, "1d ", "\u0661d"):
        with pytest.raises(ValueError, match="every must be a whole number of s, min, h"):
            every_of(bad)
    table = dated(range(3)).set_column(1, "step", pa.array([1, 2, 3]))
    with pytest.raises(lr.audit.Refused, match=r"every 1d needs times, and the steps \(step\) are whole numbers"):
        lr.backtest(SHOP, table, columns={"every": "1d"})
