"""
An opponent who changes his habits
==================================

A Markov model of an opponent's moves wins against him while his habits last. Robustified, it still does; and when he
turns the tables it stops trusting the model, and is never far behind the best fixed move.
"""

# %%
# An opponent who mostly repeats rock, paper, scissors in turn, and the model that has learnt it.
import numpy as np

import lowregret as lr
from lowregret.evaluate import plots

T = 2000
game = lr.rock_paper_scissors()
in_turn = np.roll(np.eye(3), 1, axis=1)  # after rock comes paper, after paper scissors, ...
habit = lr.Markov(0.6 * in_turn + 0.4 / 3, window=1)
model = habit

# %%
# The robust version, and what is guaranteed. The guarantee holds for the quantal response, which ``respond`` plays.
safe = lr.robustify(model, game, horizon=T)
print(safe.certificate)

# %%
# Two opponents: one keeps the habit; the other finds out after 700 rounds that we count on it, and from then on plays
# what beats our favourite answer three times out of four, and rock otherwise.
rng = np.random.default_rng(1)
honest = lr.sample(habit, T, 1, seed=rng)[0]
turned = honest.copy()
for t in range(700, T):
    expected = (turned[t - 1] + 1) % 3  # what the model thinks comes next,
    ours = (expected + 1) % 3  # what we play against it,
    turned[t] = (ours + 1) % 3 if rng.random() < 0.75 else 0  # and what beats that
opponents = np.stack([honest, turned])

# %%
# Average gain a round (1 for a win, -1 for a loss), and when the robust version switched.
played = {"model": lr.policies.Respond(model, game, safe.temperature), "robust": safe.respond()}
for name, player in played.items():
    policy = player.policy_sequence(opponents)
    gain = np.einsum("bta,abt->bt", policy, game.utility[:, opponents]).mean(axis=-1)
    regret = lr.external_regret(game, policy, opponents)[:, -1]
    print(f"{name:7s} gain {gain.round(3)}  regret {regret.round(3)}")
print("switched after", safe.alarm_times(opponents), f"rounds ({T + 1} is never)")

# %%
# The evidence over time. Against the honest opponent the bet against the model never pays; against the other it does
# within a few rounds of the change.
ax = plots.evidence(safe, opponents, names=["keeps the habit", "turns at 700"])
ax.axvline(700, color="#BBBBBB", linewidth=1, zorder=0)
