"""``python -m paper verify``: every statement of the paper checked, as a table, as JSON and as a page."""

import importlib.util
import json
import math
import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lowregret import __version__, files
from lowregret.tables import fits, new_table

from .outcome import Verdict, counted, groups
from .page import drawn, page
from .statements import AMENDS, REFUTES, Finding, Statement, all_statements

if TYPE_CHECKING:
    from rich.console import Console

FILES = ("index.html", "verify.json")


def examine(statement: Statement) -> Verdict:
    """Run one check. Whatever goes wrong in it is a failure of the statement, not of the run.

    >>> from paper.statements import all_statements
    >>> examine(all_statements()[0]).verdict
    'holds'
    """
    if statement.needs and importlib.util.find_spec(statement.needs) is None:
        return Verdict(statement, "skipped", note=f"needs {statement.needs}: pip install {statement.needs}")
    begin = perf_counter()
    try:
        finding = statement.check()
        svg = drawn(finding.picture, statement.name, finding.caption) if finding.picture else ""
    except Exception as error:
        return Verdict(statement, "failed", note=_named(error), seconds=perf_counter() - begin)
    note = trouble(statement, finding)
    verdict = "failed" if note else statement.verdict
    claims, refuted = tuple(finding.claims), tuple(finding.refuted or ())
    return Verdict(statement, verdict, claims, refuted, svg, finding.caption, note, perf_counter() - begin)


def trouble(statement: Statement, finding: Finding) -> str:
    """Why the finding does not bear the statement out; nothing if it does."""
    refuted = finding.refuted or []
    wrong = [str(claim) for claim in finding.claims if not claim.holds]
    wrong += [f"no counterexample after all: {claim}" for claim in refuted if claim.holds]
    wrong += [f"no counterexample, not a number: {claim}" for claim in refuted if math.isnan(claim.measured)]
    if not finding.claims:
        wrong.append("nothing was claimed")
    wanted = len(statement.quotes) if statement.verdict in REFUTES else 0
    if len(refuted) != wanted:
        wrong.append(f"the verdict {statement.verdict} needs {wanted} counterexamples, one a quotation: {len(refuted)}")
    return "; ".join(wrong)


def run(
    statements: list[Statement], jobs: int = 2, progress: Callable[[Verdict], None] = lambda outcome: None
) -> list[Verdict]:
    """Examine all statements in ``jobs`` processes (1: in this one), in their order.

    Parameters
    ----------
    progress
        Told of every outcome as it comes in.
    """
    if min(jobs, len(statements)) <= 1:
        outcomes = []
        for statement in statements:
            outcomes.append(examine(statement))
            progress(outcomes[-1])
        return outcomes
    found: dict[str, Verdict] = {}
    new, quiet = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(min(jobs, len(statements)), new, signal.signal, quiet) as pool:
        try:
            waiting = {pool.submit(examine, statement): statement for statement in statements}
            for future in as_completed(waiting):
                statement, error = waiting[future], future.exception()
                found[statement.name] = Verdict(statement, "failed", note=_named(error)) if error else future.result()
                progress(found[statement.name])
        except BaseException:  # an interrupt, which the others do not hear: they end at once
            for process in multiprocessing.active_children():
                process.kill()
            raise
    return [found[statement.name] for statement in statements]


