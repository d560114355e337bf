"""Real recordings with walk-forward models and a decision in money: index moves, weather, electricity demand.

The data come out of installed packages (``examples/real_data.py``, extra ``examples``). Each model is a table of recent
frequencies by what is known before the step; the first tenth of a recording only trains it.
"""

from typing import NamedTuple

import numpy as np
from examples.real_data import before, hourly_demand, seattle, walk_forward

import lowregret as lr

WARM_UP = 0.1


class Recording(NamedTuple):
    """What one stream is: a decision problem, what the model said before each step, and what came."""

    problem: lr.DecisionProblem
    probs_TxS: np.ndarray
    states: np.ndarray  # [T]


def recorded(
    problem: lr.DecisionProblem, states: np.ndarray, coarse: np.ndarray, fine: np.ndarray, memory: float
) -> Recording:
    """The model run over all of it, and the part after the warm-up."""
    probs_TxS = walk_forward(states, coarse, fine, problem.n_states, memory)
    begin = int(WARM_UP * len(states))
    return Recording(problem, probs_TxS[begin:], states[begin:])


def index_moves(moves: np.ndarray) -> dict[str, Recording]:
    """Of one index: hold it or not, $10,000 at a time; and insure against a large move (in percent), or not."""
    direction = np.digitize(moves, [-0.5, 0.5])  # down, flat, up
    trade = lr.trading([-130, 0, 130], positions=(-1, 0, 1), fee=2)
    large = (np.abs(moves) > 1.5).astype(int)
    insure = lr.cost_loss(cost=20, loss=100)
    recent = np.convolve(np.abs(moves), np.full(10, 0.1))[: len(moves)]  # the mean size of the last ten moves
    calm = before(np.digitize(recent, [0.5, 0.8, 1.1, 1.5, 2.0]))
    last_two = before(direction) * 3 + before(direction, 2)
    return {
        "trade": recorded(trade, direction, before(direction), last_two, memory=1000),
        "insure": recorded(insure, large, calm, calm * 2 + before(large), memory=1000),
    }


def weather() -> dict[str, Recording]:
    """Cover the goods before rain, or not; and fill a kiosk with ice cream, tea or umbrellas."""
    table = seattle()
    month = table.index.month.to_numpy() - 1
    rain = (table["precipitation"].to_numpy() > 0).astype(int)
    cover = lr.cost_loss(cost=40, loss=100)
    kinds = {"sun": 0, "fog": 1, "drizzle": 2, "rain": 2, "snow": 2}
    sky = np.array([kinds[name] for name in table["weather"]])
    kiosk = lr.DecisionProblem.from_payoffs(
        [[120, 40, 10], [40, 90, 60], [10, 40, 130], [0, 0, 0]],
        actions=["ice cream", "tea", "umbrellas", "closed"],
        states=["sun", "fog", "wet"],
    )
    return {
        "rain": recorded(cover, rain, before(rain), before(rain) * 12 + month, memory=1000),
        "kiosk": recorded(kiosk, sky, before(sky), before(sky) * 12 + month, memory=1000),
    }


def demand() -> dict[str, Recording]:
    """Buy electricity an hour ahead, by the gigawatt-hour; and hold a reserve against a peak, or not."""
    table = hourly_demand()
    load, hour = table.to_numpy(), table.index.hour.to_numpy()
    weekend = (table.index.day_of_week.to_numpy() >= 5).astype(int)
    level = np.digitize(load, [7.5, 8.5, 9.5, 10.5, 11.5])
    shop = lr.newsvendor([0, 7, 8, 9, 10, 11, 12], price=100, cost=60)  # in thousands of dollars
    shop = lr.DecisionProblem.from_payoffs(shop.in_payoffs(shop.utility)[:, 1:])  # demand is never zero
    peak = (load > 10.5).astype(int)
    reserve = lr.cost_loss(cost=25, loss=100)
    clock = hour * 2 + weekend
    return {
        "order": recorded(shop, level, before(level), before(level) * 48 + clock, memory=1500),
        "peak": recorded(reserve, peak, clock, clock * 2 + before(peak), memory=1500),
    }
