"""Logs written by someone who means no good, or by a machine that means nothing at all."""

import json
import os

import numpy as np
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit import audit_log
from lowregret.audit.page import page

from ..audit_logs import SHOP, written
from ..cli.test_audit import payoffs, run  # noqa: F401


def three(**columns):
    """Three steps of a stream, some of their columns replaced or left out."""
    rows = {"stream": ["a"] * 3, "step": [1, 2, 3], "state": ["dry", "wet", "dry"], "p_dry": [0.5] * 3}
    rows |= {"p_wet": [0.5] * 3} | columns
    return pa.table({name: values for name, values in rows.items() if values is not None})


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"stream": [["a"]] * 3}, r"the streams \(stream\) must be names or numbers, got list"),
        ({"stream": [{"a": 1}] * 3}, r"the streams \(stream\) must be names or numbers, got struct"),
        ({"stream": [b"\xff"] * 3}, r"the streams \(stream\) must be names or numbers, got binary"),
        ({"stream": [1.0, float("nan"), 1.0]}, r"row 2: the stream \(stream\) is not a number"),
        ({"state": [["dry"]] * 3}, r"the states \(state\) must be names or numbers, got list"),
        ({"state": pa.nulls(3)}, r"row 1: the state \(state\) is missing"),
        ({"step": pa.array([1, 2, 2**64 - 1], pa.uint64())}, r"row 3: the step \(step\) must be below 2\^63"),
        ({"step": [-(2**63), 2**63 - 1, 0]}, "row 3: step -9223372036854775807 of stream 'a' is missing"),
        ({"step": pa.array([-(10**6), 0, 1], pa.date32())}, "must lie between the years 1678 and 2262"),
        ({"step": [True, False, True]}, "must be whole numbers or times, got bool"),
        ({"p_dry": pa.nulls(3)}, r"the probabilities \(p_dry\) must be numbers, got null"),
        ({"p_dry": [2**62, 0, 1]}, "row 1: probabilities must sum to one"),
        ({"p_dry": [1e308, 0.6, 1], "p_wet": [1e308, 0.41, 0]}, "row 1: .*to inf .*not rounding.*likewise in row 2"),
    ],
)
def test_kinds_of_columns(tmp_path, columns, says):
    table = three(**columns)
    with pytest.raises(lr.audit.Refused, match=says):
        audit_log(written(table, tmp_path / "log.parquet"), SHOP)
    with pytest.raises(lr.audit.Refused, match=says):
        lr.backtest(SHOP, table)


@pytest.mark.parametrize("name", [" ", "a\x00b", "\u202eabc\x1b[31m", 'a\nb,"c', "ü" * 3000, "\u2028</script>"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_of_any_kind(tmp_path, name, suffix):
    found = audit_log(written(three(stream=[name] * 3), tmp_path / f"log{suffix}"), SHOP)
    assert [one.stream for one in found.streams] == [name]
    assert json.loads(found.to_json())["streams"][0]["stream"] == name
    assert len(page(found)) < 8_000_000


def test_numbers_that_name_streams_are_spelt_alike(tmp_path):
    written(three(stream=[7.0] * 3), tmp_path / "0.parquet")
    written(three(stream=[7] * 3, step=[4, 5, 6]), tmp_path / "1.parquet")
    assert [(one.stream, one.steps) for one in audit_log(tmp_path, SHOP).streams] == [("7", 6)]


def test_folders(tmp_path):
    deep = tmp_path / "log" / "day=1" / "part.parquet"
    deep.mkdir(parents=True)
    written(three(), deep / "0.parquet")
    os.symlink(tmp_path / "log", deep / "round")
    assert audit_log(tmp_path / "log", SHOP).steps == 3
    os.symlink(tmp_path / "nowhere", deep / "gone.parquet")
    with pytest.raises(lr.audit.Refused, match=r"gone.parquet: it is not a regular file"):
        audit_log(tmp_path / "log", SHOP)
    (deep / "gone.parquet").unlink()
    os.mkfifo(deep / "pipe.parquet")
    with pytest.raises(lr.audit.Refused, match=r"pipe.parquet: it is not a regular file"):
        audit_log(tmp_path / "log", SHOP)


def test_a_terminal_is_not_steered(tmp_path, payoffs):  # noqa: F811
    log = tmp_path / "log.csv"
    log.write_text("stream,step,state,p_dry,p_wet\na,1,dry,\x1b]0;mine\x07,.5\n")
    done = run(log, "--payoffs", payoffs, "--out", tmp_path / "out")
    assert done.exit_code == 4
    assert "invalid value '\\x1b]0;mine\\x07'" in done.output
    assert "\x1b]" not in done.output
    wrong = np.tile([0.99, 0.01], (80, 1))
    names = ["\x1b[31m" + "x" * 10_000, "\x1b[32m" + "x" * 10_000]
    columns = {"stream": np.repeat(names, 40), "step": np.tile(np.arange(40), 2), "state": ["wet"] * 80}
    table = pa.table({**columns, "p_dry": wrong[:, 0], "p_wet": wrong[:, 1]})
    done = run(written(table, tmp_path / "named.parquet"), "--payoffs", payoffs, "--out", tmp_path / "out")
    assert done.exit_code == 3, done.output
    assert "wrongly: '\\x1b[31mxxx" in done.output
    assert "\x1b" not in done.output
    assert len(done.output) < 3000


def test_a_state_that_was_excluded_leaves_plain_json(tmp_path):
    table = three(p_dry=[0.0, 0.5, 0.5], p_wet=[1.0, 0.5, 0.5])
    found = lr.backtest(SHOP, table)
    assert found.switches[0].excluded

    def refuse(name):
        raise AssertionError(name)

    assert json.loads(found.to_json(), parse_constant=refuse)["switches"][0]["evidence"] is None
    told = json.loads(audit_log(written(table, tmp_path / "log.parquet"), SHOP).to_json(), parse_constant=refuse)
    assert (told["streams"][0]["switched_at"], told["streams"][0]["since"]) == (1, None)


def test_many_short_streams(tmp_path):
    names = [f"{i}" + "<" * 90 for i in range(3000)]
    columns = {
        "stream": names,
        "step": [1] * 3000,
        "state": ["dry"] * 3000,
        "p_dry": [0.0] * 3000,
        "p_wet": [1.0] * 3000,
    }
    path, named = written(pa.table(columns), tmp_path / "log.parquet"), {"stream": "stream"}
    found = audit_log(path, SHOP, events=False, fallback=False, columns=named)
    assert found.alarms == 3000
    assert len(page(found).encode()) < 8_000_000
