"""Section 5.2 with exact predictors in place of trained ones: six players on the eight sources, and at their worst."""

import json
from pathlib import Path
from typing import NamedTuple

import typer

from lowregret import ExactTest, PolyaUrn, Predictor, RegretGap, RegretRate, matching
from lowregret.certificates.promises import Unproved
from lowregret.evaluate import Comparison, adversaries, compare
from lowregret.evaluate.adversaries import Worst
from lowregret.evaluate.sources import paper_sources
from lowregret.robust.robustify import Robust, robustify
from lowregret.tables import Table

from .two_sided import worst_two_sided

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


def at_worst(name: str, player: Predictor, horizon: int) -> AtWorst:
    """The worst sequence that an adversary finds against a player: the exact one where that is to be had."""
    coin = matching()
    by_gap = isinstance(player, Robust) and isinstance(player.setting.test, RegretGap)
    found = adversaries.beam(player, coin, horizon, width=256 if by_gap else 64)
    try:
        if isinstance(player, Robust) and by_gap:
            bounded = worst_two_sided(player, horizon)
        else:
            bounded = adversaries.exact_worst_case(player, coin, horizon)
        found = bounded if bounded.regret >= found.regret else found._replace(upper=bounded.upper)
    except ValueError:
        pass  # it depends on more than counts: the beam's sequence is what there is
    if isinstance(player, Robust):
        given = player.certificate.sharpen()
        proved = not isinstance(given.promise, Unproved)
        return AtWorst(name, found, *((given.regret_bound, given.tv_bound) if proved else (None, None)))
    return AtWorst(name, found, found.regret if found.exact else None, None)


def demo(horizon: int, n: int, seed: int, out: Path) -> None:
    """The tables on the terminal; figure, tables and worst sequences as PNG, SVG and JSON in a folder."""
    from lowregret.evaluate import plots

    plots.pyplot()  # if it is missing, it is missed before the work
    out.mkdir(parents=True, exist_ok=True)
    everyone = players(horizon)
    typer.echo("six players on eight sources ...")
    found = compare(everyone, paper_sources(horizon), matching(), horizon, n, seed)
    with typer.progressbar(everyone.items(), label="and against an adversary") as attacked:
        worst = [at_worst(name, player, horizon) for name, player in attacked]
    typer.echo(f"\n{_regret_table(found)}\n")
    error = max(cell.error for cell in found.cells)
    typer.echo(f"Guessing the next bit; {n} sequences a source, seed {seed}; standard errors <= {error:.4f}.")
    typer.echo("Ber model: source b itself; the columns after the urn: robust versions of it.")
    typer.echo("ExactTest: delta = 2/T, then the urn for good; Recovery: the same test, then a")
    typer.echo("mixture from which the model can return. No @: fewer than half switched.")
    typer.echo(f"\n{_worst_table(found, worst)}\n")
    draw(found, out)
    (out / "demo.json").write_text(_as_json(found, worst))
    typer.echo(f"Written to {out}: regret.png, regret.svg, demo.json")


def _regret_table(found: Comparison) -> Table:
    shown = {}
    for cell in found.cells:
        switch = "" if cell.switch is None else f"@{cell.switch:.0f}"
        shown[cell.source, cell.predictor] = f"{cell.regret.value:+.3f}{switch}"
    rows = tuple((TITLES[w], *(shown[w, p] for p in found.predictors)) for w in found.sources)
    return Table(f"Mean regret after {found.horizon} steps, @ median switch time", ("source", *found.predictors), rows)


def _worst_table(found: Comparison, worst: list[AtWorst]) -> Table:
    at_home = {cell.predictor: cell.switched for cell in found.cells if cell.source == "b"}
    rows = []
    for row in worst:
        share = at_home[row.player]
        rows.append(
            (
                row.player,
                f"{row.worst.regret:.4f}",
                "exact" if row.worst.exact else row.worst.found_by,
                "none" if row.regret_bound is None else f"<= {row.regret_bound:.4f}",
                "" if row.tv_bound is None else f"<= {row.tv_bound:.4f}",
                "" if share is None else f"{share:.4f}",
            )
        )
    header = ("player", "worst regret", "found by", "guarantee", "TV", "switched on b")
    return Table("Against an adversary, beside the certificate", header, tuple(rows))


def draw(found: Comparison, out: Path) -> None:
    """The 2 x 4 figure as ``regret.png`` and ``regret.svg``: the same numbers give the same files."""
    import matplotlib

    from lowregret.evaluate import plots

    with matplotlib.rc_context({"svg.hashsalt": "lowregret"}):
        figure = plots.regret_curves(found, titles=TITLES)[0, 0].figure
        figure.savefig(out / "regret.png", dpi=150)
        figure.savefig(out / "regret.svg", metadata={"Date": None})
    plots.pyplot().close(figure)


def _as_json(found: Comparison, worst: list[AtWorst]) -> str:
    adversary = {
        row.player: {
            **row.worst._asdict(),
            "tokens": "".join(map(str, row.worst.tokens.tolist())),
            "regret_bound": row.regret_bound,
            "tv_bound": row.tv_bound,
        }
        for row in worst
    }
    return json.dumps({**json.loads(found.to_json()), "adversary": adversary}) + "\n"
