"""What became of every stream of a block: what was earned, alarms, evidence; one path for a backtest and an audit."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import first_true
from ..engine import Setting
from ..guard import Guard
from ..guard.events import Alarm, ModelDropped, Return
from ..problems import Payoff
from .players import Played, in_payoffs, play
from .recording import Block, Recording

BEST, BEST_OF_ALL = "best fixed action", "best comparator"
RECENT = "recent frequencies"  # what a model loses to where they predict better
MOST = 690.0  # of ln E: more than any level that is asked for


class Judged(NamedTuple):
    """The streams of a block, an entry each; payoffs are in the problem's units."""

    steps: np.ndarray  # those with an outcome
    totals: dict[str, np.ndarray]  # by player: payoffs in total
    steps_after: np.ndarray  # those after the alarm
    model_after: np.ndarray  # payoffs of these
    guard_after: np.ndarray
    best_action: np.ndarray  # its name
    alarm: np.ndarray  # the last step at which the model was trusted; 0: no alarm
    since: np.ndarray  # about which step the model broke; 0: not known
    lost_to: np.ndarray  # what would have been better; None: not known
    log_e: np.ndarray  # ln of an e-value against the model
    returns: np.ndarray
    dropped: np.ndarray  # how often a model that had returned was dropped again
    follows: np.ndarray  # whether the model is followed in the end
    missing: np.ndarray  # how many outcomes are
    excluded: np.ndarray  # outcomes to which the model had given probability 0
    lag: np.ndarray
    seems_lag: np.ndarray  # the lag that its residuals suggest; 0: none
    guard_then: np.ndarray  # what the guard would have earned at that lag; NaN: not known
    played: Played  # with the best comparators among those paid

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """All but what was played, a column each: with each player's payoffs under its name."""
        steps, totals, *more, _ = self
        return {"steps": steps, **totals, **dict(zip(self._fields[2:-1], more, strict=True))}


def judge(
    guard: Guard,
    block: Block,
    recording: Recording,
    fallback: bool = True,
    log_level: float = math.inf,
    beyond: float | None = None,
) -> Judged:
    """Every player on a block of a recording, and what the guard did.

    Parameters
    ----------
    log_level
        A stream's evidence is stopped when its logarithm first reaches this, or at the end: an e-value either way.
    beyond
        Where no lag was given: by how many standard errors residuals must be correlated for a stream to seem late.
    """
    problem, played, every = guard.problem, play(guard, block, fallback), np.arange(len(block.index_N))
    utility_AxNxT, there_NxT, scale_NxT = played.utility_AxNxT, block.there_NxT, block.side.scale
    best_N = utility_AxNxT.sum(axis=-1).argmax(axis=0)
    paid = played.paid | {BEST: utility_AxNxT[best_N, every]}
    if recording.references or recording.contexts:
        paid[BEST_OF_ALL] = _best_comparator(guard, block, recording, played)
    played = played._replace(paid=paid)
    after_NxT = there_NxT & (np.arange(there_NxT.shape[1]) >= played.alarm_N[:, None]) & (played.alarm_N > 0)[:, None]

    def earned(player: str, counted_NxT: np.ndarray) -> np.ndarray:
        total_N: np.ndarray = (in_payoffs(problem, paid[player], scale_NxT) * counted_NxT).sum(axis=1)
        return total_N

    N = len(every)
    since, returns, dropped = (np.zeros(N, dtype=np.int64) for _ in range(3))
    lost_to, follows = np.full(N, None, dtype=object), np.ones(N, dtype=bool)
    for row, event in played.guard.events:
        follows[row] = isinstance(event, Return)
        returns[row] += isinstance(event, Return)
        dropped[row] += isinstance(event, ModelDropped)
        if isinstance(event, Alarm) and event.since is not None:
            since[row], lost_to[row] = event.since, event.whom or RECENT
            if event.action is not None:
                lost_to[row] = str(problem.actions[event.action])
            if event.context is not None and recording.contexts:
                lost_to[row] += f" in context {recording.contexts[event.context]}"
    excluded = np.zeros(N, dtype=np.int64)
    if isinstance(block.forecasts, np.ndarray):
        prob_NxT = np.take_along_axis(block.forecasts, block.outcomes_NxT[..., None], axis=-1)[..., 0]
        excluded = ((prob_NxT == 0) & there_NxT).sum(axis=1)
    seems_lag, guard_then = _if_late(guard, block, beyond)
    return Judged(
        steps=there_NxT.sum(axis=1),
        totals={name: earned(name, there_NxT) for name in paid},  # one player after the other: each takes memory
        steps_after=after_NxT.sum(axis=1),
        model_after=earned("model", after_NxT),
        guard_after=earned("guard", after_NxT),
        best_action=np.array([str(action) for action in problem.actions])[best_N],
        alarm=played.alarm_N,
        since=since,
        lost_to=lost_to,
        log_e=_evidence(guard, played.guard.level_NxT, log_level),
        returns=returns,
        dropped=dropped,
        follows=follows,
        missing=block.lengths_N - there_NxT.sum(axis=1),
        excluded=excluded,
        lag=np.full(N, guard.lag),
        seems_lag=seems_lag,
        guard_then=guard_then,
        played=played,
    )


