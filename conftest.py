"""What is skipped where an extra is not installed (``make test-core``); with all of them installed, nothing.

A test that needs an extra imports it as if it were there. Where it is not, the test is skipped, or its whole file where
that imports it at the top: only if the import is the test's own, or that of a file which is known to need one. A core
that came to need torch would fail.
"""

import doctest
import importlib.util
import os
import shutil
import traceback
from pathlib import Path
from typing import Any

import pytest

if shutil.which("nvidia-smi") is None:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported, which others may do first

ROOT = Path(__file__).parent
_EXTRAS = "adapters audits checks cli construct engine/compiled.py evaluate/plots.py transformer"
WITH_EXTRAS = tuple(str(ROOT / "src" / "lowregret" / place) for place in _EXTRAS.split())
EXAMPLE = "<doctest "  # what Python calls the file of a docstring's example
MAY_ASK = (*(str(ROOT / folder) for folder in ("tests", "benchmarks", "examples", "paper")), *WITH_EXTRAS, EXAMPLE)


def missed(error: BaseException | None) -> str | None:
    """The package that is not installed, if that is what went wrong and where it may."""
    while error is not None:
        name = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        asking = [file for file in files if file.startswith((str(ROOT), EXAMPLE)) and "site-packages" not in file][-1:]
        if asking and asking[0].startswith(MAY_ASK):
            if name in ("lowregret", "paper", "tests") and not _installed("torch"):
                return "what another file needs"  # which was half imported when that was missed
            if name and not _installed(name):
                return name
        error = error.exc_info[1] if isinstance(error, doctest.UnexpectedException) else error.__cause__
    return None


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """``needs`` names what a test asks for in other processes, or one by one: what no import of its own would miss."""
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if not _installed(name):
                pytest.skip(f"needs {name}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    report = yield
    if report.outcome == "failed" and (name := missed(report.call.excinfo.value)) is not None:
        report.outcome, report.longrepr = "skipped", (str(collector.path), 1, f"Skipped: needs {name}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Any:
    try:
        return (yield)
    except Exception as error:
        if (name := missed(error)) is not None:
            pytest.skip(f"needs {name}")
        raise
