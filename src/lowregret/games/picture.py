"""The picture of an arena: what was earned of each opponent, one colour a player."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..plots import COLOURS, plain, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = "osD^vP*"


def picture(arenas: Sequence[Any]) -> "Figure":
    """Every opponent's mean with twice its standard error, in the order of the first player's; dashes: populations."""
    plt = pyplot()
    first = arenas[0]
    names = sorted(first.opponents, key=lambda name: first.by_opponent[name].value)
    figure, ax = plt.subplots(figsize=(7, 1.6 + 0.19 * len(names)), layout="constrained")
    figure.set_facecolor("white")
    ax.axvline(0, color="#999999", linewidth=0.8, zorder=0)
    for i, arena in enumerate(arenas):
        colour = COLOURS[i % len(COLOURS)]
        there = [(y, arena.by_opponent[name]) for y, name in enumerate(names) if name in arena.by_opponent]
        shift = 0.6 * ((i + 0.5) / len(arenas) - 0.5)
        ax.errorbar(
            [score.value for _, score in there],
            [y + shift for y, _ in there],
            xerr=[2 * score.error for _, score in there],
            fmt=_MARKS[i % len(_MARKS)],
            color=colour,
            markersize=3.5,
            elinewidth=1,
            label=f"{arena.player}: {arena.population.value:.0f} {arena.worst.value:+.0f}",
        )
        ax.axvline(arena.population.value, color=colour, linestyle="--", linewidth=1)
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.set_xlabel(f"payoff of a match of {first.rounds} rounds (bars: two standard errors)")
    figure.legend(loc="outside upper center", ncols=min(len(arenas), 4), frameon=False, fontsize=9)
    plain(ax)
    return figure
