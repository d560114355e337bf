"""The command line: ``demo | verify | plan`` (extra: ``cli``), audits (their own), the rest (``torch``)."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    import typer

HELP = "Guard decisions that are made on a model's probabilities."


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        app = _app()
    except ModuleNotFoundError as error:
        print(f"the command line needs {error.name}: pip install 'lowregret[cli]'", file=sys.stderr)
        sys.exit(3 if sys.argv[1:2] == ["gate"] else 1)  # where 1 is a verdict
    app()


def _app() -> "typer.Typer":
    import typer

    from .. import __version__, files
    from .auditing import audit
    from .gating import GateCommand, gate
    from .options import folder_for, refusals
    from .planning import plan
    from .transformers import add_commands

    app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False)

    def version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"lowregret {__version__}")
            raise typer.Exit

    @app.callback()
    def root(
        version: Annotated[
            bool, typer.Option("--version", callback=version, is_eager=True, help="Show the version and exit.")
        ] = False,
    ) -> None:
        pass

    @app.command()
    def demo(
        horizon: Annotated[int, typer.Option(min=4, help="Length of each sequence.")] = 1024,
        samples: Annotated[int, typer.Option("--samples", "-n", min=2, help="Sequences from each source.")] = 1000,
        seed: Annotated[int, typer.Option(min=0, help="Seed of the sequences.")] = 0,
        out: Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")] = Path("results/demo"),
    ) -> None:
        """Six players on the paper's eight sources and against an adversary: tables, the 2 x 4 figure, JSON."""
        with refusals():
            from ..paper import eight_sources

            files.in_memory(16 * samples * horizon, f"--samples {samples} times --horizon {horizon}")
            eight_sources.demo(horizon, samples, seed, folder_for(out, *eight_sources.FILES))

    @app.command()
    def verify(
        only: Annotated[
            list[str] | None,
            typer.Option(
                help="Only statements whose name begins like this, such as 'Lemma 2'; may be given several times."
            ),
        ] = None,
        out: Annotated[Path, typer.Option(help="Folder for the page and the numbers.")] = Path("results/verify"),
        jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many processes to use.")] = 2,
        names: Annotated[bool, typer.Option("--list", help="List the statements and exit.")] = False,
    ) -> None:
        """Check every lemma, theorem and algorithm of the paper: a table, a page with pictures, JSON."""
        with refusals():
            from ..paper import verify as paper

        try:
            chosen = paper.selected(only or [])
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--only") from None
        if names:
            for statement in chosen:
                typer.echo(f"{statement.name:32} {statement.says}")
            return
        with refusals():
            passed = paper.verify(chosen, folder_for(out, *paper.FILES), jobs)
        if not passed:
            raise typer.Exit(1)

    app.command()(plan)
    app.command()(audit)
    app.command(cls=GateCommand)(gate)
    add_commands(app)
    return app


if __name__ == "__main__":
    main()
