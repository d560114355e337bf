"""The backtest of the streams of one partition of a log: what an audit adds up."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import first_true
from ..guard import Guard
from ..problems import DecisionProblem
from ..rules import ExactTest
from ..tips import worst_tip
from .playing import play
from .rows import sorted_rows
from .streams import Block, Streams

BEST = "best fixed action"
LISTED = 24  # alarmed streams whose curves are kept
POINTS = 240  # of a curve
_CELLS = 1 << 22  # steps times states and actions of a block
_MOST = 690.0  # of ln E: more than any level that is asked for


class Settings(NamedTuple):
    """How every stream of an audit is judged."""

    problem: DecisionProblem
    horizon: int
    delta: float
    gate: float
    level: float  # of E: where a stream's e-value is stopped, or at its end
    fallback: bool  # whether the fallback plays alone as well
    counted: bool

    @property
    def grid(self) -> np.ndarray:
        """The steps of curves over all streams."""
        return grid_of(self.horizon)


def grid_of(steps: int) -> np.ndarray:
    return np.unique(np.linspace(1, steps, min(POINTS, steps)).round().astype(np.int64))


@lru_cache(maxsize=4)
def guard_of(problem: DecisionProblem, horizon: int, delta: float, gate: float) -> Guard:
    """The guard of an audit."""
    return Guard(problem, horizon, rule=ExactTest(problem, horizon, delta, gate))


def judged(settings: Settings, names: dict[int, str], records: np.ndarray, where: Any) -> dict[str, Any]:
    """Everything about a partition as plain numbers: streams, curves added up, the alarmed ones in detail."""
    streams = _streams(settings, names, records, where)
    problem, grid = settings.problem, settings.grid
    guard = guard_of(problem, settings.horizon, settings.delta, settings.gate)
    each: list[Any] = [None] * len(streams.names)
    curves: dict[str, np.ndarray] = {}
    steps_G = np.zeros(len(grid), dtype=np.int64)
    details: list[dict[str, Any]] = []
    if streams.names:
        for block in streams.blocks(max(1, _CELLS // (problem.n_states + problem.n_actions))):
            played = play(guard, block, settings.fallback, live=False)
            assert isinstance(guard.rule, ExactTest)
            log_e_NxT = guard.rule.log_evidence(block.probs_NxTxS, block.states_NxT)
            best_N = played.actions_NxA.argmax(axis=1)
            paid = {**played.paid, BEST: problem.utility[best_N[:, None], block.states_NxT] * block.there_NxT}
            log_e_N = _stopped(log_e_NxT, block.lengths_N, math.log(settings.level))
            money = {name: np.cumsum(paid_NxT, axis=1) for name, paid_NxT in paid.items()}
            upto_G = np.minimum(grid, block.states_NxT.shape[1]) - 1
            for name, money_NxT in money.items():
                curves[name] = curves.get(name, 0.0) + money_NxT[:, upto_G].sum(axis=0)
            steps_G += np.minimum(block.lengths_N[:, None], grid).sum(axis=0)
            for n, i in enumerate(block.index_N.tolist()):
                each[i] = _result(streams, block, n, i, paid, best_N, played.trips_N, log_e_N)
            rows = sorted(
                np.flatnonzero(played.trips_N).tolist(), key=lambda n: (-log_e_N[n], streams.names[block.index_N[n]])
            )
            details += [_detail(streams, block, n, money, log_e_NxT, log_e_N) for n in rows[:LISTED]]
    details.sort(key=lambda one: (-one["log_e"], one["stream"]))
    return {
        "streams": each,
        "curves": {name: values.tolist() for name, values in curves.items()},
        "curve_steps": steps_G.tolist(),
        "details": details[:LISTED],
    }


def _streams(settings: Settings, names: dict[int, str], records: np.ndarray, where: Any) -> Streams:
    """The streams of a partition in the order of their names."""
    ordered = sorted(names, key=names.__getitem__)
    rank = np.zeros(max(names, default=0) + 1, dtype=np.int64)
    rank[ordered] = np.arange(len(ordered))
    stream_R, listed = rank[records["stream"]], [names[i] for i in ordered]
    place_R = sorted_rows(listed, stream_R, records["order"], settings.counted, records["row"], where)
    records, stream_R = records[place_R], stream_R[place_R]
    cuts = np.flatnonzero(np.diff(stream_R)) + 1
    states_R = records["state"].astype(np.int64)
    return Streams(tuple(listed), np.split(records["probs"], cuts), np.split(states_R, cuts)) if listed else _NONE


_NONE = Streams((), [], [])


def _stopped(log_e_NxT: np.ndarray, lengths_N: np.ndarray, log_level: float) -> np.ndarray:
    """ln E when it first reached the level, or at the end of the stream: an e-value either way."""
    at_N = np.minimum(first_true(log_e_NxT >= log_level), lengths_N - 1)
    return np.minimum(np.take_along_axis(log_e_NxT, at_N[:, None], axis=1)[:, 0], _MOST)


def _result(
    streams: Streams,
    block: Block,
    n: int,
    i: int,
    paid: dict[str, np.ndarray],
    best_N: np.ndarray,
    trips_N: np.ndarray,
    log_e_N: np.ndarray,
) -> list[Any]:
    """One stream: name, steps, utilities in all by player, the best action, when it switched, ln E, V-regret."""
    T = int(block.lengths_N[n])
    totals = [float(paid_NxT[n, :T].sum()) for paid_NxT in paid.values()]
    v_regret = None
    if streams.probs[i].shape[1] == 2:
        v_regret = float(worst_tip(streams.probs[i], streams.states[i]).regret)
    return [streams.names[i], T, totals, int(best_N[n]), int(trips_N[n]), float(log_e_N[n]), v_regret]


def _detail(
    streams: Streams, block: Block, n: int, money: dict[str, np.ndarray], log_e_NxT: np.ndarray, log_e_N: np.ndarray
) -> dict[str, Any]:
    """The curves of one stream, thinned."""
    steps = grid_of(int(block.lengths_N[n]))
    return {
        "stream": streams.names[block.index_N[n]],
        "log_e": float(log_e_N[n]),
        "steps": steps.tolist(),
        "evidence": np.minimum(log_e_NxT[n, steps - 1], _MOST).tolist(),
        "money": {name: money_NxT[n, steps - 1].tolist() for name, money_NxT in money.items()},
    }
