"""What a recording of forecasts and outcomes would have earned: the model, the guard, and what else one might do."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..certificates import Certificate
from ..engine import ExactTest
from ..evaluate.plots import COLOURS, plain, pyplot
from ..guard import Guard
from ..guard.events import Alarm, Event, Return
from ..problems import DecisionProblem, Payoff, a_problem
from ..tables import Table
from .judging import BEST, BEST_OF_ALL, in_payoffs, judge, utilities
from .recording import Recording, recording_of


def backtest(
    guard: Guard | DecisionProblem | Payoff,
    forecasts: Any,
    outcomes: Any = None,
    *,
    names: Sequence[Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    fallback: bool = True,
    references: Mapping[str, Any] | None = None,
    contexts: Any = None,
    payoffs: Any = None,
    scale: Any = None,
) -> "Backtest":
    """What the recorded forecasts would have earned: acted on as they are, guarded, or not used at all.

    "model" plays the best response to the forecasts, as people do. "last outcome" does what would have been best in the
    last step that is known, "fallback" plays from the first step on what the guard plays after an alarm, and "Hedge"
    weighs actions by what they have earned, without the model.

    Parameters
    ----------
    guard
        How the guard is made; it is not touched. A problem is taken for ``Guard(problem)``, made for all else that the
        recording holds.
    forecasts, outcomes
        ``[T, S]`` and ``[T]``, or ``[B, T, S]`` and ``[B, T]``, or lists of streams of any lengths: the probabilities
        stated before each state, and the state. Or a frame in place of ``forecasts`` (pandas, polars,
        pyarrow: any that speaks Arrow), one row per step in any order, with or without the name of its column of
        states. For a ``Payoff``: a forecast for each step, ``Quantiles`` or ``Samples`` of shape ``[T]`` or ``[B, T]``
        (or a list of them, all of one form), and the numbers; a frame then has columns of quantiles.
    names
        Of the streams; their indices by default.
    columns
        Of a frame, where they do not have the usual names: fields of ``lowregret.audits.Columns``.
    fallback
        Whether to play the fallback alone as well.
    references, contexts, payoffs, scale
        What else was known before each outcome, laid out as ``outcomes`` are: forecasts of references by name; the
        context of each step (names or numbers); the payoffs of each step (``[..., A, S]``), or how much of the
        problem's payoffs counts.

    >>> import numpy as np
    >>> from lowregret import matching
    >>> probs = np.tile([0.9, 0.1], (300, 1))
    >>> found = backtest(matching(), probs, ([0] * 9 + [1]) * 10 + [1] * 200)  # right for 100 steps
    >>> {name: round(value, 2) for name, value in found.earned.items()}
    {'model': 0.3, 'guard': 0.91, 'fallback': 0.95, 'Hedge': 0.66, 'last outcome': 0.94, 'best fixed action': 0.7}
    >>> found.switches[0].step, found.switches[0].since
    (117, 100)
    """
    fallback = inputs.flag(fallback, "fallback")
    given = {"references": references, "contexts": contexts, "payoffs": payoffs, "scale": scale}
    given = {name: value for name, value in given.items() if value is not None}
    problem = guard.problem if isinstance(guard, Guard) else guard
    if not isinstance(problem, Payoff):
        a_problem(problem)
    source = None
    # What frames of all packages have; arrays that have it, too, have a namespace.
    is_frame = hasattr(forecasts, "__arrow_c_stream__") and not hasattr(forecasts, "__array_namespace__")
    if is_frame and (outcomes is None or isinstance(outcomes, str)):
        if names is not None:
            raise ValueError(f"names are in the frame's own column: leave them out, got {inputs.shown(names)}")
        for name in given:
            role = "context" if name == "contexts" else name
            raise ValueError(f"{name} go with arrays: of a frame, columns={{{role!r}: ...}} says where they are")
        from .table import recording_in_frame

        chosen = {**(columns or {}), **({} if outcomes is None else {"state": outcomes})}
        recording, table = recording_in_frame(forecasts, problem, chosen)
        source = FrameSource(forecasts, table.row_R, table.found.about, table.notes)
    elif columns is not None:
        raise ValueError(f"columns go with a frame, and forecasts is {type(forecasts).__name__}: leave them out")
    elif outcomes is None:
        raise ValueError(
            f"outcomes must be given, unless forecasts is a frame that has them, got {type(forecasts).__name__}"
        )
    else:
        recording = recording_of(problem, forecasts, outcomes, names, **given)
    if isinstance(guard, Guard):
        return replayed(guard, _fitting(guard, recording), fallback, source)
    test = ExactTest() if recording.contexts is None else ExactTest(horizon=recording.longest)
    usual = Guard(recording.stakes(problem), against=recording.against, test=test, lag=recording.latest)
    return replayed(usual, recording, fallback, source)


def _fitting(guard: Guard, recording: Recording) -> Recording:
    """The recording with contexts numbered as the guard does; refused where the two do not fit."""
    against, changes = guard.against, recording.side.payoffs is not None
    if guard.lag < recording.latest:
        raise ValueError(
            f"guard must have a lag of {recording.latest}: the latest outcome was known that late, got {guard.lag}"
        )
    if against.references != recording.references:
        theirs = f"{recording.references}, got {against.references}"
        raise ValueError(f"guard must be made with the references of the recording, {theirs}")
    if guard.problem.is_changing != changes:
        has = "has payoffs for each step" if changes else "has none for each step"
        raise ValueError(f"guard must be made for the payoffs of the recording, which {has}: problem.changing()")
    labels, known = {str(name): name for name in recording.contexts or ()}, against.contexts
    if bool(labels) != bool(known) or not set(labels) <= set(known):
        theirs = f"{list(labels) or 'none'}, got {known or 'none'}"
        raise ValueError(f"guard must be made for the contexts of the recording, {theirs}")
    if not labels:
        return recording
    place = np.array([known.index(label) for label in labels])
    side = recording.side._replace(context=place[recording.side.context])
    return replace(recording, side=side, contexts=tuple(labels.get(name, name) for name in known))


def replayed(
    guard: Guard, recording: Recording, fallback: bool = True, source: "FrameSource | None" = None
) -> "Backtest":
    """The backtest of a recording that was read, with a guard that fits it."""
    R, B = recording.n_steps, len(recording.names)
    by_step: dict[str, np.ndarray] = {}
    by_stream: dict[str, np.ndarray] = {}
    events, promised = list[tuple[int, Event]](), []
    for block in recording.blocks():
        judged = judge(guard, block, recording, fallback)
        played, rows_R = judged.played, recording.rows_of(block.index_N)
        traced = {"share": played.guard.share_NxT, "log_e": played.guard.evidence_NxT}
        for name, own_NxT in (played.paid | traced).items():
            by_step.setdefault(name, np.empty(R))[rows_R] = own_NxT[block.recorded_NxT]
        best = played.paid[BEST_OF_ALL if BEST_OF_ALL in played.paid else BEST]
        regret_N = (best - played.paid["guard"]).sum(axis=1)
        for name, own_N in {**judged.columns, "regret": regret_N}.items():
            by_stream.setdefault(name, np.empty(B, own_N.dtype))[block.index_N] = own_N
        promised.append(guard.certificate_of(played.guard.rows))
        for row, event in played.guard.events:
            i = int(block.index_N[row])
            if isinstance(event, Alarm) and event.context is not None and recording.contexts is not None:
                event = event._replace(context=recording.contexts[event.context])
            events.append((i, event._replace(stream=recording.names[i])))
    events.sort(key=lambda pair: (pair[0], pair[1].step))
    return Backtest(
        recording,
        guard,
        tuple(event for _, event in events),
        max(promised, key=lambda one: one.regret_bound),
        source,
        tuple(judged.totals),
        by_stream,
        by_step,
    )


class FrameSource(NamedTuple):
    """The frame that a recording is from."""

    frame: Any
    rows_R: np.ndarray  # which of its rows each recorded step is
    columns: dict[str, Any]  # which column was read as what
    notes: tuple[str, ...]  # what was mended, left out, or taken for granted


class StreamResult(NamedTuple):
    """One stream: payoffs per step by player, and what the guard did."""

    stream: Any
    steps: int  # those with an outcome
    earned: dict[str, float]
    best_action: str
    regret: float  # of the guard, per step, in utility
    switched_at: int | None
    returns: int
    dropped: int  # how often a model that had returned was dropped again
    model_share: float  # how much of what the guard played was the model's


@dataclass(frozen=True, eq=False)
class Backtest:
    """What ``backtest`` found. Payoffs are in the problem's own units, regrets in utility."""

    recording: Recording
    guard: Guard  # how it was made
    switches: tuple[Event, ...]  # with the names of their streams, in order of streams and steps
    certificate: Any  # what is guaranteed of every stream; of forecasts of a number, by what was charged in this run
    source: FrameSource | None  # None: the recording was in arrays
    players: tuple[str, ...]  # with the best comparators
    by_stream: dict[str, np.ndarray]  # [B] each: the payoffs of every player in total, and the parts of ``Judged``
    by_step: dict[str, np.ndarray]  # [R] each: what every player was paid, in utility; "share" and "log_e"

    @property
    def problem(self) -> Any:
        """A ``DecisionProblem``, or a ``Payoff``."""
        return self.guard.problem

    @property
    def steps(self) -> int:
        """Steps with an outcome, of all streams together."""
        return int(self.by_stream["steps"].sum())

    @property
    def earned(self) -> dict[str, float]:
        """Payoff per step by player, over all streams."""
        return {name: float(self.by_stream[name].sum()) / max(self.steps, 1) for name in self.players}

    @cached_property
    def streams(self) -> tuple[StreamResult, ...]:
        """Every stream by itself."""
        recording, each = self.recording, {name: values.tolist() for name, values in self.by_stream.items()}
        share_B = np.add.reduceat(self.by_step["share"], recording.start_B) / recording.lengths_B
        found = []
        for i, (name, steps) in enumerate(zip(recording.names, each["steps"], strict=True)):
            earned = {player: each[player][i] / max(steps, 1) for player in self.players}
            regret, alarm = each["regret"][i] / max(steps, 1), each["alarm"][i] or None
            did = each["returns"][i], each["dropped"][i], float(share_B[i])
            found.append(StreamResult(name, steps, earned, each["best_action"][i], regret, alarm, *did))
        return tuple(found)

    @cached_property
    def paid(self) -> dict[str, tuple[np.ndarray, ...]]:
        """What every player was paid, by stream ``[T]``, in utility."""
        return {name: self._by_stream(name) for name in self.players if name not in (BEST, BEST_OF_ALL)}

    @cached_property
    def share(self) -> tuple[np.ndarray, ...]:
        """By stream, ``[T]``: how much of what the guard played was the model's."""
        return self._by_stream("share")

    @cached_property
    def log_e(self) -> tuple[np.ndarray, ...]:
        """By stream, ``[T]``: ln E after each outcome."""
        return self._by_stream("log_e")

    def _by_stream(self, name: str) -> tuple[np.ndarray, ...]:
        return tuple(np.split(self.by_step[name], self.recording.start_B[1:]))

    def _payoffs_R(self, player: str) -> np.ndarray:
        """What a player was paid in the problem's units; NaN where there is no outcome."""
        recording = self.recording
        paid_R = in_payoffs(self.problem, self.by_step[player], recording.side.scale)
        return paid_R if recording.missing_R is None else np.where(recording.missing_R, np.nan, paid_R)

    @cached_property
    def guarantee(self) -> Any:
        """The certificate for the steps of the longest stream, where the guard has no horizon."""
        if self.certificate.horizon is None and isinstance(self.certificate, Certificate):
            return self.certificate.at(self.recording.longest)
        return self.certificate

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against relying on the guarantee, or on the model, in plain words."""
        earned, bound, found = self.earned, self.guarantee.regret_bound_in_payoffs, list[str]()
        best = BEST_OF_ALL if BEST_OF_ALL in earned else BEST
        edge, behind = earned["model"] - earned[best], earned["last outcome"] - earned["model"]
        if edge <= 0:
            less = f"{-edge:.4g} less per step" if edge < 0 else "no more"
            found.append(
                f"the model earned {less} than the {best}{' of each stream' * (len(self.recording.names) > 1)}"
            )
        elif edge < bound:
            found.append(
                f"the model's edge is {edge:.4g} per step, the guarantee {bound:.4g}: this horizon is too short to "
                "promise anything that matters"
            )
        if behind > 0:
            found.append(
                f"the model earned {behind:.4g} less per step than doing what would have been best the last time"
            )
        if bound >= float(self.problem.regret_in_payoffs(self.certificate.problem.span)):
            found.append(f"the guarantee of {bound:.4g} per step is all that one step can matter: it promises nothing")
        return *found, *(() if self.source is None else self.source.notes)

    def table(self) -> Table:
        """Payoffs per step over all streams, and what the guard did."""
        B, share, each = len(self.recording.names), self.by_step["share"].mean(), self.by_stream
        alarms, returns, dropped = (each["alarm"] > 0).sum(), each["returns"].sum(), each["dropped"].sum()
        rows = [
            *((name, f"{value:.6g}") for name, value in self.earned.items()),
            ("streams that switched", f"{alarms} of {B}"),
            ("returns", str(returns)),
            *([("dropped again", str(dropped))] if dropped else []),
            ("model's share of the guard's play", f"{share:.1%}"),
            ("guarantee, per step", f"{self.guarantee.regret_bound_in_payoffs:.6g}"),
        ]
        title = [f"Payoff per step over {self.steps:,} steps" + ("" if B == 1 else f" of {B:,} streams")]
        if self.source is not None:
            from .columns import chosen

            title.append(chosen(self.source.columns))
        return Table("\n".join([*title, *(f"! {warning}" for warning in self.warnings)]), ("", "payoff"), tuple(rows))

    def to_json(self) -> str:
        """Everything but the curves, as JSON."""
        about = {
            "steps": self.steps,
            "columns": None if self.source is None else self.source.columns,
            "earned": self.earned,
            "warnings": list(self.warnings),
            "regret_bound": self.guarantee.regret_bound,
            "regret_bound_in_payoffs": self.guarantee.regret_bound_in_payoffs,
            "tv_bound": self.certificate.tv_bound,
            "streams": [result._asdict() for result in self.streams],
            "switches": [
                {"event": type(event).__name__.lower(), **event._asdict(), "message": str(event)}
                for event in self.switches
            ],
        }
        return json.dumps(json_of(about), indent=1, allow_nan=False)

    def to_frame(self) -> Any:
        """One row per step: payoffs by player, and whether the guard ``used_fallback``; a polars frame.

        For a frame its recorded rows as they stand, with its columns of streams and steps; for one of pandas, one with
        the same index.
        """
        recording, source, share_R = self.recording, self.source, self.by_step["share"]
        step_R = np.arange(recording.n_steps) - np.repeat(recording.start_B, recording.lengths_B) + 1
        data = {"step": step_R, "used_fallback": share_R < 1, "model_share": share_R}
        data |= {f"payoff_{player.lower()}": self._payoffs_R(player) for player in self.paid}
        if source is not None:
            order_R = np.argsort(source.rows_R)
            kept = [name for role in ("stream", "order") if (name := source.columns[role]) is not None]
            data = {name: values[order_R] for name, values in data.items() if name not in kept}
            if type(source.frame).__module__.split(".")[0] == "pandas":
                return source.frame[kept].iloc[source.rows_R[order_R]].assign(**data)
        import polars as pl

        if source is not None:
            rows = pl.DataFrame(source.frame)[source.rows_R[order_R]].select(kept)
            return pl.DataFrame([*rows.get_columns(), *pl.DataFrame(data, nan_to_null=True).get_columns()])
        names: Sequence[Any] = recording.names
        if len({type(name) for name in names}) > 1 or not isinstance(names[0], (str, int, float)):
            names = [str(name) for name in names]
        stream = pl.Series("stream", names).gather(np.repeat(np.arange(len(names)), recording.lengths_B))
        return pl.DataFrame([stream, *pl.DataFrame(data, nan_to_null=True).get_columns()])

    def regret(self, player: str = "guard") -> tuple[np.ndarray, ...]:
        """By stream, ``[T]``: the average regret of every prefix to its best comparator, in utility."""
        inputs.choice(player, "player", tuple(self.paid))
        found = []
        for i, paid_T in enumerate(self.paid[player]):
            one = self.recording.part([i])
            theirs = [np.cumsum(self.paid[f"reference {name}"][i]) for name in one.references]
            if self.guard.setting.n_comparators > len(theirs):  # an action, with contexts one for each of them
                utility_AxT = utilities(self.problem, one.outcomes_R, one.side) * one.there_R
                context_T = np.zeros(len(paid_T)) if one.side.context is None else one.side.context
                own = [np.cumsum(utility_AxT * (context_T == c), axis=1).max(axis=0) for c in np.unique(context_T)]
                theirs.append(np.sum(own, axis=0))
            found.append((np.max(theirs, axis=0) - np.cumsum(paid_T)) / np.maximum(np.cumsum(one.there_R), 1))
        return tuple(found)

    def evidence(self, stream: Any) -> np.ndarray:
        """The test on one stream, ``[T, 2]``: the statistic and its threshold at every step."""
        log_e_T = self.by_step["log_e"][self.recording.rows_of([self.recording.place(stream)])]
        return np.stack([log_e_T, np.full(len(log_e_T), np.log(self.guard.setting.watch.threshold))], axis=1)

    def plot(self, stream: Any = None) -> Any:
        """Money over time, evidence with its threshold, and lines at switches: for one stream, or all together."""
        names = self.recording.names
        chosen = np.arange(len(names)) if stream is None else np.array([self.recording.place(stream)])
        figure, (money, evidence) = pyplot().subplots(
            2, 1, figsize=(7.6, 5.6), sharex=True, layout="constrained", height_ratios=[3, 2]
        )
        figure.set_facecolor("white")
        others = itertools.cycle((colour, dash, 1.2) for dash in ("--", ":") for colour in COLOURS[4:])
        rows_R, lengths_B = self.recording.rows_of(chosen), self.recording.lengths_B[chosen]
        step_R = np.arange(len(rows_R)) - np.repeat(np.cumsum(lengths_B) - lengths_B, lengths_B)
        step_T = np.arange(1, lengths_B.max() + 1)
        for name in (*self.paid, BEST):
            line_T = np.cumsum(np.bincount(step_R, np.nan_to_num(self._payoffs_R(name)[rows_R])))
            colour, dash, width = _LINES.get(name) or next(others)
            money.plot(step_T, line_T, color=colour, linestyle=dash, linewidth=width, label=name)
        money.set_ylabel("payoffs added up")
        money.legend(frameon=False, fontsize=9)
        events = [event for event in self.switches if stream is None or event.stream == stream]
        colours = [COLOURS[2] if isinstance(event, Return) else COLOURS[1] for event in events]
        for ax in (money, evidence):
            at = [event.step for event in events]
            ax.vlines(at, 0, 1, colors=colours, transform=ax.get_xaxis_transform(), linewidth=0.8, alpha=0.6)
            plain(ax)
        alarms = list(dict.fromkeys(event.stream for event in events if isinstance(event, Alarm)))
        for k, name in enumerate((alarms or [names[i] for i in chosen[:_DRAWN]])[:_DRAWN]):
            values_Tx2 = self.evidence(name)
            shown_T, colour = np.minimum(values_Tx2[:, 0], 3 * values_Tx2[:, 1]), COLOURS[k % len(COLOURS)]
            evidence.plot(step_T[: len(shown_T)], shown_T, color=colour, linewidth=1.1, label=f"stream {name}")
        needed = math.log(self.guard.setting.watch.threshold)
        evidence.axhline(needed, color="#555555", linestyle="--", linewidth=1.1, label="alarm")
        evidence.set_ylabel("evidence")
        evidence.legend(frameon=False, fontsize=8, ncols=2)
        evidence.set_xlabel("steps")
        who = f"{len(names):,} streams" if len(chosen) > 1 else f"stream {names[chosen[0]]}"
        alarmed, returns = (sum(isinstance(event, kind) for event in events) for kind in (Alarm, Return))
        dropped = len(events) - alarmed - returns
        title = f"{who}; switches (orange): {alarmed}, returns (green): {returns}"
        money.set_title(f"{title}, dropped again (orange): {dropped}" if dropped else title, fontsize=10)
        return figure


_LINES = {
    "model": (COLOURS[1], "-", 1.6),
    "guard": (COLOURS[0], "-", 2.0),
    "fallback": (COLOURS[2], "--", 1.2),
    "Hedge": (COLOURS[3], ":", 1.4),
    "last outcome": ("#999999", ":", 1.0),
    "best fixed action": ("#555555", "-.", 1.2),
}
_DRAWN = 6  # streams whose evidence is drawn


def json_of(value: Any) -> Any:
    """The same as JSON values: no infinities, and other objects as they print."""
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(name): json_of(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_of(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return inputs.finite_or_none(value)
    return value if isinstance(value, (str, int)) or value is None else str(value)
