"""The standings as a table, a figure, JSON, and the tables of the documentation.

``python -m benchmarks.decisions.report FOLDER`` puts what a run has left in that folder into the documentation.
"""

import json
import math
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lowregret.tables import Table

from .scores import Rate, Score

DETECTORS = ("ADWIN", "PageHinkley", "KSWIN", "DDM", "CUSUM", "rolling threshold")


class Standing(NamedTuple):
    """An entrant with a setting, on both halves."""

    entrant: str
    tuned: dict[str, Any] | None  # the setting chosen on the training half; None for its own default
    promise: str
    training: Score
    scored: Score

    @property
    def name(self) -> str:
        return self.entrant if self.tuned is None else f"{self.entrant}, tuned"


HEADER = (
    "entrant",
    "money",
    "kept",
    "saved",
    "worst stream",
    "most behind",
    "false alarms",
    "heard",
    "delay",
    "adversary",
    "late",
    "streams",
)


def stored(standings: Sequence[Standing], about: dict[str, Any]) -> dict[str, Any]:
    """All of it, as it is written to a file, by money on the scored half; speeds, which vary, stand apart."""

    def numbers(found: Score) -> dict[str, Any]:
        kept = {key: value for key, value in found._asdict().items() if key != "microseconds"}
        kept["by_regime"] = {name: _rate(rate) for name, rate in found.by_regime.items()}
        return {key: _rate(value) if isinstance(value, Rate) else value for key, value in kept.items()}

    ranked = sorted(standings, key=lambda one: -one.scored.money)
    rows = [
        {
            "entrant": one.name,
            "setting": None if one.tuned is None else {key: repr(value) for key, value in one.tuned.items()},
            "promise": one.promise,
            "training": numbers(one.training),
            "scored": numbers(one.scored),
        }
        for one in ranked
    ]
    return {**about, "standings": rows, "microseconds": {one.name: one.scored.microseconds for one in ranked}}


def _rate(rate: Rate) -> dict[str, float]:
    return {**rate._asdict(), "share": rate.share}


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    by, alarms, heard = one["scored"], one["scored"]["false_alarms"], one["scored"]["heard"]
    return (
        one["entrant"],
        _number(by["money"]),
        _number(by["kept"]),
        _number(by["saved"]),
        _number(by["worst"], 2),
        _number(by["behind"], 2),
        "" if alarms is None else f"{alarms['share']:.3f} ({alarms['low']:.3f}-{alarms['high']:.3f})",
        "" if heard is None else _number(heard["share"], 2),
        _number(by["delay"], 0),
        _number(by["adversary"], 2),
        _number(by["late"]),
        str(by["streams"]),
    )


def table_of(found: dict[str, Any]) -> Table:
    """The scored half, with speeds."""
    speed = found["microseconds"]
    rows = [(*_row(one), _number(speed[one["entrant"]], 1)) for one in found["standings"]]
    return Table("Scored half", (*HEADER, "us a step"), tuple(rows))


def page_of(found: dict[str, Any]) -> str:
    """The same in Markdown, without the speed, which no two runs have in common."""
    lines = [list(HEADER), ["---", *["--:"] * (len(HEADER) - 1)], *(list(_row(one)) for one in found["standings"])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def sentence_of(found: dict[str, Any]) -> str:
    """The README's: doing nothing, the drift detector that earned most, and the guard."""
    by_name = {one["entrant"]: one["scored"] for one in found["standings"]}
    detector = max(own["money"] for name, own in by_name.items() if name.startswith(DETECTORS) and "an urn" in name)
    alarms = by_name["guard"]["false_alarms"]["share"]
    return (
        "On [35 streams of forecasts](docs/evidence/benchmark.md), with and without breaks, where always picking the "
        "better of the model and recent frequencies scores 1, acting on the model scored "
        f"{by_name['the model']['money']:.2f}, the best drift detector alone {detector:.2f}, and `lr.Guard(problem)` "
        f"{by_name['guard']['money']:.2f}, with {alarms:.1%} false alarms.\n"
    )


def dominating(found: dict[str, Any], ours: str = "guard") -> list[str]:
    """Who promises something and kept as much, saved as much and alarmed falsely no more often than ours."""

    def three(one: dict[str, Any]) -> tuple[float, float, float]:
        by = one["scored"]
        return by["kept"], by["saved"], -(0.0 if by["false_alarms"] is None else by["false_alarms"]["share"])

    mine = three(next(one for one in found["standings"] if one["entrant"] == ours))
    return [
        one["entrant"]
        for one in found["standings"]
        if one["promise"] and all(a >= b for a, b in zip(three(one), mine, strict=True)) and three(one) != mine
    ]


def figure(found: dict[str, Any], path: Path) -> None:
    """Kept where nothing breaks against saved where something does; names stand beside, in the order of the second."""
    from lowregret.evaluate.plots import plain, pyplot

    plt = pyplot()
    fig, ax = plt.subplots(figsize=(10, 9))
    rows = sorted(found["standings"], key=lambda one: one["scored"]["saved"])
    low, high = LEAST, max(one["scored"]["saved"] for one in rows)
    for place, one in enumerate(rows):
        ours, x, y = one["entrant"].startswith("guard"), max(one["scored"]["kept"], LEAST_KEPT), one["scored"]["saved"]
        colour, at = "C0" if ours else "0.35", low + (high - low) * place / (len(rows) - 1)
        ax.plot(x, y, "o" if one["promise"] else "x", color=colour, ms=8 if ours else 5, zorder=3 if ours else 2)
        ax.plot([x, ASIDE], [y, at], color=colour, lw=0.3, alpha=0.6, clip_on=False, zorder=1)
        ax.text(ASIDE + 0.004, at, one["entrant"], fontsize=7, color=colour, va="center")
    ax.axvline(1, color="0.85", lw=0.8, zorder=0)
    ax.set_xlim(LEAST_KEPT - 0.02, 1.06)
    ax.set_ylim(low - 0.05, high + 0.05)
    ax.set_xlabel("kept where nothing breaks (1: as much as the model)")
    ax.set_ylabel("saved where something breaks (1: the better of model and fallback)")
    ax.set_title("dots promise something, crosses nothing; ours in blue", fontsize=8, color="0.35", loc="left")
    plain(ax)
    fig.subplots_adjust(left=0.08, right=0.62, top=0.96, bottom=0.07)
    fig.savefig(path, dpi=130)
    plt.close(fig)


LEAST, LEAST_KEPT, ASIDE = -0.05, 0.4, 1.09  # where the picture ends, and where names begin


def in_pages(found: dict[str, Any]) -> dict[Path, str]:
    """The pages with its tables in their places."""
    pages = {}
    for path, name, table in (
        (ROOT / "docs/evidence/benchmark.md", "standings", page_of(found)),
        (ROOT / "README.md", "benchmark", sentence_of(found)),
    ):
        text, mark = path.read_text(), f"<!-- {name} -->"
        pages[path] = re.sub(f"{mark}\n.*?{mark}", lambda _, m=mark, t=table: f"{m}\n{t}{m}", text, flags=re.S)
    return pages


ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs/results/decisions.json"


def main() -> None:
    folder = Path(sys.argv[1])
    shutil.copy(folder / "decisions.json", KEPT)
    shutil.copy(folder / "decisions.png", ROOT / "docs/images/decisions.png")
    for path, text in in_pages(json.loads(KEPT.read_text())).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
