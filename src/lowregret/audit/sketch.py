"""What the page draws beside the money: how reliable forecasts were, what would have been better, thinned curves.

It is measured on each block of streams, added up over partitions, and small however long the log is.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..guard import Guard
from ..guard.events import Alarm, Event, Return
from ..problems import DecisionProblem, Payoff
from .playing import Played
from .streams import Block, Streams
from .times import Steps

BINS = 10  # of probabilities, as wide as each other
POINTS = 20  # of a spark line
DELTAS = (0.2, 0.1, 0.05, 0.01, 0.001)  # what else might have been asked for
LOWEST, HIGHEST = -7.0, 14.0  # of ln E in a spark line
SPARKS = ("model", "guard", "best fixed action")
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8)
_LEVELS = len(_LETTERS) ** 2 - 1
_MS = 10**6  # nanoseconds
_MARKS = 60  # of one stream


class Sketch:
    """What is drawn of the streams of one partition, block by block; a block's index is into all of them."""

    def __init__(self, problem: DecisionProblem | Payoff, streams: Streams, clock: Steps, grid_G: np.ndarray) -> None:
        A, G = problem.n_actions, len(grid_G)
        S = 0 if isinstance(problem, Payoff) else problem.n_states
        self._streams, self._grid_G = streams, grid_G
        self._first_B = np.cumsum(streams.lengths_B) - streams.lengths_B
        self._where_R = where_of(clock)
        self.reliable_Sx3xK, self.instead_AxA, self.said_A = np.zeros((S, 3, BINS)), np.zeros((A, A)), np.zeros(A)
        self.left_G = np.zeros(G, dtype=np.int64)
        self.from_G: list[int | None] = [None] * G
        self.upto_G: list[int | None] = [None] * G
        self.deltas: dict[str, list[Any]] = {}
        self.sparks: dict[str, list[Any]] = {}

    def add(
        self, guard: Guard, block: Block, played: Played, money: dict[str, np.ndarray], log_e_NxT: np.ndarray
    ) -> None:
        """Add the streams of a block, judged by this guard: ``money`` is added up over time, in utility."""
        every, trips_N = np.arange(len(block.index_N)), played.trips_N
        instead_AxA, said_A = _instead(played.utility_AxNxT, played.advised_NxT, block.there_NxT)
        self.instead_AxA, self.said_A = self.instead_AxA + instead_AxA, self.said_A + said_A
        self.reliable_Sx3xK = self.reliable_Sx3xK + _reliable(block)
        left_N = np.where(trips_N > 0, trips_N, np.iinfo(np.int64).max)
        self.left_G += np.searchsorted(np.sort(left_N), self._grid_G, side="right")
        self._dates(block)
        idx_NxP = np.round(np.arange(POINTS) / (POINTS - 1) * (block.lengths_N[:, None] - 1)).astype(np.int64)
        lines_LxNxP = np.stack([money[name][every[:, None], idx_NxP] for name in SPARKS])
        scale, shift = payoff_scale(guard.problem)
        lines_LxNxP = lines_LxNxP * scale + shift * (idx_NxP + 1)
        low_N, high_N = lines_LxNxP.min(axis=(0, 2)), lines_LxNxP.max(axis=(0, 2))
        wide_N = np.where(high_N > low_N, high_N - low_N, 1.0)
        height_LxNxP = (lines_LxNxP - low_N[:, None]) / wide_N[:, None]
        log_e_NxP = np.clip(log_e_NxT[every[:, None], idx_NxP], LOWEST, HIGHEST)
        height_LxNxP = np.concatenate([height_LxNxP, (log_e_NxP - LOWEST)[None] / (HIGHEST - LOWEST)])
        text_N = _lettered(np.moveaxis(height_LxNxP, 0, 1).reshape(len(every), -1))
        for n, i in enumerate(block.index_N.tolist()):
            axis = _axis(self._at(i, idx_NxP[n]))
            self.sparks[self._streams.names[i]] = [
                float(low_N[n]),
                float(high_N[n]),
                axis,
                text_N[n],
                threshold_of(guard),
            ]

    def tried(self, block: Block, delta: float, paid_NxT: np.ndarray, trips_N: np.ndarray) -> None:
        """What a guard with this delta did on a block."""
        left, earned, first = self.deltas.get(repr(delta), [0, 0.0, None])
        rows = np.flatnonzero(trips_N)
        when = [int(self._at(int(block.index_N[n]), trips_N[n] - 1)) for n in rows]
        first = min((time for time in [first, *when] if time is not None), default=None)
        self.deltas[repr(delta)] = [left + len(rows), earned + float(paid_NxT.sum()), first]

    def detail(
        self,
        guard: Guard,
        block: Block,
        n: int,
        played: Played,
        money: dict[str, np.ndarray],
        log_e_T: np.ndarray,
        steps_P: np.ndarray,
    ) -> dict[str, Any]:
        """One stream in full: its curves at these steps, and all that is measured of it alone."""
        i, own, alone = int(block.index_N[n]), slice(n, n + 1), block.rows(np.array([n]))
        instead_AxA, said_A = _instead(played.utility_AxNxT[:, own], played.advised_NxT[own], alone.there_NxT)
        return {
            "stream": self._streams.names[i],
            "steps": steps_P.tolist(),
            "at": self._at(i, steps_P - 1).tolist(),
            "evidence": log_e_T[steps_P - 1].tolist(),
            "threshold": threshold_of(guard),
            "money": {name: money_NxT[n, steps_P - 1].tolist() for name, money_NxT in money.items()},
            "reliable": _reliable(alone).tolist(),
            "instead": instead_AxA.tolist(),
            "said": said_A.tolist(),
            "excluded": self._at(i, np.flatnonzero(excluded(alone)[0])[:_MARKS]).tolist(),
        }

    def marks(self, i: int, trip: int, events: list[Event]) -> list[list[Any]]:
        """What happened in a stream, with the step and its place on the axis: the alarm, wrong since, returns."""
        found: list[tuple[str, int]] = []
        for event in events:
            if isinstance(event, Alarm):
                found += [] if event.since is None else [("wrong since", event.since)]
                found.append(("alarm", event.known))
            else:
                found.append(("return" if isinstance(event, Return) else "left again", event.known))
        found = found or ([("alarm", trip)] if trip else [])
        return [[what, step, int(self._at(i, step - 1))] for what, step in found[:_MARKS]]

    def told(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "reliable": self.reliable_Sx3xK.tolist(),
            "instead": self.instead_AxA.tolist(),
            "said": self.said_A.tolist(),
            "left": self.left_G.tolist(),
            "from": self.from_G,
            "upto": self.upto_G,
            "deltas": self.deltas,
            "sparks": self.sparks,
        }

    def _at(self, i: int, idx: Any) -> Any:
        """Where these steps of a stream, counted from 0, are on the axis of time."""
        return idx + 1 if self._where_R is None else self._where_R[self._first_B[i] + idx]

    def _dates(self, block: Block) -> None:
        """From when to when the streams had each of the steps of the curves over all of them."""
        for g, step in enumerate(self._grid_G.tolist()):
            long_N = block.index_N[block.lengths_N >= step]
            if len(long_N) == 0:
                break
            at_N = (
                np.full(len(long_N), step) if self._where_R is None else self._where_R[self._first_B[long_N] + step - 1]
            )
            low, high = self.from_G[g], self.upto_G[g]
            self.from_G[g] = int(at_N.min()) if low is None else min(low, int(at_N.min()))
            self.upto_G[g] = int(at_N.max()) if high is None else max(high, int(at_N.max()))


