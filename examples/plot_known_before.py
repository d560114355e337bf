"""
What else is known before the state
===================================

A guard can be told more than the model's law: what runs today, in which context a step is, what is at stake in it.
Three short stories, one for each.
"""

# %%
# **An incumbent.** Today's forecast counts how often each demand came. The new one knows that tomorrow is like today,
# and is better for 400 days; then a market opens every other day, and tomorrow is the opposite. A guard that
# is compared with the incumbent alone plays the new one until the incumbent's bets against it reach 1/delta, and the
# incumbent from then on.
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import lowregret as lr

figures = {}
shop = lr.newsvendor([0, 10, 20, 30, 40], price=5, cost=3, salvage=1)
today = lr.PolyaUrn(5)
new = lr.Markov(0.5 * np.eye(5) + 0.1, window=1)
market = lr.Markov(0.5 * np.eye(5)[::-1] + 0.1, window=1)
demand = np.concatenate([lr.sample(new, 400, 1, seed=4)[0], lr.sample(market, 600, 1, seed=5)[0]])
settings = {"references": ("today",), "actions": False, "fallback": lr.policies.Incumbent("today")}
on_trial = lr.Guard(shop, 1000, rule=lr.ExactTest(shop, 1000, delta=0.01, **settings))
laws, references = new.predict_sequence(demand), {"today": today.predict_sequence(demand)}
found = lr.backtest(shop, laws, 10 * demand, guard=on_trial, references=references, fallback=False)
print(*found.switches)


def more(player: str) -> np.ndarray:
    """Money so far, beside the incumbent's."""
    return np.cumsum(shop.regret_in_payoffs(found.paid[player][0] - found.paid["reference today"][0]))


figures["incumbents"], axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(more("model"), color="tab:red", label="the new model alone")
axes.plot(more("guard"), color="tab:blue", label="on trial")
axes.axhline(-1000 * on_trial.certificate.regret_bound_in_payoffs, color="grey", ls="--", label="promised at least")
axes.axvline(400, color="grey", lw=0.5)
axes.set(xlabel="day", ylabel="earned more than today's model")
axes.legend(loc="lower left", bbox_to_anchor=(0, 0.12))

# %%
# **Contexts.** The model is right but for Sundays. No single action is better than it, so without contexts there is
# nothing to say against it; the bettors of Sunday see no other day.
coin, T = lr.matching(), 1400
rng = np.random.default_rng(0)
states = (rng.random(T) < np.where(np.arange(T) % 7 == 6, 0.2, 0.85)).astype(int)
figures["contexts"], axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, settings in {"without contexts": {}, "seven contexts": {"contexts": 7}}.items():
    guard, more = lr.Guard(coin, T, **settings), []
    for t, state in enumerate(states.tolist()):
        guard.advise([0.15, 0.85], context=t % 7) if settings else guard.advise([0.15, 0.85])
        more.append(guard.policy()[state] - (state == 1))  # the model's best response is always 1
        guard.observe(state)
    axes.plot(np.cumsum(more), label=name)
    print(f"{name}: {guard.events[0] if guard.events else 'no alarm'}")
axes.set(xlabel="day", ylabel="earned more than by the model alone")
axes.legend(loc="upper left")

# %%
# **Payoffs that change.** The price moves between 4 and 8, and is known in the morning; demand is not what it was.
levels = np.array([0, 10, 20, 30])


def payoffs(price: float) -> np.ndarray:
    return price * np.minimum(levels[:, None], levels) - 3.0 * levels[:, None]


kiosk = lr.DecisionProblem.from_payoffs(payoffs(5.0), low=payoffs(4.0).min(), high=payoffs(8.0).max())
price = 6 + 2 * np.sin(np.arange(600) / 40)
model = np.array([0.05, 0.1, 0.25, 0.6])
demand = np.random.default_rng(0).choice(4, 600, p=[0.4, 0.35, 0.2, 0.05])
guard, money = lr.Guard(kiosk, 600, payoffs="change"), np.zeros((600, 2))
for t, state in enumerate(demand.tolist()):
    now = payoffs(price[t])
    guard.advise(model, payoffs=now)
    money[t] = now[int(np.argmax(now @ model)), state], guard.policy() @ now[:, state]
    guard.observe(state)
print(guard.events[0])
figures["changing-payoffs"], (above, axes) = plt.subplots(
    2, 1, figsize=(7, 4), sharex=True, height_ratios=[1, 2.5], layout="constrained"
)
above.plot(price, color="grey")
above.set(ylabel="price")
for column, name, colour in ((0, "the model alone", "tab:red"), (1, "guarded", "tab:blue")):
    axes.plot(np.cumsum(money[:, column]), color=colour, label=name)
axes.set(xlabel="day", ylabel="earned")
axes.legend(loc="lower left")

# %%
# With a folder as its argument the script writes the pictures there.
for folder in map(Path, sys.argv[1:2]):
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=110)