def _best_comparator(guard: Guard, block: Block, recording: Recording, played: Played) -> np.ndarray:
    """What the best of those whom regret is measured against was paid, ``[N, T]``: by context an action, or another."""
    every, context_NxT = np.arange(len(block.index_N)), block.side.context
    rows = [played.paid[f"reference {name}"] for name in recording.references]
    if guard.setting.n_comparators > len(rows):
        own_NxT = np.zeros(block.outcomes_NxT.shape)
        for c in range(guard.setting.n_contexts):
            here_AxNxT = played.utility_AxNxT * (1.0 if context_NxT is None else context_NxT == c)
            own_NxT += here_AxNxT[here_AxNxT.sum(axis=-1).argmax(axis=0), every]
        rows.append(own_NxT)
    rows_KxNxT = np.stack(rows)
    best_NxT: np.ndarray = rows_KxNxT[rows_KxNxT.sum(axis=-1).argmax(axis=0), every]
    return best_NxT


def _evidence(guard: Guard, level_NxT: np.ndarray, log_level: float) -> np.ndarray:
    """An e-value for each stream, in logarithms: at ``log_level`` when it was first reached, or in the end.

    With late outcomes it is the average over classes of steps that are a lag apart, each stopped by itself: stopped at
    one common time, their average need not be an e-value.
    """
    (N, T), d = level_NxT.shape, guard.lag
    if not guard.setting.watch.in_logs:  # a test of another kind
        return np.full(N, np.nan)
    stopped_DxN = np.full((d, N), float(guard.engine.evidence(guard.engine.start(1))[0]))
    for k in range(min(d, T)):
        with np.errstate(divide="ignore"):
            log_e_NxT = np.log(level_NxT[:, k::d])
        at_N = np.minimum(first_true(log_e_NxT >= min(log_level + math.log(d), MOST)), log_e_NxT.shape[1] - 1)
        stopped_DxN[k] = np.minimum(log_e_NxT[np.arange(N), at_N], MOST)
    found: np.ndarray = np.logaddexp.reduce(stopped_DxN) - math.log(d)
    return found


# A lag that was not given: forecasts some steps ahead, or of sums over some steps, have errors alike in a row.


_TRIED = 30  # lags, at most
_FEWEST = 5
_GOES_ON = 2.0  # standard errors that the next lag must have
_REPLAYED = 20_000  # steps of a stream: up to here it is computed what the guard would have earned


