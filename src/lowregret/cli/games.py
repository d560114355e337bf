"""``lowregret play``: a page on which you play against the guarded predictor (extra: ``play``)."""

import contextlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import files
from .options import folder_for, one_of, refusals, resumable

# ``lowregret arena``: players against OpenSpiel's tournament programs, scored side by side (extras: ``cli games``).


if TYPE_CHECKING:
    from ..games import Arena, Player
    from ..policies import Policy
    from ..problems import DecisionProblem
    from ..tables import Table

FIGURE, NUMBERS = "arena.png", "arena.json"


def arena(
    player: Annotated[
        list[str] | None,
        typer.Option(
            help="mixture, guarded, guarded-maximin, urn, guarded-urn, uniform, nemesis, "
            "or a program. May be given several times."
        ),
    ] = None,
    opponents: Annotated[
        str, typer.Option(help="roshambo (all 43 programs) or names of players, with commas.")
    ] = "roshambo",
    half: Annotated[
        str | None, typer.Option(help="A or B: every second one of the 43, from the first or the second name on.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of a match; the programs play exactly 1,000.")] = 1000,
    matches: Annotated[
        int, typer.Option("--matches", "-n", min=2, help="Matches with each opponent, half in each seat.")
    ] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the matches.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="How many processes to use.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for the matches, the figure and the numbers.")] = Path(
        "results/arena"
    ),
) -> None:
    """Rock-paper-scissors against 43 tournament programs: what players earn in all, and against the worst.

    A run that was stopped continues where it was; more matches or more opponents in the same folder are added to it.
    """
    with refusals(), resumable(lambda: "where it was"):
        names = player or ["mixture", "guarded", "greenberg", "iocainebot"]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"--player must name different players, got {', '.join(sorted(repeated))} twice")
        ours = [_player(name) for name in names]
        others = _opponents(opponents, half)
        _seated(ours, rounds)
        records = {one.name: out / f"{re.sub('[^A-Za-z0-9_-]', '_', one.name)}.jsonl" for one in ours}
        folder_for(out, FIGURE, NUMBERS, *(path.name for path in records.values()))
        found = [_faced(one, others, rounds, matches, seed, jobs, records[one.name]) for one in ours]
        _write(found, out)
        if len(found) == 1:
            typer.echo(f"{found[0].table()}\n")
        typer.echo(str(_scores(found, f"{len(others)} opponents, {matches} matches each of {rounds} rounds")))
        for name, names_in in _halves(found[0]).items():
            typer.echo(f"\n{_scores([one.only(names_in) for one in found], f'Half {name}: {len(names_in)} opponents')}")
        typer.echo(f"\nWritten to {out / NUMBERS}, {out / FIGURE}")


def _player(name: str) -> "Player":
    from ..games import Fixed, Guarded, Nemesis, Plain
    from ..games.open_spiel import OpenSpielBot
    from ..predictors import OpponentModel, PolyaUrn

    made: dict[str, Callable[[], Player]] = {
        "mixture": lambda: Plain(OpponentModel(), name=name),
        "guarded": lambda: Guarded(OpponentModel(), name=name),
        "guarded-maximin": lambda: Guarded(OpponentModel(), fallback=_maximin, name=name),
        "urn": lambda: Plain(PolyaUrn(3), name=name),
        "guarded-urn": lambda: Guarded(PolyaUrn(3), name=name),
        "uniform": lambda: Fixed([1 / 3] * 3, name),
        "nemesis": lambda: Nemesis(),
    }
    if name in made:
        return made[name]()
    try:
        return OpenSpielBot(name)
    except ValueError as error:
        raise ValueError(f"a player is one of {', '.join(made)}, or a program: {error}") from None


def _maximin(problem: "DecisionProblem", rounds: int) -> "Policy":
    """The safest mixed action, played from the alarm on."""
    from ..policies import SecurityPlay

    return SecurityPlay(problem)


