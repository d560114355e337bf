"""
A model with a short memory
===========================

Every deployed model sees a window of tokens. No model with the same window can be close to it and have low regret; one
that looks a little further back can.
"""

# %%
# A model that looks one token back and expects the other side next. In a world that repeats itself it is always wrong.
import matplotlib.pyplot as plt
import numpy as np

import lowregret as lr
from lowregret.evaluate import plots

model, problem, T = lr.Markov([[0.2, 0.8], [0.8, 0.2]], window=1), lr.matching(), 2048
home = lr.sample(model, T // 2, 1, seed=0)[0]
tokens = np.concatenate([home, np.ones(T // 2, dtype=int)])  # as the model says, then the same side for ever

# %%
# ``AverageRestart`` asks copies of the robust model, started at each of the last ``extra`` steps, and averages their
# answers. The more it looks back, the less it loses after the change; at home it says what the model says.
players = {"the model": lr.policies.Respond(model, problem, T**-0.5)}
for extra in (64, 256):
    test = lr.ExactTest(0.01 / T, extra)  # of each of T copies
    players[f"{extra} tokens more"] = lr.AverageRestart(model, problem, 1, extra, T, test=test)
played = {name: player.policy_sequence(tokens) for name, player in players.items()}
for name, policy in played.items():
    regret = lr.external_regret(problem, policy, tokens)
    print(f"{name:15s} after {T // 2} steps {regret[T // 2 - 1]:+.3f}, after {T} {regret[-1]:+.3f}")

# %%
# The utility of a step, averaged over 32 of them: while a copy has not seen enough, it still trusts the model.
figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for i, (name, policy) in enumerate(played.items()):
    earned = (policy @ problem.utility)[np.arange(T), tokens]
    ax.plot(np.convolve(earned, np.ones(32) / 32)[:T], linestyle=plots.DASHES[i], color=plots.COLOURS[i], label=name)
ax.axvline(T // 2, color="#999999", linewidth=0.8)
ax.set(xlabel="steps", ylabel="utility a step")
ax.legend(frameon=False)
