"""``lowregret audit``: a log of predictions and states in, the answer out (extra: ``audit``)."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import files
from .options import PAYOFFS, folder_for, refusals

ALARM, REFUSED = 3, 4  # exit codes, beside 0 (no alarm), 1 (an error) and 2 (wrong options)
_EVERY = 1 << 18  # rows between two looks at the progress bar
_HEDGE = (
    "Hedge weighs actions by what they have earned, without the model; fallback is what the guard plays after a switch."
)
_STREAM = (
    "The column of streams; by default stream, unique_id or the like, if its values repeat. "
    "none: all rows are one stream."
)
_LOG = "A file (.csv, .csv.gz, .tsv, .parquet, .feather, .xlsx), or a folder of one kind."
_QUERY = (
    "SQL in place of LOG, run by DuckDB, which can also read files by name: SELECT * FROM 'log.parquet'. Extra: duckdb."
)
_LAG = "After how many steps an outcome is known; by default before the next, with a warning where it looks later."
_FDR = "The largest share of the streams named (by e-BH) that may be named wrongly, on average."
_PAYOFFS = PAYOFFS + " With quantiles of a number, .toml with kind or knots."
_REFERENCE = "What to compare with: NAME=COLUMNS of probabilities, as for --probs. May be given several times."
_ROLES = ("stream", "order", "state", "every", "context", "scale", "model", "median", "known_at")  # one column each
_NO_PAYOFFS = """--payoffs is missing: a file with one row per action and one column per state:

euros,dry,wet
open,100,-20
shut,0,0"""


def audit(
    ctx: typer.Context,
    log: Annotated[list[Path] | None, typer.Argument(help=_LOG, show_default=False)] = None,
    payoffs: Annotated[Path | None, typer.Option(help=_PAYOFFS)] = None,
    config: Annotated[Path | None, typer.Option(help="A .toml file of settings; options given here win.")] = None,
    init: Annotated[
        bool, typer.Option("--init", help="Look at LOG, and write audit.toml and payoffs to fill in beside it.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for audit.json and audit.html.")] = Path("results/audit"),
    delta: Annotated[float, typer.Option(help="Chance that a stream whose model is right ever switches.")] = 0.05,
    temperature: Annotated[
        float, typer.Option(help="Of the response to probabilities: 0 takes the best action; above 0 it is random.")
    ] = 0.0,
    family_delta: Annotated[
        bool, typer.Option("--family-delta", help="Divide delta by the number of streams.")
    ] = False,
    fdr: Annotated[float, typer.Option(help=_FDR)] = 0.1,
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Steps of a stream; by default those of the longest.")
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(help="How far probabilities may be from summing to one, 0.1 at most; they are then renormalised."),
    ] = 1e-6,
    stream: Annotated[str | None, typer.Option(help=_STREAM)] = None,
    order: Annotated[str | None, typer.Option(help="The column of steps or times: step, ds, time.")] = None,
    state: Annotated[str | None, typer.Option(help="The column of states: state, y.")] = None,
    probs: Annotated[
        str | None,
        typer.Option(
            help="Columns of probabilities: STATE=COLUMN each, with commas (of two states one is enough); or columns "
            "alone in the order of the states in --payoffs; or one that holds lists. By default p_STATE, or probs."
        ),
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="Refuse times that are not this far apart: 1h, 1d, 1b, 1mo.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="The column of contexts: compare with one action for each.")
    ] = None,
    reference: Annotated[list[str] | None, typer.Option(help=_REFERENCE)] = None,
    payoff_columns: Annotated[
        str | None,
        typer.Option(help="Columns of payoffs that change, action by action, with commas; or one that holds lists."),
    ] = None,
    scale: Annotated[str | None, typer.Option(help="The column that says how much of the payoffs counts.")] = None,
    quantiles: Annotated[
        str | None, typer.Option(help="Columns of quantiles of a number: LEVEL=COLUMN each, with commas.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Which model's quantiles, where there are several.")] = None,
    median: Annotated[str | None, typer.Option(help="The column of medians, where its name does not say so.")] = None,
    lag: Annotated[int | None, typer.Option(min=1, help=_LAG)] = None,
    known_at: Annotated[str | None, typer.Option(help="The column that says when each outcome was known.")] = None,
    currency: Annotated[str | None, typer.Option(help="Of the payoffs; by default the corner of their table.")] = None,
    test: Annotated[bool, typer.Option(help="Without a test the mixture is played from the first step on.")] = True,
    events: Annotated[
        bool | None,
        typer.Option(help="Say since when models were wrong, and returns; by default up to a million rows."),
    ] = None,
    fallback: Annotated[
        bool | None, typer.Option(help="Play the fallback alone too; by default up to a million rows.")
    ] = None,
    query: Annotated[str | None, typer.Option(help=_QUERY)] = None,
    database: Annotated[Path | None, typer.Option(help="A file of DuckDB or SQLite for --query.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray (extra: ray).")] = "local",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many processes to use.")] = 2,
) -> None:
    """Was acting on this model safe? What every stream of a log would have earned, guarded and not.

    Exit codes: 0 no stream switched, 3 at least one did, 4 the log is refused, 1 an error, 2 bad options.
    """
    with refusals():
        from ..audit import auditing
        from ..audit.cells import printable
        from ..audit.page import page, plotly_js
        from ..audit.settings import TAKEN, AuditFile, settings_in
        from ..audit.tables import asked
        from ..problems import currency_in, stakes_in

        log = log or []
        if init:
            with _refused():
                _propose(log)
            return
        said = AuditFile() if config is None else settings_in(config)
        log = log or [path for path in (said.log,) if path is not None and query is None]
        payoffs = payoffs or said.payoffs
        given = {name: value for name, value in ctx.params.items() if _typed(ctx, name)}
        out = out if "out" in given else said.out or out
        if (query is not None and log) or (query is None and database is not None):
            raise ValueError("--query stands in place of LOG, and --database says what it asks: give LOG or --query")
        sources = len(log) + (query is not None)
        written = ["audit.json", "audit.html"]
        plotly_js()  # before the work rather than after it
        if payoffs is None and sources == 1:
            raise ValueError(_NO_PAYOFFS)
        if payoffs is None or sources != 1:
            raise ValueError("audit takes one LOG and --payoffs")
        folder_for(out, *written)
        outputs = {f"--out {one}": out / one for one in written}
        read = {f"LOG {path}": path for path in log}
        files.apart(outputs, read | {"--payoffs": payoffs, "--config": config, "--database": database})
        with _refused():
            problem = stakes_in(payoffs)
            settings = said.settings | {role: own for role, own in given.items() if role in TAKEN}
            settings["columns"] = {**_table(said.settings.get("columns")), **_columns(given, problem)}
            settings.setdefault("currency", currency_in(payoffs))
            with _progress() as told:
                rows = log[0] if query is None else asked(query, database)
                found = auditing.audit_log(rows, problem, **settings, told=told)
        contents = {out / "audit.json": found.to_json().encode(), out / "audit.html": page(found).encode()}
        files.replace_all(contents)
        typer.echo(found.report())
        typer.echo(_HEDGE)
        typer.echo(
            f"Payoffs from {printable(payoffs.name, 200)}. Written to {', '.join(str(path) for path in contents)}"
        )
    if found.alarms:
        raise typer.Exit(ALARM)


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """A refused log is reported as such, with its own exit code."""
    from ..audit.cells import Refused

    try:
        yield
    except Refused as error:
        typer.echo(f"refused: {error}", err=True)
        raise typer.Exit(REFUSED) from error


def _typed(ctx: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _table(columns: Any) -> dict[str, Any]:
    if columns is not None and not isinstance(columns, dict):
        raise ValueError(f"columns must be a table in --config, [columns], got {columns!r}")
    return columns or {}


def _columns(given: dict[str, Any], problem: Any) -> dict[str, Any]:
    """What the options say of columns, by role."""
    from ..audit.laws import told_in_words
    from ..audit.settings import quantiles_in_words

    states = getattr(problem, "states", ())
    found = {role: given[role] for role in _ROLES if role in given}
    if "probs" in given:
        if not states:
            raise ValueError("--probs are of states, and the payoffs are of outcomes that are numbers: --quantiles")
        found["probs"] = told_in_words(given["probs"], states)
    if "quantiles" in given:
        found["quantiles"] = quantiles_in_words(given["quantiles"])
    if "payoff_columns" in given:
        found["payoffs"] = given["payoff_columns"].split(",")
    if "reference" in given:
        found["references"] = {}
        for words in given["reference"]:
            name, _, own = words.partition("=")
            if not (name and own):
                raise ValueError(f"--reference must be NAME=COLUMNS, got {words!r}")
            found["references"][name] = told_in_words(own, states)
    return found


def _propose(log: list[Path]) -> None:
    """Write settings and payoffs to fill in beside a log, unless they are there."""
    from ..audit.proposing import proposed

    if len(log) != 1:
        raise ValueError("--init takes one LOG")
    found, folder = proposed(log[0]), log[0].parent
    for name, text in (("audit.toml", found.settings), (found.payoffs_name, found.payoffs)):
        if (folder / name).exists():
            typer.echo(f"{folder / name} is there already, and is left as it is")
        else:
            files.replace_all({folder / name: text.encode()})
            typer.echo(f"written: {folder / name}")
    typer.echo(f"Next: {'; '.join(found.said)}; then lowregret audit --config {folder / 'audit.toml'}")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar for each pass over the rows, on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} rows"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}
        said = 0

        def told(what: str, done: int, whole: int) -> None:
            nonlocal said
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=whole)
            elif abs(done - said) < _EVERY and done < whole:
                return
            said = done
            bar.update(tasks[what], completed=done, total=whole)

        yield told
