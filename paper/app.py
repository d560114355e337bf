"""The commands: ``demo | verify`` (extra: ``cli``) and ``reproduce`` (and ``torch``)."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from lowregret.cli.options import refusals

HELP = "Every figure, table and theorem of the paper as a program."

app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False)


@app.command()
def demo(
    horizon: Annotated[int, Option(min=4, help="Length of each sequence.")] = 1024,
    samples: Annotated[int, Option("--samples", "-n", min=2, help="Sequences from each source.")] = 1000,
    seed: Annotated[int, Option(min=0, help="Seed of the sequences.")] = 0,
    out: Annotated[Path, Option(help="Folder for the figure and the numbers.")] = Path("results/demo"),
) -> None:
    """Six players on the paper's eight sources and against an adversary: tables, the 2 x 4 figure, JSON."""
    with refusals():
        from . import eight_sources

        eight_sources.demo(horizon, samples, seed, out)


ONLY = "Only statements whose name begins like this, such as 'Lemma 2'; may be given several times."


@app.command()
def verify(
    only: Annotated[list[str] | None, Option(help=ONLY)] = None,
    out: Annotated[Path, Option(help="Folder for the numbers.")] = Path("results/verify"),
    jobs: Annotated[int, Option("--jobs", "-j", min=1, help="How many processes to use.")] = 2,
    names: Annotated[bool, Option("--list", help="List the statements and exit.")] = False,
) -> None:
    """Check every lemma, theorem and algorithm of the paper: the claims of each as it is done, JSON."""
    with refusals():
        from . import verify as statements

        chosen = statements.selected(only or [])
        if names:
            for statement in chosen:
                typer.echo(f"{statement.name:32} {statement.says}")
        elif not statements.verify(chosen, out, jobs):
            raise typer.Exit(1)


SEED = "Of weights, batches and measurements; on a GPU a run repeats only nearly."


@app.command()
def reproduce(
    preset: Annotated[str, Option(help="quick (two cores, minutes), paper (as printed) or recovering.")] = "quick",
    out: Annotated[Path | None, Option(help="Folder for everything; results/PRESET by default.")] = None,
    seed: Annotated[int, Option(min=0, help=SEED)] = 0,
    device: Annotated[str | None, Option(help="cpu or cuda; by default a GPU if there is one.")] = None,
    deterministic: Annotated[bool, Option("--deterministic", help="The same models on a GPU, too; slower.")] = False,
) -> None:
    """Train BERNOULLI (two seeds), POLYAURN and ROBUST; draw the figure, print the tables beside the paper's.

    A run that was stopped continues where it was.
    """
    with refusals():
        from lowregret.transformer import backends

        from . import reproduce as program

        chosen, folder = program.preset_named(preset, seed), out or Path("results") / preset
        try:
            with backends.deterministic() if deterministic else nullcontext():
                program.reproduce(chosen, folder, device)
        except KeyboardInterrupt:
            typer.echo("\nStopped. The same command continues where it was.", err=True)
            raise typer.Exit(130) from None
