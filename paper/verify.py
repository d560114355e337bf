"""``python -m paper verify``: every statement of the paper checked, its claims shown as it is done; JSON at the end."""

import importlib.util
import json
import math
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from lowregret import __version__, inputs

from .statements import all_statements
from .statements.claims import AMENDS, REFUTES, VERDICTS, Claim, Statement


@dataclass(frozen=True)
class Verdict:
    """A statement with what its check found."""

    statement: Statement
    verdict: str  # one of VERDICTS, "failed" or "skipped"
    claims: tuple[Claim, ...] = ()
    refuted: tuple[Claim, ...] = ()  # one for each quotation, computed against it
    note: str = ""  # why it failed, or was skipped
    seconds: float = 0.0  # on the terminal only: the file is the same in every run

    @property
    def in_words(self) -> str:
        """The verdict. What is beyond the paper and did not fail holds, and is counted apart."""
        return "holds" if self.verdict == "beyond" else VERDICTS.get(self.verdict, self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the time it took, as plain JSON values."""
        stated = self.statement
        pairs = zip(stated.quotes, self.refuted, strict=False)
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
            "refuted": [{"quote": quote, **_as_json(claim)} for quote, claim in pairs],
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
    """Examine statements, say what was found of each as it is done, write verify.json; whether all hold."""
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Verdict] = {}
    for outcome in run(statements, jobs):
        found[outcome.statement.name] = outcome
        _say(f"{len(found):{len(str(len(statements)))}}/{len(statements)}", outcome)
    outcomes = [found[statement.name] for statement in statements]
    typer.echo(f"\n{summary(outcomes)}")
    (out / "verify.json").write_text(json.dumps(as_json(outcomes), indent=1) + "\n")
    typer.echo(f"Written to {out}: verify.json")
    return as_json(outcomes)["passed"]


def _say(count: str, outcome: Verdict) -> None:
    """The verdict; what is refuted, by which computation, and what holds instead; all claims."""
    stated = outcome.statement
    colour = {"failed": "red", "skipped": None}.get(outcome.verdict, "yellow" if outcome.verdict in AMENDS else "green")
    words = "FAILED" if outcome.verdict == "failed" else outcome.in_words
    lines = [outcome.note] if outcome.note else []
    for quote, claim in zip(stated.quotes, outcome.refuted, strict=False):
        lines += [f'the paper: "{quote}"', f"against it: {claim}"]
    lines += [f"instead: {stated.corrected}"] if stated.corrected else []
    lines += [f"{claim}" + (f", {claim.used} used" if claim.used else "") for claim in outcome.claims]
    name = typer.style(f"{stated.name}: {words}", fg=colour, bold=True)
    typer.echo("\n       ".join([f"{count}  {name}  ({outcome.seconds:.1f} s)", *lines]))


def as_json(outcomes: list[Verdict]) -> dict[str, Any]:
    """What verify.json holds."""
    passed = not any(outcome.verdict == "failed" for outcome in outcomes)
    statements = [outcome.to_dict() for outcome in outcomes]
    return {"lowregret": __version__, "passed": passed, "counts": counts(outcomes), "statements": statements}


def counts(outcomes: list[Verdict]) -> dict[str, dict[str, int]]:
    """How many have each verdict, in words: what the paper says and what is beyond it apart."""
    found: dict[str, dict[str, int]] = {"of the paper": {}, "beyond the paper": {}}
    for words in (*VERDICTS.values(), "failed", "skipped"):
        for outcome in outcomes:
            if outcome.in_words == words:
                group = found["of the paper" if outcome.statement.of_the_paper else "beyond the paper"]
                group[words] = group.get(words, 0) + 1
    return found


def summary(outcomes: list[Verdict]) -> str:
    """The count of each verdict, those of the paper and those beyond it apart."""
    parts = []
    for name, group in counts(outcomes).items():
        found = ", ".join(f"{words} {count}" for words, count in group.items())
        parts += [f"{sum(group.values())} {name}: {found}."] if group else []
    return f"{len(outcomes)} statements. {' '.join(parts)}"
