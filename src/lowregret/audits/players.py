"""What each player would have earned: the model, the guard, the fallback, references, yardsticks.

The model's forecasts are met with best responses, as people act; so are the guard's until its alarm, unless its
response is quantal. Players for comparison only are in ``YARDSTICKS``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..arrays import softmax
from ..engine import Engine, NoTest, Setting
from ..engine.loop import form_of
from ..guard import Guard
from ..guard.events import Alarm, Event, events_of_trace
from ..problems import Payoff
from .recording import Block, SideInformation


class Traced(NamedTuple):
    """What a guard played on a block, and its evidence, shares and final rows."""

    events: tuple[tuple[int, Event], ...]  # with the row of the stream, in the order of steps
    policy_NxTxA: np.ndarray
    share_NxT: np.ndarray  # how much of that was the model's
    evidence_NxT: np.ndarray  # in logarithms, after each outcome
    level_NxT: np.ndarray  # of the class of each step, after its outcome
    rows: np.ndarray  # what the guard remembers in the end


class Played(NamedTuple):
    """What each player was paid at every step of a block, in utility; 0 where there is no outcome."""

    paid: dict[str, np.ndarray]  # by player, [N, T]
    utility_AxNxT: np.ndarray  # what each action was paid
    alarm_N: np.ndarray  # the last step at which the model was trusted, 0 for no alarm
    guard: Traced


def play(guard: Guard, block: Block, fallback: bool = True) -> Played:
    """The players on a block; ``guard`` says how the guard is made, and stays as it is."""
    setting = guard.setting
    utility_AxNxT = utilities(setting.problem, block.outcomes_NxT, block.side) * block.there_NxT
    best_NxT, answers = _responses(setting, block)

    def paid(policy_NxTxA: np.ndarray) -> np.ndarray:
        found_NxT: np.ndarray = np.einsum("nta,ant->nt", policy_NxTxA, utility_AxNxT)
        return found_NxT

    found = _traced(guard.engine, block)
    earned = {
        "model": np.take_along_axis(utility_AxNxT, best_NxT[None], axis=0)[0],
        "guard": paid(found.policy_NxTxA),
    }
    if fallback:
        s, untested = setting, NoTest(setting.test.horizon)  # which plays the fallback from the first step on
        alone = Setting(s.problem, s.against, untested, s.fallback, s.response, s.lag) if s.tests else None
        earned["fallback"] = paid((found if alone is None else _traced(Engine(alone), block)).policy_NxTxA)
    earned |= {name: earns(guard, block, utility_AxNxT) for name, earns in YARDSTICKS.items()}
    earned |= {f"reference {name}": paid(own) for name, own in zip(setting.references, answers, strict=True)}
    alarm_N = np.zeros(len(block.index_N), dtype=np.int64)
    for row, event in found.events:
        if isinstance(event, Alarm):
            alarm_N[row] = event.known
    return Played(earned, utility_AxNxT, alarm_N, found)


def utilities(problem: Any, outcomes: np.ndarray, side: SideInformation) -> np.ndarray:
    """What each action was paid for outcomes ``[...]``: ``[A, ...]``."""
    if isinstance(problem, Payoff):
        paid: np.ndarray = problem.paid(outcomes)
    elif side.payoffs is None:
        paid = problem.utility[:, outcomes]
    else:
        own = np.take_along_axis(side.payoffs, outcomes[..., None, None], axis=-1)[..., 0]
        paid = np.moveaxis(problem.utility_of(own), -1, 0)
    return paid if side.scale is None else paid * side.scale


def in_payoffs(problem: Any, utility: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
    """Utilities of single steps in the problem's units: where less counts, less of what utility 0 stands for does."""
    shift = float(problem.in_payoffs(0.0))
    found: np.ndarray = problem.regret_in_payoffs(utility) + (shift if scale is None else shift * scale)
    return found


