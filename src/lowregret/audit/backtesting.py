"""What a recording of predictions and states would have earned: the model, the guard, and what else one might do."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..certificates import Certificate
from ..guard import Guard, Return, Switch
from ..guard.resume import as_json
from ..problems import DecisionProblem, a_problem
from ..rules import Late, ResponseRule
from ..tables import Table
from ..tips import worst_tip
from .frames import is_frame, result_frame, streams_in
from .picture import picture
from .playing import PLAYERS, made_like, play
from .streams import Streams, streams_of

BEST = "best fixed action"


def warnings_of(problem: DecisionProblem, earned: dict[str, float], certificate: Certificate) -> tuple[str, ...]:
    """What speaks against relying on the guarantee, or on the model, by what was earned a step."""
    bound, edge, found = certificate.regret_bound_in_payoffs, earned["model"] - earned[BEST], []
    if edge <= 0:
        less = f"{-edge:.4g} a step less" if edge < 0 else "no more"
        found.append(f"the model earned {less} than the best fixed action of each stream")
    elif edge < bound:
        found.append(
            f"the model's edge is {edge:.4g} a step, the guarantee {bound:.4g}: this horizon is too short to "
            "promise anything that matters"
        )
    if bound >= float(problem.regret_in_payoffs(problem.span)):
        found.append(f"the guarantee of {bound:.4g} a step is all that one step can matter: it promises nothing")
    return tuple(found)


class StreamResult(NamedTuple):
    """One stream: payoffs a step by player, and what the guard did."""

    stream: Any
    steps: int
    earned: dict[str, float]
    best_action: str
    regret: float  # of the guard, a step, in utility
    switched_at: int | None
    returns: int
    model_share: float  # how much of what the guard played was the model's
    v_regret: float | None  # of the model, for two states: how far it is from calibrated, for the worst problem


@dataclass(frozen=True, eq=False)
class Backtest:
    """What ``backtest`` found. Payoffs are in the problem's own units, regrets in utility."""

    problem: DecisionProblem
    recording: Streams
    guard: Guard
    streams: tuple[StreamResult, ...]
    switches: tuple[Switch | Return, ...]  # with the names of their streams, in order of streams and steps
    paid: dict[str, tuple[np.ndarray, ...]]  # by player and stream, [T], in utility
    share: tuple[np.ndarray, ...]  # by stream, [T]: how much of what the guard played was the model's

    @property
    def steps(self) -> int:
        """Of all streams together."""
        return sum(result.steps for result in self.streams)

    @property
    def earned(self) -> dict[str, float]:
        """Payoff a step by player, over all streams."""
        totals = {name: 0.0 for name in self.streams[0].earned}
        for result in self.streams:
            for name, value in result.earned.items():
                totals[name] += result.steps * value
        return {name: value / self.steps for name, value in totals.items()}

    @property
    def certificate(self) -> Certificate:
        """What is guaranteed of a stream of the guard's horizon; with episodes, over those of the longest stream."""
        given, episode = self.guard.rule.certificate, self.guard.episode
        episodes = 1 if episode is None else -(-self.recording.longest // episode)
        return given.over_episodes(episodes, given.regret_bound)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against relying on the guarantee, or on the model, in plain words."""
        return warnings_of(self.problem, self.earned, self.certificate)

    def table(self) -> Table:
        """Payoffs a step over all streams, and what the guard did."""
        rows = [(name, f"{value:.6g}") for name, value in self.earned.items()]
        switched = sum(result.switched_at is not None for result in self.streams)
        rows += [
            ("streams that switched", f"{switched} of {len(self.streams)}"),
            ("returns", str(sum(result.returns for result in self.streams))),
            ("model's share of the guard's play", f"{self._mean('model_share'):.1%}"),
            ("guarantee, a step", f"{self.certificate.regret_bound_in_payoffs:.6g}"),
        ]
        title = f"Payoff a step over {self.steps:,} steps of {len(self.streams):,} streams"
        return Table("\n".join([title, *(f"! {warning}" for warning in self.warnings)]), ("", "payoff"), tuple(rows))

    def to_json(self) -> str:
        """Everything but the curves, as JSON; a statistic is null where a state came that the model had excluded."""
        about = {
            "steps": self.steps,
            "earned": self.earned,
            "warnings": list(self.warnings),
            "regret_bound": as_json(self.certificate.regret_bound),
            "regret_bound_in_payoffs": as_json(self.certificate.regret_bound_in_payoffs),
            "tv_bound": self.certificate.tv_bound,
            "streams": [result._asdict() | {"stream": _plain(result.stream)} for result in self.streams],
            "switches": [
                {name: as_json(value) for name, value in event._asdict().items()}
                | {"stream": _plain(event.stream), "told": str(event)}
                for event in self.switches
            ],
        }
        return json.dumps(about, indent=1, default=_plain, allow_nan=False)

    def to_frame(self) -> Any:
        """A row a step (extra: ``data``): payoffs by player, and whether the guard ``used_fallback``.

        Of a frame, its rows as they stand, with its columns of streams and steps: as an Arrow table, or for pandas as
        a frame with the same index.
        """
        return result_frame(self)

    def regret(self, player: str = "guard") -> tuple[np.ndarray, ...]:
        """By stream, ``[T]``: average regret of every prefix to the best action until then, in utility."""
        inputs.choice(player, "player", tuple(self.paid))
        found = []
        for paid_T, states_T in zip(self.paid[player], self.recording.states, strict=True):
            best_T = np.cumsum(self.problem.utility[:, states_T], axis=1).max(axis=0)
            found.append((best_T - np.cumsum(paid_T)) / np.arange(1, len(paid_T) + 1))
        return tuple(found)

    def evidence(self, stream: Any) -> dict[str, np.ndarray]:
        """All that the alarm of one stream waited for at every step, by name: ``[T, 2]``, what was and what it asks."""
        i = self.recording.place(stream)
        live = made_like(self.guard, 1)
        found: dict[str, list[tuple[float, float]]] = {}
        for law_S, state in zip(self.recording.probs[i], self.recording.states[i], strict=True):
            live.advise(law_S[None])
            live.observe(np.array([state]))
            for name, (reached, needed) in live.conditions.items():
                found.setdefault(name, []).append((float(reached[0]), float(needed[0])))
        return {name: np.array(values) for name, values in found.items()}

    def plot(self, stream: Any = None) -> Any:
        """Money over time, evidence with its threshold, switch marks: of one stream, or of all together."""
        return picture(self, stream)

    def _mean(self, name: str) -> float:
        return sum(result.steps * getattr(result, name) for result in self.streams) / self.steps


def backtest(
    problem: DecisionProblem,
    probs: Any,
    states: Any = None,
    *,
    guard: Guard | None = None,
    names: Sequence[Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    fallback: bool = True,
) -> Backtest:
    """What the recorded predictions would have earned: acted on as they are, guarded, and not at all.

    Parameters
    ----------
    probs, states
        ``[T, S]`` and ``[T]``, or ``[B, T, S]`` and ``[B, T]``, or lists of streams of any lengths: what was predicted
        before each state, and the state that came. Or a frame in place of ``probs`` (pandas, polars, pyarrow: any that
        speaks Arrow; extra ``data``), one row a step in any order, with or without the name of its column of states.
    guard
        Says how the guard is made: ``Guard(problem, horizon, ...)`` with any rule, fallback or episodes; by default
        ``Guard(problem, longest stream)``. It is not touched.
    names
        Of the streams; their indices by default.
    columns
        Of a frame: which is the ``stream``, ``order``, ``state``, and which hold ``probs`` (one a state, or one of
        lists), where they are not called as usual (``docs/audit.md``).
    fallback
        Whether to play the fallback alone as well (it takes most of the time).

    >>> from lowregret import matching
    >>> probs = np.tile([0.9, 0.1], (300, 1))
    >>> found = backtest(matching(), probs, [0] * 100 + [1] * 200)
    >>> {name: round(value, 2) for name, value in found.earned.items()}
    {'model': 0.33, 'guard': 0.95, 'fallback': 0.95, 'Hedge': 0.62, 'best fixed action': 0.67}
    >>> found.switches[0].step, found.switches[0].since
    (108, 101)
    """
    a_problem(problem)
    fallback = inputs.flag(fallback, "fallback")
    recording = recorded(problem, probs, states, names, columns)
    guard = Guard(problem, recording.longest) if guard is None else _fitting(guard, problem, recording.longest)
    paid: dict[str, list] = {name: [None] * len(recording.names) for name in PLAYERS if fallback or name != "fallback"}
    share: list = [None] * len(recording.names)
    results: list = [None] * len(recording.names)
    events: list[tuple[int, Switch | Return]] = []
    for block in recording.blocks():
        played = play(guard, block, fallback)
        told: dict[int, list[Switch | Return]] = {}
        for row, event in played.events:
            told.setdefault(row, []).append(event)
        for row, i in enumerate(block.index_N.tolist()):
            T = int(block.lengths_N[row])
            for name in paid:
                paid[name][i] = played.paid[name][row, :T]
            share[i] = played.share_NxT[row, :T]
            results[i] = _result(problem, recording, i, {n: paid[n][i] for n in paid}, played, row, told.get(row, []))
            events += [(i, event._replace(stream=recording.names[i])) for event in told.get(row, [])]
    events.sort(key=lambda pair: (pair[0], pair[1].episode, pair[1].step))
    together = {name: tuple(values) for name, values in paid.items()}
    return Backtest(
        problem, recording, guard, tuple(results), tuple(event for _, event in events), together, tuple(share)
    )


def recorded(problem: DecisionProblem, probs: Any, states: Any, names: Any, columns: Any) -> Streams:
    """The streams of arrays, or of a frame."""
    if is_frame(probs) and (states is None or isinstance(states, str)):
        if names is not None:
            raise ValueError(f"names are in the frame's own column: leave them out, got {inputs.shown(names)}")
        return streams_in(problem, probs, states, columns)
    if columns is not None:
        raise ValueError(f"columns go with a frame, and probs is {type(probs).__name__}: leave them out")
    if states is None:
        raise ValueError(f"states must be given, unless probs is a frame that has them, got {type(probs).__name__}")
    return streams_of(problem, probs, states, names)


def _result(
    problem: DecisionProblem,
    recording: Streams,
    i: int,
    paid: dict[str, np.ndarray],
    played: Any,
    row: int,
    told: list[Switch | Return],
) -> StreamResult:
    T, actions_A = len(recording.states[i]), played.actions_NxA[row]
    earned = {name: float(problem.in_payoffs(values.sum() / T)) for name, values in paid.items()}
    earned[BEST] = float(problem.in_payoffs(actions_A.max() / T))
    v_regret = None
    if problem.n_states == 2:
        v_regret = float(worst_tip(recording.probs[i], recording.states[i]).regret)
    return StreamResult(
        recording.names[i],
        T,
        earned,
        str(problem.actions[int(actions_A.argmax())]),
        float(actions_A.max() - paid["guard"].sum()) / T,
        int(played.trips_N[row]) or None,
        sum(isinstance(event, Return) for event in told),
        float(played.share_NxT[row, :T].mean()),
        v_regret,
    )


def _fitting(guard: Any, problem: DecisionProblem, longest: int) -> Guard:
    if not isinstance(guard, Guard):
        raise ValueError(f"guard must be a Guard, which says how one is made, got {type(guard).__name__}")
    if isinstance(guard.rule, Late) or guard.rule.knows is not None:
        raise ValueError(
            "guard must go by laws and states alone, as a recording has them: made without lag, references, contexts "
            f"or payoffs, got {guard}"
        )
    if guard.problem != problem or not isinstance(guard.rule, ResponseRule):
        raise ValueError(f"guard must be made for the problem of the recording, {problem}, got {guard}")
    lasts = guard._whole if guard.episode is not None else guard.horizon
    if lasts is not None and lasts < longest:
        raise ValueError(f"guard must last for {longest} steps, the longest stream, got a horizon of {lasts}")
    return guard


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (str, int, float, bool, list, dict)) or value is None else str(value)
