"""
How soon does a shop notice that demand fell?
=============================================

A model forecasts tomorrow's demand in quantiles, and the shop orders by them. On day 250 demand halves, and
the model goes on as before.
"""

# %%
# A portion costs 3 and sells at 5; what is not sold is lost. The model knows how busy each day will be.
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import lowregret as lr

days, fell = 500, 250
orders = np.arange(0.0, 80, 10)
shop = lr.Payoff(
    lambda order, demand: 5 * np.minimum(order, demand) - 3 * order,
    orders,
    low=-210,
    high=140,
    knots=orders,
    outcomes=(0, np.inf),
)
rng = np.random.default_rng(0)
busy_T = rng.uniform(4, 7, days)  # known in the morning
demand_T = rng.gamma(8, np.where(np.arange(days) < fell, busy_T, busy_T / 2))
levels = np.linspace(0.05, 0.95, 19)
forecasts = lr.Quantiles(levels, stats.gamma(8, scale=busy_T[:, None]).ppf(levels))

# %%
# What acting on the forecasts earned, and what a guard would have changed.
found = lr.backtest(lr.Guard(shop, test=lr.ExactTest(horizon=days)), forecasts, demand_T)
print(*found.switches, sep="\n")
for name in ("model", "guard", "best fixed action"):
    print(f"{name:17s} {days * found.earned[name]:7,.0f} in {days} days")

# %%
# Until the alarm both earn the same. After it the guard orders less.
figure, axes = plt.subplots(figsize=(7, 3))
for name, colour in (("model", "#D55E00"), ("guard", "#0072B2")):
    axes.plot(np.cumsum(shop.in_payoffs(found.paid[name][0])), color=colour, label=name)
axes.axvline(fell, color="grey", linewidth=0.8, linestyle=":", label="demand halves")
axes.set(xlabel="day", ylabel="earned so far")
axes.legend(frameon=False)
figure.tight_layout()
plt.show()
