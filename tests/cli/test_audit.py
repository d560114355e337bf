"""``lowregret audit`` as a user meets it: what it prints, writes and ends with; a page that runs nothing of the log."""

import contextlib
import json
import re
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret.audit.page import page
from lowregret.cli.app import _app

from ..audit_logs import PAYOFFS, table_of, written

EVIL = "</script><script>alert(1)</script>"


def run(*arguments):
    return CliRunner().invoke(_app(), ["audit", *map(str, arguments)])


@pytest.fixture
def payoffs(tmp_path):
    (tmp_path / "shop.csv").write_text(PAYOFFS)
    return tmp_path / "shop.csv"


def test_an_alarm_a_quiet_log_a_refused_one_and_an_error(tmp_path, payoffs):
    out = tmp_path / "out"
    alarmed = written(table_of({"calm": 200, EVIL: 200}), tmp_path / "alarmed.parquet")
    done = run(alarmed, "--payoffs", payoffs, "--out", out)
    assert done.exit_code == 3, done.output
    for words in (" euros in 400 steps of 2 streams. Guarded: ", "Alarms: 1 of 2 streams; at most 0.1 on average"):
        assert words in done.output
    about = json.loads((out / "audit.json").read_text())
    assert about["alarms"] == 1
    assert about["survivors"] == [EVIL]
    assert about["allowed"] == pytest.approx(2 * 0.05)
    quiet = written(table_of({"calm": 50}), tmp_path / "quiet.csv")
    assert run(quiet, "--payoffs", payoffs, "--out", tmp_path / "quiet").exit_code == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    quiet.write_text(quiet.read_text().replace('"calm",20,', '"calm",21,'))
    done = run(quiet, "--payoffs", payoffs, "--out", out)
    assert done.exit_code == 4
    assert re.search(r"refused: .*quiet.csv, row 19: step 21 of stream 'calm' is there twice|is missing", done.output)
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    (tmp_path / "taken").touch()
    for arguments in (
        [alarmed, "--payoffs", payoffs, "--out", tmp_path / "taken"],
        [alarmed],
        [tmp_path / "nowhere.csv", "--payoffs", payoffs],
        [alarmed, "--payoffs", payoffs, "--delta", "2"],
        [alarmed, "--payoffs", tmp_path / "none.csv"],
    ):
        assert run(*arguments).exit_code == 2, arguments


def test_what_stands_in_a_log_is_shown_and_not_run(tmp_path, payoffs):
    names = [EVIL, "<img src=x onerror=alert(2)>", "a & b", "\u2028", "@@PLOTLY@@", "@@DATA@@"]
    log = written(table_of({name: 120 for name in names}, broken=2), tmp_path / "log.parquet")
    found = lr.audit.audit_log(log, lr.DecisionProblem.from_payoffs([[100, -20], [0, 0]], states=["dry", "wet"]))
    text = page(found)
    rest, script = text.split('<script type="application/json" id="data">')
    data = json.loads(script.split("</script>")[0])
    assert sorted(row[0] for row in data["rows"]) == sorted(names)
    for evil in ("alert(1)", "onerror=alert"):
        assert evil not in rest
        assert text.count(evil) == sum(one["stream"].count(evil) for one in data["details"]) + 1
    assert "<script>alert" not in text
    assert not set("<>&") & set(script.split("</script>")[0])
    assert not re.search(r"""(src|href)=["'](https?:)?//""", script)
    assert "default-src 'none'" in rest


def test_the_page_is_small_whatever_the_log(tmp_path):
    rng = np.random.default_rng(0)
    names = [str(i) + "<" * 300 for i in range(500)]
    probs = rng.dirichlet([1, 1], (500, 250))
    columns = {"stream": np.repeat(names, 250), "step": np.tile(np.arange(250), 500)}
    states = probs.argmin(-1).ravel()
    log = pa.table({**columns, "state": states, "p_0": probs[..., 0].ravel(), "p_1": probs[..., 1].ravel()})
    found = lr.audit.audit_log(written(log, tmp_path / "log.parquet"), lr.matching(), fallback=False)
    assert found.alarms == 500
    assert len(page(found).encode()) < 8_000_000


def test_payoffs_in_toml(tmp_path):
    from lowregret.problems import payoffs_in

    (tmp_path / "shop.csv").write_text(PAYOFFS)
    told = 'payoffs = [[100, -20], [0, 0]]\nactions = ["open", "shut"]\nstates = ["dry", "wet"]\n'
    (tmp_path / "shop.toml").write_text(told)
    assert payoffs_in(tmp_path / "shop.toml") == payoffs_in(tmp_path / "shop.csv")
    for bad, says in (("payoffs = [", "must be TOML"), ("rows = [[1]]", "must have payoffs, and may have actions")):
        (tmp_path / "shop.toml").write_text(bad)
        with pytest.raises(ValueError, match=says):
            payoffs_in(tmp_path / "shop.toml")


def test_a_query_stands_in_place_of_a_log(tmp_path, payoffs):
    log = written(table_of({"calm": 200, "odd": 200}), tmp_path / "log.csv")
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        pd.read_csv(log).to_sql("days", connection, index=False)
    settings = ("--payoffs", payoffs, "--out", tmp_path / "out")
    plain = run(log, *settings)
    asked = run("--query", "SELECT * FROM days", "--database", tmp_path / "shop.db", *settings)
    assert (asked.exit_code, asked.output.splitlines()[0]) == (plain.exit_code, plain.output.splitlines()[0])
    assert plain.exit_code in (0, 3)
    for wrong in (
        (log, "--query", "SELECT 1"),
        (log, "--database", log),
        ("--query", "SELECT 1", "--database", "no.db"),
    ):
        assert run(*wrong, *settings).exit_code == 2
