"""``lowregret verify``: every statement of the paper checked, as a table, as JSON and as a page."""

import importlib.util
import json
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .. import __version__
from .outcome import VERDICTS, Outcome
from .page import drawn, page
from .statements import Finding, Statement, all_statements

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def examine(statement: Statement) -> Outcome:
    """Run one check. Whatever goes wrong in it is a failure of the statement, not of the run.

    >>> from lowregret.paper.statements import all_statements
    >>> examine(all_statements()[0]).verdict
    'holds'
    """
    if statement.needs and importlib.util.find_spec(statement.needs) is None:
        return Outcome(statement, "skipped", note=f"needs {statement.needs}: pip install {statement.needs}")
    begin = perf_counter()
    try:
        finding = statement.check()
        svg = drawn(finding.picture, statement.name, finding.caption) if finding.picture else ""
    except Exception as error:
        return Outcome(statement, "failed", note=_named(error), seconds=perf_counter() - begin)
    note = trouble(statement, finding)
    verdict = "failed" if note else "corrected" if statement.corrected else "holds"
    claims, refuted = tuple(finding.claims), tuple(finding.refuted or ())
    return Outcome(statement, verdict, claims, refuted, svg, finding.caption, note, perf_counter() - begin)


def trouble(statement: Statement, finding: Finding) -> str:
    """Why the finding does not bear the statement out; nothing if it does."""
    refuted = finding.refuted or []
    wrong = [str(claim) for claim in finding.claims if not claim.holds]
    wrong += [f"no counterexample after all: {claim}" for claim in refuted if claim.holds]
    wrong += [f"no counterexample, not a number: {claim}" for claim in refuted if math.isnan(claim.measured)]
    if not finding.claims:
        wrong.append("nothing was claimed")
    if bool(refuted) != bool(statement.corrected):
        wrong.append("what is false as printed needs both a correction and a counterexample")
    return "; ".join(wrong)


def run(
    statements: list[Statement], jobs: int = 2, progress: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
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
    found: dict[str, Outcome] = {}
    with _one_thread_each(), ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(examine, statement): statement for statement in statements}
        for future in as_completed(waiting):
            statement, error = waiting[future], future.exception()
            found[statement.name] = Outcome(statement, "failed", note=_named(error)) if error else future.result()
            progress(found[statement.name])
    return [found[statement.name] for statement in statements]


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started within use one thread each: the parallelism is across statements."""
    names = [name for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS") if name not in os.environ]
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]


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
    console.print(_table(outcomes, console))
    for outcome in outcomes:
        if outcome.note:
            console.print(f"{outcome.statement.name} {outcome.verdict}: {outcome.note}", highlight=False, markup=False)
    console.print(summary(outcomes), highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    (out / "verify.json").write_text(json.dumps(as_json(outcomes), indent=1) + "\n", encoding="utf-8")
    (out / "index.html").write_text(page(outcomes, summary(outcomes)), encoding="utf-8")
    console.print(f"Written to {out}: index.html, verify.json", highlight=False)
    return not any(outcome.verdict == "failed" for outcome in outcomes)


def as_json(outcomes: list[Outcome]) -> dict[str, Any]:
    """What verify.json holds."""
    passed = not any(outcome.verdict == "failed" for outcome in outcomes)
    return {"lowregret": __version__, "passed": passed, "statements": [outcome.to_dict() for outcome in outcomes]}


def summary(outcomes: list[Outcome]) -> str:
    """The count of each verdict, as a sentence."""
    counts = {verdict: sum(outcome.verdict == verdict for outcome in outcomes) for verdict in VERDICTS}
    parts = [f"{count} {VERDICTS[verdict]}" for verdict, count in counts.items() if count]
    return f"{len(outcomes)} statements: {', '.join(parts)}."


def _table(outcomes: list[Outcome], console: "Console") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.padding import Padding
    from rich.table import Table

    tick, cross = ("ok", "FAILED") if console.options.ascii_only else ("✓", "✗")
    marks = {
        "holds": f"[bold green]{tick} {{}}[/]",
        "corrected": f"[bold yellow]{tick} {{}}:[/] [yellow]false as printed, corrected[/]",
        "failed": f"[bold red]{cross} {{}}: failed[/]",
        "skipped": "[dim]  {}: skipped[/]",
    }
    table = Table(title="The paper, checked", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("statement, and what was computed")
    for name in ("found, bound", "used", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in outcomes:
        table.add_row(marks[outcome.verdict].format(outcome.statement.name), "", "", f"[dim]{outcome.seconds:.1f}[/]")
        for claim in [outcome.headline] if outcome.headline else []:
            used = "" if claim.tightness is None else f"{claim.tightness:.2f}"
            table.add_row(Padding(escape(claim.what), (0, 0, 0, 2)), " ".join(claim.numbers), used, "")
        for claim in outcome.refuted[:1]:
            what = Padding(f"[dim]as printed: {escape(claim.what)}[/]", (0, 0, 0, 2))
            table.add_row(what, f"[dim]{' '.join(claim.numbers)}[/]", "", "")
    return table
