"""What is written in several files for a release says the same in all of them."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lowregret as lr

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_what_is_to_be_cited_agrees() -> None:
    """The version, twice in CITATION.cff, and the paper, in every BibTeX entry of README and docs."""
    cff = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^ *version: \"?([\w.]+)", cff, re.MULTILINE) == [lr.__version__] * 2
    (arxiv,) = set(re.findall(r"arXiv:(\d{4}\.\d{5})", cff))
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    assert set(re.findall(r"eprint *= \{([\d.]+)\}", text)) == {arxiv}
    assert set(re.findall(r"version *= \{([\w.]+)\}", text)) == {lr.__version__}


def test_all_that_is_asked_for_is_pinned() -> None:
    about = project()
    asked = [*about["project"]["dependencies"], *about["build-system"]["requires"]]
    for group in (*about["project"]["optional-dependencies"].values(), *about["dependency-groups"].values()):
        asked += [one for one in group if isinstance(one, str)]
    names = {re.split(r"[\[><=]", one)[0].replace("_", "-") for one in asked} - {"lowregret"}
    assert names <= {name.replace("_", "-") for name in PINNED}


def test_each_extra_has_a_first_use() -> None:
    uses = re.findall(r"^def (\w+)", (ROOT / ".ci" / "smoke.py").read_text(), re.MULTILINE)
    assert set(project()["project"]["optional-dependencies"]) <= set(uses)


def test_the_hook_formats_as_make_does() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert f"ruff-pre-commit\n    rev: v{PINNED['ruff']} " in hooks


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_the_makefile_has(workflow: Path) -> None:
    text, makefile = workflow.read_text(), (ROOT / "Makefile").read_text()
    lines = re.findall(r"run: make (.+)", text)
    targets = {word for line in lines for word in re.sub(r"\w+=('[^']*'|\"[^\"]*\"|\S*)", "", line).split()}
    assert targets
    assert targets <= set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    settings = set(re.findall(r"(\w+)=", " ".join(lines)))
    assert settings <= set(re.findall(r"^(\w+)\s*\?=", makefile, re.MULTILINE))
    assert all(re.search(r"@[0-9a-f]{40} # v\d", line) for line in re.findall(r"uses: .+", text))
