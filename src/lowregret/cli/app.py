"""The command line: ``plan`` and ``example`` (extra: ``cli``), ``audit``, ``gate`` and ``init`` (extra: ``audit``)."""

import sys
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

    from .. import __version__
    from .auditing import audit
    from .example import example
    from .gating import GateCommand, gate
    from .init import init
    from .planning import plan

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

    app.command()(audit)
    app.command(cls=GateCommand)(gate)
    app.command()(plan)
    app.command()(example)
    app.command()(init)
    return app
