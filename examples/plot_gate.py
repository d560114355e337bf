"""
Two prompts, compared every day
===============================

A new prompt runs beside the one in production: 50 items a day, each passed or failed by both. They are compared every
day, and the new one is promoted as soon as it is ahead by more than luck. A t-test allows that once; the gate, every
day.
"""

# %%
# What is known after each day: the p-value of a one-sided t-test, and the evidence of the gate.
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import lowregret as lr

days, items = 60, 50
rng = np.random.default_rng(7)
last = np.arange(1, days + 1) * items  # the last item of each day


def compared(new, current):
    apart = new.astype(float) - current
    p_values = [stats.ttest_1samp(apart[:n], 0, alternative="greater").pvalue for n in last]
    evidence = lr.audits.gating.log_evidence(apart, np.full(len(apart), -1.0), span=1.0)[last - 1]
    return np.array(p_values), np.exp(evidence)


# %%
# In 100 worlds both prompts are equally good, and pass 70%; in 100 others the new one passes 76%.
promoted = {}
for rate in (0.70, 0.76):
    worlds = [compared(rng.random(days * items) < rate, rng.random(days * items) < 0.70) for _ in range(100)]
    promoted[rate] = [np.mean([(p < 0.05).any() for p, _ in worlds]), np.mean([(e >= 20).any() for _, e in worlds])]
    print(f"the new prompt passes {rate:.0%}: promoted by the t-test {promoted[rate][0]:.0%}, ", end="")
    print(f"by the gate {promoted[rate][1]:.0%}")

# %%
# One world of the second kind. The line is what is needed: evidence of 20, which luck alone reaches with a chance of
# 5% at most, on any day.
_, evidence = worlds[0]
figure, axes = plt.subplots(figsize=(7, 3))
axes.semilogy(np.arange(1, days + 1), evidence, label="evidence that the new prompt is better")
axes.axhline(20, color="black", linestyle="--", linewidth=1, label="needed")
axes.set(xlabel="day", ylabel="E")
axes.legend(frameon=False)
figure.tight_layout()
plt.show()