def _traced(engine: Engine, block: Block) -> Traced:
    """A block, played: streams whose outcomes were known alike go together."""
    groups, traces, events = _alike(block, engine.setting.lag), [], list[tuple[int, Event]]()
    for rows_N, lags_T in groups:
        part = block if len(groups) == 1 else block.part(rows_N)
        (N, T), missing_NxT = part.outcomes_NxT.shape, ~part.there_NxT
        known, start = part.known(engine.setting.problem), engine.start(N)
        form = form_of(engine, T * (N + 8))  # one stream takes as long as a few
        trace = form.run(start, known, part.outcomes_NxT, missing_NxT if missing_NxT.any() else None, lags_T=lags_T)
        engine.head.open(trace.rows).missed[:] -= T - part.lengths_N  # the filler after the end of a stream
        traces.append((trace.policy_NxTxA, trace.share_NxT, trace.evidence_NxT, trace.level_NxT, trace.rows))
        for row, event in events_of_trace(engine, trace):  # dated at the end of its stream at the latest
            events.append((int(rows_N[row]), event._replace(known=min(event.known, int(part.lengths_N[row])))))
    if len(groups) == 1:
        return Traced(tuple(events), *traces[0])
    place_N = np.argsort(np.concatenate([rows_N for rows_N, _ in groups]))
    parts = [np.concatenate(part)[place_N] for part in zip(*traces, strict=True)]
    return Traced(tuple(events), *parts)


def _alike(block: Block, lag: int) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """The rows, grouped by when their outcomes were known, and how late that was."""
    if block.lags_NxT is None:
        return [(np.arange(len(block.index_N)), None)]
    step_T = np.arange(block.lags_NxT.shape[1])
    # Whatever is known after the last step may be known later; so may what is missing.
    free_NxT = (step_T + block.lags_NxT >= block.lengths_N[:, None]) | ~block.there_NxT
    kinds, which_N = np.unique(np.where(free_NxT, lag, block.lags_NxT), axis=0, return_inverse=True)
    return [(np.flatnonzero(which_N.ravel() == k), kinds[k]) for k in range(len(kinds))]


def _responses(setting: Setting, block: Block) -> tuple[np.ndarray, list[np.ndarray]]:
    """The best action by the model ``[N, T]``, and for each reference the response ``[N, T, A]`` to it."""
    N, T = block.outcomes_NxT.shape
    flat, outcomes = np.unravel_index(np.arange(N * T), (N, T)), setting.outcomes
    known = block.known(setting.problem).at(flat)
    given = outcomes.payoffs if known.payoffs is None else known.payoffs, flat[1] // setting.lag * 1.0
    theirs = known.references if isinstance(known.references, tuple) else np.moveaxis(known.references, 1, 0)
    best_R, _ = setting.respond(outcomes.whole(known.forecast), *given)
    answers = [setting.respond(outcomes.whole(each), *given)[1] for each in theirs]
    return best_R.reshape(N, T), [answer_RxA.reshape(N, T, -1) for answer_RxA in answers]


def _hedge(guard: Guard, block: Block, utility_AxNxT: np.ndarray) -> np.ndarray:
    """Hedge on every stream, at the rate for that stream's own length."""
    known_AxNxT = np.zeros_like(utility_AxNxT)  # before each step
    known_AxNxT[..., guard.lag :] = np.cumsum(utility_AxNxT, axis=-1)[..., : -guard.lag]
    paid_NxT: np.ndarray = (softmax(known_AxNxT / np.sqrt(block.lengths_N)[:, None]) * utility_AxNxT).sum(axis=0)
    return paid_NxT


def _best_last_time(guard: Guard, block: Block, utility_AxNxT: np.ndarray) -> np.ndarray:
    """A player who does what would have been best in the last known step; before that, each action alike."""
    there_NxT, lag = block.there_NxT, guard.lag
    last_NxT = np.full(there_NxT.shape, -1)  # the last step whose outcome is known
    step_NxT = np.where(there_NxT, np.arange(there_NxT.shape[1]), -1)
    last_NxT[:, lag:] = np.maximum.accumulate(step_NxT, axis=1)[:, :-lag]
    best_NxT = np.take_along_axis(utility_AxNxT.argmax(axis=0), np.maximum(last_NxT, 0), axis=1)
    paid_NxT = np.take_along_axis(utility_AxNxT, best_NxT[None], axis=0)[0]
    found_NxT: np.ndarray = np.where(last_NxT < 0, utility_AxNxT.mean(axis=0), paid_NxT)
    return found_NxT


# The columns beside the players': what each was paid ``[N, T]``, given how the guard is made, the streams of a block,
# and what every action earned in them, ``[A, N, T]``, 0 where there is no outcome. What is played may go by
# its forecast, and by what was earned ``guard.lag`` steps before it or earlier.
YARDSTICKS: dict[str, Callable[[Guard, Block, np.ndarray], np.ndarray]] = {
    "Hedge": _hedge,
    "last outcome": _best_last_time,
}
