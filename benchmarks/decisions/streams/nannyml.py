"""Prediction logs that NannyML carries: what a model that was in use said, and what came. Nothing is fitted here."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

import lowregret as lr

from .. import packages
from ..cells import Source, Stream
from ..models import softened
from ..stakes import stake

PACKAGE, FOLDER = "nannyml==0.13.1", "nannyml/datasets/data"
APACHE = "Apache-2.0 (NannyML)"


def housing(period: str) -> pd.DataFrame:
    """Whether a house is dear: by hour, in California's own order. ``before`` or ``after`` the model was put to use."""
    if period == "before":
        table = packages.table(PACKAGE, f"{FOLDER}/california_housing_reference.csv")
    else:
        said = packages.table(PACKAGE, f"{FOLDER}/california_housing_analysis.csv")
        table = said.merge(packages.table(PACKAGE, f"{FOLDER}/california_housing_analysis_gt.csv"), on="id")
    return table.rename(columns={"y_pred_proba": "said", "clf_target": "came"})


def employment(year: int) -> pd.DataFrame:
    """Whether a person in Massachusetts is employed; NannyML takes 2015 for the year before the model was in use."""
    if year == 2015:
        table = packages.table(PACKAGE, f"{FOLDER}/employment_MA_reference.pq")
    else:
        said = packages.table(PACKAGE, f"{FOLDER}/employment_MA_analysis.pq")
        came = packages.table(PACKAGE, f"{FOLDER}/employment_MA_analysis_target.pq")
        table = said[said["year"] == year].merge(came, on="id")
    return table.rename(columns={"predicted_probability": "said", "employed": "came"})


def logged(read: Callable[[], pd.DataFrame], begin: int, problem: lr.DecisionProblem) -> Stream:
    table = read().iloc[begin : begin + 2000]
    said_T = table["said"].to_numpy(dtype=float)
    return Stream(problem, softened(np.stack([1 - said_T, said_T], axis=1)), table["came"].to_numpy(dtype=int))


HOUSING = Source(
    "California housing", "training", f"{APACHE}; StatLib's data, public", f"{PACKAGE}, california_housing_*", PACKAGE
)
EMPLOYMENT = Source(
    "employment in Massachusetts", "scored", f"{APACHE}; US Census, public", f"{PACKAGE}, employment_MA_*", PACKAGE
)
BUY, INSURE = stake(gain=100, loss=80, sizes=2), lr.cost_loss(cost=35, loss=100)

STREAMS: dict[Source, dict[str, Callable[[], Stream]]] = {
    HOUSING: {
        "before use, buy or not": partial(logged, partial(housing, "before"), 0, BUY),
        "in use, how much to buy": partial(logged, partial(housing, "after"), 0, stake(gain=100, loss=80, sizes=6)),
        "three months in use, buy or not": partial(logged, partial(housing, "after"), 2000, BUY),
        "half a year in use, insure": partial(logged, partial(housing, "after"), 4000, INSURE),
    },
    EMPLOYMENT: {
        "2015, guess": partial(logged, partial(employment, 2015), 0, lr.matching()),
        "2016, how much to lend": partial(logged, partial(employment, 2016), 0, stake(gain=60, loss=100, sizes=6)),
        "2018, insure": partial(logged, partial(employment, 2018), 0, INSURE),
    },
}