def _named(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"


def selected(only: list[str]) -> list[Statement]:
    """The statements whose name begins with one of ``only``; all if there is none.

    >>> [statement.name for statement in selected(["lemma a"])]
    ['Lemma A.1']
    """
    statements = all_statements()
    for prefix in only:
        if not any(statement.name.lower().startswith(prefix.lower()) for statement in statements):
            names = "; ".join(statement.name for statement in statements)
            raise ValueError(f"only must begin the name of a statement, got {prefix!r}. There are: {names}")
    begins = tuple(prefix.lower() for prefix in only)
    return [statement for statement in statements if not only or statement.name.lower().startswith(begins)]


def verify(statements: list[Statement], out: Path, jobs: int = 2) -> bool:
    """Examine statements, print the table, write verify.json and index.html; whether none failed."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console()
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=len(statements))
        outcomes = run(statements, jobs, lambda done: shown.update(task, advance=1, description=done.statement.name))
    for name, group in groups(outcomes).items():
        if group:
            _print(group, console, "The paper, checked" if name == "of the paper" else "Beyond the paper, checked")
    for outcome in outcomes:
        if outcome.note:
            console.print(f"{outcome.statement.name} {outcome.verdict}: {outcome.note}", highlight=False, markup=False)
    console.print(summary(outcomes), highlight=False)
    numbers = json.dumps(as_json(outcomes), indent=1) + "\n"
    contents = page(outcomes, summary(outcomes)).encode(), numbers.encode()
    files.replace_all({out / name: data for name, data in zip(FILES, contents, strict=True)})
    console.print(f"Written to {out}: {', '.join(FILES)}", highlight=False, markup=False, soft_wrap=True)
    return not any(outcome.verdict == "failed" for outcome in outcomes)


def as_json(outcomes: list[Verdict]) -> dict[str, Any]:
    """What verify.json holds."""
    passed = not any(outcome.verdict == "failed" for outcome in outcomes)
    counts = {name: counted(group) for name, group in groups(outcomes).items()}
    statements = [outcome.to_dict() for outcome in outcomes]
    return {"lowregret": __version__, "passed": passed, "counts": counts, "statements": statements}


def summary(outcomes: list[Verdict]) -> str:
    """The count of each verdict, those of the paper and those beyond it apart."""
    parts = []
    for name, group in groups(outcomes).items():
        found = ", ".join(f"{words} {count}" for words, count in counted(group).items())
        parts += [f"{len(group)} {name}: {found}."] if group else []
    return f"{len(outcomes)} statements. {' '.join(parts)}"


def _print(outcomes: list[Verdict], console: "Console", title: str = "The paper, checked") -> None:
    """A table, or on a narrow screen the same line by line: numbers are never cut."""
    from rich.markup import escape
    from rich.padding import Padding
    from rich.text import Text

    tick, dagger, cross = ("ok", "+", "FAILED") if console.options.ascii_only else ("✓", "†", "✗")
    marks = {
        **dict.fromkeys(("holds", "constant", "beyond"), f"[bold green]{tick} {{}}:[/] [green]{{}}[/]"),
        **dict.fromkeys(AMENDS, f"[bold yellow]{dagger} {{}}:[/] [yellow]{{}}[/]"),
        "failed": f"[bold red]{cross} {{}}: {{}}[/]",
        "skipped": "[dim]  {}: {}[/]",
    }
    rows: list[tuple[Any, str, str, str]] = []
    for outcome in outcomes:
        mark = marks[outcome.verdict].format(outcome.statement.name, outcome.in_words)
        rows.append((mark, "", "", f"[dim]{outcome.seconds:.1f}[/]"))
        for claim in [outcome.headline] if outcome.headline else []:
            rows.append((Padding(escape(claim.what), (0, 0, 0, 2)), " ".join(claim.numbers), claim.used, ""))
        for quote in outcome.statement.quotes[:1]:
            rows.append((Padding(f"[dim]the paper: \u201c{escape(quote)}\u201d[/]", (0, 0, 0, 2)), "", "", ""))
        for claim in outcome.refuted[:1]:
            what = Padding(f"[dim]against it: {escape(claim.what)}[/]", (0, 0, 0, 2))
            rows.append((what, f"[dim]{' '.join(claim.numbers)}[/]", "", ""))
    table = new_table(title, ["statement, and what was computed", "found, bound", "used", "s"])
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for row in rows:
        table.add_row(*row)
    if fits(console, table, least=24):
        console.print(table)
        return
    console.print(f"{title}: what was computed; found, bound; how much of it is used\n", style="italic")
    for what, numbers, used, seconds in rows:
        console.print(what if seconds == "" else f"{what}  {seconds}[dim] s[/]")
        if numbers:
            found = Text.from_markup(numbers)
            found.append(f"  used {used}" if used else "")
            console.print(Padding(found, (0, 0, 0, 4)))
