"""What a recording of forecasts and outcomes would have earned: the model, the guard, and what else one might do."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..certificates import Certificate
from ..engine import ExactTest
from ..evaluate.plots import COLOURS, DASHES, plain, pyplot
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
    given = {"references": references, "contexts": contexts, "payoffs": payoffs, "scale": scale}
    problem, source = guard.problem if isinstance(guard, Guard) else guard, None
    if not isinstance(problem, Payoff):
        a_problem(problem)
    # What frames of all packages have; arrays that have it, too, have a namespace.
    is_frame = hasattr(forecasts, "__arrow_c_stream__") and not hasattr(forecasts, "__array_namespace__")
    if is_frame and (outcomes is None or isinstance(outcomes, str)):
        if unfit := [name for name, value in {"names": names, **given}.items() if value is not None]:
            raise ValueError(f"{', '.join(unfit)}: go with arrays; of a frame, columns={{...}} says where they are")
        from .table import recording_in_frame

        chosen = {**(columns or {}), **({} if outcomes is None else {"state": outcomes})}
        recording, table = recording_in_frame(forecasts, problem, chosen)
        source = FrameSource(forecasts, table.row_R, table.found.about, table.notes)
    elif columns is not None or outcomes is None:
        wrong = "outcomes must be given" if outcomes is None else "columns must be left out"
        raise ValueError(f"{wrong}, unless forecasts is a frame, got {type(forecasts).__name__}")
    else:
        recording = recording_of(problem, forecasts, outcomes, names, **given)
    if isinstance(guard, Guard):
        return replayed(guard, _fitting(guard, recording), fallback, source)
    test = ExactTest() if recording.contexts is None else ExactTest(horizon=recording.longest)
    usual = Guard(recording.stakes(problem), against=recording.against, test=test, lag=recording.latest)
    return replayed(usual, recording, fallback, source)


def _fitting(guard: Guard, recording: Recording) -> Recording:
    """The recording with contexts numbered as the guard does; refused where the two do not fit."""
    references, known, changes = guard.against.references, guard.against.contexts, recording.side.payoffs is not None
    labels = {str(name): name for name in recording.contexts or ()}
    for what, needed, own, fits in (
        ("lag", recording.latest, guard.lag, guard.lag >= recording.latest),
        ("references", recording.references, references, references == recording.references),
        ("problem.is_changing", changes, guard.problem.is_changing, guard.problem.is_changing == changes),
        ("contexts", tuple(labels), known, bool(labels) == bool(known) and set(labels) <= set(known)),
    ):
        if not fits:
            raise ValueError(f"guard must fit the recording: {what} must be {needed}, got {own}")
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
        columns, played = judge(guard, block, fallback)
        rows_R = recording.rows_of(block.index_N)
        traced = {"share": played.guard.share_NxT, "log_e": played.guard.evidence_NxT}
        for name, own_NxT in (played.paid | traced).items():
            by_step.setdefault(name, np.empty(R))[rows_R] = own_NxT[block.recorded_NxT]
        best = played.paid.get(BEST_OF_ALL, played.paid[BEST])
        regret_N = (best - played.paid["guard"]).sum(axis=1)
        for name, own_N in (columns | {"regret": regret_N}).items():
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
        tuple(played.paid),
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
    by_stream: dict[str, np.ndarray]  # [B] each: the payoffs of every player in total, and what else ``judge`` finds
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

    @property
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
            of_each = " of each stream" if len(self.recording.names) > 1 else ""
            found.append(f"the model earned {less} than the {best}{of_each}")
        elif edge < bound:
            short = "this horizon is too short to promise anything that matters"
            found.append(f"the model's edge is {edge:.4g} per step, the guarantee {bound:.4g}: {short}")
        if behind > 0:
            rule = "doing what would have been best the last time"
            found.append(f"the model earned {behind:.4g} less per step than {rule}")
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
        else:
            names = [name if isinstance(name, (str, int, float)) else str(name) for name in recording.names]
            stream = pl.Series("stream", names, strict=False)
            rows = stream.gather(np.repeat(np.arange(len(names)), recording.lengths_B)).to_frame()
        return pl.concat([rows, pl.DataFrame(data, nan_to_null=True)], how="horizontal")

    def regret(self) -> tuple[np.ndarray, ...]:
        """By stream, ``[T]``: the guard's average regret of every prefix to its best comparator, in utility."""
        found = []
        for i, paid_T in enumerate(self.paid["guard"]):
            one = self.recording.part([i])
            theirs = [np.cumsum(self.paid[f"reference {name}"][i]) for name in one.references]
            if self.guard.setting.n_comparators > len(theirs):  # an action, with contexts one for each of them
                utility_AxT = utilities(self.problem, one.outcomes_R, one.side) * one.there_R
                context_T = np.zeros(len(paid_T)) if one.side.context is None else one.side.context
                own = [np.cumsum(utility_AxT * (context_T == c), axis=1).max(axis=0) for c in np.unique(context_T)]
                theirs.append(np.sum(own, axis=0))
            found.append((np.max(theirs, axis=0) - np.cumsum(paid_T)) / np.maximum(np.cumsum(one.there_R), 1))
        return tuple(found)

    def plot(self) -> Any:
        """Money over time, all streams added up, and the evidence against the models; with lines at switches."""
        recording, events = self.recording, self.switches
        figure, axes = pyplot().subplots(2, 1, figsize=(7.6, 5.6), sharex=True, layout="constrained")
        figure.set_facecolor("white")
        step_R = np.arange(recording.n_steps) - np.repeat(recording.start_B, recording.lengths_B)
        step_T, colours = np.arange(1, recording.longest + 1), (COLOURS[1], COLOURS[0], *COLOURS[2:])
        styles = itertools.cycle(zip(colours, DASHES, strict=True))
        for name, (colour, dash) in zip(self.players, styles, strict=False):
            line_T = np.cumsum(np.bincount(step_R, np.nan_to_num(self._payoffs_R(name))))
            axes[0].plot(step_T, line_T, color=colour, linestyle=dash, linewidth=1.6, label=name)
        needed = math.log(self.guard.setting.watch.threshold)
        alarmed = np.flatnonzero(self.by_stream["alarm"]).tolist()
        for i, colour in zip(alarmed or range(len(recording.names)), COLOURS, strict=False):
            shown_T = np.minimum(self.log_e[i], 3 * needed)
            axes[1].plot(step_T[: len(shown_T)], shown_T, color=colour, label=f"stream {recording.names[i]}")
        axes[1].axhline(needed, color="#555555", linestyle="--", label="alarm")
        at, kinds = [event.step for event in events], [COLOURS[1 + isinstance(event, Return)] for event in events]
        for ax, label in zip(axes, ("payoffs added up", "evidence"), strict=True):
            ax.vlines(at, 0, 1, kinds, transform=ax.get_xaxis_transform(), linewidth=0.8)
            ax.set_ylabel(label)
            ax.legend(frameon=False, fontsize=9)
            plain(ax)
        axes[1].set_xlabel("steps; lines: the model is left (orange), or is back (green)")
        return figure
