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
    "Hedge weighs actions by what they have earned, without the model; fallback is what the guard does after a switch."
)
_STREAM = (
    "The column of streams; by default stream, unique_id or the like, if its values repeat. none: all rows are one."
)
_LOG = "A file (.csv, .csv.gz, .tsv, .parquet, .feather, .xlsx), or a folder of one kind; --merge: parts."
_QUERY = "SQL in place of LOG, by DuckDB, which reads files by name too: SELECT * FROM 'log.parquet'. Extra: duckdb."
_LAG = "After how many steps an outcome is known; by default before the next, with a warning where it looks later."
_FDR = "Of the streams that are named (by e-BH), the share that may be named wrongly on average."
_NO_PAYOFFS = """--payoffs is missing: a file that says what is at stake, a row an action and a column a state:

euros,dry,wet
open,100,-20
shut,0,0"""


def audit(
    log: Annotated[list[Path] | None, typer.Argument(help=_LOG, show_default=False)] = None,
    payoffs: Annotated[Path | None, typer.Option(help=PAYOFFS.replace(", in place of --problem", ""))] = None,
    out: Annotated[Path, typer.Option(help="Folder for audit.json and audit.html.")] = Path("results/audit"),
    delta: Annotated[float, typer.Option(help="Chance that a stream whose model is right ever switches.")] = 0.05,
    temperature: Annotated[
        float, typer.Option(help="Of what is played on probabilities: 0, the best action; above it, at random.")
    ] = 0.0,
    family_delta: Annotated[bool, typer.Option("--family-delta", help="Divide delta by the streams' number.")] = False,
    fdr: Annotated[float, typer.Option(help=_FDR)] = 0.1,
    horizon: Annotated[int | None, typer.Option(min=1, help="Steps of a stream; the longest one's.")] = None,
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
            "alone in the order of the states in --payoffs; or one of lists. By default p_STATE each, or probs."
        ),
    ] = None,
    every: Annotated[str | None, typer.Option(help="Refuse times that are not so far apart: 1h, 1d, 1b, 1mo.")] = None,
    lag: Annotated[int | None, typer.Option(min=1, help=_LAG)] = None,
    known_at: Annotated[str | None, typer.Option(help="The column that says when each outcome was known.")] = None,
    currency: Annotated[str | None, typer.Option(help="Of the payoffs; by default the corner of their table.")] = None,
    episode: Annotated[int | None, typer.Option(min=1, help="Steps after which a guard begins afresh.")] = None,
    events: Annotated[
        bool | None, typer.Option(help="Say since when, and returns; up to a million rows unless told.")
    ] = None,
    fallback: Annotated[
        bool | None, typer.Option(help="Play the fallback alone too; up to a million rows unless told.")
    ] = None,
    query: Annotated[str | None, typer.Option(help=_QUERY)] = None,
    database: Annotated[Path | None, typer.Option(help="A file of DuckDB or SQLite that --query asks.")] = None,
    part: Annotated[str | None, typer.Option(help="i/n: only the i-th of n parts, written for --merge.")] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Put the files of all parts together.")] = False,
    engine: Annotated[str, typer.Option(help="local, or ray (extra: ray).")] = "local",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many processes to use.")] = 2,
) -> None:
    """Was acting on this model safe? What every stream of a log would have earned, guarded and not.

    Ends with 0 where no stream switched, 3 where one did, 4 where the log is refused, 1 on an error, 2 on bad options.
    """
    with refusals():
        from ..audit import auditing
        from ..audit.cells import Refused, printable
        from ..audit.laws import told_in_words
        from ..audit.page import page, plotly_js
        from ..audit.tables import asked
        from ..problems import currency_in, payoffs_in

        log = log or []
        if (query is not None and (log or merge)) or (query is None and database is not None):
            raise ValueError("--query stands in place of LOG, and --database says what it asks: give LOG or --query")
        sources = len(log) + (query is not None)
        piece = _piece(part)
        name = "audit" if piece is None else f"audit-part-{piece[0]}-of-{piece[1]}"
        written = [f"{name}.json"] if piece else [f"{name}.json", f"{name}.html"]
        if piece is None:
            plotly_js()  # before the work rather than after it
        if merge and (payoffs or piece):
            raise ValueError("--merge takes the files of parts, which say the rest: leave --payoffs and --part out")
        if not merge and payoffs is None and sources == 1:
            raise ValueError(_NO_PAYOFFS)
        if not merge and (payoffs is None or sources != 1):
            raise ValueError("audit takes one LOG and --payoffs, or with --merge the files of all parts")
        folder_for(out, *written)
        outputs = {f"--out {one}": out / one for one in written}
        files.apart(outputs, {f"LOG {path}": path for path in log} | {"--payoffs": payoffs, "--database": database})
        try:
            if merge:
                found = auditing.merge(log)
            else:
                assert payoffs is not None
                problem = payoffs_in(payoffs)
                laws = None if probs is None else told_in_words(probs, problem.states)
                columns = {"stream": stream, "order": order, "state": state, "probs": laws, "every": every}
                columns["known_at"] = known_at
                with _progress() as told:
                    found = auditing.audit_log(
                        log[0] if query is None else asked(query, database),
                        problem,
                        delta=delta,
                        temperature=temperature,
                        horizon=horizon,
                        family_delta=family_delta,
                        fdr=fdr,
                        tolerance=tolerance,
                        columns={role: given for role, given in columns.items() if given is not None},
                        fallback=fallback,
                        events=events,
                        episode=episode,
                        lag=lag,
                        currency=currency if currency is not None else currency_in(payoffs),
                        part=piece,
                        jobs=jobs,
                        engine=engine,
                        told=told,
                    )
        except Refused as error:
            typer.echo(f"refused: {error}", err=True)
            raise typer.Exit(REFUSED) from error
        contents = {out / f"{name}.json": found.to_json().encode()}
        if piece is None:
            contents[out / f"{name}.html"] = page(found).encode()
        files.replace_all(contents)
        typer.echo(found.report())
        typer.echo(_HEDGE)
        source = "" if payoffs is None else f"Payoffs from {printable(payoffs.name, 200)}. "
        typer.echo(f"{source}Written to {', '.join(str(path) for path in contents)}")
    if found.alarms:
        raise typer.Exit(ALARM)


def _piece(part: str | None) -> tuple[int, int] | None:
    if part is None:
        return None
    numbers = part.split("/")
    if len(numbers) != 2 or not all(n.isascii() and n.isdecimal() for n in numbers):
        raise ValueError(f"--part must be i/n, such as 2/4, got {part!r}")
    i, n = map(int, numbers)
    if not 1 <= i <= n:
        raise ValueError(f"--part must be i/n with i from 1 to n, got {part!r}")
    return i, n


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each pass over the rows, where someone is watching."""
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
