"""What a backtest found: payoffs by player, what the guard did, and what speaks against relying on it."""

import itertools
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..certificates import Certificate
from ..guard import Guard
from ..guard.events import Alarm, Event, Return
from ..plots import COLOURS, plain, pyplot
from ..tables import Table
from .columns import chosen_told
from .frames import result_frame

BEST, BEST_OF_ALL, LAST = "best fixed action", "best comparator", "last outcome"


def warnings_of(
    problem: Any, earned: dict[str, float], certificate: Any, streams: int, step: str = "step"
) -> tuple[str, ...]:
    """What speaks against relying on the guarantee, or on the model, by what was earned per step."""
    best = BEST_OF_ALL if BEST_OF_ALL in earned else BEST
    bound, edge, found = certificate.regret_bound_in_payoffs, earned["model"] - earned[best], []
    if edge <= 0:
        less = f"{-edge:.4g} a {step} less" if edge < 0 else "no more"
        found.append(f"the model earned {less} than the {best}{' of each stream' if streams > 1 else ''}")
    elif edge < bound:
        found.append(
            f"the model's edge is {edge:.4g} a {step}, the guarantee {bound:.4g}: this horizon is too short to "
            "promise anything that matters"
        )
    behind = earned[LAST] - earned["model"]
    if behind > 0:
        found.append(f"the model earned {behind:.4g} a {step} less than doing what would have been best the last time")
    if bound >= float(problem.regret_in_payoffs(certificate.problem.span)):
        found.append(f"the guarantee of {bound:.4g} a {step} is all that one {step} can matter: it promises nothing")
    return tuple(found)


class StreamResult(NamedTuple):
    """One stream: payoffs per step by player, and what the guard did."""

    stream: Any
    steps: int
    earned: dict[str, float]
    best_action: str
    regret: float  # of the guard, a step, in utility
    switched_at: int | None
    returns: int
    left: int  # how often a model that had returned was left again
    model_share: float  # how much of what the guard played was the model's


