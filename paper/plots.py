"""Pictures of what robustness costs and of what bounded context cannot do (extra: ``cli``)."""

from typing import TYPE_CHECKING, Any

import numpy as np

from lowregret.evaluate.plots import COLOURS, DASHES, _one, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def frontier(found: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Utility given up while the model is right against the worst regret: as promised, and as an adversary found."""
    ax = _one(ax)
    rows = sorted(found.rows, key=lambda row: row.given_up.value)
    x = np.array([row.given_up.value for row in rows])
    spread = np.array([[row.given_up.value - row.given_up.low, row.given_up.high - row.given_up.value] for row in rows])
    for values, marker, style, what in (
        ([row.certificate for row in rows], "o", "-", "certificate"),
        ([row.regret for row in rows], "v", ":", "found"),
    ):
        ax.errorbar(
            x,
            values,
            xerr=spread.T,
            color=COLOURS[0],
            marker=marker,
            markersize=5,
            linestyle=style,
            linewidth=1.2,
            elinewidth=0.7,
            label=what,
        )
    ax.axhline(found.base_regret, color="#555555", linestyle="--", linewidth=1, label="found against the base")
    ax.set_xlabel("utility given up a step while the model is right")
    ax.set_ylabel("worst regret a step")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize=8, ncols=2)
    plain(ax)
    return ax


def impossibility(found: Any, *, ax: "Axes | None" = None) -> "Axes":
    """Regret under M1 against the distance from M0 (Theorem 4.1): what no model can do, and the best models found."""
    ax = _one(ax)
    full, tv = found.least_regret(0.0), np.linspace(0, 1, 201)
    bound = np.array([found.least_regret(at) for at in tv])
    low, high = -1.3 * full, 1.3 * full
    rows = sorted(found.rows, key=lambda row: row.found.tv)
    x, y = np.array([(row.found.tv, row.found.regret) for row in rows]).T
    ax.axhline(0, color="#999999", linewidth=0.8, zorder=1)
    ax.fill_between(tv, low, bound, color=COLOURS[1], alpha=0.12, linewidth=0)
    ax.plot(tv, bound, color=COLOURS[1], linestyle=DASHES[1], linewidth=1.6, label="bound")
    ax.plot(x, y, "o-", color=COLOURS[0], linewidth=1.6, markersize=5, markeredgecolor="white", label="best found")
    printed = found.printed
    ax.plot([0, 1], [printed, printed - 1], color=COLOURS[6], linestyle=DASHES[3], linewidth=1.4, label="printed")
    ax.plot([0, 1], [full, -full], "o", color=COLOURS[6], markersize=6, clip_on=False, zorder=4)
    for text, at, shift, side, colour in (
        ("M0", (0, full), (8, 5), "left", COLOURS[6]),
        ("M1", (1, -full), (-10, -14), "right", COLOURS[6]),
        ("best model found", (0.4, np.interp(0.4, x, y)), (6, 6), "left", COLOURS[0]),
        ("no model lies below", (0.45, found.least_regret(0.45)), (-8, -16), "right", "#A34700"),
        ("the paper: TV + regret = 1/12", (printed + 0.9 * full, -0.9 * full), (8, -3), "left", COLOURS[6]),
    ):
        ax.annotate(text, at, shift, textcoords="offset points", ha=side, color=colour, fontsize=9)
    ax.set_xlim(0, 1)
    ax.set_ylim(low, high)
    ax.set_xlabel("TV from M0")
    ax.set_ylabel("expected regret under M1")
    ax.set_title(f"Models with a context of {found.window}, {2 * found.window} steps", fontsize=10)
    plain(ax)
    return ax
