"""
Buying electricity from quantile forecasts
==========================================

Every hour a retailer in Victoria, Australia, buys what its customers will use in the next. Too little costs $60 a
megawatt-hour more than it should have, too much $20. So the newsvendor rule says: buy the 75% quantile, 60/(60 + 20).
"""

# %%
# The recording comes out of the package ``statsmodels`` (``pip install -e '.[examples]'``; ``real_data.py`` and
# ``real_figure.py`` beside this script read and draw it). An order is a difference to the same hour of the day before,
# in gigawatt-hours: a guard is never much worse than the best *fixed* action, and "as much as yesterday" is one worth
# falling back on, while "ten gigawatt-hours at any hour" is not. Money is in thousands of dollars.
import numpy as np
import real_figure
from real_data import hourly_demand

import lowregret as lr

demand = hourly_demand()
more = (demand - demand.shift(24)).dropna()  # than at this hour yesterday
orders = np.r_[-3:-1.5:0.5, -1.5:1.75:0.25, 2:4.5:0.5]


def earned(order: float, needed: np.ndarray) -> np.ndarray:
    return -60 * np.maximum(needed - order, 0) - 20 * np.maximum(order - needed, 0)


bill = lr.Payoff(earned, orders, low=-540, high=0, knots=orders, outcomes=(-6, 6))

# %%
# The forecast: what the last hour needed more than yesterday, and by how much that changed into this hour of the day in
# the last four weeks, as 19 quantiles.
levels = np.linspace(0.05, 0.95, 19)
change = more.diff()
past = np.stack([change.shift(24 * k) for k in range(1, 29)])
quantiles = more.shift(1).to_numpy()[:, None] + np.quantile(past, levels, axis=0).T
first = 30 * 24
hours, came, said = more.index[first:], more.to_numpy()[first:], quantiles[first:]

# %%
# Two breaks. The meter readings come *a day late*, or *six hours late*; the forecast takes them for the last hour's.
wrong = {
    name: said + (more.shift(late) - more.shift(1)).to_numpy()[first:, None]
    for name, late in {"a day late": 24, "six hours late": 6}.items()
}
starts = ("2012-02-13", "2012-03-12", "2012-04-09", "2012-05-07")
breaks = [int((hours < start).sum()) for start in starts]
cases, values = real_figure.staged(said, wrong, breaks)

# %%
# All of them at once. The model alone is its best response, the best order by the forecast, and so is what the guard
# plays until an alarm. Of numbers the mixture is Hedge over the orders and the model's, from the first hour on.
forecasts, came_in_all = lr.Quantiles(levels, values), np.tile(came, (len(cases), 1))
found = lr.backtest(bill, forecasts, came_in_all, fallback=False)
untested = lr.backtest(lr.Guard(bill, test=lr.NoTest()), forecasts, came_in_all, fallback=False)
runs = real_figure.runs_of(found, untested, cases)
title = f"Thousands of dollars in {len(came):,} hours, beside buying exactly what is needed"
print(real_figure.money_table(runs, hours, title, "%d %b", "hours"))
print(real_figure.yardsticks(found))

# %%
# Readings that are six hours late cost a lot, and there is no alarm, as there should be none: the forecast is still
# better than any fixed order. A guard watches what acting on a forecast loses, and does not look for errors in it.
#
# Until an alarm the guard costs nothing, for it plays the best order. The quantal response of the paper, at a
# temperature of 1/sqrt(hours), plays many orders around it, and what is at stake in most hours is small beside the most
# that an hour can matter: it would have cost far more.
nearest = orders[np.abs(said[:, [14]] - orders).argmin(axis=1)]
print(f"the order next to the 75% quantile: {earned(nearest, came).sum():,.0f}; ", end="")
print(f"that quantile itself, if it could be ordered: {earned(said[:, 14], came).sum():,.0f}")
quantal = lr.Guard(bill, test=lr.ExactTest(horizon=len(came)), response=lr.QuantalResponse())
soft = lr.backtest(quantal, lr.Quantiles(levels, said), came, fallback=False)
print(f"the quantal response, no break staged: {soft.earned['guard'] * len(came):,.0f}")

# %%
# The figure: readings a day late from 12 March on, hour by hour, and all breaks.
drawn = real_figure.figure(runs, hours, 1 + 1, "%d %b", "thousand dollars", "hours")
real_figure.keep(drawn, "electricity")
