"""``lowregret audit``: a log of forecasts and outcomes in, the answer out (extra: ``audit``)."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import PAYOFFS, named_in, refusals

ALARM, REFUSED = 3, 4  # exit codes, beside 0 (no alarm), 1 (an error) and 2 (wrong options)
WRITTEN = ("audit.html", "audit.json", "streams.parquet")
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
        columns: dict[str, Any] = {"stream": stream, "order": order, "state": state, "known_at": known_at}
        columns |= {"probs": named_in("--probs", probs), "quantiles": named_in("--quantiles", quantiles)}
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
        written = {(out / name).resolve() for name in WRITTEN}
        for one in (*paths, payoffs, *filter(None, [config])):
            if one.resolve() in written:
                raise ValueError(f"--out must not be the folder of {one}, which would be overwritten")
        out.mkdir(parents=True, exist_ok=True)  # or it is refused before the work
        with progress() as report:
            found = audited(paths, payoffs_in(payoffs), progress=report, **vars(settings))
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
    """On a terminal a line says what is being done, as long as it is."""

    def line(words: str) -> None:
        if sys.stderr.isatty():
            typer.echo(f"\r\x1b[K{words}", err=True, nl=False)

    try:
        yield lambda stage, done, total: line(f"{stage}, {done:,} of {total:,} rows" if total else stage)
    finally:
        line("")
