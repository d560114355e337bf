"""Eight recordings out of packages, audited: every number is that of a few lines of NumPy and a plain guard.

Those whose packages are not installed run in ``make test-all``, if their data are there (``.data``).
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.decisions.streams import sources
from benchmarks.recordings import RECORDINGS, write

import lowregret as lr
from lowregret.problems import payoffs_in

from ..plain_guard import PlainGuard

FOUND = sources(install=False)
LAGS = {"rain": 3, "electricity": 6, "departures": 2}  # all others are known before the next step
EACH = [name for name, one in RECORDINGS.items() if one.stream in FOUND]


def by_hand(folder: Path, lag: int) -> dict[str, Any]:
    """What everyone earned in all, by the two files alone; and the step at which the guard left the model."""
    with open(folder / "stakes.csv") as file:
        (_, *states), *table = list(csv.reader(file))
    money_AxS = np.array([[float(amount) for amount in row[1:]] for row in table])
    with open(folder / "log.csv") as file:
        rows = list(csv.DictReader(file))
    laws_TxS = np.array([[float(row[f"p_{state}"]) for state in states] for row in rows])
    came_T = np.array([states.index(row["actual"]) for row in rows])
    T, paid_TxA = len(rows), money_AxS[:, came_T].T
    model = paid_TxA[np.arange(T), (laws_TxS @ money_AxS.T).argmax(axis=1)].sum()
    last = sum(paid_TxA[t].mean() if t < lag else paid_TxA[t, paid_TxA[t - lag].argmax()] for t in range(T))
    best = paid_TxA.sum(axis=0).max()
    found = {"model": model, "last outcome": last, "best fixed action": best, "steps": T}
    if lag > 1:
        return found
    guard = PlainGuard(lr.DecisionProblem.from_payoffs(money_AxS).utility.tolist(), horizon=T)
    earned = 0.0
    for law, state, paid in zip(laws_TxS.tolist(), came_T.tolist(), paid_TxA, strict=True):
        earned += guard.advise(law) @ paid
        guard.observe(state)
    return found | {"guard": earned, "left": next((step for kind, step, _ in guard.events if kind == "alarm"), None)}


@pytest.mark.long
@pytest.mark.parametrize("name", EACH)
def test_every_number_is_that_of_a_few_lines(name: str, tmp_path: Path) -> None:
    """Where outcomes are late, what the guard earned is that of the golden runs alone."""
    write(name, tmp_path)
    folder, lag = tmp_path / name, LAGS.get(name, 1)
    assert FOUND[RECORDINGS[name].stream][1]().lag == lag
    found, asked = lr.audit(folder / "log.csv", payoffs_in(folder / "stakes.csv"), lag=lag), by_hand(folder, lag)
    one = found.streams.row(0, named=True)
    assert (one["alarm"], one["steps"]) == (asked.get("left", one["alarm"]), asked["steps"])
    for player in asked.keys() & found.totals.keys():
        assert found.totals[player] == pytest.approx(asked[player], abs=1e-6 * asked["steps"])
