"""The standings as a table, a figure, JSON, and the tables of the documentation."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lowregret.tables import Table

from .scores import Rate, Score


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


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _rate(rate: Rate | None) -> str:
    return "" if rate is None else f"{rate.share:.3f} ({rate.low:.3f}-{rate.high:.3f})"


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
    "us a step",
    "streams",
)


def _row(one: Standing) -> tuple[str, ...]:
    by = one.scored
    return (
        one.name,
        _number(by.money),
        _number(by.kept),
        _number(by.saved),
        _number(by.worst, 2),
        _number(by.behind, 2),
        _rate(by.false_alarms),
        _number(None if by.heard is None else by.heard.share, 2),
        _number(by.delay, 0),
        _number(by.adversary, 2),
        _number(by.late),
        _number(by.microseconds, 1),
        str(by.streams),
    )


def ranked(standings: Sequence[Standing]) -> list[Standing]:
    return sorted(standings, key=lambda one: -one.scored.money)


def table_of(standings: Sequence[Standing]) -> Table:
    """The scored half, by money."""
    return Table("Scored half", HEADER, tuple(map(_row, ranked(standings))))


def page_of(standings: Sequence[Standing]) -> str:
    """The same in Markdown, without the speed, which no two runs have in common."""
    kept = [i for i, name in enumerate(HEADER) if name != "us a step"]
    lines = [[HEADER[i] for i in kept], ["---", *["--:"] * (len(kept) - 1)]]
    lines += [[_row(one)[i] for i in kept] for one in ranked(standings)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def dominating(standings: Sequence[Standing], ours: str = "guard") -> list[str]:
    """Who promises something and kept more, saved more and alarmed falsely less than ours."""

    def three(one: Standing) -> tuple[float, float, float]:
        rate = one.scored.false_alarms
        return one.scored.kept, one.scored.saved, -(0.0 if rate is None else rate.share)

    mine = three(next(one for one in standings if one.name == ours))
    return [
        one.name
        for one in standings
        if one.promise and all(a >= b for a, b in zip(three(one), mine, strict=True)) and three(one) != mine
    ]


def stored(standings: Sequence[Standing], about: dict[str, Any]) -> dict[str, Any]:
    """All of it, for a file; speeds are apart."""

    def numbers(found: Score) -> dict[str, Any]:
        kept = {key: value for key, value in found._asdict().items() if key != "microseconds"}
        kept["by_regime"] = {name: rate._asdict() for name, rate in found.by_regime.items()}
        return {key: value._asdict() if isinstance(value, Rate) else value for key, value in kept.items()}

    rows = [
        {
            "entrant": one.name,
            "setting": None if one.tuned is None else {key: repr(value) for key, value in one.tuned.items()},
            "promise": one.promise,
            "training": numbers(one.training),
            "scored": numbers(one.scored),
        }
        for one in ranked(standings)
    ]
    speed = {one.name: one.scored.microseconds for one in ranked(standings)}
    return {**about, "standings": rows, "microseconds": speed}


def figure(standings: Sequence[Standing], path: Path) -> None:
    """Kept where nothing breaks against saved where something does; up and to the right is better."""
    from lowregret.plots import plain, pyplot

    plt = pyplot()
    fig, ax = plt.subplots(figsize=(8, 6))
    for one in standings:
        ours = one.entrant.startswith("guard")
        at = max(one.scored.kept, -0.5), max(one.scored.saved, -0.5)
        ax.plot(*at, "o" if one.promise else "x", color="C0" if ours else "0.4", ms=7 if ours else 5)
        ax.annotate(one.name, at, xytext=(5, 3), textcoords="offset points", fontsize=7, color="C0" if ours else "0.3")
    ax.axhline(0, color="0.85", lw=0.8, zorder=0)
    ax.axvline(1, color="0.85", lw=0.8, zorder=0)
    ax.set_xlabel("kept where nothing breaks (1: as much as the model)")
    ax.set_ylabel("saved where something breaks (1: the better of model and fallback)")
    plain(ax)
    fig.tight_layout()
    fig.savefig(path, dpi=150)
    plt.close(fig)