def where_of(clock: Steps) -> np.ndarray | None:
    """Where rows stand on the axis of time: milliseconds by the clock of the log, or its numbers; None: count them."""
    if clock.dated:
        return clock.clock_R // _MS
    return clock.at_R if clock.counted else None


def threshold_of(guard: Guard) -> float:
    """The ln E at which the alarm sounds."""
    return math.log(guard.setting.watch.threshold)


def payoff_scale(problem: Any) -> tuple[float, float]:
    """What one unit of utility is in payoffs, and what utility 0 is."""
    return float(problem.regret_in_payoffs(1.0)), float(problem.in_payoffs(0.0))


def _instead(
    utility_AxNxT: np.ndarray, advised_NxT: np.ndarray, there_NxT: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each best response to the model and each action: what that would have earned; and how often it came up."""
    A = len(utility_AxNxT)
    earned_AxR, played_AxR = utility_AxNxT[:, there_NxT], np.arange(A)[:, None] == advised_NxT[there_NxT]
    return played_AxR @ earned_AxR.T, played_AxR.sum(axis=1)


def _reliable(block: Block) -> np.ndarray:
    """By state and bin of its probability: how many steps, the sum of the probabilities, how often the state came."""
    if not isinstance(block.forecasts, np.ndarray):
        return np.zeros((0, 3, BINS))
    laws_RxS, came_R = block.forecasts[block.there_NxT], block.came_NxT[block.there_NxT]
    found = []
    for s in range(laws_RxS.shape[1]):
        bin_R = np.minimum((laws_RxS[:, s] * BINS).astype(np.int64), BINS - 1)
        each = (None, laws_RxS[:, s], came_R == s)
        found.append([np.bincount(bin_R, weights=weights, minlength=BINS) for weights in each])
    return np.array(found, dtype=np.float64)


def excluded(block: Block) -> np.ndarray:
    """Where a state came to which the model gave probability 0, ``[N, T]``."""
    if not isinstance(block.forecasts, np.ndarray):
        return np.zeros(block.came_NxT.shape, dtype=bool)
    said_NxT = np.take_along_axis(block.forecasts, block.came_NxT[..., None], axis=-1)[..., 0]
    return (said_NxT == 0) & block.there_NxT


def _lettered(height_NxM: np.ndarray) -> list[str]:
    """Numbers from 0 to 1, two letters each."""
    level_NxM = np.round(height_NxM * _LEVELS).astype(np.int64)
    pair_NxMx2 = np.stack([level_NxM // len(_LETTERS), level_NxM % len(_LETTERS)], axis=-1)
    return [row.tobytes().decode() for row in _LETTERS[pair_NxMx2].reshape(len(level_NxM), -1)]


def _axis(at_P: np.ndarray) -> str:
    """Places on an axis as text: the first, the unit, and by how many units each of the others is further on."""
    apart_P = np.diff(at_P)
    unit = int(np.gcd.reduce(apart_P)) or 1
    return " ".join(map(str, [int(at_P[0]), unit, *(apart_P // unit).tolist()]))


# What all partitions come to: the report puts it into JSON, and the page draws it.


def pictures(found: Any) -> dict[str, Any]:
    """Over all streams, in payoffs: how reliable, what would have been better, what each delta would have done."""
    parts = [part["sketch"] for _, part in sorted(found.parts.items())]
    return {
        "reliability": reliability(found.problem, _summed(parts, "reliable")),
        "instead": instead(found.problem, _summed(parts, "instead"), _summed(parts, "said")),
        "deltas": list(deltas(found, parts)),
    }


def _summed(parts: list[dict[str, Any]], name: str) -> np.ndarray:
    return np.sum([part[name] for part in parts], axis=0)


def reliability(problem: Any, reliable_Sx3xK: np.ndarray) -> list[dict[str, Any]]:
    """By state: of the steps whose probability was in each bin, its mean, how often the state came, how many."""
    found = []
    states = () if isinstance(problem, Payoff) else problem.states
    for state, (steps_K, said_K, came_K) in zip(states, np.asarray(reliable_Sx3xK), strict=True):
        bins = [
            {"said": said / n, "came": came / n, "steps": int(n)}
            for n, said, came in zip(steps_K.tolist(), said_K.tolist(), came_K.tolist(), strict=True)
            if n
        ]
        found.append({"state": str(state), "bins": bins})
    return found


def instead(problem: Any, instead_AxA: np.ndarray, said_A: np.ndarray) -> list[dict[str, Any]]:
    """For every pair: how much more the other action would have earned whenever the model said the one; most first."""
    scale, _ = payoff_scale(problem)
    found = []
    for a, steps in enumerate(np.asarray(said_A).tolist()):
        for b, earned in enumerate(np.asarray(instead_AxA)[a].tolist()):
            if a != b and steps:
                more = (earned - float(instead_AxA[a][a])) * scale
                said, better = str(problem.actions[a]), str(problem.actions[b])
                found.append({"said": said, "better": better, "steps": round(steps), "more": more})
    return sorted(found, key=lambda one: -one["more"])


def deltas(found: Any, parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What a guard would have done with other chances of a false alarm: streams left, money, when first."""
    scale, shift = payoff_scale(found.problem)
    names = sorted({name for part in parts for name in part["deltas"]}, key=float, reverse=True)
    for name in names:
        tried = [part["deltas"][name] for part in parts if name in part["deltas"]]
        guard = math.fsum(earned for _, earned, _ in tried) * scale + shift * found.steps
        first = min((first for _, _, first in tried if first is not None), default=None)
        yield {"delta": float(name), "left": sum(left for left, _, _ in tried), "guard": guard, "first": first}
