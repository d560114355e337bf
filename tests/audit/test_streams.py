"""Which column names the streams: what the user says, or a usual name that repeats; what was taken is said."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit import audit_log
from lowregret.audit.page import page

from ..audit_logs import SHOP, broken, shuffled, table_of, written
from ..cli.test_audit import payoffs, run  # noqa: F401


def keyed(T=120, name="id"):
    """One stream whose rows have a key."""
    table = broken(T).drop_columns(["stream"])
    return table.append_column(name, pa.array(np.arange(T) + 1000)).append_column("colour", pa.array(["red"] * T))


def renamed(table, **names):
    return table.rename_columns([names.get(name, name) for name in table.column_names])


ASKED = lr.backtest(SHOP, broken(120))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("name", ["id", "stream", "unique_id", "series", "series_id", "item_id"])
def test_the_key_of_a_row_is_no_stream(tmp_path, name, suffix):
    table = shuffled(keyed(name=name))
    says = f"the values of {name} hardly repeat, so all rows are taken to be one stream"
    found = audit_log(written(table, tmp_path / f"log{suffix}"), SHOP)
    assert [(one.stream, one.steps, one.switched_at) for one in found.streams] == [
        ("0", 120, ASKED.streams[0].switched_at)
    ]
    assert found.earned == pytest.approx(ASKED.earned, abs=1e-12)
    assert any(says in warning for warning in found.warnings)
    asked = lr.backtest(SHOP, table)
    assert [one.earned for one in asked.streams] == [one.earned for one in ASKED.streams]
    assert any(says in warning for warning in asked.warnings)
    for where in ({"columns": {"stream": name}},):
        assert len(audit_log(tmp_path / f"log{suffix}", SHOP, **where).streams) == 120
        assert len(lr.backtest(SHOP, table, **where).streams) == 120


def test_a_key_with_a_few_rows_twice_is_still_a_key(tmp_path):
    table = keyed()
    ids = table["id"].to_numpy().copy()
    ids[7], ids[40] = ids[6], ids[39]
    table = table.set_column(table.column_names.index("id"), "id", pa.array(ids))
    assert len(lr.backtest(SHOP, table).streams) == 1
    assert len(audit_log(written(table, tmp_path / "log.parquet"), SHOP).streams) == 1


def test_a_column_that_has_another_part_is_no_stream(tmp_path, payoffs):  # noqa: F811
    table = keyed().drop_columns(["step"])
    log = written(shuffled(table), tmp_path / "log.parquet")
    found = audit_log(log, SHOP, columns={"order": "id"})
    assert [one.steps for one in found.streams] == [120]
    assert found.streams[0].switched_time == ASKED.streams[0].switched_at + 999
    assert found.about["columns"]["order"] == "id"
    assert found.about["columns"]["stream"] is None
    assert not any("hardly repeat" in warning for warning in found.warnings)
    assert [one.steps for one in lr.backtest(SHOP, table, columns={"order": "id"}).streams] == [120]
    done = run(log, "--payoffs", payoffs, "--order", "id", "--out", tmp_path / "out")
    assert " euros in 120 steps. Guarded: " in done.output, done.output
    assert "stream none, order id, state state, probs p_dry, p_wet" in done.output
    series = renamed(table_of({"a": 60, "b": 60}), state="series", stream="shop")
    found = lr.backtest(SHOP, series, columns={"state": "series", "stream": "shop"})
    assert [one.steps for one in found.streams] == [60, 60]
    repeated = table_of({"a": 60, "b": 60})
    for told in (
        {"stream": "step", "order": "step"},
        {"stream": "state", "state": "state"},
        {"order": "state", "state": "state"},
    ):
        with pytest.raises(ValueError, match="must be three different columns"):
            lr.backtest(SHOP, repeated, columns=told)


def test_the_first_usual_name_that_repeats_is_taken_and_told(tmp_path, payoffs):  # noqa: F811
    table = table_of({"a": 60, "b": 80})
    asked = lr.backtest(SHOP, table)
    both = renamed(table, stream="item_id").append_column("unique_id", pa.array(np.arange(140)))
    log = written(shuffled(both), tmp_path / "log.parquet")
    found = audit_log(log, SHOP)
    assert [(one.stream, one.steps) for one in found.streams] == [("a", 60), ("b", 80)]
    assert found.about["columns"]["stream"] == "item_id"
    assert [one.earned for one in lr.backtest(SHOP, both).streams] == [one.earned for one in asked.streams]
    done = run(log, "--payoffs", payoffs, "--out", tmp_path / "out")
    assert "read as stream item_id, order step, state state, probs p_dry, p_wet" in done.output
    about = json.loads((tmp_path / "out" / "audit.json").read_text())["about"]
    assert about["columns"] == {
        "stream": "item_id",
        "order": "step",
        "state": "state",
        "probs": ["p_dry", "p_wet"],
        "every": None,
    }
    assert "read as stream item_id, order step" in page(found)
    back = lr.backtest(SHOP, both)
    assert "read as stream item_id, order step, state state" in str(back.table())
    assert json.loads(back.to_json())["columns"]["stream"] == "item_id"


def test_no_stream_may_be_asked_for(tmp_path, payoffs):  # noqa: F811
    table = keyed().drop_columns(["id"]).append_column("stream", pa.array(["odd", "even"] * 60))
    log = written(table, tmp_path / "log.parquet")
    found = audit_log(log, SHOP, columns={"stream": "none"})
    assert [(one.steps, one.switched_at) for one in found.streams] == [(120, ASKED.streams[0].switched_at)]
    assert lr.backtest(SHOP, table, columns={"stream": "none"}).streams[0].steps == 120
    done = run(log, "--payoffs", payoffs, "--stream", "none", "--out", tmp_path / "out")
    assert " euros in 120 steps. Guarded: " in done.output, done.output
    twice = pa.concat_tables([table, table])
    with pytest.raises(lr.audit.Refused, match="there twice, also in row 1; all rows are one stream, as requested"):
        lr.backtest(SHOP, twice, columns={"stream": "none"})
    named = table.append_column("none", pa.array(["x"] * 120))
    with pytest.raises(ValueError, match="'none' says that there is no column of streams, and one has that name"):
        lr.backtest(SHOP, named, columns={"stream": "none"})


def test_a_key_of_forecasts_of_a_number():
    orders = np.arange(0.0, 60, 10)
    stall = lr.Payoff(
        lambda order, demand: 5 * np.minimum(order, demand) - 3 * order,
        orders,
        low=-150,
        high=100,
        knots=orders,
        outcomes=(0, np.inf),
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(40), "ds": pd.date_range("2026-01-01", periods=40)})
    frame["y"] = rng.gamma(6, 5, 40)
    for level in (0.1, 0.5, 0.9):
        frame[str(level)] = np.quantile(rng.gamma(6, 5, 500), level)
    found = lr.backtest(stall, frame)
    assert [one.steps for one in found.streams] == [40]
    assert any("the values of id hardly repeat" in warning for warning in found.warnings)
    assert len(lr.backtest(stall, frame.assign(id=frame["id"] % 2)).streams) == 2
    assert len(lr.backtest(stall, frame.assign(id=frame["id"] % 2), columns={"stream": "none"}).streams) == 1


def test_one_row_has_its_name(tmp_path):
    table = table_of({"only": 1})
    assert [one.stream for one in lr.backtest(SHOP, table).streams] == ["only"]
    assert [one.stream for one in audit_log(written(table, tmp_path / "log.csv"), SHOP).streams] == ["only"]


def test_files_of_a_folder_agree_on_the_stream(tmp_path):
    table = table_of({"a": 60, "b": 80})
    written(table.slice(0, 70), tmp_path / "0.parquet")
    written(table.slice(70).append_column("id", pa.array(np.arange(70))), tmp_path / "1.parquet")
    assert [one.steps for one in audit_log(tmp_path, SHOP).streams] == [60, 80]
