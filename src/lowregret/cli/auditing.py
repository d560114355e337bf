"""``lowregret audit``: a log of forecasts and outcomes in, the answer out (extra: ``audit``)."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import PAYOFFS, refusals

ALARM, REFUSED = 3, 4  # exit codes, beside 0 (no alarm), 1 (an error) and 2 (wrong options)
WRITTEN = ("audit.html", "audit.json", "streams.parquet")
_LONG = 10.0  # seconds of work, after which a line says what is being done
_LOG = "Files (.csv, .csv.gz, .tsv, .parquet, .feather, .ndjson), a folder of one kind, or a glob in quotes."
_PAYOFFS = PAYOFFS + " For outcomes that are numbers, .toml with kind or knots."
_CONFIG = (
    "A .toml file of settings, as `lowregret init LOG` writes it: all that these options are, and contexts, "
    "references, changing payoffs, scale, horizon, currency, cluster. Options given here win."
)
_STREAM = "The column of streams: stream, unique_id. none: all rows are one stream."
_PROBS = (
    "Columns of probabilities: STATE=COLUMN each, with commas (of two states one is enough), or columns alone in the "
    "order of the states, or one that holds lists. By default p_STATE, or probs."
)
_LAG = "After how many steps an outcome is known; by default before the next."
_NO_PAYOFFS = """--payoffs is missing: a file with one row per action and one column per state:

euros,dry,wet
open,100,-20
shut,0,0"""


def audit(
    log: Annotated[list[str] | None, typer.Argument(help=_LOG, show_default=False)] = None,
    payoffs: Annotated[Path | None, typer.Option(help=_PAYOFFS)] = None,
    config: Annotated[Path | None, typer.Option(help=_CONFIG)] = None,
    out: Annotated[
        Path | None, typer.Option(help=f"Folder for {', '.join(WRITTEN)}.", show_default="results/audit")
    ] = None,
    stream: Annotated[str | None, typer.Option(help=_STREAM)] = None,
    order: Annotated[str | None, typer.Option(help="The column of steps or times: step, ds, time.")] = None,
    state: Annotated[str | None, typer.Option(help="The column of outcomes: y, outcome, state.")] = None,
    probs: Annotated[str | None, typer.Option(help=_PROBS)] = None,
    quantiles: Annotated[
        str | None, typer.Option(help="Columns of quantiles of a number: LEVEL=COLUMN each, with commas.")
    ] = None,
    lag: Annotated[int | None, typer.Option(min=1, help=_LAG)] = None,
    known_at: Annotated[str | None, typer.Option(help="The column that says when each outcome was known.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Chance of an alarm in a stream whose model is right.", show_default="0.05")
    ] = None,
    fdr: Annotated[
        float | None,
        typer.Option(help="Largest share of the streams named that may be named wrongly.", show_default="0.1"),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="How far probabilities may be from summing to one.", show_default="1e-06")
    ] = None,
) -> None:
    """Was acting on this model safe? What every stream of a log would have earned, guarded and not.

    Exit codes: 0 no alarm, 3 an alarm in at least one stream, 4 the log is refused, 1 an error, 2 wrong options.
    """
    with refusals(), refused():
        from ..audits import audit as audited
        from ..audits.page import page
        from ..audits.settings import AuditFile, settings_in
        from ..problems import currency_in, payoffs_in

        file = AuditFile() if config is None else settings_in(config)
        paths = [Path(one) for one in log or file.log]
        payoffs, out = payoffs or file.payoffs, out or file.out or Path("results/audit")
        if not paths:
            raise ValueError("LOG is missing: a file, several, or a folder; or log = NAME in --config")
        if payoffs is None:
            raise ValueError(_NO_PAYOFFS)
        problem = payoffs_in(payoffs)
        columns: dict[str, Any] = {"stream": stream, "order": order, "state": state, "known_at": known_at}
        columns["probs"] = None if probs is None else probs_in(probs, getattr(problem, "states", ()))
        columns["quantiles"] = None if quantiles is None else quantiles_in(quantiles)
        columns = {role: own for role, own in columns.items() if own is not None}
        given: dict[str, Any] = {"lag": lag, "delta": delta, "fdr": fdr, "tolerance": tolerance}
        given = {name: own for name, own in given.items() if own is not None}
        if lag is not None:  # each of the two says when outcomes were known, and options win
            columns.setdefault("known_at", None)
        elif known_at is not None:
            given["lag"] = None
        given["currency"] = file.settings.currency or currency_in(payoffs)
        settings = replace(file.settings, columns=replace(file.settings.columns, **columns), **given)

        for folder in paths:
            if folder.is_dir() and out.resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"--out must not lie in LOG {folder}, of which the next audit reads all files: {out}")
        out.mkdir(parents=True, exist_ok=True)  # or it is refused before the work
        with progress() as report:
            found = audited(paths, problem, progress=report, **vars(settings))
        (out / "audit.html").write_text(page(found), encoding="utf-8")
        (out / "audit.json").write_text(found.to_json(), encoding="utf-8")
        found.streams.write_parquet(out / "streams.parquet")
        typer.echo(found.report())
        typer.echo(f"Written to {', '.join(str(out / name) for name in WRITTEN)}")
    if found.alarms:
        raise typer.Exit(ALARM)


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """A refused log has its own exit code."""
    from ..audits.reading import Refused

    try:
        yield
    except Refused as error:
        typer.echo(f"refused: {error}", err=True)
        raise typer.Exit(REFUSED) from error


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each stage on a terminal; elsewhere, once the work is long, a line for each stage."""
    if not sys.stderr.isatty():
        begin, shown = time.monotonic(), set[str]()

        def line(stage: str, done: int, total: int) -> None:
            if stage not in shown and time.monotonic() - begin > _LONG:
                shown.add(stage)
                typer.echo(f"{stage}, {done:,} of {total:,} rows done ..." if total else f"{stage} ...", err=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    rows = TextColumn("{task.completed:,} rows")
    shown_as = (TextColumn("{task.description}"), BarColumn(), rows, TimeRemainingColumn())
    with Progress(*shown_as, console=Console(stderr=True), transient=True) as bars:
        tasks = dict[str, TaskID]()

        def bar(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=None)
            bars.update(tasks[stage], completed=done, total=total or None)

        yield bar


def probs_in(text: str, states: tuple[str, ...]) -> dict[str, str] | list[str]:
    """What ``--probs`` gives: STATE=COLUMN each, or columns alone, whose names may hold an equals sign.

    >>> probs_in("up=forecast_up,down=forecast_down", ("down", "up"))
    {'up': 'forecast_up', 'down': 'forecast_down'}
    """
    pieces = text.split(",")
    owners = [
        max((state for state in states if piece.startswith(f"{state}=")), key=len, default=None) for piece in pieces
    ]
    if not any(owners):
        return pieces
    if None in owners or len(set(owners)) < len(owners):
        raise ValueError(f"--probs must be STATE=COLUMN once for each of {', '.join(states)}, or columns, got {text!r}")
    return {str(state): piece[len(str(state)) + 1 :] for state, piece in zip(owners, pieces, strict=True)}


def quantiles_in(text: str) -> dict[str, str]:
    """What ``--quantiles`` gives: LEVEL=COLUMN each.

    >>> quantiles_in("0.1=low,0.9=high")
    {'0.1': 'low', '0.9': 'high'}
    """
    pairs = [piece.partition("=") for piece in text.split(",")]
    if not all(name for _, _, name in pairs):
        raise ValueError(f"--quantiles must be LEVEL=COLUMN each, with commas, such as 0.1=low,0.9=high, got {text!r}")
    return {level: name for level, _, name in pairs}
