"""The command line as a user meets it."""

import subprocess
import sys
from pathlib import Path

import pytest

import lowregret as lr

pytestmark = pytest.mark.needs("matplotlib", "typer")


def lowregret(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "lowregret", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
    )


def test_version_and_bad_arguments(tmp_path: Path) -> None:
    assert lowregret("--version", cwd=tmp_path).stdout.strip() == f"lowregret {lr.__version__}"
    assert lowregret("plan", "payoffs.csv", "--horizon", "1", cwd=tmp_path).returncode == 2
    assert lowregret("planning", cwd=tmp_path).returncode == 2


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')")
    done = lowregret("plan", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'lowregret[cli]'" in done.stderr


def test_importing_is_light() -> None:
    code = "import sys, lowregret; print([m for m in ('torch', 'matplotlib', 'numba', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
