"""
A guarded model against programs of a tournament
================================================

OpenSpiel brings the rock-paper-scissors programs of a tournament (``pip install 'lowregret[examples]'``). Some follow a
habit, and a simple model of what they do next wins nearly every round. Others model us: they see through that model and
take nearly every round from it. A guard keeps the winnings, and stops acting on the model when it is seen through.
"""

# %%
# The model counts what the opponent did after each pair of moves, ours and theirs, and forgets slowly. It knows nothing
# of the guard: any other that states probabilities would do.
import ctypes

import matplotlib.pyplot as plt
import numpy as np
import pyspiel

import lowregret as lr
from lowregret.evaluate import plots

T = 1000  # the programs play exactly as many rounds
game = lr.rock_paper_scissors()
temperature = 1 / np.sqrt(T)  # of the quantal response: what is always the best answer is easily foreseen
parts = {"test": lr.ExactTest(horizon=T), "response": lr.QuantalResponse(temperature)}


class Habits:
    def __init__(self, keep: float = 0.9) -> None:
        self.keep, self.last, self.counts = keep, (0, 0), np.full((3, 3, 3), 1 / 3)  # by our move, theirs, their next

    def predict(self) -> np.ndarray:
        return self.counts[self.last] / self.counts[self.last].sum()

    def observe(self, ours: int, theirs: int) -> None:
        self.counts[self.last] *= self.keep
        self.counts[self.last][theirs] += 1
        self.last = ours, theirs


# %%
# A match. Without a guard we play the response to the forecast; with one, what ``advise`` answers, which is the same
# response until there is an alarm, and again once the model has proved itself anew.
stage = pyspiel.load_game("matrix_rps")
draws = ctypes.CDLL(None).srandom  # the programs draw from the C library


def match(name: str, guard: lr.Guard | None, seed: int = 0) -> np.ndarray:
    """What we had won after each round (1 for a win, -1 for a loss)."""
    draws(seed)
    rng, model, won = np.random.default_rng(seed), Habits(), []
    bot = pyspiel.make_roshambo_bot(0, name)
    state = pyspiel.create_repeated_game(stage, {"num_repetitions": T}).new_initial_state()
    for _ in range(T):
        forecast = model.predict()
        mixed = game.respond(forecast, temperature) if guard is None else guard.advise(forecast).policy
        ours, theirs = int(rng.choice(3, p=mixed)), bot.step(state)
        if guard is not None:
            guard.observe(game.states[theirs], action=game.actions[ours])
        model.observe(ours, theirs)
        bot.inform_actions(state, [theirs, ours])
        state.apply_actions([theirs, ours])
        won.append(game.utility[ours, theirs])
    return np.cumsum(won)


# %%
# Four programs with a habit, and four that adapt to whom they play. What the model earns alone and with the guard, and
# when the first alarm was.
print(lr.Guard(game, **parts).certificate, "\n")
programs = ["rotatebot", "switchbot", "freqbot2", "textbot", "russrocker4", "iocainebot", "greenberg", "mod1bot"]
found = {}
print(f"{'points after 1,000 rounds':26s}{'model alone':>12s}{'guarded':>9s}{'first alarm':>13s}")
for name in programs:
    guard = lr.Guard(game, **parts)
    found[name] = match(name, None), match(name, guard), guard.events
    alone, guarded, events = found[name]
    first = str(events[0].step) if events else "-"
    print(f"{name:26s}{alone[-1]:12.0f}{guarded[-1]:9.0f}{first:>13s}")

# %%
# Where the model wins there is no alarm, and the two lines are one. Where it is seen through the guard plays something
# else after a few dozen rounds, and what is lost stays small.
fig, axes = plt.subplots(2, 4, figsize=(11, 5), sharex=True, layout="constrained")
for ax, (name, (alone, guarded, events)) in zip(axes.flat, found.items(), strict=True):
    ax.plot(np.arange(1, T + 1), guarded, color=plots.COLOURS[0], linewidth=2, label="guarded")
    ax.plot(np.arange(1, T + 1), alone, color=plots.COLOURS[1], linestyle="--", label="model alone")
    alarms = [event.step for event in events if isinstance(event, lr.Alarm)]
    ax.plot(alarms, guarded[np.array(alarms, dtype=int) - 1], "o", color="black", markersize=4, label="alarm")
    ax.axhline(0, color="#BBBBBB", linewidth=1, zorder=0)
    ax.set_title(name)
    plots.plain(ax)
axes[0, 0].set_ylabel("points won")
axes[1, 0].set_ylabel("points won")
axes[1, 0].set_xlabel("rounds")
axes[0, 0].legend(frameon=False)
