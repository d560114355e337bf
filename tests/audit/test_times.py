"""When it broke: the time of each switch as the log has it, on the terminal, in JSON and on the page."""

import datetime
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit import audit_log
from lowregret.audit.page import page

from ..audit_logs import PAYOFFS, SHOP, shuffled, table_of, written
from ..cli.test_audit import run

LENGTHS = {"calm": 200, "Bee": 240, "Cee": 90, "Dee": 150, "Eff": 260}


def dated(table, start=datetime.date(2025, 1, 1)):
    """The steps as days, another first day for every stream."""
    names, steps = table["stream"].to_pylist(), table["step"].to_pylist()
    days = [
        start + datetime.timedelta(days=step + 7 * (sum(map(ord, name)) % 50))
        for name, step in zip(names, steps, strict=True)
    ]
    return table.drop_columns(["step"]).append_column("ds", pa.array(days))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_times_are_those_of_the_rows(tmp_path, suffix):
    table = dated(table_of({f"s{i}": 150 + 5 * i for i in range(14)}, broken=2))
    found = audit_log(written(shuffled(table), tmp_path / f"log{suffix}"), SHOP, delta=0.05)
    assert found.alarms
    rows = list(zip(table["stream"].to_pylist(), table["ds"].to_pylist(), strict=True))
    for one in found.streams:
        days = [str(day) for name, day in rows if name == one.stream]
        assert one.switched_time == (None if one.switched_at is None else days[one.switched_at - 1])
        assert one.since_time == (None if one.since is None else days[one.since - 1])
    assert any(one.since_time for one in found.streams)
    told = {one["stream"]: one for one in json.loads(found.to_json())["streams"]}
    assert {name: one["switched_time"] for name, one in told.items()} == {
        o.stream: o.switched_time for o in found.streams
    }
    assert [one.log_e for one in found.suspects] == sorted((one.log_e for one in found.suspects), reverse=True)
    text = page(found)
    for one in found.suspects:
        assert one.switched_time in text
        assert one.since_time in text


def test_numbers_and_no_times_at_all(tmp_path):
    table = table_of(LENGTHS)  # its steps begin with 3
    counted = audit_log(written(table, tmp_path / "counted.parquet"), SHOP)
    assert counted.alarms
    for one in counted.suspects:
        assert (one.switched_time, one.since_time) == (one.switched_at + 2, one.since + 2)
    plain = audit_log(written(table.drop_columns(["step"]), tmp_path / "plain.parquet"), SHOP)
    assert [one.switched_at for one in plain.suspects] == [one.switched_at for one in counted.suspects]
    assert all(one.switched_time is None and one.since_time is None for one in plain.suspects)
    for found, more in ((counted, 2), (plain, 0)):
        data = json.loads(page(found).split('id="data">')[1].split("</script>")[0])
        alarms = [mark for one in data["details"] for mark in one["marks"] if mark[0] == "alarm"]
        assert alarms
        assert all(at == step + more for _, step, at in alarms)


def test_the_terminal_says_when(tmp_path):
    (tmp_path / "shop.csv").write_text(PAYOFFS)
    log = written(dated(table_of({f"s{i}": 150 for i in range(14)}, broken=2)), tmp_path / "log.parquet")
    done = run(log, "--payoffs", tmp_path / "shop.csv", "--out", tmp_path)
    found = audit_log(log, SHOP)
    assert len(found.suspects) > 5
    for one in found.suspects[:5]:
        left, began = (datetime.date.fromisoformat(time) for time in (one.switched_time, one.since_time))
        says = (
            f"- {one.stream!r} was left on {left.day} {left:%B %Y}, {(left - began).days} days after it began to lose"
        )
        assert f"{says} to {one.lost_to} (on {began.day} {began:%B %Y})" in done.output
    assert f"... and {len(found.suspects) - 5} more, in the JSON" in done.output
    assert "Named by e-BH, on average at most 10% of them wrongly: 's" in done.output
    assert "Hedge weighs actions by what they have earned" in done.output


def test_several_series_without_a_column_of_streams(tmp_path):
    table = dated(table_of({"Bee": 30, "Cee": 30}))
    counted = table_of({"Bee": 30, "Cee": 30})
    says = r"there twice, also in row \d+; no column of streams was found.*--stream NAME or columns=\{'stream': NAME\}"
    for log, name in ((table, "log.csv"), (counted, "log.parquet")):
        log = log.rename_columns(["shop" if c == "stream" else c for c in log.column_names])
        with pytest.raises(lr.audit.Refused, match=says):
            audit_log(written(log, tmp_path / name), SHOP)
        with pytest.raises(lr.audit.Refused, match=says):
            lr.backtest(SHOP, log)
        assert len(audit_log(tmp_path / name, SHOP, columns={"stream": "shop"}).streams) == 2
    with pytest.raises(lr.audit.Refused) as refused:
        lr.backtest(SHOP, pa.concat_tables([counted, counted]))
    assert "no column of streams" not in str(refused.value)


