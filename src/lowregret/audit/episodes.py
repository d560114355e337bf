"""Recorded streams in episodes: each a stream of its own to the guard, which begins afresh."""

from typing import NamedTuple

import numpy as np

from ..guard import Event, Guard
from .playing import play
from .streams import Block


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
    """The episodes of so many steps each; the last of a stream may be shorter."""
    N, T = block.came_NxT.shape
    E = -(-T // episode)
    more = E * episode - T
    probs = np.pad(block.forecasts, ((0, 0), (0, more), (0, 0)), constant_values=1 / block.forecasts.shape[-1])
    states = np.pad(block.came_NxT, ((0, 0), (0, more)))
    lengths = np.clip(block.lengths_N[:, None] - episode * np.arange(E), 0, episode).ravel()
    there = np.flatnonzero(lengths)
    laws_MxTxS = probs.reshape(N * E, episode, -1)[there]
    own = Block(there, lengths[there], laws_MxTxS, states.reshape(N * E, episode)[there])
    return Cut(own, there // E, there % E)


class Guarded(NamedTuple):
    """What a guard of episodes did on a block."""

    paid_NxT: np.ndarray
    trips_N: np.ndarray  # states of the whole stream seen at its first switch, 0 for never
    switches_N: np.ndarray  # in how many of its episodes it switched
    events: tuple[tuple[int, Event], ...]  # with the row of the stream, where they are asked for


def guarded(guard: Guard, block: Block, episodes: Cut, live: bool) -> Guarded:
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
    return Guarded(episodes.joined(played.paid["guard"], T), trips_N, switches_N, events)
