"""The commands: ``demo | verify`` (extra: ``cli``) and ``reproduce`` (and ``torch``)."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    import typer

HELP = "Every figure, table and theorem of the paper as a program."


def main() -> None:
    """Run a command, or say which extra it needs."""
    try:
        app = _app()
    except ModuleNotFoundError as error:
        print(f"the command line needs {error.name}: pip install 'lowregret[cli]'", file=sys.stderr)
        sys.exit(1)
    app(prog_name="python -m paper")


def _app() -> "typer.Typer":
    import typer

    from lowregret.cli.options import refusals

    app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False)

    @app.command()
    def demo(
        horizon: Annotated[int, typer.Option(min=4, help="Length of each sequence.")] = 1024,
        samples: Annotated[int, typer.Option("--samples", "-n", min=2, help="Sequences from each source.")] = 1000,
        seed: Annotated[int, typer.Option(min=0, help="Seed of the sequences.")] = 0,
        out: Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")] = Path("results/demo"),
    ) -> None:
        """Six players on the paper's eight sources and against an adversary: tables, the 2 x 4 figure, JSON."""
        with refusals():
            from . import eight_sources

            eight_sources.demo(horizon, samples, seed, out)

    @app.command()
    def verify(
        only: Annotated[
            list[str] | None,
            typer.Option(
                help="Only statements whose name begins like this, such as 'Lemma 2'; may be given several times."
            ),
        ] = None,
        out: Annotated[Path, typer.Option(help="Folder for the report and the numbers.")] = Path("results/verify"),
        jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many processes to use.")] = 2,
        names: Annotated[bool, typer.Option("--list", help="List the statements and exit.")] = False,
    ) -> None:
        """Check every lemma, theorem and algorithm of the paper: a line as each is done, a report, JSON."""
        with refusals():
            from . import verify as statements

            chosen = statements.selected(only or [])
            if names:
                for statement in chosen:
                    typer.echo(f"{statement.name:32} {statement.says}")
            elif not statements.verify(chosen, out, jobs):
                raise typer.Exit(1)

    @app.command()
    def reproduce(
        preset: Annotated[
            str, typer.Option(help="quick (two cores, minutes), paper (as printed) or recovering.")
        ] = "quick",
        out: Annotated[Path | None, typer.Option(help="Folder for everything; results/PRESET by default.")] = None,
        seed: Annotated[
            int,
            typer.Option(min=0, help="Of weights, batches and measurements; on a GPU a run repeats only nearly."),
        ] = 0,
        device: Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")] = None,
        repeatable: Annotated[
            bool, typer.Option("--deterministic", help="The same models for the same seed on a GPU, too; slower.")
        ] = False,
    ) -> None:
        """Train BERNOULLI (two seeds), POLYAURN and ROBUST; draw the figure, print the tables beside the paper's.

        A run that was stopped continues where it was.
        """
        with refusals():
            from lowregret.transformer.backends import deterministic

            from . import reproduce as program

            chosen, folder = program.preset_named(preset, seed), out or Path("results") / preset
            try:
                with deterministic() if repeatable else nullcontext():
                    program.reproduce(chosen, folder, device)
            except KeyboardInterrupt:
                typer.echo("\nStopped. The same command continues where it was.", err=True)
                raise typer.Exit(130) from None

    return app
