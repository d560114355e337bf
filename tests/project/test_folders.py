"""The folders: imports go one way through them, no name stands for two things, and contracts say what is missing."""

import ast
import graphlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import lowregret as lr
from lowregret.abilities import ABILITIES, Abilities

from ..conftest import LONGEST

pytestmark = pytest.mark.needs("safetensors", "torch", "typer")

SOURCES = Path(lr.__file__).parent
TESTS, ROOT = Path(__file__).parents[1], Path(__file__).parents[2]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def order() -> list[str]:
    """The folders in the order in which CONTRIBUTING lists them."""
    tree = CONTRIBUTING.read_text().split("src/lowregret/\n")[1].split("```")[0]
    return [line.split()[0].removesuffix("/").removesuffix(".py") for line in tree.splitlines() if line.strip()]


def modules() -> dict[str, Path]:
    """Every file of the package by its dotted name; a package goes by the name of its ``__init__``."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """What a file imports from the package, wherever in the file: in functions and for type checkers too."""
    package = name.split(".") if path.name == "__init__.py" and name != "__init__" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lowregret":
            base = (node.module or "").split(".")[1:]
        elif isinstance(node, ast.Import):
            found |= {a.name.partition(".")[2] or "__init__" for a in node.names if a.name.split(".")[0] == "lowregret"}
            continue
        else:
            continue
        for alias in node.names:
            whole = ".".join([*base, alias.name])
            found.add(whole if whole in known else ".".join(base) or "__init__")
    return found - {name}


def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: imported(name, path, known) for name, path in known.items()}


def folder_of(name: str) -> str:
    return name.split(".")[0]


def test_no_file_imports_itself_in_a_circle() -> None:
    graphlib.TopologicalSorter(graph()).prepare()  # raises CycleError


def test_folders_import_only_from_folders_before_them() -> None:
    rank = {name: i for i, name in enumerate(order())}
    edges = graph()
    assert {folder_of(name) for name in edges} == set(order())
    against = [(a, b) for a, others in edges.items() for b in others if rank[folder_of(b)] > rank[folder_of(a)]]
    assert against == []


def test_the_package_imports_nothing_of_the_programs_beside_it() -> None:
    beside = [
        (str(path.relative_to(SOURCES)), name)
        for path in modules().values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        if name.split(".")[0] in ("paper", "benchmarks", "tests") and not getattr(node, "level", 0)
    ]
    assert beside == []


def test_the_reader_of_imports_sees_them_all(tmp_path: Path) -> None:
    """Lazy imports, those for type checkers, absolute ones, submodules: what it missed could hide a circle."""
    known = dict.fromkeys(["rules.exact", "rules", "arrays", "plots", "guard.events"], tmp_path)
    text = """
from .exact import ExactTest
from .. import arrays, __version__
if TYPE_CHECKING:
    from lowregret.guard.events import Alarm
def late():
    import lowregret.plots
"""
    path = tmp_path / "thresholds.py"
    path.write_text(text)
    found = imported("rules.thresholds", path, known)
    assert found == {"rules.exact", "arrays", "__init__", "guard.events", "plots"}


def test_few_files_at_the_top_and_none_too_long() -> None:
    top = [path.name for path in SOURCES.iterdir() if path.is_file()]
    assert len(top) <= 16, top
    long = {
        str(path.relative_to(SOURCES)): n
        for path in SOURCES.rglob("*.py")
        if (n := len(path.read_text().splitlines())) > 800  # one reading
    }
    assert long == {}


def test_no_function_hides_a_module() -> None:
    """``lowregret.compare`` is the function, so no module may have its name."""
    skipped = () if importlib.util.find_spec("triton") else ("lowregret.transformer.triton_attention",)
    for info in pkgutil.walk_packages([str(SOURCES)], "lowregret."):
        if info.name not in ("lowregret.__main__", *skipped):
            module = importlib.import_module(info.name)
            parent, _, leaf = info.name.rpartition(".")
            assert getattr(sys.modules[parent], leaf) is module, info.name


def test_what_a_contract_asks_for_is_missed_by_name() -> None:
    with pytest.raises(TypeError, match=r"Misspelt.*'?update'?"):
        type("Misspelt", (lr.Predictor,), {"start": None, "predict": None, "updat": None})()


def public_things() -> list[Any]:
    """What stands at the top, and in the folders."""
    packages = [thing for name in lr.__all__ if isinstance(thing := getattr(lr, name), types.ModuleType)]
    return [getattr(place, name) for place in (lr, *packages) for name in getattr(place, "__all__", ())] + [
        getattr(lr.adapters, name) for name in lr.adapters._FILES
    ]


def test_the_top_level_has_the_names_of_a_first_week() -> None:
    names = [name for name in lr.__all__ if not isinstance(getattr(lr, name), types.ModuleType)]
    assert len(names) <= 50, names
    with pytest.raises(AttributeError, match=r"it is lowregret\.policies\.AdaHedge"):
        _ = lr.AdaHedge
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        getattr(lr, "nothing")  # noqa: B009


@pytest.mark.parametrize("name", sorted(ABILITIES))
def test_abilities_are_had_as_they_are_declared(name: str) -> None:
    """Every public class that has an ability has it with the declared parameters."""
    declared, bearers = getattr(Abilities, name), 0
    for thing in public_things():
        players = {lr.Predictor, lr.policies.Policy} & set(getattr(thing, "__mro__", ()))
        if players and hasattr(thing, name):
            bearers += 1
            own = inspect.getattr_static(thing, name)
            if isinstance(declared, property):
                assert not inspect.isfunction(own), thing
            else:
                assert list(inspect.signature(own).parameters) == list(inspect.signature(declared).parameters), thing
    # Only trained models have an end to their context, or take in tokens unchecked.
    assert bearers or name in ("context", "advance")


def test_tests_stand_in_the_folder_that_they_are_of() -> None:
    folders = {path.parent.name for path in TESTS.glob("*/test_*.py")}
    assert folders - {path.stem for path in SOURCES.iterdir()} <= {"project", "golden", "benchmarks", "paper"}


def test_the_tests_that_come_first_are_there() -> None:
    assert [name for name in LONGEST if not (TESTS / f"{name}.py").is_file()] == []


@pytest.mark.parametrize("page", [CONTRIBUTING, *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name)
def test_tests_that_a_page_names_are_there(page: Path) -> None:
    names = {name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    text = page.read_text()
    assert [file for file in re.findall(r"((?:\w+/)*test_\w+\.py)", text) if not _is_test(file)] == []
    assert [name for name in re.findall(r"`(test_\w+)`", text) if name not in names] == []


def _is_test(file: str) -> bool:
    return (TESTS / file.removeprefix("tests/")).is_file()


def defined(path: Path) -> set[str]:
    """The names of a file, and of each class its functions."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            found |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def test_what_contributing_names_is_there() -> None:
    """Each function of the picture of the engine, and of the tables, stands in the file that is said."""
    stations = re.findall(r"\b(\w+)/\w+\.py: ([\w.]+(?:, [\w.]+)*)", CONTRIBUTING.read_text())
    assert len(stations) >= 12
    for place, names in stations:
        there = set().union(*map(defined, (SOURCES / place).glob("*.py")))
        assert set(names.split(", ")) <= there, (place, names)
