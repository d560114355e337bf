"""``lowregret example``: the two commands run as they stand and find the break, and nothing of the user's is lost."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lowregret.cli.app import _app
from lowregret.cli.example import BREAK, BROKEN


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(_app(), [*map(str, arguments)], env={"COLUMNS": "300"})


@pytest.mark.parametrize("folder", [(), ("my demo",)])
def test_the_commands_run_as_they_stand_and_find_the_break(
    folder: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("example", *folder)
    assert done.exit_code == 0, done.output
    command = shlex.split(done.output.splitlines()[-1].removeprefix("Next: "))
    assert command[:2] == ["lowregret", "audit"]
    done = run(*command[1:])
    assert done.exit_code == 3, done.output
    assert " euros" in done.output
    found = json.loads(Path("results/audit/audit.json").read_text())
    assert found["named"] == [BROKEN]
    (one,) = (stream for stream in found["streams"] if stream["alarm"])
    assert str(BREAK) < one["alarm_time"] < "2025-08-15"


def test_a_second_time_is_the_same_and_other_files_stay(tmp_path: Path) -> None:
    run("example", tmp_path / "demo")
    before = (tmp_path / "demo" / "log.csv").read_bytes()
    assert run("example", tmp_path / "demo").exit_code == 0
    assert (tmp_path / "demo" / "log.csv").read_bytes() == before
    (tmp_path / "demo" / "payoffs.csv").write_text("mine")
    (tmp_path / "demo" / "log.csv").unlink()
    done = run("example", tmp_path / "demo")
    assert done.exit_code == 2
    assert "is there already, with other content" in done.output
    assert (tmp_path / "demo" / "payoffs.csv").read_text() == "mine"
    assert not (tmp_path / "demo" / "log.csv").exists()
