"""Daily moves of the S&P 500 and the NASDAQ, from 2001 on: trade them, or insure against large ones."""

from collections.abc import Callable
from functools import partial

import numpy as np
from examples.real_data import before, daily_moves

import lowregret as lr
from benchmarks.real_streams import index_moves

from ..cells import Source, Stream
from ..models import logistic, walk
from . import LONGEST, of_recording

INDICES = Source(
    "stock indices", "training", "NCSA (arch); prices by Yahoo", "arch, data/sp500 and data/nasdaq", "arch"
)
STEPS = range(500, 500 + LONGEST)


def recorded(index: str, which: str) -> Stream:
    recording = index_moves(daily_moves(index).to_numpy())[which]
    return of_recording(recording.problem, recording.probs_TxS, recording.states)


def seven(index: str) -> Stream:
    """The day's move in seven ranges, by those of the last days and weeks."""
    moves_T = daily_moves(index).to_numpy()
    states_T = np.digitize(moves_T, [-2, -1, -0.3, 0.3, 1, 2])
    size_T = np.abs(moves_T)
    known = [before(moves_T), before(moves_T, 2), *(before(size_T, by) for by in (1, 2, 3))]
    known += [before(np.convolve(size_T, np.full(days, 1 / days))[: len(size_T)]) for days in (5, 20, 60)]
    problem = lr.trading([-3, -1.4, -0.6, 0, 0.6, 1.4, 3], positions=(-2, -1, 0, 1, 2), fee=0.02)
    return Stream(problem, walk(logistic(7), np.stack(known, axis=1), states_T, STEPS), states_T[STEPS])


STREAMS: dict[Source, dict[str, Callable[[], Stream]]] = {
    INDICES: {
        "S&P 500, trade, a table": partial(recorded, "sp500", "trade"),
        "S&P 500, insure, a table": partial(recorded, "sp500", "insure"),
        "S&P 500, trade 7 ranges, logistic": partial(seven, "sp500"),
        "NASDAQ, insure, a table": partial(recorded, "nasdaq", "insure"),
    }
}