def _opponents(text: str, half: str | None) -> "list[Player]":
    from ..games.open_spiel import bots

    if half is not None and text != "roshambo":
        raise ValueError(f"--half is of the 43 programs: leave --opponents out, got {text!r}")
    if text == "roshambo":
        return list(bots(half))
    return [_player(name.strip()) for name in text.split(",")]


def _seated(players: "list[Player]", rounds: int) -> None:
    """Let every player take a seat: one that refuses this many rounds does so before hours of play."""
    import numpy as np

    from ..problems import rock_paper_scissors

    for one in players:
        one.sit(rock_paper_scissors(), rounds, np.random.default_rng(0), 0)


def _faced(
    player: "Player", opponents: "list[Player]", rounds: int, matches: int, seed: int, jobs: int, path: Path
) -> "Arena":
    from ..games import arena as run

    with _progress(player.name) as told:
        return run(player, opponents, rounds, matches, seed, path=path, jobs=jobs, progress=told)


def _halves(found: "Arena") -> dict[str, list[str]]:
    """The names of both halves, if all programs took part."""
    from ..games.open_spiel import bots

    halves = {half: [bot.name for bot in bots(half)] for half in ("A", "B")}
    return halves if set(found.opponents) == {name for names in halves.values() for name in names} else {}


def _scores(found: "list[Arena]", title: str) -> "Table":
    from ..tables import Table

    header = (
        "player",
        "population",
        "worst",
        "of",
        "worst, split",
        "aggregate",
        "ms per throw",
        "alarms",
        "certificate",
    )
    held = {True: "held", False: "broken", None: ""}
    rows = (
        (
            one.player,
            str(one.population),
            str(one.worst),
            one.worst_opponent,
            "" if one.worst_split is None else str(one.worst_split),
            str(one.aggregate),
            f"{one.ms:.3f}",
            str(one.alarms),
            held[one.held],
        )
        for one in found
    )
    return Table(f"{title}: payoff of a match ± standard error", header, tuple(rows))


def _write(found: "list[Arena]", out: Path) -> None:
    from ..games.scores import picture

    png = io.BytesIO()
    picture(found).savefig(png, format="png", dpi=150)
    told = []
    for one in found:
        halves = {half: one.only(names).summary() for half, names in _halves(one).items()}
        told.append({**json.loads(one.to_json()), "halves": halves})
    numbers = json.dumps({"format": 1, "players": told}, allow_nan=False).encode()
    files.replace_all({out / FIGURE: png.getvalue(), out / NUMBERS: numbers})


@contextlib.contextmanager
def _progress(name: str) -> Iterator[Callable[[float, str], None]]:
    """A progress bar of the matches, on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(file=sys.stderr)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=1.0)

        def told(share: float, opponent: str) -> None:
            bar.update(task, completed=share, description=f"{name} against {opponent}")

        yield told


def play(
    game: Annotated[str, typer.Option(help="rock-paper-scissors or matching-pennies.")] = "rock-paper-scissors",
    rounds: Annotated[int, typer.Option(min=2, max=10_000, help="Rounds of a new game.")] = 300,
    new: Annotated[bool, typer.Option("--new", help="Begin a new game instead of continuing the last one.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the record of your games.")] = Path("results/play"),
    host: Annotated[
        str, typer.Option(help="The address to listen on. Any other than the default lets others on your network play.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = 0,
    open_: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open it in a browser; by default on a terminal."),
    ] = None,
) -> None:
    """Play against the machine in your browser, and watch its regret, its promise and the evidence against it.

    Every round is kept: the same command continues where you stopped.
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
                    typer.echo(f"Continuing at round {sitting.number + 1}; --new begins a new game.")
                typer.echo(f"Play at {address} (Ctrl-C to stop); your rounds are kept in {path}")
                if sys.stdout.isatty() if open_ is None else open_:
                    import webbrowser

                    webbrowser.open(address)

            with resumable(lambda: f"at round {sitting.number + 1}"):
                server.serve(sitting, listening, host, ready)


def _address(name: tuple) -> str:
    """The address of a socket, for a browser on this machine."""
    host, port = name[0], name[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
