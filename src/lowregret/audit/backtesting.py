"""What a recording of predictions and states would have earned: the model, the guard, and what else one might do."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import inputs
from ..guard import Event, Guard, Left, Return, Switch
from ..problems import DecisionProblem, Payoff, a_problem
from ..rules import ResponseRule
from .frames import is_frame, streams_in
from .known import GIVEN, told_of
from .outcome_frames import outcomes_in, outcomes_of
from .playing import Played, guard_for, play
from .result import BEST, BEST_OF_ALL, Backtest, StreamResult, best_of
from .streams import Streams, streams_of


def backtest(
    problem: DecisionProblem | Payoff,
    probs: Any,
    states: Any = None,
    *,
    guard: Guard | None = None,
    names: Sequence[Any] | None = None,
    columns: Mapping[str, Any] | None = None,
    fallback: bool = True,
    references: Mapping[str, Any] | None = None,
    contexts: Any = None,
    payoffs: Any = None,
    scale: Any = None,
    lag: int = 1,
) -> Backtest:
    """What the recorded predictions would have earned: acted on as they are, guarded, or not used at all.

    "model" plays the best response to the forecasts, as people do. "last outcome" does what would have been best in the
    last step that is known, "fallback" plays from the first step on what the guard plays after a switch, and "Hedge"
    weighs actions by what they have earned, without the model.

    Parameters
    ----------
    probs, states
        ``[T, S]`` and ``[T]``, or ``[B, T, S]`` and ``[B, T]``, or lists of streams of any lengths: what was predicted
        before each state, and the state that came. Or a frame in place of ``probs`` (pandas, polars, pyarrow: any that
        speaks Arrow; extra ``data``), one row per step in any order, with or without the name of its column of states.
        For a ``Payoff``: a forecast for each step, ``Quantiles`` or ``Samples`` of shape ``[T]`` or
        ``[B, T]`` (or a list of them), and the outcomes; a frame then has columns of quantiles.
    guard
        Says how the guard is made: ``Guard(problem, horizon, ...)`` with any rule or fallback; by default
        ``Guard(problem, longest stream)``. It is not touched.
    names
        Of the streams; their indices by default.
    columns
        Of a frame: which is the ``stream``, ``order``, ``state``, and which hold ``probs`` (one per state, or one of
        lists), where they do not have the usual names; which hold ``context``, ``references``, ``payoffs`` and
        ``scale``; ``every`` ("1d", "1b"): how far apart its times must be (``docs/how-to/audit.md``).
    fallback
        Whether to play the fallback alone as well (it takes most of the time).
    references, contexts, payoffs, scale
        What else was known before each state, laid out as ``states`` are: laws of incumbents by name; the
        context of each step (names or numbers); the payoffs of each step (``[..., A, S]``), or how much of the
        problem's payoffs counts. The guard is then made with them, and regret is measured against the best of all that
        it promises.
    lag
        How late outcomes were known: the guard learns the outcome of a step only this many steps later. A guard of your
        own has its own lag. In a frame ``columns={"known_at": NAME}`` says when each was known.

    >>> import numpy as np
    >>> from lowregret import matching
    >>> probs = np.tile([0.9, 0.1], (300, 1))
    >>> found = backtest(matching(), probs, [0] * 100 + [1] * 200)
    >>> {name: round(value, 2) for name, value in found.earned.items()}
    {'model': 0.33, 'guard': 0.93, 'fallback': 0.97, 'Hedge': 0.62, 'last outcome': 0.99, 'best fixed action': 0.67}
    >>> found.switches[0].step, found.switches[0].since
    (120, 101)
    """
    fallback = inputs.flag(fallback, "fallback")
    told = dict(zip(GIVEN, (references, contexts, payoffs, scale), strict=True))
    recording = recorded(problem, probs, states, names, columns, told)
    if guard is not None and inputs.whole(lag, "lag") != 1:
        raise ValueError(f"lag is that of the guard where one is given: Guard(problem, horizon, lag={lag})")
    return played_through(problem, recording, guard, fallback, late_of(recording, lag))


def played_through(problem: Any, recording: Streams, guard: Guard | None, fallback: bool, lag: int = 1) -> Backtest:
    """The backtest of a recording that was read; with the usual guard where none is given."""
    if guard is None:
        guard = guard_for(problem, recording.longest, recording.tells, lag)
    else:
        guard = _fitting(guard, problem, recording)
    paid: dict[str, list] = {}
    share: list = [None] * len(recording.names)
    results: list = [None] * len(recording.names)
    events: list[tuple[int, Event]] = []
    promised = None
    for block in recording.blocks():
        played = play(guard, block, fallback)
        if promised is None or (played.certificate and played.certificate.regret_bound > promised.regret_bound):
            promised = played.certificate
        happened: dict[int, list[Event]] = {}
        for row, event in played.events:
            happened.setdefault(row, []).append(event)
        for row, i in enumerate(block.index_N.tolist()):
            T = int(block.lengths_N[row])
            for name, paid_NxT in played.paid.items():
                paid.setdefault(name, [None] * len(recording.names))[i] = paid_NxT[row, :T]
            share[i] = played.share_NxT[row, :T]
            results[i] = _result(problem, recording, guard.rule, i, played, row, happened.get(row, []))
            events += [(i, _named(event, recording, i)) for event in happened.get(row, [])]
    events.sort(key=lambda pair: (pair[0], pair[1].step))
    together = {name: tuple(values) for name, values in paid.items()}
    switches = tuple(event for _, event in events)
    promised = promised or guard.rule.certificate
    return Backtest(problem, recording, guard, tuple(results), switches, together, tuple(share), promised)


def late_of(recording: Streams, lag: int) -> int:
    """How late the latest outcome was: as given, or as the frame says."""
    lag = inputs.whole(lag, "lag")
    if recording.lags is not None and lag != 1:
        raise ValueError(f"lag or columns={{'known_at': NAME}} says how late outcomes were, not both, got {lag}")
    return max(lag, recording.latest)


def recorded(
    problem: Any, probs: Any, states: Any, names: Any, columns: Any, told: Mapping[str, Any] | None = None
) -> Any:
    """The recording in arrays, or in a frame."""
    at_outcomes, given = isinstance(problem, Payoff), {k: v for k, v in (told or {}).items() if v is not None}
    if not at_outcomes:
        a_problem(problem)
    if is_frame(probs) and (states is None or isinstance(states, str)):
        if names is not None:
            raise ValueError(f"names are in the frame's own column: leave them out, got {inputs.shown(names)}")
        if given:
            name = next(iter(given))
            role = "context" if name == "contexts" else name
            raise ValueError(f"{name} go with arrays: of a frame, columns={{{role!r}: ...}} says where they are")
        return (outcomes_in if at_outcomes else streams_in)(problem, probs, states, columns)
    if columns is not None:
        raise ValueError(f"columns go with a frame, and probs is {type(probs).__name__}: leave them out")
    if states is None:
        raise ValueError(f"states must be given, unless probs is a frame that has them, got {type(probs).__name__}")
    streams = (outcomes_of if at_outcomes else streams_of)(problem, probs, states, names)
    known, tells = told_of(problem, states, streams.lengths_B, streams.names, **given)
    return replace(streams, told=known, tells=tells)


def _named(event: Event, recording: Any, i: int) -> Event:
    """With the names of its stream and of its context."""
    if isinstance(event, Switch) and event.context is not None:
        event = event._replace(context=recording.tells.contexts[event.context])
    return event._replace(stream=recording.names[i])


def _result(
    problem: Any, recording: Any, rule: Any, i: int, played: Played, row: int, happened: list[Event]
) -> StreamResult:
    T, actions_A = len(recording.states[i]), played.actions_NxA[row]
    paid = {name: paid_NxT[row, :T] for name, paid_NxT in played.paid.items()}
    sure = recording.sure(problem, i)
    sure = sure if isinstance(sure, float) else float(sure.mean())
    totals = {name: values.sum() for name, values in paid.items()} | {BEST: actions_A.max()}
    best = float(actions_A.max())
    if recording.tells.references or recording.tells.contexts:
        best = totals[BEST_OF_ALL] = float(best_of(recording, problem, rule, i, paid)[-1])
    earned = {name: float(problem.regret_in_payoffs(total / T)) + sure for name, total in totals.items()}
    return StreamResult(
        recording.names[i],
        T,
        earned,
        str(problem.actions[int(actions_A.argmax())]),
        float(best - paid["guard"].sum()) / T,
        int(played.trips_N[row]) or None,
        sum(isinstance(event, Return) for event in happened),
        sum(isinstance(event, Left) for event in happened),
        float(played.share_NxT[row, :T].mean()),
    )


def _fitting(guard: Any, problem: Any, recording: Any) -> Any:
    if not isinstance(guard, Guard):
        raise ValueError(f"guard must be a Guard, which says how one is made, got {type(guard).__name__}")
    if guard.problem != problem or not isinstance(guard.rule.each, ResponseRule):
        raise ValueError(f"guard must be made for the problem of the recording, {problem}, got {guard}")
    if guard.horizon is not None and guard.horizon < recording.longest:
        raise ValueError(
            f"guard must last for {recording.longest} steps, the longest stream, got a horizon of {guard.horizon}"
        )
    if guard.lag < recording.latest:
        raise ValueError(
            f"guard must have a lag of {recording.latest}: the latest outcome came that late, got {guard.lag}"
        )
    _told_alike(guard, recording)
    return guard


def _told_alike(guard: Any, recording: Streams) -> None:
    """Refuse a guard that needs what the recording does not have, or that has no use for what it has."""
    knows, tells = guard.rule.knows, recording.tells
    wants = () if knows is None else tuple(knows.references)
    if wants != tells.references:
        raise ValueError(f"guard must be made with the references of the recording, {tells.references}, got {wants}")
    most, own = None if knows is None else knows.contexts, tells.contexts
    if (most is None) != (own is None) or (most is not None and own is not None and most < len(own)):
        held = "none" if own is None else f"{len(own)} contexts"
        raise ValueError(f"guard must be made for the contexts of the recording, {held}, got {most}")
    if tells.payoffs and (knows is None or (tells.payoffs == "change" and knows.payoffs != "change")):
        raise ValueError(f'guard must be made with payoffs="{tells.payoffs}", as the recording has them, got {guard}')
