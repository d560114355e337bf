"""The backtest of the streams of one partition of a log: what an audit adds up."""

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import first_true
from ..forecasts import Quantiles
from ..guard import Event, Guard, Left, Return, Switch
from ..problems import DecisionProblem, Payoff
from ..rules import ExactTest
from ..tips import worst_tip
from .columns import Columns
from .known import NOTHING, Tells, Told, part_of
from .playing import guard_for, play
from .result import BEST, BEST_OF_ALL
from .rows import sorted_rows
from .streams import Block, Streams
from .times import ROWS, Every, Rhythms, Steps, irregular

LISTED = 24  # alarmed streams whose curves are kept
POINTS = 240  # of a curve
_CELLS = 1 << 22  # steps times states and actions of a block
_MOST = 690.0  # of ln E: more than any level that is asked for


class AuditSettings(NamedTuple):
    """How every stream of an audit is judged."""

    problem: DecisionProblem | Payoff
    horizon: int
    delta: float
    temperature: float
    level: float  # of E: where a stream's e-value is stopped, or at its end
    fallback: bool  # whether the fallback plays alone as well
    events: bool  # whether it is said since when models were wrong, and when they returned
    episode: int | None
    steps: str  # what they are, as ``Steps`` has it
    every: Every | None  # how far apart times must be
    alone: str  # why all rows are one stream, where no column names it
    columns: Columns
    tells: Tells = NOTHING  # what else was known before each state
    test: bool = True
    internal: bool = False

    @property
    def grid(self) -> np.ndarray:
        """The steps of curves over all streams."""
        return grid_of(self.horizon)


def grid_of(steps: int) -> np.ndarray:
    return np.unique(np.linspace(1, steps, min(POINTS, steps)).round().astype(np.int64))


@lru_cache(maxsize=4)
def guard_of(
    problem: DecisionProblem | Payoff,
    horizon: int,
    delta: float,
    temperature: float,
    episode: int | None = None,
    tells: Tells = NOTHING,
    test: bool = True,
    internal: bool = False,
) -> Guard:
    """The guard of an audit; with episodes they share delta evenly."""
    more = {"test": test, "internal": internal}
    return guard_for(problem, horizon, tells, delta=delta, temperature=temperature, episode=episode, **more)