def seeming_lag(
    probs_NxTxS: np.ndarray, states_NxT: np.ndarray, lengths_N: np.ndarray, beyond: float, there_NxT: Any = True
) -> np.ndarray:
    """The lag that residuals suggest: they are correlated over fewer steps than that, more so than further back.

    A residual is 1 for the state that occurred and 0 for all others, minus the probabilities; 0 where there is no
    outcome. If each forecast was stated knowing the outcome before, its product with an earlier residual has mean 0,
    and the sum of such products over the root of that of their squares is about standard normal. The errors of a model
    that is wrong for long are as much alike further back, so that is subtracted. One step apart the correlation must
    exceed ``beyond`` standard errors; further apart it is enough that it goes on. 0: no lag is seen.
    """
    found_N, K_N = np.zeros(len(lengths_N), dtype=np.int64), np.minimum(_TRIED, lengths_N // 8)
    rows, step_T = np.flatnonzero(K_N >= _FEWEST), np.arange(states_NxT.shape[1])
    there_NxT, K_Nx1, states = (there_NxT & (step_T < lengths_N[:, None]))[rows], K_N[rows, None], states_NxT[rows]
    off_NxTxS = ((states[..., None] == np.arange(probs_NxTxS.shape[-1])) - probs_NxTxS[rows]) * there_NxT[..., None]
    off_NxTxS = off_NxTxS[..., :1] if off_NxTxS.shape[-1] == 2 else off_NxTxS  # the other is as far off the other way
    sums_NxTxS = np.cumsum(off_NxTxS, axis=1) - off_NxTxS  # before each step
    upto, begin = (np.maximum(step_T - n * K_Nx1, 0)[..., None] for n in (1, 2))
    further_NxTxS = np.take_along_axis(sums_NxTxS, upto, axis=1) - np.take_along_axis(sums_NxTxS, begin, axis=1)
    further_NxTxS /= K_Nx1[..., None]
    now_NxTxS = off_NxTxS * (step_T >= 2 * K_Nx1)[..., None]
    lag = 1
    while len(rows):
        earlier_NxTxS = off_NxTxS[:, :-lag] - further_NxTxS[:, lag:]
        product_NxT = (now_NxTxS[:, lag:] * earlier_NxTxS).sum(axis=-1)
        least_N = (beyond if lag == 1 else _GOES_ON) * np.sqrt((product_NxT**2).sum(axis=1))
        on_N = (product_NxT.sum(axis=1) > least_N) & (lag <= K_Nx1[:, 0])
        rows, K_Nx1, off_NxTxS = rows[on_N], K_Nx1[on_N], off_NxTxS[on_N]
        further_NxTxS, now_NxTxS, lag = further_NxTxS[on_N], now_NxTxS[on_N], lag + 1
        found_N[rows] = lag
    return found_N


def _if_late(guard: Guard, block: Block, beyond: float | None) -> tuple[np.ndarray, np.ndarray]:
    """The lag that residuals suggest, and what the guard would then have earned, in payoffs."""
    setting, N = guard.setting, len(block.index_N)
    seems_N, then_N = np.zeros(N, dtype=np.int64), np.full(N, np.nan)
    if beyond is None or isinstance(guard.problem, Payoff) or not setting.tests:
        return seems_N, then_N
    seems_N = seeming_lag(block.forecasts, block.outcomes_NxT, block.lengths_N, beyond, block.there_NxT)
    for lag in np.unique(seems_N[seems_N > 0]).tolist():
        rows = np.flatnonzero(seems_N == lag)
        own = block.part(rows)
        if own.lengths_N.max() <= _REPLAYED:
            paid_NxT = play(_guard_at(setting, lag), own, fallback=False).paid["guard"]
            then_N[rows] = (in_payoffs(guard.problem, paid_NxT, own.side.scale) * own.there_NxT).sum(axis=1)
    return seems_N, then_N


@lru_cache(maxsize=64)
def _guard_at(s: Setting, lag: int) -> Guard:
    """A guard made alike, for outcomes that come so late."""
    return Guard(s.problem, against=s.against, test=s.test, fallback=s.fallback, response=s.response, lag=lag)
