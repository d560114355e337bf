"""The reference lists what is public: every name at the top, and every name of a package that a page uses."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lowregret as lr

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "docs" / "reference" / "api.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md"))]
LISTED = set(re.findall(r"auto(?:class|function)::\s+lowregret\.([\w.]+)", API.read_text(encoding="utf-8")))
WHOLE = set(re.findall(r"automodule::\s+lowregret\.([\w.]+)", API.read_text(encoding="utf-8")))


def unlisted(names: set[str]) -> list[str]:
    """Those that the reference has neither by themselves, by their last word, nor with all of their module."""
    words = {name.rpartition(".")[2] for name in LISTED}
    return sorted(
        name for name in names if name.rpartition(".")[2] not in words and name.rpartition(".")[0] not in WHOLE
    )


@pytest.mark.needs("sklearn", "torch", "transformers")  # names at the top are read, those of extras too
def test_every_name_at_the_top_is_listed() -> None:
    names = {name for name in lr.__all__ if not isinstance(getattr(lr, name), (str, ModuleType))}
    assert len(names) >= 30
    assert unlisted(names) == []


def test_every_name_of_a_package_that_a_page_uses_is_listed() -> None:
    used = {name for page in PAGES for name in re.findall(r"\blr\.([a-z_]+(?:\.[A-Za-z]\w+)+)", page.read_text())}
    assert len(used) >= 30
    assert unlisted(used) == []


def test_help_lists_no_name_whose_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """``help(lowregret)`` asks for every name that ``dir`` lists."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert {"FromModule", "HFPredictor", "construct"} & set(dir(lr)) <= set(vars(lr))  # there once imported
    assert {"Guard", "adapters"} <= set(dir(lr))
