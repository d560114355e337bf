"""
A newsvendor whose demand shifts
================================

How many papers to order before the day's demand is known. A ``Guard`` stands between a demand forecast that comes from
anywhere and the order, and keeps the books in money.
"""

# %%
# The problem in its own units: a paper costs 3, sells at 5, and leftovers are worth 1.
import numpy as np

import lowregret as lr

levels = [0, 10, 20, 30, 40]
shop = lr.newsvendor(levels, price=5, cost=3, salvage=1)
days = 730

# %%
# The forecast was fitted to a busy street: demand is high, and somewhat like yesterday's.
busy = np.array([0.02, 0.05, 0.13, 0.35, 0.45])
forecast = lr.Markov(0.3 * np.eye(5) + 0.7 * busy, window=1, initial=busy)

# %%
# After two months the street is closed to traffic.
quiet = np.array([0.25, 0.45, 0.2, 0.07, 0.03])
street = lr.Markov(0.3 * np.eye(5) + 0.7 * quiet, window=1, initial=quiet)
demand = np.concatenate([lr.sample(forecast, 60, 1, seed=4)[0], lr.sample(street, days - 60, 1, seed=5)[0]])

# %%
# Day by day: take the forecast, order what the guard says, see the demand. (Demand must be seen in full: where unsold
# demand is not recorded, the guarantee does not apply.)
# Beside it: the forecast alone, by its best response; the guard's mixture from the first day on, without a test; and
# the order that would have been best the day before.
guard = lr.Guard(shop, test=lr.ExactTest(horizon=days), on_event=print)
mixture = lr.Guard(shop, test=lr.NoTest(horizon=days))
earned = dict.fromkeys(("forecast alone", "guarded", "mixture", "yesterday's best"), 0.0)
memory, last = forecast.start(), 4
for state in demand.tolist():
    probs = forecast.predict(memory)
    guard.advise(probs)
    mixture.advise(probs)
    orders = int(shop.best_response(probs)), guard.act(seed=0), mixture.act(seed=1), int(shop.utility[:, last].argmax())
    for name, order in zip(earned, orders, strict=True):
        earned[name] += shop.in_payoffs(shop.utility[order, state])
    guard.observe(levels[state], orders[1])
    mixture.observe(levels[state])
    memory, last = forecast.update(memory, state), state

# %%
# What came of it, beside the best single order in hindsight and the promise.
in_hindsight = shop.in_payoffs(shop.utility[:, demand]).sum(axis=1)
best = int(in_hindsight.argmax())
for name, money in earned.items():
    print(f"{name:16s} {money:7,.0f} in {days} days")
print(f"always order {levels[best]:2d}  {in_hindsight[best]:7,.0f}")
print(f"regret of the orders {shop.regret_in_payoffs(guard.realised_regret):.2f} a day, ", end="")
print(f"promised at most {guard.certificate.regret_bound_in_payoffs:.2f}")
