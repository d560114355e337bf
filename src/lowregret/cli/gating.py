"""``lowregret gate``: two models on the same days; promote the new one, keep the current one, or wait (``audit``)."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .. import files
from .auditing import REFUSED
from .options import PAYOFFS, folder_for, refusals

UNDECIDED = 3  # an error or bad options: 1 and 2, their codes elsewhere, are verdicts here
_PROBS = (
    "Columns of probabilities: STATE=COLUMN each, with commas (of two states one is enough), {} standing for the name "
    "of the model; by default MODEL_p_STATE, p_STATE_MODEL or the like. With a column of models, as for audit."
)
_MODEL_COLUMN = "The column that names the model of each row, where each model has rows of its own: model."


@contextlib.contextmanager
def undecided() -> Iterator[None]:
    """Whatever goes wrong ends with a code that is not a verdict."""
    try:
        yield
    except typer.Exit as done:
        raise typer.Exit(UNDECIDED if done.exit_code == 1 else done.exit_code) from done
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except Exception as error:
        if not hasattr(error, "exit_code"):  # a fault of ours, which Python would end with 1
            traceback.print_exception(error)
            raise typer.Exit(UNDECIDED) from error
        error.exit_code = UNDECIDED  # of options, as click says it
        raise


class GateCommand(TyperCommand):
    """A command whose bad options do not end with the code of a verdict."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with undecided():
            return super().parse_args(ctx, args)


def gate(
    log: Annotated[Path, typer.Argument(help="A .csv or .parquet file, or a folder of them.")],
    model: Annotated[str, typer.Option(help="The name of the new model.")],
    against: Annotated[str, typer.Option(help="The name of the current model.")],
    payoffs: Annotated[Path, typer.Option(help=PAYOFFS)],
    out: Annotated[Path, typer.Option(help="Folder for gate.json.")] = Path("results/gate"),
    alpha: Annotated[
        float,
        typer.Option(
            help="Chance of ever promoting a model that earns no more, and of ever keeping out one that earns no less."
        ),
    ] = 0.05,
    lag: Annotated[int, typer.Option(min=1, help="How many steps later an outcome is known.")] = 1,
    tolerance: Annotated[float, typer.Option(help="How far probabilities may be from summing to one.")] = 1e-6,
    stream: Annotated[str | None, typer.Option(help="The column of streams; none: all rows are one stream.")] = None,
    order: Annotated[str | None, typer.Option(help="The column of steps or times: step, ds, time.")] = None,
    state: Annotated[str | None, typer.Option(help="The column of states: state, y.")] = None,
    probs: Annotated[str | None, typer.Option(help=_PROBS)] = None,
    model_column: Annotated[str | None, typer.Option(help=_MODEL_COLUMN)] = None,
    every: Annotated[
        str | None, typer.Option(help="Refuse times that are not this far apart: 1h, 1d, 1b, 1mo.")
    ] = None,
) -> None:
    """May the new model take the place of the current one? By what acting on each earned on the same days.

    Exit codes: 0 promote, 1 keep the current one, 2 not enough yet; without a verdict: 3 an error or bad options, 4 the
    log is refused.
    """
    with undecided(), refusals():
        from ..audit import gating
        from ..audit.cells import Refused
        from ..audit.laws import told_in_words
        from ..problems import payoffs_in

        folder_for(out, "gate.json")
        files.apart({"--out gate.json": out / "gate.json"}, {"LOG": log, "--payoffs": payoffs})
        problem = payoffs_in(payoffs)
        laws = None if probs is None else told_in_words(probs, problem.states)
        given = {"stream": stream, "order": order, "state": state, "probs": laws, "model": model_column, "every": every}
        columns = {role: own for role, own in given.items() if own is not None}
        try:
            found = gating.gate(
                log, problem, model=model, against=against, alpha=alpha, lag=lag, tolerance=tolerance, columns=columns
            )
        except Refused as error:
            typer.echo(f"refused: {error}", err=True)
            raise typer.Exit(REFUSED) from error
        files.replace_all({out / "gate.json": found.to_json().encode()})
        typer.echo(str(found))
        typer.echo(f"Written to {out / 'gate.json'}")
    code = (gating.PROMOTE, gating.KEEP, gating.WAIT).index(found.verdict)
    if code:
        raise typer.Exit(code)
