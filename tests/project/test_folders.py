"""The folders: imports go one way through them, and what pages say of files and tests is there."""

import ast
import re
import types
from pathlib import Path

import pytest

import lowregret as lr

from ..conftest import LONGEST

SOURCES = Path(lr.__file__).parent
TESTS, ROOT = Path(__file__).parents[1], Path(__file__).parents[2]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def order() -> list[str]:
    """The folders in the order in which CONTRIBUTING lists them."""
    tree = CONTRIBUTING.read_text().split("src/lowregret/\n")[1].split("```")[0]
    return [line.split()[0].removesuffix("/").removesuffix(".py") for line in tree.splitlines() if line.strip()]


def folder_of(path: Path) -> str:
    return path.relative_to(SOURCES).parts[0].removesuffix(".py")


def imports(path: Path, root: Path = SOURCES) -> set[str]:
    """What a file imports, by whole names, wherever in the file: in functions and for type checkers too."""
    package, found = ["lowregret", *path.relative_to(root).parts[:-1]], set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base += [node.module] if node.module else []
            found |= {".".join([*base, alias.name]) for alias in node.names}
    return found


def test_folders_import_only_from_folders_before_them() -> None:
    rank, wrong = {name: i for i, name in enumerate(order())}, []
    assert {folder_of(path) for path in SOURCES.rglob("*.py")} == set(order())
    for path in SOURCES.rglob("*.py"):
        for name in imports(path):
            first, _, rest = name.partition(".")
            into = rest.split(".")[0] if rest.split(".")[0] in rank else "__init__"
            beside, later = first in ("paper", "benchmarks", "tests"), rank[into] > rank[folder_of(path)]
            if beside or (first == "lowregret" and later):
                wrong.append((path, name))
    assert wrong == []


def test_the_reader_of_imports_sees_them_all(tmp_path: Path) -> None:
    """Lazy imports, those for type checkers, absolute ones, submodules."""
    path = tmp_path / "rules" / "thresholds.py"
    path.parent.mkdir()
    path.write_text("""
from .exact import ExactTest
from .. import arrays
if TYPE_CHECKING:
    from lowregret.guard.events import Alarm
def late():
    import lowregret.plots
""")
    found = {"rules.exact.ExactTest", "arrays", "guard.events.Alarm", "plots"}
    assert imports(path, tmp_path) == {f"lowregret.{name}" for name in found}


def test_the_top_level_has_the_names_of_a_first_week() -> None:
    names = [name for name in lr.__all__ if not isinstance(getattr(lr, name), types.ModuleType)]
    assert len(names) <= 50, names
    with pytest.raises(AttributeError, match=r"it is lowregret\.policies\.AdaHedge"):
        _ = lr.AdaHedge
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        getattr(lr, "nothing")  # noqa: B009


def test_tests_that_are_named_are_there() -> None:
    """In the order in which they run, and on pages."""
    assert [name for name in LONGEST if not (TESTS / f"{name}.py").is_file()] == []
    names = {name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    for page in (CONTRIBUTING, *(ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        files = [file.removeprefix("tests/") for file in re.findall(r"((?:\w+/)*test_\w+\.py)", text)]
        assert [file for file in files if not (TESTS / file).is_file()] == [], page
        assert [name for name in re.findall(r"`(test_\w+)`", text) if name not in names] == [], page


def test_what_contributing_names_is_there() -> None:
    """Each class and function of the picture of the engine, and of the tables, stands in the folder that is said."""
    stations = re.findall(r"\b(\w+)/\w+\.py: ([\w.]+(?:, [\w.]+)*)", CONTRIBUTING.read_text())
    assert len(stations) >= 12
    for place, names in stations:
        text = "\n".join(path.read_text() for path in (SOURCES / place).glob("*.py"))
        for name in names.split(", "):
            assert re.search(rf"^(class |def )?{name.split('.')[-1]}\b", text, re.MULTILINE), (place, name)
