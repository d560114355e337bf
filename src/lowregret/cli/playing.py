"""``lowregret play``: a page on which you play against the guarded predictor (extra: ``play``)."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import folder_for, one_of, refusals, resumable


def play(
    game: Annotated[str, typer.Option(help="rock-paper-scissors or matching-pennies.")] = "rock-paper-scissors",
    rounds: Annotated[int, typer.Option(min=2, max=10_000, help="Rounds of a new game.")] = 300,
    new: Annotated[bool, typer.Option("--new", help="Begin a new game rather than go on with the last.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the record of your games.")] = Path("results/play"),
    host: Annotated[
        str, typer.Option(help="The address to listen to. Any but this one lets others in your network play.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: any that is free.")] = 0,
    open_: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open it in a browser; by default where there is a terminal."),
    ] = None,
) -> None:
    """Play against the machine in your browser, and see its regret, its promise and its doubts drawn as you do.

    Every round is kept: the same command goes on where you stopped.
    """
    with refusals():
        from ..games.page import server
        from ..games.page.opponent import GAMES, warm
        from ..games.page.sitting import Sitting

        one_of("--game", game, GAMES)
        path = folder_for(out, f"{game}.jsonl") / f"{game}.jsonl"
        with server.listen(host, port) as listening, Sitting(path, game, rounds, anew=new) as sitting:
            warm(game, sitting.rounds)
            address = _address(listening.getsockname())

            def ready() -> None:
                if sitting.number:
                    typer.echo(f"Going on at round {sitting.number + 1}; --new begins a new game.")
                typer.echo(f"Play at {address} (Ctrl-C to stop); your rounds are kept in {path}")
                if sys.stdout.isatty() if open_ is None else open_:
                    import webbrowser

                    webbrowser.open(address)

            with resumable(lambda: f"at round {sitting.number + 1}"):
                server.serve(sitting, listening, host, ready)


def _address(name: tuple) -> str:
    """How a browser on this machine gets to a socket."""
    host, port = name[0], name[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
