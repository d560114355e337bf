"""Section 5.2 with exact predictors in place of trained ones: five players on the eight sources."""

from ..compare import Cell, compare
from ..predictors import PolyaUrn, Predictor
from ..problems import matching
from ..robust import Robust
from ..rules import ExactTest, RegretGap, RegretRate
from ..sources import paper_sources


def players(horizon: int) -> dict[str, Predictor]:
    """The model of source b, the urn, and the model robustified by each rule (delta = 2/T, no gate)."""
    coin, model = matching(), paper_sources(horizon)["b"]
    return {
        "Ber model": model,
        "urn": PolyaUrn(2),
        "RegretRate": Robust(model, RegretRate(coin, horizon)),
        "RegretGap": Robust(model, RegretGap(coin, horizon)),
        "ExactTest": Robust(model, ExactTest(coin, horizon, delta=2 / horizon, gate=0)),
    }


TITLES = {
    "a": "a 2/3, 1/3",
    "b": "b 1/3, 2/3",
    "c": "c 1/3",
    "d": "d 2/3",
    "sin2": "drift T/2",
    "sin5": "drift T/5",
    "sin10": "drift T/10",
    "sin20": "drift T/20",
}


def show(horizon: int, n: int, seed: int) -> None:
    """The table on the terminal, with progress and the certificates behind it."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    console = Console()
    everyone = players(horizon)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("sampling and playing", total=1.0)

        def report(done: float, player: str, source: str) -> None:
            progress.update(task, completed=done, description=f"{player} on {TITLES[source]}")

        found = compare(everyone, paper_sources(horizon), matching(), horizon, n, seed, progress=report)
    grid = {(cell.source, cell.predictor): cell for cell in found.cells}
    heading = f"Mean regret after {horizon} steps (median switch time)"
    table = Table(title=heading, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("source", no_wrap=True)
    for name in everyone:
        table.add_column(name, justify="right", no_wrap=True)
    for source, title in TITLES.items():
        table.add_row(title, *(_text(grid[source, name]) for name in everyone))
    console.print(table)
    worst = max(cell.error for cell in found.cells)
    console.print(f"Guessing the next bit. {n} sequences a source, seed {seed}; standard errors up to {worst:.4f}.")
    console.print("The Ber model knows source b; its robust versions keep the gain there, and lose less elsewhere.\n")
    for name, player in everyone.items():
        if isinstance(player, Robust):
            given, home = player.certificate, grid["b", name]
            promise = f"regret <= {given.regret_bound:.4f}, TV <= {given.tv_bound:.4f}" if given.terms else "none"
            console.print(f"{name:10s}  guarantee: {promise}; switched on b: {home.switched:.4f}", highlight=False)


def _text(cell: Cell) -> str:
    regret = cell.regret.value
    colour = "red" if regret > 0.05 else "green" if regret < -0.05 else ""
    number = f"[{colour}]{regret:+.4f}[/]" if colour else f"{regret:+.4f}"
    return number if cell.switch is None else f"{number} ({cell.switch:.0f})"
