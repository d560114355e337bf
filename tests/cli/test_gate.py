"""``lowregret gate`` as a pipeline meets it: verdicts by exit codes that nothing else has, and what it writes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret.cli.app import _app

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of 200 days with two models, of which ``sharp`` knows more, and payoffs."""
    rng = np.random.default_rng(0)
    wet = rng.beta(0.5, 0.5, 200)
    days = pd.DataFrame({"ds": pd.date_range("2025-01-01", periods=200)})
    days["y"] = np.where(rng.random(200) < wet, "wet", "dry")
    for name, chance in {"sharp": wet, "blunt": 0.5 + 0.1 * rng.standard_normal(200).clip(-2, 2)}.items():
        days[f"{name}_p_wet"], days[f"{name}_p_dry"] = chance, 1 - chance
    days.to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "payoffs.csv").write_text("euros,dry,wet\nopen,100,-100\nshut,0,0\n")
    return tmp_path


def run(folder: Path, *arguments: Any, log: str = "log.csv") -> Any:
    usual = ["--payoffs", folder / "payoffs.csv", "--out", folder / "out"]
    return CliRunner().invoke(_app(), ["gate", *map(str, [folder / log, *usual, *arguments])])


def test_promote_keep_and_not_enough_yet(folder: Path) -> None:
    asked = {}
    for code, model, against, alpha in (
        (0, "sharp", "blunt", 0.05),
        (1, "blunt", "sharp", 0.05),
        (2, "sharp", "blunt", 1e-200),
    ):
        done = run(folder, "--model", model, "--against", against, "--alpha", alpha)
        assert done.exit_code == code, done.output
        about = json.loads((folder / "out" / "gate.json").read_text())
        problem = lr.problems.payoffs_in(folder / "payoffs.csv")
        found = lr.audit.gate(folder / "log.csv", problem, model=model, against=against, alpha=alpha)
        assert about == json.loads(found.to_json())
        assert str(found) in done.output
        asked[code] = found
    assert [found.verdict for found in asked.values()] == ["promote", "keep", "not enough yet"]
    assert asked[0].e_better == asked[1].e_worse
    assert str(asked[0]).startswith(f"Promote sharp: it earned {asked[0].difference:,.6g} more than blunt in 200 days")
    assert str(asked[1]).startswith(f"Keep sharp: blunt earned {asked[0].difference:,.6g} less than sharp")
    assert f"about {asked[2].more_steps:,} days more" in str(asked[2])


def test_nothing_else_ends_with_a_verdict(folder: Path) -> None:
    both = ["--model", "sharp", "--against", "blunt"]
    before = run(folder, *both)
    assert before.exit_code == 0
    written = (folder / "out" / "gate.json").read_bytes()
    (folder / "bad.csv").write_text((folder / "log.csv").read_text().replace("2025-01-03", "2025-01-02"))
    for code, log, arguments, words in (
        (4, "bad.csv", both, "bad.csv, row 3: a time is there twice, also in row 2"),
        (4, "log.csv", ["--model", "other", "--against", "blunt"], "one column of probabilities per state for other"),
        (3, "log.csv", [*both, "--alpha", "2"], "alpha must lie strictly between 0 and 1"),
        (3, "log.csv", [*both, "--lag", "0"], "lag"),
        (3, "log.csv", [*both, "--nonsense"], "No such option"),
        (3, "log.csv", ["--model", "sharp"], "Missing option"),
        (3, "nowhere.csv", both, "is not there"),
        (3, "log.csv", [*both, "--out", folder / "log.csv"], "cannot be made a folder"),
    ):
        done = run(folder, *arguments, log=log)
        assert done.exit_code == code, done.output
        assert words in re.sub(r"[\s│]+", " ", done.output)
    assert (folder / "out" / "gate.json").read_bytes() == written
    assert CliRunner().invoke(_app(), ["gate", "--help"]).exit_code == 0


def test_a_fault_of_ours_is_no_verdict(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (RuntimeError("a fault"), ModuleNotFoundError("no pyarrow", name="pyarrow"), MemoryError()):

        def fails(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr("lowregret.audit.gating.gate", fails)
        assert run(folder, "--model", "sharp", "--against", "blunt").exit_code == 3


def test_the_recipe_of_the_docs_runs(folder: Path) -> None:
    """The shell script of docs/how-to/gate.md, with a registry that only says what it was told."""
    page = (ROOT / "docs" / "how-to" / "gate.md").read_text()
    (script,) = re.findall(r"^```bash\n(#!/bin/sh\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (folder / "gate.sh").write_text(script)
    tools = folder / "bin"
    tools.mkdir()
    (tools / "registry").write_text('#!/bin/sh\necho "registry $@"\n')
    (tools / "lowregret").write_text(f'#!/bin/sh\nexec {sys.executable} -m lowregret "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    for new, current, says, code in (
        ("sharp", "blunt", "registry promote sharp", 0),
        ("blunt", "sharp", "registry archive blunt", 0),
        ("sharp", "other", "nothing was decided", 1),
    ):
        done = subprocess.run(
            ["sh", "-e", "gate.sh", new, current],
            cwd=folder,
            env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert says in done.stdout + done.stderr, done
        assert done.returncode == code


def test_without_the_command_lines_packages_nothing_is_decided(folder: Path) -> None:
    (folder / "typer.py").write_text("raise ModuleNotFoundError('gone', name='typer')")
    for command, code in (("gate", 3), ("audit", 1)):
        done = subprocess.run(
            [sys.executable, "-m", "lowregret", command],
            env=os.environ | {"PYTHONPATH": f"{folder}:{ROOT / 'src'}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, "pip install 'lowregret[cli]'" in done.stderr) == (code, True), done
