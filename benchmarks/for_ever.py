"""``python -m benchmarks.for_ever``: is a second failure heard, and how rare are false alarms for ever?

A coin and a model of it that is right, wrong, right and wrong, for 750 steps each: it says that state 1 has a chance of
.8 (or .6), and where it is wrong that is state 0's. The first table has, for each guard, how many of the runs heard
each failure and after how many steps (median), an alarm or a model that had returned and was left again; how many steps
after the first failure was over it was trusted again (median); and what was earned a step: a right guess earns 1. The
second table: alarms where the model is right all along, beside what is promised. The third: alarms in 2,000 steps where
it is miscalibrated and useful all the same, of which nothing is promised. All seeds are fixed. With Recovery for a
fallback there are two bettors, those on actions and that on recent frequencies.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np

import lowregret as lr
from lowregret.tables import Table

COIN, EACH = lr.matching(), 750
BACK: dict[str, Any] = {"fallback": lr.Recovery(), "likelihood": True}
GUARDS: dict[str, dict[str, Any]] = {
    "delta .05": {"delta": 0.05, "temperature": 0, "likelihood": True},
    "every 10,000": {"false_alarm_every": 10_000},
    "every 2,000": {"false_alarm_every": 2_000},
    "every 10,000, Recovery": {"false_alarm_every": 10_000, **BACK},
    "every 2,000, Recovery": {"false_alarm_every": 2_000, **BACK},
}


class Run(NamedTuple):
    """What a guard of many streams did."""

    guard: lr.Guard
    earned: float  # a step
    trusted_TxN: np.ndarray


def run(chance: float, states_TxN: np.ndarray, settings: dict[str, Any]) -> Run:
    """A guard of a model that says ``chance`` of state 1 at every step."""
    T, N = states_TxN.shape
    guard, law, earned, trusted = lr.Guard(COIN, None, batch_shape=(N,), **settings), [1 - chance, chance], 0.0, []
    for state_N in states_TxN:
        advice = guard.advise(np.tile(law, (N, 1)))
        earned += float(advice.policy[np.arange(N), state_N].sum())
        trusted.append(advice.trusted)
        guard.observe(state_N)
    return Run(guard, earned / (T * N), np.array(trusted))


def heard(guard: lr.Guard, begin: int, end: int, N: int) -> np.ndarray:
    """After how many steps of a failure each stream left its model; nan: not in this failure."""
    found = np.full(N, np.nan)
    for event in reversed(guard.events):
        if begin < event.step <= end and not isinstance(event, lr.Return):
            found[event.stream] = event.step - begin
    return found


def failures(N: int) -> Table:
    rows = []
    for chance in (0.8, 0.6):
        wrong = np.arange(4 * EACH) // EACH % 2 == 1
        rng = np.random.default_rng(0)
        states = (rng.random((4 * EACH, N)) < np.where(wrong, 1 - chance, chance)[:, None]).astype(int)
        for name, settings in GUARDS.items():
            found = run(chance, states, settings)
            delays = [heard(found.guard, begin, begin + EACH, N) for begin in (EACH, 3 * EACH)]
            after = found.trusted_TxN[2 * EACH : 3 * EACH]
            back = np.where(after.any(axis=0), after.argmax(axis=0), np.nan)
            cells = [f"{np.mean(np.isfinite(one)):.0%}, {np.nanmedian(one):.0f}" for one in delays]
            model = float(np.mean(states == 1))
            whole = f"{np.mean(np.isfinite(back)):.0%}, {np.nanmedian(back):.0f}"
            rows.append((f"{chance:g}, {name}", cells[0], whole, cells[1], f"{model:.3f}", f"{found.earned:.3f}"))
    columns = ("model, guard", "first failure", "trusted again", "second failure", "model earns", "guard")
    return Table(f"Right, wrong, right, wrong, {EACH} steps each, {N} runs", columns, tuple(rows))


def false_alarms(N: int) -> Table:
    rows = []
    for every in (2_000, 10_000):
        for chance in (0.8, 0.6):
            rng = np.random.default_rng(1)
            states = (rng.random((every, N)) < chance).astype(int)
            for name in (f"every {every:,}", f"every {every:,}, Recovery"):
                found = run(chance, states, GUARDS[name])
                alarms = [event for event in found.guard.events if isinstance(event, lr.Switch)]
                soon = len({event.stream for event in alarms if event.step <= every // 10})
                given: Any = found.guard.certificate
                mean = f"{len(alarms) / N:.3f} (at most {given.expected_alarms(every):.3f})"
                first = f"{soon / N:.3f} (at most {given.chance_within(every // 10):.3f})"
                rows.append((f"{chance:g}, {name}", mean, first, f"{chance:.3f}", f"{found.earned:.4f}"))
    columns = ("model, guard", "alarms in N steps", "runs with one within N/10", "model earns", "guard")
    return Table(f"The model is right, {N} runs of N steps", columns, tuple(rows))


def useful(N: int) -> Table:
    rows = []
    for says, chance in ((0.9, 0.7), (0.8, 0.65)):
        states = (np.random.default_rng(2).random((2_000, N)) < chance).astype(int)
        for name, settings in GUARDS.items():
            found = run(says, states, settings)
            alarms = sum(isinstance(event, lr.Switch) for event in found.guard.events)
            whom = f"says {says:g}, is {chance:g}, {name}"
            rows.append((whom, f"{alarms / N:.2f}", f"{np.mean(states == 1):.3f}", f"{found.earned:.3f}"))
    columns = ("model, guard", "alarms", "model earns", "guard")
    return Table(f"Miscalibrated and useful, {N} runs of 2,000 steps", columns, tuple(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--failures", type=int, default=200, help="runs of a model that fails twice")
    parser.add_argument("--right", type=int, default=900, help="runs of a model that is right")
    given = parser.parse_args()
    print(failures(given.failures), end="\n\n")
    print(false_alarms(given.right), end="\n\n")
    print(useful(given.failures))
