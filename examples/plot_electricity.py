"""
Buying electricity from quantile forecasts
==========================================

Every hour a retailer in Victoria, Australia, buys what its customers will use in the next. Too little costs $60 a
megawatt-hour more than it should have, too much $20. So the newsvendor rule says: buy the 75% quantile, 60/(60 + 20).
"""

# %%
# The recording comes out of the package ``statsmodels`` (``pip install 'lowregret[examples]'``; ``real_data.py`` and
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
# All of them at once, an hour at a time: a guard with a stream for each. The model alone follows the newsvendor rule;
# the guard plays the best order by the forecast until an alarm; the fallback alone is Hedge over the orders and the
# model's, which the guard plays after one.
guard = lr.Guard(bill, len(came), batch_shape=(len(cases),))
each = bill.payoffs(came).T  # [T, A]: what each order earned
rule = np.abs(values[..., [14]] - orders).argmin(axis=-1)  # [N, T]: the order next to the 75% quantile
money = {name: np.zeros(rule.shape) for name in real_figure.LOOKS} | {"model": each[np.arange(len(came)), rule]}
hedge = lr.policies.ExpertHedge(len(orders) + 1, bill.span)
memory = hedge.start((len(cases),))
for t, outcome in enumerate(came):
    experts = np.column_stack([np.tile(each[t], (len(cases), 1)), money["model"][:, t]])
    money["fallback"][:, t] = (hedge.policy(memory) * experts).sum(axis=1)
    memory = hedge.update(memory, experts)
    guard.advise(lr.Quantiles(levels, values[:, t]))
    money["guard"][:, t] = guard.policy() @ each[t]
    guard.observe(np.full(len(cases), outcome))
alarms = {event.stream: event.step for event in reversed(guard.events) if isinstance(event, lr.Switch)}
runs = [
    real_figure.Run(*case, {name: own[i] for name, own in money.items()}, alarms.get(i)) for i, case in enumerate(cases)
]
title = f"Thousands of dollars in {len(came):,} hours, beside buying exactly what is needed"
print(real_figure.money_table(runs, hours, title, "%d %b", "hours"))

# %%
# Readings that are six hours late cost a lot, and there is no alarm, as there should be none: the forecast is still
# better than any fixed order. A guard watches what acting on a forecast loses, and does not look for errors in it.
#
# Until an alarm the guard costs nothing, for it plays the best order. The quantal response of the paper, at a
# temperature of 1/sqrt(hours), plays many orders around it, and what is at stake in most hours is small beside the most
# that an hour can matter: it would have cost far more.
in_hindsight = each.sum(axis=0)
best = int(in_hindsight.argmax())
print(f"the best fixed order: {orders[best]:+.2f} GWh on yesterday, {in_hindsight[best]:,.0f}")
print(f"the 75% quantile itself, not the order next to it: {earned(said[:, 14], came).sum():,.0f}")
quantal = lr.ExactTest(bill, len(came))
soft = quantal.scene(lr.Quantiles(levels, said), None, np.arange(1, len(came) + 1)).base_A  # every hour at once
print(f"the quantal response, no break staged: {(soft * each.T).sum():,.0f}")

# %%
# The figure: readings a day late from 12 March on, hour by hour, and all breaks.
drawn = real_figure.figure(runs, hours, 1 + 1, "%d %b", "thousand dollars", "hours")
real_figure.keep(drawn, "electricity")
