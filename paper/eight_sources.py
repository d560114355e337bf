"""Section 5.2 with exact predictors in place of trained ones: six players on the eight sources, and at their worst."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lowregret import files
from lowregret.certificates.promises import Unproved
from lowregret.engine import ExactTest
from lowregret.evaluate import Comparison, adversaries, compare
from lowregret.evaluate.adversaries import Worst
from lowregret.evaluate.comparison import Cell
from lowregret.evaluate.sources import paper_sources
from lowregret.predictors import PolyaUrn, Predictor
from lowregret.problems import matching
from lowregret.robust.robustify import Robust, robustify
from lowregret.rules import RegretGap, RegretRate
from lowregret.tables import print_table

if TYPE_CHECKING:
    from rich.console import Console

Rows = tuple[str, list[str], list[list[str]]]  # title, header, rows
FILES = ("regret.png", "regret.svg", "demo.json")
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


def players(horizon: int) -> dict[str, Predictor]:
    """The model of source b, the urn, and the model robustified by each test (the exact test's delta is 2/T).

    All fall back on the urn for good but the last, which is the default: after an alarm the model can return.
    """
    coin, model, urn = matching(), paper_sources(horizon)["b"], PolyaUrn(2)
    return {
        "Ber model": model,
        "urn": urn,
        "RegretRate": robustify(model, coin, test=RegretRate(horizon)),
        "RegretGap": robustify(model, coin, test=RegretGap(horizon)),
        "ExactTest": robustify(model, coin, test=ExactTest(2 / horizon, horizon), fallback=urn),
        "Recovery": robustify(model, coin, test=ExactTest(2 / horizon, horizon)),
    }


class AtWorst(NamedTuple):
    """One player against an adversary, beside what is promised."""

    player: str
    worst: Worst
    regret_bound: float | None  # None: nothing is promised
    tv_bound: float | None


def at_worst(name: str, player: Predictor, horizon: int, width: int = 64) -> AtWorst:
    """The worst sequence that an adversary finds against a player: the exact one where that is to be had."""
    coin = matching()
    found = adversaries.beam(player, coin, horizon, width=width)
    try:
        exact = adversaries.exact_worst_case(player, coin, horizon)
        found = exact if exact.regret >= found.regret else found._replace(upper=exact.upper)
    except ValueError:
        pass  # it depends on more than counts: the beam's sequence is what there is
    if isinstance(player, Robust):
        given = player.certificate.sharpen()
        proved = not isinstance(given.promise, Unproved)
        return AtWorst(name, found, *((given.regret_bound, given.tv_bound) if proved else (None, None)))
    return AtWorst(name, found, found.regret if found.exact else None, None)


def demo(horizon: int, n: int, seed: int, out: Path) -> None:
    """The tables on the terminal; figure, tables and worst sequences as PNG, SVG and JSON in a folder."""
    import matplotlib  # noqa: F401  (missing, it is missed before the work)
    from rich.console import Console
    from rich.progress import Progress

    console = Console()
    everyone = players(horizon)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=len(TITLES) + len(everyone))

        def report(done: float, player: str, source: str) -> None:
            progress.update(task, completed=done * len(TITLES), description=f"{player} on {TITLES[source]}")

        found = compare(everyone, paper_sources(horizon), matching(), horizon, n, seed, progress=report)
        worst = []
        for i, (name, player) in enumerate(everyone.items()):
            progress.update(task, completed=len(TITLES) + i, description=f"an adversary against {name}")
            worst.append(at_worst(name, player, horizon))
    print_table(console, *_regret_table(found))
    error = max(cell.error for cell in found.cells)
    console.print(f"Guessing the next bit; {n} sequences a source, seed {seed}; std errors <= {error:.4f}.")
    console.print("Ber model: source b's own law; the columns after the urn: robust versions of it.")
    console.print("No time in brackets: fewer than half switched. ExactTest: delta = 2/T, then the urn for good;")
    console.print("Recovery: the same test, then a mixture from which the model can return.\n")
    print_table(console, *_worst_table(found, worst))
    _write(console, found, worst, out)


def _regret_table(found: Comparison) -> Rows:
    grid = {(cell.source, cell.predictor): cell for cell in found.cells}
    rows = [[TITLES[w], *(_regret(grid[w, p]) for p in found.predictors)] for w in found.sources]
    return f"Mean regret after {found.horizon} steps (median switch time)", ["source", *found.predictors], rows


def _worst_table(found: Comparison, worst: list[AtWorst]) -> Rows:
    at_home = {cell.predictor: cell.switched for cell in found.cells if cell.source == "b"}
    rows = []
    for row in worst:
        share = at_home[row.player]
        rows.append(
            [
                row.player,
                f"{row.worst.regret:.4f}",
                "exact" if row.worst.exact else row.worst.found_by,
                "none" if row.regret_bound is None else f"<= {row.regret_bound:.4f}",
                "" if row.tv_bound is None else f"<= {row.tv_bound:.4f}",
                "" if share is None else f"{share:.4f}",
            ]
        )
    header = ["player", "worst regret", "found by", "guarantee", "TV", "switched on b"]
    return "Against an adversary, beside the certificate", header, rows


def _regret(cell: Cell) -> str:
    regret = cell.regret.value
    colour = "red" if regret > 0.05 else "green" if regret < -0.05 else ""
    number = f"[{colour}]{regret:+.4f}[/]" if colour else f"{regret:+.4f}"
    return number if cell.switch is None else f"{number} ({cell.switch:.0f})"


def _write(console: "Console", found: Comparison, worst: list[AtWorst], out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "lowregret"  # the same run gives the same file
    from lowregret.evaluate import plots

    figure, png, svg = plots.regret_curves(found, titles=TITLES)[0, 0].figure, io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=150)
    figure.savefig(svg, format="svg", metadata={"Date": None})
    matplotlib.pyplot.close(figure)
    numbers = json.dumps(_as_json(found, worst)) + "\n"
    contents = png.getvalue(), svg.getvalue(), numbers.encode()
    files.replace_all({out / name: data for name, data in zip(FILES, contents, strict=True)})
    console.print(f"Written to {out}: {', '.join(FILES)}", highlight=False, markup=False, soft_wrap=True)


def _as_json(found: Comparison, worst: list[AtWorst]) -> dict[str, Any]:
    adversary = {
        row.player: {
            "regret": row.worst.regret,
            "exact": row.worst.exact,
            "upper": row.worst.upper,
            "found_by": row.worst.found_by,
            "tokens": "".join(map(str, row.worst.tokens.tolist())),
            "regret_bound": row.regret_bound,
            "tv_bound": row.tv_bound,
        }
        for row in worst
    }
    return {**json.loads(found.to_json()), "adversary": adversary}
