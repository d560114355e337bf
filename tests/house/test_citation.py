"""What CITATION.cff says to cite is what the BibTeX in the docs says, at the version that is installed."""

import re
from pathlib import Path

import pytest

import lowregret as lr

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]


def entries() -> dict[str, dict[str, str]]:
    """The BibTeX entries in the docs by their kind, field by field."""
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md")))
    block = re.findall(r"```bibtex\n(.*?)```", pages, re.DOTALL)
    assert len(block) == 1, "the entries stand on one page"
    found = re.findall(r"@(\w+)\{\w+,\n(.*?)\n\}", block[0], re.DOTALL)
    return {kind: dict(re.findall(r"(\w+)\s*= \{(.*)\},", fields)) for kind, fields in found}


def test_the_entries_of_both_files_agree() -> None:
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    written, paper, software = entries(), cff["preferred-citation"], cff["references"][0]
    authors = [f"{author['family-names']}, {author['given-names']}" for author in paper["authors"]]
    assert written["misc"]["author"] == " and ".join(authors)
    assert written["misc"]["title"] == paper["title"]
    assert written["misc"]["year"] == str(paper["year"])
    assert written["misc"]["url"] == paper["url"]
    assert [f"arXiv:{written['misc']['eprint']}"] == [one["value"] for one in paper["identifiers"]]
    for one in (cff, software):
        assert (one["title"], one["version"], one["license"]) == ("lowregret", lr.__version__, "Apache-2.0")
    assert written["software"]["author"] == f"{{{software['authors'][0]['name']}}}"
    for field in ("title", "version", "license", "year"):
        assert written["software"][field] == str(software[field])
