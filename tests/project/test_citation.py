"""What CITATION.cff says to cite is what every BibTeX entry in README and docs says, at the version that is here."""

import re
from pathlib import Path

import pytest

import lowregret as lr

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]


def entries() -> list[tuple[str, dict[str, str]]]:
    """The BibTeX entries of all pages: their kind, and their fields."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    blocks = [block for page in pages for block in re.findall(r"```bibtex\n(.*?)```", page.read_text("utf-8"), re.S)]
    found = [entry for block in blocks for entry in re.findall(r"@(\w+)\{\w+,\n(.*?)\n\}", block, re.S)]
    return [(kind, dict(re.findall(r"(\w+)\s*= \{(.*)\},", fields))) for kind, fields in found]


def test_all_entries_agree() -> None:
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
