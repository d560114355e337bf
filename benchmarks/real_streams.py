"""Real recordings with walk-forward models and a decision in money: index moves, weather, electricity demand.

The data come out of installed packages and are not kept here: ``arch`` (S&P 500 and NASDAQ, 1999 to 2018, daily),
``vega_datasets`` (Seattle, 2012 to 2015, daily), ``statsmodels`` (demand in Victoria, Australia, 2012, hourly). Each
model is a table of recent frequencies by what is known before the step; the first tenth of a recording only trains it.
"""

import importlib.resources
from typing import NamedTuple

import numpy as np

import lowregret as lr

WARM_UP = 0.1


class Recording(NamedTuple):
    """What one stream is: a decision problem, what the model said before each step, and what came."""

    problem: lr.DecisionProblem
    probs_TxS: np.ndarray
    states: np.ndarray  # [T]
    idle: int  # the action that does nothing: money is counted above it


def walk_forward(states: np.ndarray, coarse: np.ndarray, fine: np.ndarray, S: int, memory: float) -> np.ndarray:
    """Laws ``[T, S]`` from recent frequencies: of all steps, of those like this one coarsely, and finely.

    Each table is shrunk towards the one before it by eight steps' worth, and forgets at the rate 1/memory.
    """
    contexts_3xT = np.stack([np.zeros_like(coarse), coarse, fine])
    counts = [np.zeros((int(row.max()) + 1, S)) for row in contexts_3xT]
    probs_TxS = np.empty((len(states), S))
    for t, state in enumerate(states):
        law = np.full(S, 1 / S)
        for table, context in zip(counts, contexts_3xT[:, t], strict=True):
            law = (table[context] + 8 * law) / (table[context].sum() + 8)
        probs_TxS[t] = law
        for table, context in zip(counts, contexts_3xT[:, t], strict=True):
            table *= 1 - 1 / memory
            table[context, state] += 1
    return probs_TxS


def recorded(
    problem: lr.DecisionProblem, states: np.ndarray, coarse: np.ndarray, fine: np.ndarray, memory: float, idle: int
) -> Recording:
    """The model run over all of it, and the part after the warm-up."""
    probs_TxS = walk_forward(states, coarse, fine, problem.n_states, memory)
    begin = int(WARM_UP * len(states))
    return Recording(problem, probs_TxS[begin:], states[begin:], idle)


def before(values: np.ndarray, by: int = 1) -> np.ndarray:
    """What it was so many steps ago; the first value where there was none."""
    return np.concatenate([np.repeat(values[:1], by), values[:-by]])


def index_moves(closing: np.ndarray) -> dict[str, Recording]:
    """Of one index: hold it or not, $10,000 at a time; and insure against a large move, or not."""
    moves = 100 * np.diff(np.log(closing))  # percent
    direction = np.digitize(moves, [-0.5, 0.5])  # down, flat, up
    trade = lr.trading([-130, 0, 130], positions=(-1, 0, 1), fee=2)
    large = (np.abs(moves) > 1.5).astype(int)
    insure = lr.cost_loss(cost=20, loss=100)
    recent = np.convolve(np.abs(moves), np.full(10, 0.1))[: len(moves)]  # the mean size of the last ten moves
    calm = before(np.digitize(recent, [0.5, 0.8, 1.1, 1.5, 2.0]))
    last_two = before(direction) * 3 + before(direction, 2)
    return {
        "trade": recorded(trade, direction, before(direction), last_two, memory=1000, idle=1),
        "insure": recorded(insure, large, calm, calm * 2 + before(large), memory=1000, idle=0),
    }


def weather() -> dict[str, Recording]:
    """Cover the goods before rain, or not; and fill a kiosk with ice cream, tea or umbrellas."""
    from vega_datasets import data

    table = data.seattle_weather()
    month = table["date"].dt.month.to_numpy() - 1
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
        "rain": recorded(cover, rain, before(rain), before(rain) * 12 + month, memory=1000, idle=0),
        "kiosk": recorded(kiosk, sky, before(sky), before(sky) * 12 + month, memory=1000, idle=3),
    }


def demand() -> dict[str, Recording]:
    """Buy electricity an hour ahead, by the gigawatt-hour; and hold a reserve against a peak, or not."""
    path = importlib.resources.files("statsmodels") / "tsa/stl/tests/results/mstl_elec_vic.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    load = np.array([float(row[1]) for row in rows]) / 1000
    hour = np.array([int(row[0][11:13]) for row in rows])
    weekend = np.isin((np.arange(len(rows)) // 24) % 7, (0, 6)).astype(int)  # the first day is a Sunday
    level = np.digitize(load, [7.5, 8.5, 9.5, 10.5, 11.5])
    shop = lr.newsvendor([0, 7, 8, 9, 10, 11, 12], price=100, cost=60)  # in thousands of dollars
    shop = lr.DecisionProblem.from_payoffs(shop.in_payoffs(shop.utility)[:, 1:])  # demand is never zero
    peak = (load > 10.5).astype(int)
    reserve = lr.cost_loss(cost=25, loss=100)
    clock = hour * 2 + weekend
    return {
        "order": recorded(shop, level, before(level), before(level) * 48 + clock, memory=1500, idle=0),
        "peak": recorded(reserve, peak, clock, clock * 2 + before(peak), memory=1500, idle=0),
    }


def streams() -> dict[str, Recording]:
    """All of them by name."""
    try:
        import arch.data.nasdaq
        import arch.data.sp500
        import statsmodels
        import vega_datasets
    except ImportError as error:
        raise SystemExit(f"{error}: pip install arch vega_datasets statsmodels (data, for this script alone)") from None
    del statsmodels, vega_datasets
    found: dict[str, Recording] = {}
    for name, module in (("S&P 500", arch.data.sp500), ("NASDAQ", arch.data.nasdaq)):
        closing = module.load()["Adj Close"].to_numpy()
        found |= {f"{name}, {what}": stream for what, stream in index_moves(closing).items()}
    found |= {f"Seattle, {what}": stream for what, stream in weather().items()}
    return found | {f"demand, {what}": stream for what, stream in demand().items()}
