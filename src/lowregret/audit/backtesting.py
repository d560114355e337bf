"""What a recording of forecasts and outcomes would have earned: the model, the guard, and what else one might do."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import inputs
from ..engine import ExactTest
from ..guard import Guard
from ..guard.events import Alarm, Event, ModelDropped, Return
from ..problems import DecisionProblem, Payoff, a_problem
from .frames import is_frame, streams_in
from .known import GIVEN, told_of
from .outcome_frames import outcomes_in, outcomes_of
from .playing import Played, play
from .result import BEST, BEST_OF_ALL, Backtest, StreamResult, best_of
from .streams import Streams, streams_of


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
) -> Backtest:
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
        stated before each state, and the state that came. Or a frame in place of ``forecasts`` (pandas, polars,
        pyarrow: any that speaks Arrow; extra ``data``), one row per step in any order, with or without the name of its
        column of states. For a ``Payoff``: a forecast for each step, ``Quantiles`` or ``Samples`` of shape ``[T]`` or
        ``[B, T]`` (or a list of them), and the numbers that came; a frame then has columns of quantiles.
    names
        Of the streams; their indices by default.
    columns
        Of a frame: which is the ``stream``, ``order``, ``state``, and which hold ``probs`` (one per state, or one of
        lists), where they do not have the usual names; which hold ``context``, ``references``, ``payoffs`` and
        ``scale``; ``known_at``: when each outcome was known, which needs a guard with that lag; ``every`` ("1d", "1b"):
        how far apart its times must be (``docs/how-to/audit.md``).
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
    told = dict(zip(GIVEN, (references, contexts, payoffs, scale), strict=True))
    problem = guard.problem if isinstance(guard, Guard) else guard
    recording = recorded(problem, forecasts, outcomes, names, columns, told)
    if isinstance(guard, Guard):
        return played_through(guard, _fitting(guard, recording), fallback)
    return played_through(guard_for(problem, recording), recording, fallback)


def guard_for(problem: DecisionProblem | Payoff, recording: Streams) -> Guard:
    """The usual guard for all that a recording holds; contexts need a horizon."""
    tells = recording.tells
    test = ExactTest() if tells.contexts is None else ExactTest(horizon=recording.longest)
    return Guard(tells.stakes(problem), against=tells.against, test=test, lag=recording.latest)


def played_through(guard: Guard, recording: Streams, fallback: bool) -> Backtest:
    """The backtest of a recording that was read."""
    n = len(recording.names)
    paid = defaultdict[str, list[Any]](lambda: [None] * n)
    share, log_e, results = (list[Any]([None]) * n for _ in range(3))
    events: list[tuple[int, Event]] = []
    promised = []
    for block in recording.blocks():
        played = play(guard, block, fallback)
        promised.append(guard.certificate_of(played.guard.rows))
        happened: dict[int, list[Event]] = {}
        for row, event in played.guard.events:
            happened.setdefault(row, []).append(event)
        for row, i in enumerate(block.index_N.tolist()):
            T = int(block.lengths_N[row])
            for name, paid_NxT in played.paid.items():
                paid[name][i] = paid_NxT[row, :T]
            share[i], log_e[i] = played.guard.share_NxT[row, :T], played.guard.evidence_NxT[row, :T]
            results[i] = _result(guard, recording, i, played, row, happened.get(row, []))
            events += [(i, _named(event, recording, i)) for event in happened.get(row, [])]
    events.sort(key=lambda pair: (pair[0], pair[1].step))
    return Backtest(
        guard.problem,
        recording,
        guard,
        tuple(results),
        tuple(event for _, event in events),
        {name: tuple(own) for name, own in paid.items()},
        tuple(share),
        max(promised, key=lambda one: one.regret_bound),
        tuple(log_e),
    )


def recorded(
    problem: Any, forecasts: Any, outcomes: Any, names: Any, columns: Any, told: Mapping[str, Any] | None = None
) -> Streams:
    """The recording in arrays, or in a frame."""
    of_numbers, given = isinstance(problem, Payoff), {k: v for k, v in (told or {}).items() if v is not None}
    if not of_numbers:
        a_problem(problem)
    if is_frame(forecasts) and (outcomes is None or isinstance(outcomes, str)):
        if names is not None:
            raise ValueError(f"names are in the frame's own column: leave them out, got {inputs.shown(names)}")
        if given:
            name = next(iter(given))
            role = "context" if name == "contexts" else name
            raise ValueError(f"{name} go with arrays: of a frame, columns={{{role!r}: ...}} says where they are")
        return (outcomes_in if of_numbers else streams_in)(problem, forecasts, outcomes, columns)
    if columns is not None:
        raise ValueError(f"columns go with a frame, and forecasts is {type(forecasts).__name__}: leave them out")
    if outcomes is None:
        raise ValueError(
            f"outcomes must be given, unless forecasts is a frame that has them, got {type(forecasts).__name__}"
        )
    streams = (outcomes_of if of_numbers else streams_of)(problem, forecasts, outcomes, names)
    known, tells = told_of(problem, outcomes, streams.lengths_B, streams.names, **given)
    return replace(streams, told=known, tells=tells)


def _named(event: Event, recording: Streams, i: int) -> Event:
    """With the names of its stream and of its context."""
    if isinstance(event, Alarm) and event.context is not None:
        assert recording.tells.contexts is not None
        event = event._replace(context=recording.tells.contexts[event.context])
    return event._replace(stream=recording.names[i])


def _result(guard: Guard, recording: Streams, i: int, played: Played, row: int, happened: list[Event]) -> StreamResult:
    T, problem = len(recording.states[i]), guard.problem
    actions_A = played.utility_AxNxT[:, row].sum(axis=-1)
    paid = {name: paid_NxT[row, :T] for name, paid_NxT in played.paid.items()}
    totals = {name: values.sum() for name, values in paid.items()} | {BEST: actions_A.max()}
    best = float(best_of(recording, guard, i, paid)[-1])
    if recording.tells.references or recording.tells.contexts:
        totals[BEST_OF_ALL] = best
    sure = float(np.mean(recording.sure(problem, i)))
    earned = {name: float(problem.regret_in_payoffs(total / T)) + sure for name, total in totals.items()}
    return StreamResult(
        recording.names[i],
        T,
        earned,
        str(problem.actions[int(actions_A.argmax())]),
        float(best - paid["guard"].sum()) / T,
        int(played.trips_N[row]) or None,
        sum(isinstance(event, Return) for event in happened),
        sum(isinstance(event, ModelDropped) for event in happened),
        float(played.guard.share_NxT[row, :T].mean()),
    )


def _fitting(guard: Guard, recording: Streams) -> Streams:
    """The recording with contexts numbered as the guard does; refused where the two do not fit."""
    tells, against = recording.tells, guard.against
    if guard.lag < recording.latest:
        raise ValueError(
            f"guard must have a lag of {recording.latest}: the latest outcome came that late, got {guard.lag}"
        )
    if against.references != tells.references:
        raise ValueError(
            f"guard must be made with the references of the recording, {tells.references}, got {against.references}"
        )
    if guard.problem.is_changing != (tells.payoffs == "change"):
        has = "has payoffs for each step" if tells.payoffs == "change" else "has none for each step"
        raise ValueError(f"guard must be made for the payoffs of the recording, which {has}: problem.changing()")
    labels, known = {str(name): name for name in tells.contexts or ()}, against.contexts
    if bool(labels) != bool(known) or not set(labels) <= set(known):
        theirs = list(labels) or "none"
        raise ValueError(f"guard must be made for the contexts of the recording, {theirs}, got {known or 'none'}")
    if not labels or recording.told is None:
        return recording
    place = np.array([known.index(label) for label in labels])
    told = [own._replace(context=place[own.context]) for own in recording.told]
    return replace(recording, told=told, tells=tells._replace(contexts=tuple(labels.get(name, name) for name in known)))
