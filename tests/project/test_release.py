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


def entries() -> list[tuple[str, dict[str, str]]]:
    """The BibTeX entries of all pages: their kind, and their fields."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    blocks = [block for page in pages for block in re.findall(r"```bibtex\n(.*?)```", page.read_text("utf-8"), re.S)]
    found = [entry for block in blocks for entry in re.findall(r"@(\w+)\{\w+,\n(.*?)\n\}", block, re.S)]
    return [(kind, dict(re.findall(r"(\w+)\s*= \{(.*)\},", fields))) for kind, fields in found]


def test_what_is_to_be_cited_agrees() -> None:
    """What CITATION.cff says is what every BibTeX entry in README and docs says, at the version that is here."""
    yaml = pytest.importorskip("yaml")
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    paper, software = cff["preferred-citation"], cff["references"][0]
    for one in (cff, software):
        assert (one["title"], one["version"], one["license"]) == ("lowregret", lr.__version__, "Apache-2.0")
    (arxiv,) = [one["value"] for one in paper["identifiers"]]
    authors = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
    expected = {
        "misc": {
            "title": paper["title"],
            "author": " and ".join(authors),
            "year": str(paper["year"]),
            "eprint": arxiv.removeprefix("arXiv:"),
            "url": paper["url"],
        },
        "software": {
            "title": software["title"],
            "author": f"{{{software['authors'][0]['name']}}}",
            "year": str(software["year"]),
            "version": software["version"],
            "license": software["license"],
        },
    }
    found = entries()
    assert {kind for kind, _ in found} == {"misc", "software"}
    for kind, fields in found:
        assert {"title", "author", "year"} <= fields.keys()
        assert {name: value for name, value in expected[kind].items() if name in fields}.items() <= fields.items()


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