@dataclass(frozen=True, eq=False)
class Backtest:
    """What ``backtest`` found. Payoffs are in the problem's own units, regrets in utility."""

    problem: Any  # a DecisionProblem, or a Payoff
    recording: Any
    guard: Guard  # how it was made
    streams: tuple[StreamResult, ...]
    switches: tuple[Event, ...]  # with the names of their streams, in order of streams and steps
    paid: dict[str, tuple[np.ndarray, ...]]  # by player and stream, [T], in utility
    share: tuple[np.ndarray, ...]  # by stream, [T]: how much of what the guard played was the model's
    certificate: Any  # what is guaranteed of every stream; of forecasts of a number, by what was charged in this run
    log_e: tuple[np.ndarray, ...]  # by stream, [T]: ln E after each outcome

    @property
    def steps(self) -> int:
        """Of all streams together."""
        return sum(result.steps for result in self.streams)

    @property
    def earned(self) -> dict[str, float]:
        """Payoff per step by player, over all streams."""
        totals = {name: 0.0 for name in self.streams[0].earned}
        for result in self.streams:
            for name, value in result.earned.items():
                totals[name] += result.steps * value
        return {name: value / self.steps for name, value in totals.items()}

    @cached_property
    def guarantee(self) -> Any:
        """The certificate for the steps of the longest stream, where the guard has no horizon."""
        if self.certificate.horizon is None and isinstance(self.certificate, Certificate):
            return self.certificate.at(self.recording.longest)
        return self.certificate

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against relying on the guarantee, or on the model, in plain words."""
        return (
            *warnings_of(self.problem, self.earned, self.guarantee, len(self.streams)),
            *self.recording.notes,
        )

    def table(self) -> Table:
        """Payoffs per step over all streams, and what the guard did."""
        rows = [(name, f"{value:.6g}") for name, value in self.earned.items()]
        switched = sum(result.switched_at is not None for result in self.streams)
        left = sum(result.left for result in self.streams)
        rows += [
            ("streams that switched", f"{switched} of {len(self.streams)}"),
            ("returns", str(sum(result.returns for result in self.streams))),
            *([("left again", str(left))] if left else []),
            ("model's share of the guard's play", f"{self._mean('model_share'):.1%}"),
            ("guarantee, a step", f"{self.guarantee.regret_bound_in_payoffs:.6g}"),
        ]
        of = "" if len(self.streams) == 1 else f" of {len(self.streams):,} streams"
        title = [f"Payoff a step over {self.steps:,} steps{of}"]
        if self.recording.source is not None:
            title.append(chosen_told(self.recording.source.about))
        return Table("\n".join([*title, *(f"! {warning}" for warning in self.warnings)]), ("", "payoff"), tuple(rows))

    def to_json(self) -> str:
        """Everything but the curves, as JSON."""
        about = {
            "steps": self.steps,
            "columns": None if self.recording.source is None else self.recording.source.about,
            "earned": self.earned,
            "warnings": list(self.warnings),
            "regret_bound": self.guarantee.regret_bound,
            "regret_bound_in_payoffs": self.guarantee.regret_bound_in_payoffs,
            "tv_bound": self.certificate.tv_bound,
            "streams": [result._asdict() for result in self.streams],
            "switches": [
                {"event": type(event).__name__.lower(), **event._asdict(), "told": str(event)}
                for event in self.switches
            ],
        }
        return json.dumps(json_of(about), indent=1, allow_nan=False)

    def to_frame(self) -> Any:
        """One row per step (extra: ``data``): payoffs by player, and whether the guard ``used_fallback``.

        For a frame, its rows as they stand, with its columns of streams and steps: as an Arrow table, or for pandas as
        a frame with the same index.
        """
        return result_frame(self)

    def regret(self, player: str = "guard") -> tuple[np.ndarray, ...]:
        """By stream, ``[T]``: the average regret of every prefix to its best comparator, in utility."""
        inputs.choice(player, "player", tuple(self.paid))
        found = []
        for i, paid_T in enumerate(self.paid[player]):
            found.append((self._best_T(i) - np.cumsum(paid_T)) / np.arange(1, len(paid_T) + 1))
        return tuple(found)

    def _best_T(self, i: int) -> np.ndarray:
        """What the best comparator of each prefix of the i-th stream had earned, in utility: action or reference."""
        return best_of(self.recording, self.guard, i, {name: paid[i] for name, paid in self.paid.items()})

    def evidence(self, stream: Any) -> np.ndarray:
        """The test on one stream, ``[T, 2]``: the statistic and its threshold at every step."""
        log_e_T = self.log_e[self.recording.place(stream)]
        return np.stack([log_e_T, np.full(len(log_e_T), np.log(self.guard.setting.watch.threshold))], axis=1)

    def plot(self, stream: Any = None) -> Any:
        """Money over time, evidence with its threshold, and marks for switches: for one stream, or all together."""
        return picture(self, stream)

    def _mean(self, name: str) -> float:
        return sum(result.steps * getattr(result, name) for result in self.streams) / self.steps


def best_of(recording: Any, guard: Guard, i: int, paid: dict[str, np.ndarray]) -> np.ndarray:
    """What the best of the guard's comparators had earned after each prefix of the i-th stream, ``[T]``."""
    theirs = [np.cumsum(paid[name]) for name in recording.tells.players()]
    has_actions = guard.setting.n_comparators > len(theirs)
    return np.max([recording.best_T(guard.problem, i), *theirs] if has_actions else theirs, axis=0)


def json_of(value: Any) -> Any:
    """The same as JSON values: no infinities, and other objects as they print."""
    if isinstance(value, dict):
        return {name if isinstance(name, str) else str(name): json_of(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_of(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return inputs.finite_or_none(value)
    return value if isinstance(value, (str, int)) or value is None else str(value)


# One figure that answers the question: money over time, the evidence and what it asks for, and every switch.


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
            ax.axvline(event.step, color=colour, linewidth=0.8, alpha=0.6)
        plain(ax)
    _draw_evidence(found, chosen, events, evidence)
    evidence.set_xlabel("steps")
    who = f"{len(names):,} streams" if stream is None and len(names) > 1 else f"stream {names[chosen[0]]}"
    switches, returns = (sum(isinstance(event, kind) for event in events) for kind in (Alarm, Return))
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
    """At most this many points of a line, the last among them, with their steps."""
    at = np.unique(np.linspace(0, len(line_T) - 1, min(most, len(line_T))).round().astype(np.int64))
    return at + 1, line_T[at]


def _draw_evidence(found: Any, chosen: Any, events: list, ax: Any) -> None:
    """ln E beside the alarm's threshold, for the streams that switched, else for the first."""
    switched = list(dict.fromkeys(event.stream for event in events if isinstance(event, Alarm)))
    drawn = (switched or [found.recording.names[i] for i in chosen])[:_SUSPECTS]
    for k, name in enumerate(drawn):
        values = found.evidence(name)
        step, shown = thinned(np.minimum(values[:, 0], 3 * values[:, 1]))
        ax.plot(step, shown, color=COLOURS[k % len(COLOURS)], linewidth=1.1, label=f"stream {name}")
        if k == 0:
            asked = thinned(values[:, 1])
            ax.plot(*asked, color="#555555", linestyle="--", linewidth=1.1, label="alarm")
    ax.set_ylabel("evidence")
    ax.legend(frameon=False, fontsize=8, ncols=2)
