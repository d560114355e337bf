"""The code in README.md and in docs/ runs as it stands and prints what is shown.

A ``text`` block right after a ``python`` block is the output of that block. On a page of docs/ the blocks build on each
other; in the README each is typed line by line into an interpreter of its own, as a reader would paste it.
``python tests/project/test_readme.py`` writes the outputs anew, and the pictures of pages that draw a ``figure``;
``python tests/project/test_readme.py audit-a-log contexts`` those of the pages named.
"""

import code
import contextlib
import io
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.needs("matplotlib", "sklearn", "torch")

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    line: int  # of the opening fence, from 1
    source: str
    shown: str | None  # the output as written on the page; None where none is shown
    where: tuple[int, int]  # of that output, in characters


def examples(text: str) -> list[Example]:
    blocks, found = [*FENCE.finditer(text), None], []
    for block, after in pairwise(blocks):
        if block["language"].strip() != "python":
            continue
        shown, where = None, (0, 0)
        if after is not None and after["language"].strip() == "text" and not text[block.end() : after.start()].strip():
            shown, where = after["body"], after.span("body")
        found.append(Example(text.count("\n", 0, block.start()) + 1, block["body"], shown, where))
    return found


class Paste(code.InteractiveConsole):
    """An interpreter that is typed into; the errors it would print it raises (both are called while handling one)."""

    def showtraceback(self) -> None:
        raise

    def showsyntaxerror(self, filename: str | None = None, **_: object) -> None:
        raise

    def paste(self, source: str, name: str) -> None:
        unfinished = False
        for line in [*source.splitlines(), ""]:
            unfinished = self.push(line)
        assert not unfinished, f"{name} ends in the middle of a statement"


def outputs(page: Path, namespace: dict[str, Any] | None = None) -> list[tuple[Example, str]]:
    """Every example of the page with what it printed; ``namespace`` has what its code made."""
    namespace = {} if namespace is None else namespace
    namespace["__name__"] = "__main__"
    printed = []
    for example in examples(page.read_text(encoding="utf-8")):
        name = f"{page.name}, line {example.line}"
        with contextlib.redirect_stdout(io.StringIO()) as out:
            if page == README:
                Paste({"__name__": "__main__"}).paste(example.source, name)
            else:
                exec(compile(example.source, name, "exec"), namespace)
        printed.append((example, out.getvalue()))
    return printed


def marks(page: Path) -> Any:
    """The README and what is read first in ``make test``, the others in ``make test-all``."""
    return () if page == README or page.parent.name == "start" else pytest.mark.long


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks(page), id=page.name) for page in PAGES])
def test_examples_run_and_print_what_is_shown(page):
    for example, printed in outputs(page):
        where = f"{page.name}, line {example.line}"
        if example.shown is not None:
            assert printed == example.shown, f"{where} prints something else"
        else:
            assert printed == "", f"{where} prints, and the page does not show what"


def test_the_readme_is_short_and_leads_to_pages_that_are_there():
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) <= 900
    assert len([example for example in examples(text) if example.shown]) >= 2
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if not link.startswith("https:")]
    assert len(links) >= 10
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_commands_of_the_readme_print_what_is_shown(tmp_path):
    """``lowregret example``, then the audit of its log."""
    text = README.read_text(encoding="utf-8")
    commands = re.findall(r"^lowregret ([^#\n]+?) *(?:#.*)?$", text, re.MULTILINE)
    answer = re.findall(r"^    (.*)$", text.split("lowregret audit")[1].split("![")[0], re.MULTILINE)
    ends = [
        subprocess.run(
            [sys.executable, "-m", "lowregret", *words.split()], cwd=tmp_path, capture_output=True, text=True
        )
        for words in commands
    ]
    assert [end.returncode for end in ends] == [0, 3], [end.stderr for end in ends]
    printed = [line.rstrip() for line in ends[1].stdout.splitlines()]
    assert len(answer) >= 5
    assert [line for line in answer if line not in printed] == []


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # pages import ``paper``
    for page in PAGES:
        if sys.argv[1:] and page.stem not in [Path(name).stem for name in sys.argv[1:]]:
            continue
        text, made = page.read_text(encoding="utf-8"), dict[str, Any]()
        for example, printed in reversed(outputs(page, made)):
            if example.shown is not None:
                start, end = example.where
                text = text[:start] + printed + text[end:]
        page.write_text(text, encoding="utf-8")
        if "figure" in made:
            made["figure"].savefig(ROOT / "docs" / "images" / f"{page.stem}.png", dpi=130)
