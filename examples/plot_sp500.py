"""
Trading S&P 500 moves, with a fee
=================================

Every day from 2001 to 2018: hold $10,000 of the index, sell it short, or stay out. The model is a table of what came
after the last two moves. Would a guard have been worth having, if the model had broken?
"""

# %%
# The recording comes out of the package ``arch`` (``pip install -e '.[examples]'``; ``real_data.py`` and
# ``real_figure.py`` beside this script read and draw it). A day is down or up by more than half a percent, or flat; up
# or down is $130 on average, and a position costs $2 a day. The model has learnt for two years before the first day.
import numpy as np
import real_figure
from real_data import before, daily_moves, walk_forward

import lowregret as lr

moves = daily_moves("sp500")
states = (moves > -0.5).to_numpy().astype(int) + (moves > 0.5).to_numpy()
trade = lr.trading([-130, 0, 130], positions=(-1, 0, 1), fee=2)
last, last_two = before(states), before(states) * 3 + before(states, 2)
probs = walk_forward(states, last, last_two, S=3)
first = len(states) // 10
days, came, said, last = moves.index[first:], states[first:], probs[first:], last[first:]

# %%
# Two breaks. After a *sign error* the model means up where it says down. A *stuck feed* repeats yesterday's move and is
# sure of it, at 90%. Each on the first day of six years.
wrong = {"sign error": said[:, ::-1], "stuck feed": 0.9 * (last[:, None] == range(3)) + 0.1 / 3}
breaks = [int((days.year < year).sum()) for year in (2003, 2006, 2009, 2012, 2015, 2017)]
cases, forecasts = real_figure.staged(said, wrong, breaks)
came_in_all = lr.problems.Positions(np.tile(came, (len(cases), 1)))
found = lr.backtest(trade, forecasts, came_in_all)
untested = lr.backtest(lr.Guard(trade, test=lr.NoTest()), forecasts, came_in_all, fallback=False)
runs = real_figure.runs_of(found, untested, cases)
title = f"Dollars earned in {len(came):,} days, after fees"
print(real_figure.money_table(runs, days, title, "%Y", "days"))
print(real_figure.yardsticks(found))

# %%
# The model's edge is small beside what one day matters, and whoever held the index all along earned five times as much.
# On day 918 the guard leaves a model that nobody broke. What it plays from then on earns more, or less, by luck: with a
# horizon, and so with another budget, it earned a third less than the model. The breaks that come later find the model
# gone. Of the two that come before, the stuck feed, which claims far more than the model ever did, is found within
# months, and the sign error after years. Even who knew of the error and its day, and bet on it by the likelihood ratio,
# would have needed months or years to be as sure as a guard must be.
ratio = np.log(said[range(len(came)), came] / said[range(len(came)), 2 - came])
known = [int(np.argmax(np.cumsum(ratio[at:]) >= np.log(20))) + 1 for at in breaks]
print("days to find the sign error, knowing of it:", *known)
ahead = lr.Guard(trade, test=lr.ExactTest(horizon=len(came)))
guarded = lr.backtest(ahead, said, lr.problems.Positions(came), fallback=False).earned["guard"] * len(came)
print(f"the guard with a horizon of all days, no break staged: {guarded:,.0f}")

# %%
# What one may promise at all.
alone = lr.backtest(trade, said, lr.problems.Positions(came), fallback=False)
fixed, bound = alone.earned["best fixed action"], found.guarantee.regret_bound_in_payoffs
print(f"earned a day: model {alone.earned['model']:.2f}, position {alone.streams[0].best_action} {fixed:.2f}; ", end="")
print(f"guaranteed regret a day at most {bound:.2f}")
print(*alone.warnings, sep="\n")

# %%
# The figure: the stuck feed of 2003 day by day, and all breaks.
drawn = real_figure.figure(runs, days, 1 + 6, "%Y", "dollars", "days")
real_figure.keep(drawn, "sp500")