def judged(settings: AuditSettings, names: dict[int, str], records: np.ndarray, where: Any) -> dict[str, Any]:
    """Everything about a partition as plain numbers: streams, curves added up, the alarmed ones in detail."""
    streams, clock, rhythms = _streams(settings, names, records, where)
    first_B = np.cumsum(streams.lengths_B) - streams.lengths_B
    problem, grid = settings.problem, settings.grid
    guard = guard_of(
        *(problem, settings.horizon, settings.delta, settings.temperature, settings.episode),
        *(settings.tells, settings.test, settings.internal),
    )
    promised = None
    each: list[Any] = [None] * len(streams.names)
    curves: dict[str, np.ndarray] = {}
    steps_G = np.zeros(len(grid), dtype=np.int64)
    details: list[dict[str, Any]] = []
    if streams.names:
        for block in streams.blocks(max(1, _CELLS // (guard.rule.n_states + problem.n_actions))):
            seen = _seen(settings, guard, block)
            best_N = seen.actions_NxA.argmax(axis=1)
            paid = {**seen.paid, BEST: seen.utility_AxNxT[best_N, np.arange(len(best_N))]}
            if settings.tells.references or settings.tells.contexts:
                paid[BEST_OF_ALL] = _best_comparator(block, settings.tells, seen)
            if block.told is not None and block.told.scale is not None:
                # What is sure counts as much as the step does: as payoffs are utility and something sure for each step.
                sure = float(problem.in_payoffs(0.0)) / float(problem.regret_in_payoffs(1.0))
                paid = {name: own + (block.told.scale - 1) * sure * block.there_NxT for name, own in paid.items()}
            promised = max(promised or 0.0, seen.regret_bound) if seen.regret_bound is not None else promised
            money = {name: np.cumsum(paid_NxT, axis=1) for name, paid_NxT in paid.items()}
            upto_G = np.minimum(grid, block.came_NxT.shape[1]) - 1
            for name, money_NxT in money.items():
                curves[name] = curves.get(name, 0.0) + money_NxT[:, upto_G].sum(axis=0)
            steps_G += np.minimum(block.lengths_N[:, None], grid).sum(axis=0)
            told = _told(settings, seen)
            for n, i in enumerate(block.index_N.tolist()):
                happened = told(n)
                steps = (int(seen.trips_N[n]) or None, happened[1])
                times = [_time(clock, int(first_B[i]), step) for step in steps]
                each[i] = _result(streams, block, n, i, paid, best_N, seen) + happened + times
            rows = sorted(
                np.flatnonzero(seen.trips_N).tolist(), key=lambda n: (-seen.log_e_N[n], streams.names[block.index_N[n]])
            )
            details += [_detail(streams, block, n, money, seen) for n in rows[:LISTED]]
    details.sort(key=lambda one: (-one["log_e"], one["stream"]))
    return {
        "streams": each,
        "curves": {name: values.tolist() for name, values in curves.items()},
        "curve_steps": steps_G.tolist(),
        "details": details[:LISTED],
        "rhythms": list(rhythms),
        "regret_bound": promised,
    }


def _best_comparator(block: Block, tells: Tells, seen: "Seen") -> np.ndarray:
    """What the best of all that is promised was paid, ``[N, T]``: an action for each context, or a reference."""
    N, own_NxT = len(block.index_N), np.zeros(block.came_NxT.shape)
    assert block.told is not None
    for c in range(len(tells.contexts or (0,))):
        here_NxT = 1.0 if block.told.context is None else block.told.context == c
        here_AxNxT = seen.utility_AxNxT * here_NxT
        own_NxT += here_AxNxT[here_AxNxT.sum(axis=-1).argmax(axis=0), np.arange(N)]
    rows_KxNxT = np.stack([own_NxT, *(seen.paid[name] for name in tells.players())])
    return rows_KxNxT[rows_KxNxT.sum(axis=-1).argmax(axis=0), np.arange(N)]


class Seen(NamedTuple):
    """What came of a block."""

    paid: dict[str, np.ndarray]  # by player, [N, T]
    actions_NxA: np.ndarray
    trips_N: np.ndarray
    switches_N: np.ndarray
    events: tuple[tuple[int, Event], ...]
    log_e_NxT: np.ndarray
    log_e_N: np.ndarray  # an e-value for each stream
    utility_AxNxT: np.ndarray
    regret_bound: float | None  # where what is guaranteed depends on the run


def _seen(settings: AuditSettings, guard: Guard, block: Block) -> Seen:
    rule, log_level, length = guard.rule, math.log(settings.level), guard.episode
    assert isinstance(rule, ExactTest)
    apart = length is not None and not (rule.of_numbers or rule.untested)  # of those what is played goes on
    played = play(guard, block, settings.fallback, live=settings.events, others=apart)
    paid, trips_N, (N, T) = played.paid, played.trips_N, block.came_NxT.shape
    events = played.events if settings.events else ()
    bound = None if played.certificate is None else float(played.certificate.regret_bound)
    more = played.utility_AxNxT, bound
    if length is None:
        log_e_NxT = _log_evidence(rule, block)
        log_e_N = _stopped(log_e_NxT, block.lengths_N, log_level)
        return Seen(paid, played.actions_NxA, trips_N, trips_N > 0, events, log_e_NxT, log_e_N, *more)
    episodes = cut(block, length)
    if apart:
        own = guarded(guard, block, episodes, settings.events)
        paid, trips_N, switches_N, events = {**paid, "guard": own.paid_NxT}, own.trips_N, own.switches_N, own.events
    else:
        switched = [row for row, event in played.events if isinstance(event, Switch)]
        switches_N = np.bincount(np.array(switched, dtype=np.int64), minlength=N)
    log_e_MxT = _log_evidence(rule, episodes.block)
    e_M = np.exp(_stopped(log_e_MxT, episodes.block.lengths_N, log_level))
    # Whatever came before, the e-value of an episode is one: so is their mean.
    e_N = np.bincount(episodes.owner_M, e_M, N) / np.bincount(episodes.owner_M, minlength=N)
    log_e_N = np.log(np.maximum(e_N, np.finfo(float).tiny))
    log_e_NxT = episodes.joined(log_e_MxT, T)
    return Seen(paid, played.actions_NxA, trips_N, switches_N, events, log_e_NxT, log_e_N, *more)


def _log_evidence(rule: ExactTest, block: Block) -> np.ndarray:
    known = None if block.told is None else block.told.known(rule)
    return rule.log_evidence(block.forecasts, block.came_NxT, known)


def _told(settings: AuditSettings, seen: Seen) -> Callable[[int], list[Any]]:
    """By row: in how many episodes it switched, since which step its model was wrong, returns, and how often left."""
    since: dict[int, int | None] = {}
    returns = dict.fromkeys(range(len(seen.trips_N)), 0)
    left = dict(returns)
    for row, event in sorted(seen.events, key=lambda pair: (pair[0], pair[1].episode, pair[1].step)):
        if isinstance(event, Return):
            returns[row] += 1
        elif isinstance(event, Left):
            left[row] += 1
        elif row not in since:  # none where a state came that the model had excluded
            before = (event.episode - 1) * (settings.episode or 0)
            since[row] = None if event.since is None else before + event.since
    return lambda n: [
        int(seen.switches_N[n]),
        since.get(n),
        *((returns[n], left[n]) if settings.events else (None, None)),
    ]


def _time(clock: Steps, first: int, step: int | None) -> str | int | None:
    """What the log calls a step of the stream whose rows begin there: a time, or a number; None where it says none."""
    if step is None or clock.kind == ROWS:
        return None
    row = first + step - 1
    return int(clock.at_R[row]) if clock.counted else clock.spelt(row)


def _streams(
    settings: AuditSettings, names: dict[int, str], records: np.ndarray, where: Any
) -> tuple[Streams, Steps, Rhythms]:
    """The streams of a partition by name, when their rows were, and what these times say of missing ones."""
    ordered = sorted(names, key=names.__getitem__)
    rank = np.zeros(max(names, default=0) + 1, dtype=np.int64)
    rank[ordered] = np.arange(len(ordered))
    stream_R, listed = rank[records["stream"]], [names[i] for i in ordered]
    steps = Steps(records["order"], records["offset"], settings.steps)
    place_R = sorted_rows(listed, stream_R, steps, records["row"], where, settings.every, settings.alone)
    records, stream_R, steps = records[place_R], stream_R[place_R], steps.of(place_R)
    rhythms = irregular(stream_R, steps)
    cuts = np.flatnonzero(np.diff(stream_R)) + 1
    states_R = records["state"].astype(np.float64 if settings.columns.levels else np.int64)
    if not listed:
        return _NONE, steps, rhythms
    probs, states = np.split(records["probs"], cuts), np.split(states_R, cuts)
    told = None
    if settings.tells != NOTHING:
        whole = Told(*(records[part] if part in records.dtype.names else None for part in Told._fields))  # type: ignore[operator]
        told = [whole.part(slice(*ends)) for ends in itertools.pairwise([0, *cuts, len(records)])]
    forecasts = [Quantiles(settings.columns.levels, own) for own in probs] if settings.columns.levels else probs
    return Streams(tuple(listed), forecasts, states, told=told, tells=settings.tells), steps, rhythms


_NONE = Streams((), [], [])


def _stopped(log_e_NxT: np.ndarray, lengths_N: np.ndarray, log_level: float) -> np.ndarray:
    """ln E when it first reached the level, or at the end of the stream: an e-value either way."""
    at_N = np.minimum(first_true(log_e_NxT >= log_level), lengths_N - 1)
    return np.minimum(np.take_along_axis(log_e_NxT, at_N[:, None], axis=1)[:, 0], _MOST)


def _result(
    streams: Streams, block: Block, n: int, i: int, paid: dict[str, np.ndarray], best_N: np.ndarray, seen: Seen
) -> list[Any]:
    """One stream: name, steps, utilities in all by player, the best action, when it switched, ln E, V-regret."""
    T = int(block.lengths_N[n])
    totals = [float(paid_NxT[n, :T].sum()) for paid_NxT in paid.values()]
    v_regret = None
    if getattr(streams.forecasts[i], "shape", ())[1:] == (2,):  # a law
        v_regret = float(worst_tip(streams.forecasts[i], streams.states[i]).regret)
    return [streams.names[i], T, totals, int(best_N[n]), int(seen.trips_N[n]), float(seen.log_e_N[n]), v_regret]


def _detail(streams: Streams, block: Block, n: int, money: dict[str, np.ndarray], seen: Seen) -> dict[str, Any]:
    """The curves of one stream, thinned."""
    steps = grid_of(int(block.lengths_N[n]))
    return {
        "stream": streams.names[block.index_N[n]],
        "log_e": float(seen.log_e_N[n]),
        "steps": steps.tolist(),
        "evidence": np.minimum(seen.log_e_NxT[n, steps - 1], _MOST).tolist(),
        "money": {name: money_NxT[n, steps - 1].tolist() for name, money_NxT in money.items()},
    }


# Recorded streams in episodes: each a stream of its own to the guard, which begins afresh.


class Cut(NamedTuple):
    """The episodes of a block as streams side by side."""

    block: Block
    owner_M: np.ndarray  # which row of the block each is of
    number_M: np.ndarray  # which episode of it, from 0

    def joined(self, values_MxT: np.ndarray, steps: int) -> np.ndarray:
        """What stands for every step of the episodes, ``[M, T]``, in the places of the streams ``[N, steps]``."""
        T = values_MxT.shape[1]
        found_NxExT = np.zeros((int(self.owner_M.max()) + 1, -(-steps // T), T))
        found_NxExT[self.owner_M, self.number_M] = values_MxT
        return found_NxExT.reshape(len(found_NxExT), -1)[:, :steps]


def cut(block: Block, episode: int) -> Cut:
    """The episodes of so many steps each; the last of a stream may be shorter, and its last step is filler then."""
    T = block.came_NxT.shape[1]
    E = -(-T // episode)
    lengths = np.clip(block.lengths_N[:, None] - episode * np.arange(E), 0, episode).ravel()
    there = np.flatnonzero(lengths)
    owner_M, number_M = there // E, there % E
    step_MxT = np.minimum(number_M[:, None] * episode + np.arange(episode), T - 1)
    at = owner_M[:, None], step_MxT
    told = None if block.told is None else block.told.part(at)
    own = Block(there, lengths[there], part_of(block.forecasts, at), block.came_NxT[at], told)
    return Cut(own, owner_M, number_M)


class EpisodesPlayed(NamedTuple):
    """What a guard of episodes did on a block."""

    paid_NxT: np.ndarray
    trips_N: np.ndarray  # states of the whole stream seen at its first switch, 0 for never
    switches_N: np.ndarray  # in how many of its episodes it switched
    events: tuple[tuple[int, Event], ...]  # with the row of the stream, where they are asked for


def guarded(guard: Guard, block: Block, episodes: Cut, live: bool) -> EpisodesPlayed:
    """The guard on every episode; ``live``: it tells what happened, and takes longer."""
    assert guard.episode is not None
    single = Guard(guard.problem, guard.rule.horizon, rule=guard.rule)
    played = play(single, episodes.block, fallback=False, live=live)
    N, T = block.came_NxT.shape
    trips_N = np.zeros(N, dtype=np.int64)
    for m in np.flatnonzero(played.trips_N)[::-1]:
        at = episodes.number_M[m] * guard.episode + played.trips_N[m]
        trips_N[episodes.owner_M[m]] = at
    events = tuple(
        (int(episodes.owner_M[m]), event._replace(episode=int(episodes.number_M[m]) + 1)) for m, event in played.events
    )
    switches_N = np.bincount(episodes.owner_M[played.trips_N > 0], minlength=N)
    return EpisodesPlayed(episodes.joined(played.paid["guard"], T), trips_N, switches_N, events)
