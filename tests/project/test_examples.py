"""Every example runs from top to bottom, without a warning; what a page shows of one is what it prints.

``python tests/project/test_examples.py`` writes the outputs on docs/evidence/real-data.md, and its pictures, anew.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("matplotlib", "pandas")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
PAGE = ROOT / "docs" / "evidence" / "real-data.md"
SHOWN = re.compile(r"From `python examples/(?P<name>\w+)\.py`[^\n]*:\n\n```text\n(?P<output>.*?)```", re.DOTALL)


def printed(script: Path, cwd: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_shown(output: str) -> str:
    """Without the spaces at the ends of lines, which pandas leaves."""
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


@pytest.mark.long
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints_what_is_shown_of_it(script: Path, tmp_path: Path) -> None:
    output = printed(script, tmp_path)
    assert output
    for shown in SHOWN.finditer(PAGE.read_text(encoding="utf-8")):
        if shown["name"] == script.stem:
            assert as_shown(output) == shown["output"]


def test_the_page_shows_three_of_them() -> None:
    shown = {found["name"] for found in SHOWN.finditer(PAGE.read_text(encoding="utf-8"))}
    assert shown == {"plot_sp500", "plot_seattle", "plot_electricity"}
    assert shown <= {script.stem for script in EXAMPLES}


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for shown in reversed(list(SHOWN.finditer(text))):
        script = ROOT / "examples" / f"{shown['name']}.py"
        output = as_shown(printed(script, ROOT, str(ROOT / "docs" / "images")))
        text = text[: shown.start("output")] + output + text[shown.end("output") :]
    PAGE.write_text(text, encoding="utf-8")
