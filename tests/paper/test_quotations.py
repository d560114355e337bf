"""What ``python -m paper verify`` quotes stands in the paper, and its verdicts are those of the documentation."""

import hashlib
import re
from pathlib import Path

import pytest

from paper.statements import all_statements
from paper.statements.claims import AMENDS, VERDICTS, Statement
from paper.verify import Verdict, summary

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "lowregret"
# The paper is not part of the repository: it is looked for in a folder `shared` beside it, or further up.
PAPER = next((file for at in ROOT.parents if (file := at / "shared/paper/next-token-regret.tex").is_file()), None)
# Of all quotations, when they were last found in the paper: a change without the paper at hand is noticed.
FOUND = "c41297c9dc162d61595828e9e2c95848aeabdb9bb8b723e33828bdf26696af58"

STATEMENTS = {statement.name: statement for statement in all_statements()}
QUOTES = [(name, quote) for name, statement in STATEMENTS.items() for quote in dict.fromkeys(statement.quotes)]


def one_line(text: str) -> str:
    return " ".join(text.split())


def digest(quotes: list[tuple[str, str]]) -> str:
    return hashlib.sha256("\n".join(f"{name}: {quote}" for name, quote in quotes).encode()).hexdigest()


def test_quotations_are_those_that_were_found_in_the_paper() -> None:
    assert digest(QUOTES) == FOUND, f"run this file where the paper is; if all else passes, FOUND is {digest(QUOTES)}"
    assert digest(QUOTES[:-1]) != FOUND


@pytest.mark.skipif(PAPER is None, reason="the paper is not beside the repository")
@pytest.mark.parametrize(("name", "quote"), QUOTES)
def test_every_quotation_stands_in_the_paper(name: str, quote: str) -> None:
    """Letter by letter, up to line breaks; where dots stand for what is left out, the pieces follow closely."""
    assert PAPER is not None
    paper, begin = one_line(PAPER.read_text()), 0
    for i, piece in enumerate(quote.split(" ... ")):
        end = len(paper) if i == 0 else begin + 400
        begin = paper.find(piece, begin, end)
        assert begin >= 0, piece
        assert paper.find(piece[::-1]) < 0  # the search can fail


def test_quotations_are_short_and_for_what_is_amended_only() -> None:
    assert len(QUOTES) >= 20
    for statement in STATEMENTS.values():
        assert statement.verdict in VERDICTS
        assert bool(statement.quotes) == bool(statement.corrected) == (statement.verdict in AMENDS)
        for quote in statement.quotes:
            assert 40 <= len(quote) <= 200
            assert one_line(quote) == quote


# The documentation


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of all rows of the tables with this header."""
    found, inside = [], False
    for line in (ROOT / "docs" / page).read_text().splitlines():
        inside = (inside or line.startswith(header)) and line.startswith("|")
        if inside and not line.startswith((header, "|---")):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def named_in(cell: str) -> Statement | None:
    """The statement that a cell begins with: the one with the longest name."""
    names = [name for name in STATEMENTS if re.match(re.escape(name) + r"(?![\w.])", cell)]
    return STATEMENTS[max(names, key=len)] if names else None


def test_daggers_are_on_what_is_amended_and_on_nothing_else() -> None:
    marked = set()
    for paper, *_ in rows("reference/paper-to-code.md", "| paper |"):
        statement = named_in(paper.replace(" †", ""))
        if "†" not in paper:
            assert statement is None or statement.verdict not in AMENDS, paper
            continue
        assert statement is not None, paper
        assert paper.startswith(f"{statement.name} †"), paper
        assert statement.verdict in AMENDS, paper
        marked.add(statement.name)
    assert marked == {name for name, statement in STATEMENTS.items() if statement.verdict in AMENDS}


def test_the_errata_have_the_verdicts_of_verify() -> None:
    found = {}
    for where, verdict, *_, test in rows("understand/theory.md", "| where | verdict |"):
        statement = named_in(where)
        assert statement is not None, where
        assert verdict == VERDICTS[statement.verdict], where
        assert "test_" in test or "verify" in test, where
        found[statement.name] = verdict
    assert {name for name, verdict in found.items() if verdict in [VERDICTS[v] for v in AMENDS]} == {
        name for name, statement in STATEMENTS.items() if statement.verdict in AMENDS
    }


def test_the_pages_count_as_verify_does() -> None:
    """Statements of the paper and those beyond it, counted apart."""
    everything = summary([Verdict(statement, statement.verdict) for statement in STATEMENTS.values()])
    assert everything in one_line((ROOT / "docs/evidence/paper.md").read_text())
    assert all(s.says.startswith("Beyond the paper: ") != s.of_the_paper for s in STATEMENTS.values())


def test_the_code_beside_the_algorithms_stands_as_quoted() -> None:
    """Each line quoted in the tables of Algorithms 1 to 3 is in the file that is named, or in that of its table."""
    page = (ROOT / "docs/reference/paper-to-code.md").read_text()
    tables = page.split("## The three algorithms")[1].split("\n## ")[0].split("\n### ")[1:]
    source = {str(path.relative_to(SOURCES)): path.read_text() for path in SOURCES.rglob("*.py")}
    assert len(tables) == 3
    for table in tables:
        files = {name for name in re.findall(r"`([\w/]+\.py)`", table)} | {"robust/robustify.py"}
        quoted = [code for code in re.findall(r"`([^`\n]+)`", table) if re.match(r"return |[\w, .\[\]:]+ \+?= ", code)]
        assert len(quoted) >= 10
        assert [code for code in quoted if not any(code in source[name] for name in files)] == []
