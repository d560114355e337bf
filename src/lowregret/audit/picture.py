"""One figure that answers the question: money over time, the evidence and what it asks for, and every switch."""

import itertools
from typing import Any

import numpy as np

from ..guard import Return, Switch
from ..plots import COLOURS, plain, pyplot

_LOOKS = {
    "model": (COLOURS[1], "-", 1.6),
    "guard": (COLOURS[0], "-", 2.0),
    "fallback": (COLOURS[2], "--", 1.2),
    "Hedge": (COLOURS[3], ":", 1.4),
    "last outcome": ("#999999", ":", 1.0),
    "best fixed action": ("#555555", "-.", 1.2),
}
_MOST = 2000  # points of a line
_MARKS = 200  # of switches and returns, evenly out of all of them
_SUSPECTS = 6  # streams whose evidence is drawn


def picture(found: Any, stream: Any = None) -> Any:
    """The figure of a ``Backtest``: of one stream, or of all together, added up by step."""
    names = found.recording.names
    chosen = range(len(names)) if stream is None else [found.recording.place(stream)]
    figure, (money, evidence) = pyplot().subplots(
        2, 1, figsize=(7.6, 5.6), sharex=True, layout="constrained", height_ratios=[3, 2]
    )
    figure.set_facecolor("white")
    others = itertools.cycle((colour, dash, 1.2) for dash in ("--", ":") for colour in COLOURS[4:])
    for name, line_T in curves(found, chosen).items():
        colour, dash, width = _LOOKS.get(name) or next(others)
        step, shown = thinned(line_T)
        money.plot(step, shown, color=colour, linestyle=dash, linewidth=width, label=name)
    money.set_ylabel("payoffs added up")
    money.legend(frameon=False, fontsize=9)
    events = [event for event in found.switches if stream is None or event.stream == stream]
    marked = events[:: -(-len(events) // _MARKS) or 1]
    for ax in (money, evidence):
        for event in marked:
            colour = COLOURS[2] if isinstance(event, Return) else COLOURS[1]
            ax.axvline(_clock(found, event), color=colour, linewidth=0.8, alpha=0.6)
        plain(ax)
    _draw_evidence(found, chosen, events, evidence)
    evidence.set_xlabel("steps")
    who = f"{len(names):,} streams" if stream is None and len(names) > 1 else f"stream {names[chosen[0]]}"
    switches, returns = (sum(isinstance(event, kind) for event in events) for kind in (Switch, Return))
    title = f"{who}; switches (orange): {switches}, returns (green): {returns}"
    if len(events) > switches + returns:
        title += f", left again (orange): {len(events) - switches - returns}"
    money.set_title(title if len(marked) == len(events) else f"{title}; {len(marked)} marked", fontsize=10)
    return figure


def curves(found: Any, chosen: Any) -> dict[str, np.ndarray]:
    """Payoffs added up by player, over the chosen streams and up to each step, ``[T]``."""
    problem, recording = found.problem, found.recording
    T = max(len(recording.states[i]) for i in chosen)
    lines = {name: np.zeros(T) for name in found.paid}
    best = np.zeros(T)
    for i in chosen:
        n = len(recording.states[i])
        sure = recording.sure(problem, i)
        for name, line in lines.items():
            line[:n] += problem.regret_in_payoffs(found.paid[name][i]) + sure
        each_AxT = problem.regret_in_payoffs(recording.utility(problem, i)) + sure
        best[:n] += each_AxT[each_AxT.sum(axis=1).argmax()]
    return {name: np.cumsum(line) for name, line in {**lines, "best fixed action": best}.items()}


def thinned(line_T: np.ndarray, most: int = _MOST) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points of a line, the last among them, with their steps."""
    at = np.unique(np.linspace(0, len(line_T) - 1, min(most, len(line_T))).round().astype(np.int64))
    return at + 1, line_T[at]


def _draw_evidence(found: Any, chosen: Any, events: list, ax: Any) -> None:
    """Of the streams that switched, else of the first: ln E beside what the alarm asks for."""
    switched = list(dict.fromkeys(event.stream for event in events if isinstance(event, Switch)))
    drawn = (switched or [found.recording.names[i] for i in chosen])[:_SUSPECTS]
    for k, name in enumerate(drawn):
        values = found.evidence(name)["evidence"]
        step, shown = thinned(np.minimum(values[:, 0], 3 * values[:, 1]))
        ax.plot(step, shown, color=COLOURS[k % len(COLOURS)], linewidth=1.1, label=f"stream {name}")
        if k == 0:
            asked = thinned(values[:, 1])
            ax.plot(*asked, color="#555555", linestyle="--", linewidth=1.1, label="alarm")
    ax.set_ylabel("evidence")
    ax.legend(frameon=False, fontsize=8, ncols=2)


def _clock(found: Any, event: Any) -> int:
    episode = getattr(found.guard, "episode", None)  # forecasts of a number have none
    return event.step if episode is None else (event.episode - 1) * episode + event.step
