"""What each player would have earned: the model, the guard, the fallback, references, yardsticks.

The model's forecasts are met with best responses, as people act; so are the guard's until its alarm, unless its
response is quantal. Players for comparison only are in ``YARDSTICKS``.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..arrays import softmax
from ..engine import Engine, NoTest, Setting
from ..engine.loop import form_of
from ..guard import Guard
from ..guard.events import Alarm, Event, events_of_trace
from .streams import Block, utilities

PLAYERS = ("model", "guard", "fallback")


class Traced(NamedTuple):
    """What a guard played on a block, and its evidence, shares and final rows."""

    events: tuple[tuple[int, Event], ...]  # with the row of the stream, in the order of steps
    policy_NxTxA: np.ndarray
    share_NxT: np.ndarray  # how much of that was the model's
    evidence_NxT: np.ndarray  # in logarithms, after each outcome
    level_NxT: np.ndarray  # of the class of each step, after its outcome
    rows: np.ndarray  # what the guard remembers in the end


class Played(NamedTuple):
    """What each player was paid at every step of a block, in utility; 0 after the end of a stream."""

    paid: dict[str, np.ndarray]  # by player, [N, T]
    utility_AxNxT: np.ndarray  # what each action was paid
    advised_NxT: np.ndarray  # the best action by the model
    trips_N: np.ndarray  # at which step the alarm was known, 0 for never
    guard: Traced


def play(guard: Guard, block: Block, fallback: bool = True) -> Played:
    """The players on a block; ``guard`` says how the guard is made, and stays as it is."""
    setting = guard.setting
    utility_AxNxT = utilities(setting.problem, block.came_NxT, block.told) * block.there_NxT
    advised_NxT, answers = _responses(setting, block)

    def paid(policy_NxTxA: np.ndarray) -> np.ndarray:
        return np.einsum("nta,ant->nt", policy_NxTxA, utility_AxNxT)

    found = _traced(guard.engine, block)
    earned = {
        "model": np.take_along_axis(utility_AxNxT, advised_NxT[None], axis=0)[0],
        "guard": paid(found.policy_NxTxA),
    }
    if fallback:
        s, untested = setting, NoTest(setting.test.horizon)  # which plays the fallback from the first step on
        alone = Setting(s.problem, s.against, untested, s.fallback, s.response, s.lag) if s.tests else None
        earned["fallback"] = paid((found if alone is None else _traced(Engine(alone), block)).policy_NxTxA)
    earned |= {name: earns(guard, block, utility_AxNxT) for name, earns in YARDSTICKS.items()}
    earned |= {f"reference {name}": paid(own) for name, own in zip(setting.references, answers, strict=True)}
    trips_N = np.zeros(len(block.index_N), dtype=np.int64)
    for row, event in found.events:
        if isinstance(event, Alarm):
            trips_N[row] = event.known
    return Played(earned, utility_AxNxT, advised_NxT, trips_N, found)


def _traced(engine: Engine, block: Block) -> Traced:
    """A block, played: streams whose outcomes were known alike go together."""
    groups, traces, events = _alike(block), [], list[tuple[int, Event]]()
    for rows_N in groups:
        part = block if len(groups) == 1 else block.rows(rows_N)
        missing_NxT = None if part.there_NxT.all() else ~part.there_NxT
        lags_T = None if part.lags_NxT is None else part.lags_NxT[0]
        said, start = part.said(engine.setting.problem), engine.start(len(rows_N))
        form = form_of(engine, part.came_NxT.shape[1] * (len(rows_N) + 8))  # one stream takes as long as a few
        trace = form.run(start, said, part.came_NxT, missing_NxT, lags_T=lags_T)
        engine.head.open(trace.rows).missed[:] = 0  # there is nothing after the end of a stream
        traces.append((trace.policy_NxTxA, trace.share_NxT, trace.evidence_NxT, trace.level_NxT, trace.rows))
        for row, event in events_of_trace(engine, trace):  # dated at the end of its stream at the latest
            events.append((int(rows_N[row]), event._replace(known=min(event.known, int(part.lengths_N[row])))))
    place_N = np.argsort(np.concatenate(groups))
    parts = [np.concatenate(part)[place_N] for part in zip(*traces, strict=True)]
    return Traced(tuple(events), *parts)


def _alike(block: Block) -> list[np.ndarray]:
    """The rows, grouped by when their outcomes were known."""
    if block.lags_NxT is None:
        return [np.arange(len(block.index_N))]
    _, which_N = np.unique(block.lags_NxT, axis=0, return_inverse=True)
    return [np.flatnonzero(which_N.ravel() == k) for k in range(int(which_N.max()) + 1)]


def _responses(setting: Setting, block: Block) -> tuple[np.ndarray, list[np.ndarray]]:
    """The best action by the model ``[N, T]``, and for each reference the response ``[N, T, A]`` to it."""
    N, T = block.came_NxT.shape
    flat, outcomes = np.unravel_index(np.arange(N * T), (N, T)), setting.outcomes
    said = block.said(setting.problem).at(flat)
    given = outcomes.payoffs if said.payoffs is None else said.payoffs, flat[1] // setting.lag * 1.0
    theirs = said.references if isinstance(said.references, tuple) else np.moveaxis(said.references, 1, 0)
    advised_R, _ = setting.respond(outcomes.whole(said.forecast), *given)
    answers = [setting.respond(outcomes.whole(each), *given)[1] for each in theirs]
    return advised_R.reshape(N, T), [answer_RxA.reshape(N, T, -1) for answer_RxA in answers]


def _hedge(guard: Guard, block: Block, utility_AxNxT: np.ndarray) -> np.ndarray:
    """Hedge on every stream, at the rate for that stream's own length."""
    known_AxNxT = np.zeros_like(utility_AxNxT)  # before each step
    known_AxNxT[..., guard.lag :] = np.cumsum(utility_AxNxT, axis=-1)[..., : -guard.lag]
    return (softmax(known_AxNxT / np.sqrt(block.lengths_N)[:, None]) * utility_AxNxT).sum(axis=0)


def _best_last_time(guard: Guard, block: Block, utility_AxNxT: np.ndarray) -> np.ndarray:
    """A player who does what would have been best in the last known step; before that, each action alike."""
    lag, paid_NxT = guard.lag, utility_AxNxT.mean(axis=0)
    best_NxT = utility_AxNxT[..., :-lag].argmax(axis=0)
    paid_NxT[:, lag:] = np.take_along_axis(utility_AxNxT[..., lag:], best_NxT[None], axis=0)[0]
    return paid_NxT


# The columns beside the players': what each was paid ``[N, T]``, given how the guard is made, the streams of a block,
# and what every action earned in them, ``[A, N, T]``, 0 after the end of a stream. What is played in a step may go by
# its forecast, and by what was earned ``guard.lag`` steps before it or earlier.
YARDSTICKS: dict[str, Callable[[Guard, Block, np.ndarray], np.ndarray]] = {
    "Hedge": _hedge,
    "last outcome": _best_last_time,
}
