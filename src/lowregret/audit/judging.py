"""The backtest of the streams of one partition of a log: what an audit adds up."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import first_true
from ..engine import BestResponse, ExactTest, NoTest, QuantalResponse
from ..forecasts import Quantiles
from ..guard import Guard
from ..guard.events import Alarm, ModelDropped, Return
from ..problems import DecisionProblem, Payoff
from .columns import Columns
from .known import NOTHING, Tells, Told, lags_of
from .playing import Played, play
from .result import BEST, BEST_OF_ALL
from .rows import sorted_rows
from .sketch import DELTAS, Sketch, excluded
from .streams import Block, Streams
from .times import ROWS, Every, Rhythms, Steps, irregular

RECENT = "recent frequencies"  # what a model loses to where they predict better
LISTED = 24  # streams with most evidence, whose curves are kept
POINTS = 240  # of a curve
_CELLS = 1 << 18  # steps times states and actions of a block: small enough for the cache
_MOST = 690.0  # of ln E: more than any level that is asked for


class AuditSettings(NamedTuple):
    """How every stream of an audit is judged."""

    problem: DecisionProblem | Payoff
    horizon: int
    delta: float
    temperature: float
    level: float  # of E: a stream's e-value stops there, or at the end
    fallback: bool  # whether the fallback plays alone as well
    events: bool  # whether it is said since when models were wrong, and when they returned
    steps: str  # what they are, as ``Steps`` has it
    every: Every | None  # how far apart times must be
    alone: str  # why all rows are one stream, where no column names it
    lag: int | None  # how late outcomes were known; None: not given, and known by the next step
    beyond: float  # how many standard errors of a correlation are beyond chance, over all streams
    columns: Columns
    tells: Tells = NOTHING  # what else was known before each state
    test: bool = True

    @property
    def grid(self) -> np.ndarray:
        """The steps of curves over all streams."""
        return grid_of(self.horizon)


def grid_of(steps: int) -> np.ndarray:
    return np.unique(np.linspace(1, steps, min(POINTS, steps)).round().astype(np.int64))


@lru_cache(maxsize=32)
def guard_of(
    problem: DecisionProblem | Payoff,
    horizon: int,
    delta: float,
    temperature: float,
    lag: int = 1,
    tells: Tells = NOTHING,
    test: bool = True,
) -> Guard:
    """The guard of an audit."""
    return Guard(
        tells.stakes(problem),
        against=tells.against,
        test=ExactTest(delta, horizon) if test else NoTest(horizon),
        response=QuantalResponse(temperature) if temperature else BestResponse(),
        lag=lag,
    )


class StreamFound(NamedTuple):
    """One stream in plain numbers; ``Audit.parts`` holds them as lists, in this order."""

    stream: str
    steps: int
    totals: list[float]  # utilities in all, by player
    best: int  # the best fixed action
    switched_at: int | None
    log_e: float
    since: int | None
    lost_to: str | None
    returns: int | None
    left: int | None
    switched_time: str | int | None
    since_time: str | int | None
    lag: int  # after how many steps its outcomes were known, at most
    early: int  # outcomes that were known before their own step, by what the log says
    excluded: int  # outcomes to which its model had given probability 0
    seems: int | None  # the lag that its residuals look like, where none was given
    then: float | None  # what the guard would have earned at that lag, in utility in all


def judged(settings: AuditSettings, names: dict[int, str], records: np.ndarray, where: Any) -> dict[str, Any]:
    """Everything about a partition as plain numbers: streams, curves added up, streams with an alarm in detail."""
    dated = _streams(settings, names, records, where)
    problem, grid, every = settings.problem, settings.grid, dated.streams
    each: list[Any] = [None] * len(every.names)
    sketch = Sketch(problem, every, dated.clock, grid)
    curves: dict[str, np.ndarray] = {}
    steps_G = np.zeros(len(grid), dtype=np.int64)
    details: list[dict[str, Any]] = []
    promised = None
    for lag, index in _by_lag(settings, every):
        streams, guard = every.some(index), _guard(settings, lag)
        tested = guard if settings.test else _guard(settings._replace(test=True), lag)
        for block in streams.blocks(max(1, _CELLS // (guard.setting.outcomes.n_states + problem.n_actions))):
            played, sure_NxT = play(guard, block, settings.fallback), _sure(problem, block)
            judged_by = played if settings.test else play(tested, block, fallback=False)
            log_e_NxT, log_e_N = _evidence(tested, judged_by.guard.level_NxT, block.lengths_N, math.log(settings.level))
            best_N = played.utility_AxNxT.sum(axis=-1).argmax(axis=0)
            paid = {**played.paid, BEST: played.utility_AxNxT[best_N, np.arange(len(best_N))]}
            if settings.tells.references or settings.tells.contexts:
                paid[BEST_OF_ALL] = _best_comparator(block, settings.tells, played)
            paid = {name: own + sure_NxT for name, own in paid.items()}
            if isinstance(problem, Payoff):  # what is guaranteed goes by what was charged
                bound = guard.certificate_of(played.guard.rows).regret_bound
                promised = bound if promised is None else max(promised, bound)
            money = {name: np.cumsum(paid_NxT, axis=1) for name, paid_NxT in paid.items()}
            upto_G = np.minimum(grid, block.came_NxT.shape[1]) - 1
            for name, money_NxT in money.items():
                curves[name] = curves.get(name, 0.0) + money_NxT[:, upto_G].sum(axis=0)
            steps_G += np.minimum(block.lengths_N[:, None], grid).sum(axis=0)
            told, lately = _told(settings, played), _lately(settings, block)
            excluded_N = excluded(block).sum(axis=1)
            for n, i in enumerate(block.index_N.tolist()):
                since, *happened = told(n)
                T, trip = int(block.lengths_N[n]), int(played.trips_N[n]) or None
                totals = [float(paid_NxT[n, :T].sum()) for paid_NxT in paid.values()]
                each[index[i]] = [
                    *(streams.names[i], T, totals, int(best_N[n]), trip, float(log_e_N[n])),
                    *(since, *happened, dated.time(index[i], trip), dated.time(index[i], since)),
                    *(lag, dated.early(index[i]), int(excluded_N[n]), *lately.get(n, (None, None))),
                ]
            placed = block._replace(index_N=np.asarray(index)[block.index_N])  # among all streams of the partition
            sketch.add(tested, placed, played, money, log_e_NxT)
            if settings.test:
                sketch.tried(placed, settings.delta, paid["guard"], played.trips_N)
            for delta in {*DELTAS} - {settings.delta} if settings.events and settings.test else ():
                tried = play(_guard(settings._replace(delta=delta), lag), block, fallback=False)
                sketch.tried(placed, delta, tried.paid["guard"] + sure_NxT, tried.trips_N)
            ranked = sorted(range(len(block.index_N)), key=lambda n: (-log_e_N[n], streams.names[block.index_N[n]]))
            for n in ranked[:LISTED]:
                own = [event for row, event in played.guard.events if row == n and settings.events]
                steps_P = grid_of(int(block.lengths_N[n]))
                marks = sketch.marks(int(placed.index_N[n]), int(played.trips_N[n]), own)
                curve = sketch.detail(tested, placed, n, played, money, np.minimum(log_e_NxT[n], _MOST), steps_P)
                details.append({"log_e": float(log_e_N[n]), "marks": marks, **curve})
    details.sort(key=lambda one: (-one["log_e"], one["stream"]))
    return {
        "streams": each,
        "curves": {name: values.tolist() for name, values in curves.items()},
        "curve_steps": steps_G.tolist(),
        "details": details[:LISTED],
        "rhythms": list(dated.rhythms),
        "span": dated.span,
        "sketch": sketch.told(),
        "regret_bound": promised,
    }


def _sure(problem: DecisionProblem | Payoff, block: Block) -> Any:
    """What a scale takes off, ``[N, T]``: it applies to payoffs as a whole, so also to what utility 0 stands for."""
    if block.told is None or block.told.scale is None:
        return 0.0
    sure = float(problem.in_payoffs(0.0)) / float(problem.regret_in_payoffs(1.0))
    return (block.told.scale - 1) * sure * block.there_NxT


def _guard(settings: AuditSettings, lag: int) -> Guard:
    return guard_of(
        *(settings.problem, settings.horizon, settings.delta, settings.temperature, lag),
        *(settings.tells, settings.test),
    )


def _by_lag(settings: AuditSettings, streams: Streams) -> list[tuple[int, list[int]]]:
    """Lags, and which streams have them: the one given, or for each stream that of its latest outcome."""
    if streams.lags is None:
        return [(settings.lag or 1, list(range(len(streams.names))))] if streams.names else []
    found: dict[int, list[int]] = {}
    for i, lags_T in enumerate(streams.lags):
        found.setdefault(int(lags_T.max()), []).append(i)
    return sorted(found.items())


def _best_comparator(block: Block, tells: Tells, played: Played) -> np.ndarray:
    """What the best comparator of the promise was paid, ``[N, T]``: an action for each context, or a reference."""
    N, own_NxT = len(block.index_N), np.zeros(block.came_NxT.shape)
    assert block.told is not None
    for c in range(len(tells.contexts or (0,))):
        here_NxT = 1.0 if block.told.context is None else block.told.context == c
        here_AxNxT = played.utility_AxNxT * here_NxT
        own_NxT += here_AxNxT[here_AxNxT.sum(axis=-1).argmax(axis=0), np.arange(N)]
    rows_KxNxT = np.stack([own_NxT, *(played.paid[name] for name in tells.players())])
    return rows_KxNxT[rows_KxNxT.sum(axis=-1).argmax(axis=0), np.arange(N)]


def _evidence(
    guard: Guard, level_NxT: np.ndarray, lengths_N: np.ndarray, log_level: float
) -> tuple[np.ndarray, np.ndarray]:
    """ln E as it was known at every step, ``[N, T]``, and an e-value for each stream.

    With late outcomes it is the average over classes of steps that are a lag apart, each stopped by itself: stopped at
    one common time, their average need not be an e-value.
    """
    (N, T), d = level_NxT.shape, guard.lag
    with np.errstate(divide="ignore"):
        log_e_NxT = np.log(level_NxT)
    if d == 1:
        return log_e_NxT, _stopped(log_e_NxT, lengths_N, log_level)
    fresh = float(guard.engine.evidence(guard.engine.start(1))[0])
    found_DxNxT, stopped_DxN = np.full((d, N, T), fresh), np.full((d, N), fresh)
    for k in range(min(d, T)):
        own_NxT = log_e_NxT[:, k::d]
        after_T = (np.arange(T) - (d - 1) - k) // d  # which of its outcomes was the last that is known
        found_DxNxT[k] = np.where(after_T < 0, fresh, own_NxT[:, np.maximum(after_T, 0)])
        ends_N = np.full(N, own_NxT.shape[1])
        stopped_DxN[k] = _stopped(own_NxT, ends_N, min(log_level + math.log(d), _MOST))
    return np.logaddexp.reduce(found_DxNxT) - math.log(d), np.logaddexp.reduce(stopped_DxN) - math.log(d)


def _told(settings: AuditSettings, played: Played) -> Callable[[int], list[Any]]:
    """By row: since when its model lost and to what, returns, exits after them."""
    if not settings.events:
        return lambda n: [None] * 4
    since: dict[int, tuple[int | None, str | None]] = {}
    returns, left = Counter[int](), Counter[int]()
    for row, event in played.guard.events:
        if isinstance(event, Alarm):  # none where a state came that the model had excluded
            since[row] = (None, None) if event.since is None else (event.since, _better(settings, event))
        returns[row] += isinstance(event, Return)
        left[row] += isinstance(event, ModelDropped)
    return lambda n: [*since.get(n, (None, None)), returns[n], left[n]]


def _better(settings: AuditSettings, alarm: Alarm) -> str:
    """What the model lost to."""
    if alarm.gain is not None:
        return alarm.whom or RECENT
    whom = str(alarm.whom) if alarm.action is None else str(settings.problem.actions[alarm.action])
    named = settings.tells.contexts
    return whom if alarm.context is None or not named else f"{whom} in context {named[alarm.context]}"


class Dated(NamedTuple):
    """The streams of a partition by name, and the times of their rows."""

    streams: Streams
    clock: Steps
    first_B: np.ndarray  # the row with which each begins
    known_R: np.ndarray | None  # when their outcomes were known
    rhythms: Rhythms

    def time(self, i: int, step: int | None) -> str | int | None:
        """What the log calls a step of a stream: a time or a number; None where it has neither."""
        if step is None or self.clock.kind == ROWS:
            return None
        row = int(self.first_B[i]) + step - 1
        return int(self.clock.at_R[row]) if self.clock.counted else self.clock.spelt(row)

    def early(self, i: int) -> int:
        """How many outcomes of a stream were known before their own step, by what the log says."""
        if self.known_R is None:
            return 0
        own = slice(int(self.first_B[i]), int(self.first_B[i]) + len(self.streams.states[i]))
        return int((self.known_R[own] < self.clock.at_R[own]).sum())

    @property
    def span(self) -> list[list[int]]:
        """The first and the last time of all streams, each with its offset; nothing where there are no dates."""
        if not self.clock.dated or not len(self.clock.at_R):
            return []
        ends = int(self.clock.at_R.argmin()), int(self.clock.at_R.argmax())
        return [[int(self.clock.at_R[row]), int(self.clock.offset_R[row])] for row in ends]


def _streams(settings: AuditSettings, names: dict[int, str], records: np.ndarray, where: Any) -> Dated:
    """The streams of a partition by name, the times of their rows, and which steps these show to be missing."""
    ordered = sorted(names, key=names.__getitem__)
    rank = np.zeros(max(names, default=0) + 1, dtype=np.int64)
    rank[ordered] = np.arange(len(ordered))
    stream_R, listed = rank[records["stream"]], [names[i] for i in ordered]
    steps = Steps(records["order"], records["offset"], settings.steps)
    place_R = sorted_rows(listed, stream_R, steps, records["row"], where, settings.every, settings.alone)
    if (np.diff(place_R) != 1).any():
        records, stream_R, steps = records[place_R], stream_R[place_R], steps.of(place_R)
    rhythms = irregular(stream_R, steps)
    cuts = np.flatnonzero(np.diff(stream_R)) + 1
    known_R = records["known"] if "known" in (records.dtype.names or ()) else None
    if not listed:
        return Dated(Streams((), [], []), steps, np.zeros(0, dtype=np.int64), known_R, rhythms)
    states_R = records["state"].astype(np.float64 if settings.columns.levels else np.int64)
    probs, states = np.split(records["probs"], cuts), np.split(states_R, cuts)
    told = None
    if settings.tells != NOTHING:
        whole = Told(*(records[part] if part in records.dtype.names else None for part in Told._fields))  # type: ignore[operator]
        told = [whole.part(slice(*ends)) for ends in itertools.pairwise([0, *cuts, len(records)])]
    forecasts = [Quantiles(settings.columns.levels, own) for own in probs] if settings.columns.levels else probs
    lags = None
    if known_R is not None:
        lags = [lags_of(*pair) for pair in zip(np.split(steps.at_R, cuts), np.split(known_R, cuts), strict=True)]
    streams = Streams(tuple(listed), forecasts, states, told=told, tells=settings.tells, lags=lags)
    return Dated(streams, steps, np.append(0, cuts), known_R, rhythms)


# A lag that was not given: forecasts some steps ahead, or of sums over some steps, have errors alike in a row.


_TRIED = 30  # lags, at most
_FEWEST = 5
_GOES_ON = 2.0  # standard errors that the next lag must have
_REPLAYED = 20_000  # steps of a stream: up to here it is said what the guard would have earned


def seeming_lag(probs_TxS: np.ndarray, states_T: np.ndarray, beyond: float) -> int | None:
    """The lag that residuals look like: they are correlated over fewer steps than that, more so than further back.

    A residual is 1 for what came and 0 for all else, minus the probabilities. If each law was stated knowing the
    outcome before, its product with an earlier residual has mean 0, and the sum of such products over the root of that
    of their squares is about standard normal. The errors of a model that is wrong for long are as much alike further
    back, so that is subtracted. One step apart the correlation must exceed ``beyond`` standard errors; further apart it
    is enough that it goes on.
    """
    T, S = probs_TxS.shape
    K = min(_TRIED, T // 8)
    if K < _FEWEST:
        return None
    off_TxS = -probs_TxS.copy()
    off_TxS[np.arange(T), states_T] += 1
    off_TxS = off_TxS[:, :1] if S == 2 else off_TxS  # the other is as far off the other way
    sums_TxS = np.cumsum(off_TxS, axis=0)
    now_TxS, further_TxS = (
        off_TxS[2 * K :],
        (sums_TxS[K - 1 : T - K - 1] - np.vstack([0 * sums_TxS[:1], sums_TxS[: T - 2 * K - 1]])) / K,
    )
    lag = 1
    while lag <= K:
        product_T = (now_TxS * (off_TxS[2 * K - lag : T - lag] - further_TxS)).sum(axis=1)
        if not product_T.sum() > (beyond if lag == 1 else _GOES_ON) * math.sqrt((product_T**2).sum()):
            break
        lag += 1
    return lag if lag > 1 else None


def _lately(settings: AuditSettings, block: Block) -> dict[int, tuple[int, float | None]]:
    """By row: the lag that its residuals look like, where none was given, and what the guard would then have earned."""
    if settings.lag is not None or block.lags_NxT is not None or settings.columns.levels or not settings.test:
        return {}
    found: dict[int, list[int]] = {}
    for n, T in enumerate(block.lengths_N.tolist()):
        lag = seeming_lag(block.forecasts[n, :T], block.came_NxT[n, :T], settings.beyond)
        if lag is not None:
            found.setdefault(lag, []).append(n)
    told: dict[int, tuple[int, float | None]] = {}
    for lag, rows in found.items():
        own = block.rows(np.array(rows))
        earned: list[Any] = [None] * len(rows)
        if settings.events and int(own.lengths_N.max()) <= _REPLAYED:
            earned_NxT = play(_guard(settings, lag), own, fallback=False).paid["guard"] + _sure(settings.problem, own)
            earned = earned_NxT.sum(axis=1).tolist()
        told |= {n: (lag, then) for n, then in zip(rows, earned, strict=True)}
    return told


def _stopped(log_e_NxT: np.ndarray, lengths_N: np.ndarray, log_level: float) -> np.ndarray:
    """ln E when it first reached the level, or at the end of the stream: an e-value either way."""
    at_N = np.minimum(first_true(log_e_NxT >= log_level), lengths_N - 1)
    return np.minimum(np.take_along_axis(log_e_NxT, at_N[:, None], axis=1)[:, 0], _MOST)
