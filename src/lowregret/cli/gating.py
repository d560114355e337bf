"""``lowregret gate``: two candidates on the same items; promote the new one, keep the current one, or wait."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from .auditing import refused
from .options import PAYOFFS, named_in, refusals

UNDECIDED = 3  # an error or wrong options: 1 and 2, their codes elsewhere, are verdicts here
_NEW = "The new candidate: its column of scores, or its name in the columns of its forecasts."
_ITEM = "Of scores: the column that names the item, whose rows count as one. None: each row is an item."
_ORDER = "The column of times or steps. Items of one time are judged by their mean; scores without it one by one."
_BY = "Of scores: the column of slices, each judged at alpha divided by their number. The exit code is the worst."
_PROBS = (
    "Of forecasts: columns of probabilities, STATE=COLUMN each, with commas, {} standing for the candidate; by default "
    "{}_p_STATE."
)
_ALPHA = "Chance of ever promoting a candidate that is no better, and of ever keeping out one that is no worse."
_SCORES, _FORECASTS = ("range", "item", "by"), ("stream", "state", "probs", "quantiles", "known_at", "lag")


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
        error.exit_code = UNDECIDED  # of options, as click has it
        raise


class GateCommand(TyperCommand):
    """A command whose wrong options do not end with the code of a verdict."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with undecided():
            return super().parse_args(ctx, args)


def gate(
    log: Annotated[list[str], typer.Argument(help="Files, a folder of one kind, or a glob in quotes, as for audit.")],
    new: Annotated[str, typer.Option(help=_NEW)],
    current: Annotated[str, typer.Option(help="The current candidate.")],
    range: Annotated[
        tuple[float, float] | None, typer.Option(help="The least and the largest score.", show_default="0 1")
    ] = None,
    payoffs: Annotated[Path | None, typer.Option(help=f"For forecasts in place of scores. {PAYOFFS}")] = None,
    out: Annotated[Path, typer.Option(help="Folder for gate.json.")] = Path("results/gate"),
    alpha: Annotated[float, typer.Option(help=_ALPHA)] = 0.05,
    item: Annotated[str | None, typer.Option(help=_ITEM)] = None,
    order: Annotated[str | None, typer.Option(help=_ORDER)] = None,
    by: Annotated[str | None, typer.Option(help=_BY)] = None,
    stream: Annotated[str | None, typer.Option(help="Of forecasts: the column of streams, as for audit.")] = None,
    state: Annotated[str | None, typer.Option(help="Of forecasts: the column of outcomes.")] = None,
    probs: Annotated[str | None, typer.Option(help=_PROBS)] = None,
    quantiles: Annotated[str | None, typer.Option(help="Of forecasts: quantiles, LEVEL=COLUMN each, as probs.")] = None,
    lag: Annotated[
        int | None, typer.Option(min=1, help="Of forecasts: how many steps later an outcome is known.")
    ] = None,
    known_at: Annotated[str | None, typer.Option(help="Of forecasts: the column that says when it was known.")] = None,
) -> None:
    """May the new candidate take the place of the current one? By their scores on the same items, or by what acting on
    their forecasts earned.

    Exit codes: 0 promote, 1 keep the current one, 2 not enough yet; without a verdict: 3 an error or wrong options, 4
    the log is refused. Of several slices: 1 if any says keep, 0 if all say promote, else 2.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    with undecided(), refusals(), refused():
        from ..audits import gate_logs, gating
        from ..problems import payoffs_in

        unfit = [f"--{name.replace('_', '-')}" for name in (_SCORES if payoffs else _FORECASTS) if name in given]
        if unfit:
            without, of = ("without", "scores") if payoffs else ("with", "forecasts")
            raise ValueError(f"{', '.join(unfit)} goes {without} --payoffs: it is of {of}")
        out.mkdir(parents=True, exist_ok=True)  # or it is refused before the work
        paths = [Path(one) for one in log]
        found: Any
        if payoffs is None:
            low, high = range or (0.0, 1.0)
            found = gate_logs.gate_scores(
                paths, new, current, low=low, high=high, alpha=alpha, item=item, order=order, by=by
            )
        else:
            columns: dict[str, Any] = {name: given.get(name) for name in ("stream", "order", "state", "known_at")}
            columns |= {"probs": named_in("--probs", probs), "quantiles": named_in("--quantiles", quantiles)}
            found = gate_logs.gate_forecasts(
                paths, payoffs_in(payoffs), new, current, alpha=alpha, lag=lag, columns=columns
            )
        (out / "gate.json").write_text(found.to_json(), encoding="utf-8")
        typer.echo(str(found))
        typer.echo(f"Written to {out / 'gate.json'}")
    code = (gating.PROMOTE, gating.KEEP, gating.WAIT).index(found.verdict)
    if code:
        raise typer.Exit(code)
