"""``lowregret audit`` as a user meets it: options and settings, exit codes, what is written and what is left alone."""

import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret.audits.page import page
from lowregret.audits.settings import AuditSettings
from lowregret.cli import auditing
from lowregret.cli.app import _app
from lowregret.cli.example import PAYOFFS, log_in_csv

SHOP = lr.DecisionProblem.from_payoffs([[100, -60], [0, 0]], ["open", "shut"], ["dry", "wet"])


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(_app(), ["audit", *map(str, arguments)], env={"COLUMNS": "1000"})


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example's log and payoffs, and the quiet part of the log."""
    monkeypatch.chdir(tmp_path)
    log = log_in_csv()
    (tmp_path / "log.csv").write_text(log)
    (tmp_path / "quiet.csv").write_text("\n".join(line for line in log.splitlines() if ",Market," not in line))
    (tmp_path / "payoffs.csv").write_text(PAYOFFS)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What ``audit`` is called with, beside the progress."""
    calls: list[dict[str, Any]] = []

    def recorded(log: Any, problem: Any, *, progress: Any, **settings: Any) -> Any:
        calls.append({"log": log, "problem": problem, "settings": AuditSettings(**settings)})
        raise OSError("that is enough")

    monkeypatch.setattr(lr.audits, "audit", recorded)
    return calls


def test_every_option_is_a_setting(shop: Path, asked: list[dict[str, Any]]) -> None:
    typed = "--stream site --order date --state outcome --probs wet=p_wet,dry=p_dry --quantiles 0.9=b,0.1=a --lag 2"
    typed += " --delta .01 --fdr .2 --tolerance .01"
    run("log.csv", "quiet.csv", "--payoffs", "payoffs.csv", *typed.split())
    columns: dict[str, Any] = {"stream": "site", "order": "date", "state": "outcome"}
    columns |= {"probs": {"dry": "p_dry", "wet": "p_wet"}, "quantiles": {0.1: "a", 0.9: "b"}}
    settings: dict[str, Any] = {"lag": 2, "delta": 0.01, "fdr": 0.2, "tolerance": 0.01, "currency": "euros"}
    logs = [Path("log.csv"), Path("quiet.csv")]
    assert asked == [{"log": logs, "problem": SHOP, "settings": AuditSettings(columns=columns, **settings)}]


def test_columns_alone_are_in_the_order_of_the_states(shop: Path, asked: list[dict[str, Any]]) -> None:
    run("log.csv", "--payoffs", "payoffs.csv", "--probs", "p_dry,p_wet")
    assert asked[0]["settings"].columns.probs == ("p_dry", "p_wet")


def test_a_file_is_enough_and_options_win_over_it(shop: Path, asked: list[dict[str, Any]]) -> None:
    (shop / "audits").mkdir()
    (shop / "audits" / "audit.toml").write_text(
        'log = "../log.csv"\npayoffs = "../payoffs.csv"\ndelta = 0.5\ncurrency = "$"\n'
        '[columns]\nstream = "site"\nscale = "share"\nknown_at = "told"\n'
    )
    run("--config", "audits/audit.toml")
    run("quiet.csv", "--config", "audits/audit.toml", "--delta", ".1", "--stream", "none", "--lag", "3")
    columns = {"stream": "site", "scale": "share", "known_at": "told"}
    assert asked[0]["settings"] == AuditSettings(delta=0.5, currency="$", columns=columns)
    assert asked[0]["log"] == [Path("audits/../log.csv")]
    columns = {"stream": "none", "scale": "share"}
    assert asked[1]["settings"] == AuditSettings(delta=0.1, currency="$", lag=3, columns=columns)
    assert asked[1]["log"] == [Path("quiet.csv")]


def test_known_at_wins_over_a_lag_in_the_file(shop: Path, asked: list[dict[str, Any]]) -> None:
    (shop / "audit.toml").write_text('log = "log.csv"\npayoffs = "payoffs.csv"\nlag = 3\n')
    run("--config", "audit.toml", "--known-at", "told")
    settings = asked[0]["settings"]
    assert (settings.lag, settings.columns.known_at) == (None, "told")


def test_the_command_is_the_audit_in_python(shop: Path) -> None:
    done = run("log.csv", "--payoffs", "payoffs.csv", "--out", "out", "--stream", "site")
    assert done.exit_code == 3, done.output
    found = lr.audit(shop / "log.csv", SHOP, currency="euros", columns={"stream": "site"})
    assert found.report() in done.output
    assert (shop / "out" / "audit.json").read_text() == found.to_json()
    assert pl.read_parquet(shop / "out" / "streams.parquet").equals(found.streams)
    assert (shop / "out" / "audit.html").read_text() == page(found)
    assert sorted(os.listdir("out")) == ["audit.html", "audit.json", "streams.parquet"]


def test_exit_codes(shop: Path) -> None:
    usual = ("--payoffs", "payoffs.csv", "--out", "out")
    (shop / "bad.csv").write_text((shop / "log.csv").read_text().replace("0.", "1.", 1))
    for arguments, code, says in (
        (("quiet.csv", *usual), 0, "Nothing speaks against"),
        (("log.csv", *usual), 3, "Stop acting on"),
        (("l?g.c*", *usual), 3, "Stop acting on"),
        (("bad.csv", *usual), 4, "refused: "),
        (("nowhere.csv", *usual), 2, "nowhere.csv"),
        (("log.csv", "--payoffs", "nowhere.csv"), 2, "nowhere.csv"),
        (("log.csv",), 2, "euros,dry,wet"),
        (usual, 2, "LOG is missing"),
        (("log.csv", *usual, "--delta", "2"), 2, "delta must lie strictly between 0 and 1"),
        (("log.csv", *usual, "--quantiles", "low"), 2, "quantiles must be"),
        (("log.csv", *usual, "--probs", "dry=p_dry,p_wet"), 2, "--probs must be NAME=VALUE once for each name"),
        (("log.csv", *usual, "--probs", "dry=p_dry,dry=p_wet"), 2, "--probs must be NAME=VALUE once for each name"),
        (("log.csv", *usual, "--probs", "dry=p_dry,hail=p_wet"), 2, "a different one for each of dry, wet"),
    ):
        done = run(*arguments)
        assert (done.exit_code, says in done.output) == (code, True), done.output


def test_an_error_of_the_system_is_said_in_words(shop: Path, asked: list[dict[str, Any]]) -> None:
    done = run("log.csv", "--payoffs", "payoffs.csv")
    assert (done.exit_code, done.stderr) == (1, "that is enough\n")


def test_a_refused_log_names_its_row_and_leaves_the_last_answer(shop: Path) -> None:
    usual = ("--payoffs", "payoffs.csv", "--out", "out")
    run("log.csv", *usual)
    before = {path: path.read_bytes() for path in (shop / "out").iterdir()}
    (shop / "log.csv").write_text((shop / "log.csv").read_text().replace("2025-01-02", "2025-01-01", 1))
    done = run("log.csv", *usual)
    assert done.exit_code == 4
    assert re.match(r"refused: .*log\.csv, row \d+: ", done.stderr)
    assert {path: path.read_bytes() for path in (shop / "out").iterdir()} == before


def test_where_nothing_can_be_written_shows_before_the_work(shop: Path, asked: list[dict[str, Any]]) -> None:
    done = run("log.csv", "--payoffs", "payoffs.csv", "--out", "quiet.csv")
    assert (done.exit_code, done.output) == (1, "quiet.csv: File exists\n")
    (shop / "quiet.csv").unlink()
    done = run(".", "--payoffs", "payoffs.csv", "--out", "out")  # the next audit would read streams.parquet
    assert done.exit_code == 2
    assert "must not lie in LOG" in done.output
    (shop / "streams.parquet").write_bytes(b"mine")
    done = run("streams.parquet", "--payoffs", "payoffs.csv", "--out", ".")
    assert done.exit_code == 2
    assert "which would be overwritten" in done.output
    assert (shop / "streams.parquet").read_bytes() == b"mine"
    assert asked == []


def test_names_in_a_log_are_printed_safely(shop: Path) -> None:
    pl.read_csv("log.csv").rename({"site": "\x1b[2J"}).write_parquet("log.parquet")
    done = run("log.parquet", "--payoffs", "payoffs.csv", "--state", "nowhere")  # which names all columns
    assert (done.exit_code, "\x1b[2J" in done.output) == (2, False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("shown", "lines"), [(Terminal(), ["reading", "judging, 1,000 of 4,000 rows", ""]), (io.StringIO(), [])]
)
def test_progress_is_a_line_on_a_terminal_and_gone_after_it(
    shown: io.StringIO, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", shown)
    with auditing.progress() as report:
        report("reading", 0, 0)
        report("judging", 1000, 4000)
    assert shown.getvalue().split("\r\x1b[K") == ["", *lines]
