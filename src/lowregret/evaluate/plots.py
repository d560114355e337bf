"""Pictures of what was found (Figure 1 and beyond); every function returns matplotlib Axes (extra: ``cli``).

The colours suit colour-blind readers, and every line also has its own style. Figures keep a white background, so that
they look the same on a dark page as in print.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import to_numpy
from ..robust import Robust

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Okabe and Ito's palette.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (3, 3)), (0, (7, 2)))


def regret_curves(comparison: Any, *, titles: dict[str, str] | None = None) -> "np.ndarray[Any, Any]":
    """One panel per source: mean regret after t steps with its 95% band; a dot marks the median switch.

    Parameters
    ----------
    titles
        What to write above each source; its name by default.
    """
    plt = pyplot()
    sources, names = comparison.sources, comparison.predictors
    columns = min(4, len(sources))
    rows = math.ceil(len(sources) / columns)
    abreast = min(len(names), 2 * columns)  # in the legend
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(3 * columns, 2.4 * rows + 0.25 + 0.25 * math.ceil(len(names) / abreast)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    figure.set_facecolor("white")
    horizon = comparison.horizon
    shown = np.unique(np.append(np.arange(min(horizon, 64)), np.arange(0, horizon, max(1, horizon // 256))))
    shown = np.append(shown, horizon - 1)  # every early step, then enough for the eye
    settled = slice(max(horizon // 16 - 1, 0), None)  # the first steps swing too far to share a scale
    mean, band = comparison.regret_PxWxT, 1.96 * comparison.error_PxWxT
    for w, source in enumerate(sources):
        ax = axes.flat[w]
        ax.axhline(0, color="#999999", linewidth=0.8, zorder=0)
        for i, name in enumerate(names):
            colour = COLOURS[i % len(COLOURS)]
            line, width = mean[i, w, shown], band[i, w, shown]
            ax.plot(shown + 1, line, color=colour, linestyle=DASHES[i % len(DASHES)], linewidth=1.4, label=name)
            ax.fill_between(shown + 1, line - width, line + width, color=colour, alpha=0.2, linewidth=0)
            at = np.median(comparison.times_WxPxN[w][i])  # 0 for a player that cannot switch
            if 0 < at <= horizon:
                ax.plot(at, mean[i, w, int(at) - 1], "o", color=colour, markersize=4.5, markeredgecolor="white")
        ax.locator_params(axis="x", nbins=4)
        ax.set_title((titles or {}).get(source, source), fontsize=10)
        plain(ax)
    for ax in axes.flat[len(sources) :]:
        ax.set_visible(False)
    low, high = float((mean - band)[..., settled].min()), float((mean + band)[..., settled].max())
    axes[0, 0].set_ylim(low - 0.06 * (high - low), high + 0.06 * (high - low))
    axes[0, 0].set_xlim(0, horizon)
    plt.setp(axes[-1], xlabel="steps")
    plt.setp(axes[:, 0], ylabel="average regret")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=abreast, frameon=False, handlelength=2.8)
    return axes


def evidence(robust: Robust, tokens: Any, *, ax: "Axes | None" = None, names: list[str] | None = None) -> "Axes":
    """The test's evidence against its threshold over time, for a few sequences ``[..., T]``; a dot marks an alarm."""
    if ax is None:
        figure, ax = pyplot().subplots(figsize=(6.4, 3.6), layout="constrained")
        figure.set_facecolor("white")
    tokens_BxT = to_numpy(tokens).reshape(-1, np.shape(tokens)[-1])
    T, memory, seen = tokens_BxT.shape[1], robust.start(tokens_BxT.shape[:1]), []
    for t in range(T):
        memory = robust.update(memory, tokens_BxT[:, t])
        seen.append(to_numpy(robust.evidence(memory)[0]))
    statistic_BxT, needed = np.stack(seen, axis=-1), robust.evidence(memory)[1]
    step_T = np.arange(1, T + 1)
    ax.plot(step_T, np.full(T, needed), color="#555555", linestyle="--", linewidth=1.2, label="threshold")
    for i, (line, alarm) in enumerate(zip(statistic_BxT, to_numpy(robust.alarm_times(tokens_BxT)), strict=True)):
        colour, name = COLOURS[i % len(COLOURS)], names[i] if names else f"sequence {i}"
        ax.plot(step_T, line, color=colour, linestyle=DASHES[i % len(DASHES)], linewidth=1.2, label=name)
        if alarm <= T:
            ax.plot(alarm, line[alarm - 1], "o", color=colour, markersize=5, markeredgecolor="white")
    # What happens far above the threshold does not matter: keep the crossing in view.
    finite = statistic_BxT[np.isfinite(statistic_BxT)]
    low, high = (float(finite.min()), float(np.abs(finite).max())) if finite.size else (-1.0, 1.0)
    scale = needed if needed > 1e-9 else high or 1.0  # some tests tell what is above their threshold, which is then 0
    ax.set_ylim(max(low, needed - 2.5 * scale) - 0.05 * scale, needed + 1.5 * scale)
    ax.set_xlim(0, T)
    ax.set_xlabel("steps")
    ax.set_ylabel(f"evidence of {type(robust.setting.test).__name__}")
    ax.legend(frameon=False, fontsize=9)
    plain(ax)
    return ax


def plain(ax: "Axes") -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)
    ax.grid(axis="y", color="#EEEEEE", linewidth=0.8)
    ax.set_axisbelow(True)


def pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'lowregret[cli]'") from error
    return plt