@pytest.mark.parametrize("clock", ["", " 12:30:00", "T12:30:00Z", "T12:30:00.250+02:00"])
def test_dates_as_strings(tmp_path, clock):
    table = dated(table_of({"calm": 20, "Bee": 30}))
    asked = lr.backtest(SHOP, table)
    frame = table.to_pandas()
    frame["ds"] = [f"{day}{clock}" for day in frame["ds"]]
    for kind in (object, "category"):
        own = frame.assign(ds=frame["ds"].astype(kind)).sample(frac=1, random_state=0)
        found = lr.backtest(SHOP, own)
        assert found.earned == asked.earned
        assert found.streams == asked.streams
    frame.to_csv(tmp_path / "log.csv", index=False)
    again = pd.read_csv(tmp_path / "log.csv")
    assert lr.backtest(SHOP, again).earned == asked.earned
    assert [one.switched_at for one in audit_log(tmp_path / "log.csv", SHOP).streams] == [
        one.switched_at for one in asked.streams
    ]
    for bad in ("31/01/2025", "2025", "3", "", "2025-02-30"):
        again.loc[4, "ds"] = bad
        with pytest.raises(lr.audit.Refused, match=r"row 5: the step \(ds\) must be .*pd.to_datetime\(frame\['ds'\]\)"):
            lr.backtest(SHOP, again)


def test_zones_are_there_for_all_or_none():
    frame = dated(table_of({"a": 9})).to_pandas()
    frame["ds"] = [f"{day} 00:00:00{'Z' if i == 4 else ''}" for i, day in enumerate(frame["ds"])]
    with pytest.raises(lr.audit.Refused, match="all with a zone or none"):
        lr.backtest(SHOP, frame)


def test_sums_that_are_off_say_what_to_do(tmp_path):
    (tmp_path / "shop.csv").write_text(PAYOFFS)

    def log_of(factor):
        table = table_of({"a": 20})
        for at, name in ((3, "p_dry"), (4, "p_wet")):
            table = table.set_column(at, name, pa.array(table[name].to_numpy() * factor))
        return table

    for factor, says in (
        (0.9996, r"sum to 0.9996 \(tolerance 1e-06\): .*if that is rounding, --tolerance 0.0004 renormalises"),
        (0.996, "not rounding: check .* of all states; --tolerance 0.004 would renormalise them all the same"),
        (1.3, "that is not rounding: if these are logits, take the softmax; if they are counts, divide by the sum"),
        (100, "sum to 100 .*they look like percentages: divide them by 100"),
        (3, r"sum to 3 \(tolerance 1e-06\): [0-9., ]+; that is not .*; likewise in row 2, 3, 4, 5 and 15 more$"),
    ):
        with pytest.raises(lr.audit.Refused, match=says):
            lr.backtest(SHOP, log_of(factor))
        with pytest.raises(lr.audit.Refused, match=says):
            audit_log(written(log_of(factor), tmp_path / "log.csv"), SHOP)
    log = written(log_of(0.996), tmp_path / "log.csv")
    assert audit_log(log, SHOP, tolerance=0.004).about["renormalised"] == 20
    for bad in (100, 0.11, 1):
        with pytest.raises(ValueError, match=r"tolerance must be above 0 and at most 0.1"):
            audit_log(log, SHOP, tolerance=bad)
    done = run(log, "--payoffs", tmp_path / "shop.csv", "--tolerance", "100", "--out", tmp_path / "out")
    assert done.exit_code == 2


@pytest.mark.parametrize(
    ("laws", "advised", "rounding"),
    [
        ([[0.51, 0.5], [0.5, 0.5]], "0.01", True),  # off by 0.010000000000000009
        ([[0.5, 0.5], [0.33, 0.66], [0.34, 0.67]], "0.01", True),
        ([[0.34, 0.67], [0.3, 0.69], [0.41, 0.61]], "0.02", False),
        ([[0.5, 0.501], [0.5, 0.4999]], "0.001", True),
        ([[0.123456, 0.876541]], "3e-06", True),
        ([[float(np.float16(0.1)), float(np.float16(0.9))]], "0.00013", True),
        ([[0.7, 0.35]], "0.05", False),
        ([[0.6, 0.5]], "0.1", True),
    ],
)
def test_the_tolerance_that_is_advised_is_the_least_that_does(tmp_path, laws, advised, rounding):
    dry, wet = np.array(laws).T
    table = pa.table({"state": ["dry"] * len(dry), "p_dry": dry, "p_wet": wet})
    with pytest.raises(lr.audit.Refused, match=f"--tolerance {advised} ") as refused:
        audit_log(written(table, tmp_path / "log.parquet"), SHOP)
    assert ("if that is rounding" in str(refused.value)) == rounding
    assert audit_log(tmp_path / "log.parquet", SHOP, tolerance=float(advised)).about["renormalised"] > 0
    with pytest.raises(lr.audit.Refused):
        audit_log(tmp_path / "log.parquet", SHOP, tolerance=float(advised) * 0.9)


def test_the_first_few_rows_that_are_wrong_are_named():
    frame = table_of({"a": 12}).to_pandas()
    states = frame["state"].copy()
    frame.loc[[1, 4], "state"] = "snow"
    with pytest.raises(lr.audit.Refused, match=r"row 2: the state .*got 'snow'; likewise in row 5$"):
        lr.backtest(SHOP, frame)
    frame["state"] = states.where(np.arange(12) < 5)
    with pytest.raises(lr.audit.Refused, match=r"row 6: .* is missing; likewise in row 7, 8, 9, 10 and 2 more"):
        lr.backtest(SHOP, frame)


def test_payoffs_that_are_missing(tmp_path):
    done = run(written(table_of({"a": 12}), tmp_path / "log.csv"))
    assert done.exit_code == 2
    for words in ("--payoffs is missing", "euros,dry,wet", "open,100,-20", "shut,0,0"):
        assert words in done.output
