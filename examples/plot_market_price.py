"""
Is my model better than the market's price?
===========================================

A market quotes the chance of every event, and a model thinks it knows better. It may bet one unit on or against each
event, at the market's price. The guard puts the model on trial: it follows the model until bets on the market's own
forecast have won too much for luck, and then does what the market's forecast advises: not to bet.
"""

# %%
# A contract pays 1 if the event occurs. What buying or selling one earns depends on the price of the day, which is
# known beforehand: payoffs that change within a declared range.
import matplotlib.pyplot as plt
import numpy as np

import lowregret as lr

T, turned = 1500, 900
rng = np.random.default_rng(3)
price_T = rng.uniform(0.2, 0.8, T)
edge_T = rng.normal(0, 0.15, T)  # what the model knows and the market does not
truth_T = np.clip(price_T + np.where(np.arange(T) < turned, edge_T, -edge_T), 0.02, 0.98)  # then it is mistaken
occurred_T = (rng.random(T) < truth_T).astype(int)
model_TxS = np.stack([1 - np.clip(price_T + edge_T, 0.02, 0.98), np.clip(price_T + edge_T, 0.02, 0.98)], axis=-1)
market_TxS = np.stack([1 - price_T, price_T], axis=-1)

fee = 0.01
payoffs_TxAxS = np.stack(
    [[[p - fee, p - 1 - fee], [0, 0], [-p - fee, 1 - p - fee]] for p in price_T]  # sell, wait, buy; no, yes
)
contract = lr.DecisionProblem.from_payoffs(
    payoffs_TxAxS[0], actions=["sell", "wait", "buy"], states=["no", "yes"]
).changing(low=-1.01, high=0.99)

# %%
# The market's forecast is the reference, and the fallback. Both answer with the same payoffs.
guard = lr.Guard(
    contract,
    against=lr.References("market"),
    test=lr.ExactTest(delta=0.05, horizon=T),
    fallback=lr.UseReference("market"),
    on_event=print,
)
earned = {"the model": [], "on trial": []}
for t in range(T):
    advice = guard.advise(model_TxS[t], references={"market": market_TxS[t]}, payoffs=payoffs_TxAxS[t])
    paid_A = payoffs_TxAxS[t][:, occurred_T[t]]
    earned["the model"].append(paid_A[(payoffs_TxAxS[t] @ model_TxS[t]).argmax()])
    earned["on trial"].append(advice.policy @ paid_A)
    guard.observe(contract.states[occurred_T[t]])
for name, money in earned.items():
    print(f"{name:9s} {sum(money[:turned]):6.1f} while the model knew more, {sum(money[turned:]):6.1f} afterwards")

# %%
figure, axes = plt.subplots(figsize=(7, 3))
for (name, money), colour in zip(earned.items(), ("#D55E00", "#0072B2"), strict=True):
    axes.plot(np.cumsum(money), color=colour, label=name)
axes.axvline(turned, color="grey", linewidth=0.8, linestyle=":", label="the model is mistaken from here on")
axes.set(xlabel="contract", ylabel="earned so far")
axes.legend(frameon=False)
figure.tight_layout()
plt.show()
