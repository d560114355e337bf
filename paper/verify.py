"""``python -m paper verify``: every statement of the paper checked, a line as each is done; a report and JSON."""

import importlib.util
import json
import math
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from lowregret import __version__, inputs

from .statements import AMENDS, REFUTES, VERDICTS, Claim, Statement, all_statements


@dataclass(frozen=True)
class Verdict:
    """A statement with what its check found."""

    statement: Statement
    verdict: str  # one of VERDICTS, "failed" or "skipped"
    claims: tuple[Claim, ...] = ()
    refuted: tuple[Claim, ...] = ()  # one for each quotation, computed against it
    note: str = ""  # why it failed, or was skipped
    seconds: float = 0.0  # on the terminal only: files are the same in every run

    @property
    def in_words(self) -> str:
        """The verdict. What is beyond the paper and did not fail holds, and is counted apart."""
        return "holds" if self.verdict == "beyond" else VERDICTS.get(self.verdict, self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the time it took, as plain JSON values."""
        stated = self.statement
        return {
            "name": stated.name,
            "section": stated.section,
            "of_the_paper": stated.of_the_paper,
            "verdict": self.verdict,
            "says": stated.says,
            "quotes": list(stated.quotes),
            "corrected": stated.corrected or None,
            "sharper": stated.sharper or None,
            "how": stated.how,
            "claims": [_as_json(claim) for claim in self.claims],
            "refuted": [
                {"quote": quote, **_as_json(claim)} for quote, claim in zip(stated.quotes, self.refuted, strict=False)
            ],
            "note": self.note or None,
        }


def _as_json(claim: Claim) -> dict[str, Any]:
    numbers = {"measured": claim.measured, "bound": claim.bound, "within": claim.within, "tightness": claim.tightness}
    finite = {name: None if value is None else inputs.finite_or_none(value) for name, value in numbers.items()}
    return {"what": claim.what, "relation": claim.relation, **finite, "holds": claim.holds}


def examine(statement: Statement) -> Verdict:
    """Run one check. Whatever goes wrong in it is a failure of the statement, not of the run.

    >>> from paper.statements import all_statements
    >>> examine(all_statements()[0]).verdict
    'holds'
    """
    if statement.needs and importlib.util.find_spec(statement.needs) is None:
        return Verdict(statement, "skipped", note=f"needs {statement.needs}: pip install {statement.needs}")
    begin, found = perf_counter(), list[Claim]()
    try:
        found = statement.check()
        note = trouble(statement, found)
    except Exception as error:
        note = f"{type(error).__name__}: {error}"
    claims = tuple(claim for claim in found if not claim.refuted)
    refuted = tuple(claim for claim in found if claim.refuted)
    return Verdict(statement, "failed" if note else statement.verdict, claims, refuted, note, perf_counter() - begin)


def trouble(statement: Statement, found: list[Claim]) -> str:
    """Why the claims do not bear the statement out; nothing if they do."""
    claims, refuted = ([claim for claim in found if claim.refuted == which] for which in (False, True))
    wrong = [str(claim) for claim in claims if not claim.holds]
    wrong += [f"no counterexample after all: {claim}" for claim in refuted if claim.holds]
    wrong += [f"no counterexample, not a number: {claim}" for claim in refuted if math.isnan(claim.measured)]
    if not claims:
        wrong.append("nothing was claimed")
    wanted = len(statement.quotes) if statement.verdict in REFUTES else 0
    if len(refuted) != wanted:
        wrong.append(f"the verdict {statement.verdict} needs {wanted} counterexamples, one a quotation: {len(refuted)}")
    return "; ".join(wrong)


def run(statements: list[Statement], jobs: int) -> Iterator[Verdict]:
    """Examine all statements, as they are done, in ``jobs`` processes (1: in this one)."""
    if min(jobs, len(statements)) <= 1:
        yield from map(examine, statements)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of each process: the parallelism is across statements
    quiet = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for this process, which ends the others
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), signal.signal, quiet) as pool:
        try:
            for done in as_completed([pool.submit(examine, statement) for statement in statements]):
                yield done.result()
        except BaseException:
            for process in multiprocessing.active_children():
                process.kill()
            raise


def selected(only: list[str]) -> list[Statement]:
    """The statements whose name begins with one of ``only``; all if there is none.

    >>> [statement.name for statement in selected(["lemma a"])]
    ['Lemma A.1']
    """
    statements = all_statements()
    for prefix in only:
        if not any(statement.name.lower().startswith(prefix.lower()) for statement in statements):
            names = "; ".join(statement.name for statement in statements)
            raise ValueError(f"--only must begin the name of a statement, got {prefix!r}. There are: {names}")
    begins = tuple(prefix.lower() for prefix in only)
    return [statement for statement in statements if not only or statement.name.lower().startswith(begins)]


def verify(statements: list[Statement], out: Path, jobs: int = 2) -> bool:
    """Examine statements, say what was found of each as it is done, write report.md and verify.json; whether all hold.

    Both files are written at the end, and are the same in every run.
    """
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Verdict] = {}
    for outcome in run(statements, jobs):
        found[outcome.statement.name] = outcome
        _say(f"{len(found):{len(str(len(statements)))}}/{len(statements)}", outcome)
    outcomes = [found[statement.name] for statement in statements]
    typer.echo(f"\n{summary(outcomes)}")
    (out / "verify.json").write_text(json.dumps(as_json(outcomes), indent=1) + "\n")
    (out / "report.md").write_text(report(outcomes))
    typer.echo(f"Written to {out}: report.md, verify.json")
    return as_json(outcomes)["passed"]


def _say(count: str, outcome: Verdict) -> None:
    """The verdict with the claim that decides, and of what is refuted the first sentence and what was computed."""
    colour = {"failed": "red", "skipped": None}.get(outcome.verdict, "yellow" if outcome.verdict in AMENDS else "green")
    words = "FAILED" if outcome.verdict == "failed" else outcome.in_words
    name = typer.style(f"{outcome.statement.name}: {words}", fg=colour, bold=True)
    typer.echo(f"{count}  {name}  ({outcome.seconds:.1f} s)")
    if outcome.note:
        typer.echo(f"       {outcome.note}")
    for claim in outcome.claims[:1]:
        typer.echo(f"       {claim}" + (f", {claim.used} used" if claim.used else ""))
    for quote, claim in list(zip(outcome.statement.quotes, outcome.refuted, strict=False))[:1]:
        typer.secho(f'       the paper: "{quote}"\n       against it: {claim}', dim=True)


def as_json(outcomes: list[Verdict]) -> dict[str, Any]:
    """What verify.json holds."""
    passed = not any(outcome.verdict == "failed" for outcome in outcomes)
    counts = {name: counted(group) for name, group in groups(outcomes).items()}
    statements = [outcome.to_dict() for outcome in outcomes]
    return {"lowregret": __version__, "passed": passed, "counts": counts, "statements": statements}


def groups(outcomes: list[Verdict]) -> dict[str, list[Verdict]]:
    """What the paper says, and what is beyond it: they are counted apart."""
    return {
        "of the paper": [outcome for outcome in outcomes if outcome.statement.of_the_paper],
        "beyond the paper": [outcome for outcome in outcomes if not outcome.statement.of_the_paper],
    }


def counted(outcomes: list[Verdict]) -> dict[str, int]:
    """How many have each verdict, in words; those that nothing has are left out."""
    found = [outcome.in_words for outcome in outcomes]
    return {words: found.count(words) for words in (*VERDICTS.values(), "failed", "skipped") if words in found}


def summary(outcomes: list[Verdict]) -> str:
    """The count of each verdict, those of the paper and those beyond it apart."""
    parts = []
    for name, group in groups(outcomes).items():
        found = ", ".join(f"{words} {count}" for words, count in counted(group).items())
        parts += [f"{len(group)} {name}: {found}."] if group else []
    return f"{len(outcomes)} statements. {' '.join(parts)}"


def report(outcomes: list[Verdict]) -> str:
    """Every statement in the paper's order with all its claims, as Markdown."""
    parts = ["# Next-Token Prediction and Regret Minimization, checked", summary(outcomes)]
    for section, members in groupby(outcomes, key=lambda outcome: outcome.statement.section):
        parts.append(f"## {section}")
        for outcome in members:
            stated = outcome.statement
            parts += [f"### {stated.name}: {outcome.in_words}", stated.says]
            parts += [f"In the paper's words: `{quote}`" for quote in stated.quotes]
            lines = {"Instead": stated.corrected, "Sharper": stated.sharper, outcome.in_words: outcome.note}
            parts += [f"**{label}.** {text}" for label, text in lines.items() if text]
            parts.append(f"*{stated.how}*")
            rows = [
                ("against the paper: " if claim.refuted else "", claim) for claim in outcome.refuted + outcome.claims
            ]
            cells = [f"| {which}{claim.what} | {' '.join(claim.numbers)} | {claim.used} |" for which, claim in rows]
            parts.append("\n".join(["| computed | found, bound | used |", "|---|---|---|", *cells]))
    return "\n\n".join(parts) + "\n"
