"""The command line as a user meets it: commands and options, versions, extras that are missing."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("typer")

COMMANDS = {"audit", "gate", "plan", "example", "init"}
AUDIT = "payoffs config out stream order state probs quantiles lag known-at delta fdr tolerance"


def lowregret(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", "from lowregret.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
    )


def shown(*arguments: str) -> str:
    from typer.testing import CliRunner

    from lowregret.cli.app import _app

    done = CliRunner().invoke(_app(), [*arguments, "--help"], env={"COLUMNS": "300", "TERM": "dumb"})
    assert done.exit_code == 0
    return done.output


def test_help_lists_the_commands() -> None:
    assert set(re.findall(r"^│ (\w+)  ", shown(), re.MULTILINE)) == COMMANDS


def test_audit_has_its_options() -> None:
    assert re.findall(r"^│ --([\w-]+)", shown("audit"), re.MULTILINE) == [*AUDIT.split(), "help"]


def test_defaults_in_the_help_are_those_of_the_settings() -> None:
    settings = pytest.importorskip("lowregret.audits.settings")
    defaults = inspect.signature(settings.AuditSettings).parameters
    text = shown("audit")
    for name in ("delta", "fdr", "tolerance"):
        assert re.search(rf"--{name} .*\[default: \({defaults[name].default}\)\]", text), name


def test_version_and_bad_arguments(tmp_path: Path) -> None:
    import lowregret as lr

    assert lowregret("--version", cwd=tmp_path).stdout == f"lowregret {lr.__version__}\n"
    assert lowregret("planning", cwd=tmp_path).returncode == 2


def test_without_an_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "polars.py").write_text("raise ModuleNotFoundError('No module named polars', name='polars')")
    done = lowregret("audit", "log.csv", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r".*pip install 'lowregret\[\w+\]'\n", done.stderr)
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')")
    for command, code in (("plan", 1), ("gate", 3)):  # where 1 is a verdict
        done = lowregret(command, cwd=tmp_path)
        assert (done.returncode, "pip install 'lowregret[cli]'" in done.stderr) == (code, True), done


def test_importing_is_light() -> None:
    heavy = "('torch', 'matplotlib', 'numba', 'rich', 'polars', 'typer')"
    code = f"import sys, lowregret; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
