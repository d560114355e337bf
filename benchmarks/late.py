"""``python -m benchmarks.late``: false alarms where outcomes are late, with and without a lag; what a lag costs.

Two tables, all seeds fixed. The first: sequences of a chain on two states with its *true* laws given what is d steps
old, delta = .01; how often the plain product alarms, and the joint alarm of d classes. The second: a model that says .9
and is right for 500 of 1,000 steps, and then faces .3; the median number of steps from the break to the alarm, and the
certificate (delta = .01).
"""

import numpy as np

import lowregret as lr
from lowregret.engine import Inputs
from lowregret.engine.loop import form_of
from lowregret.tables import Table

COIN, DELTA = lr.matching(), 0.01


def guard_of(steps: int, lag: int) -> lr.Guard:
    return lr.Guard(COIN, test=lr.ExactTest(DELTA, steps), lag=lag)


def alarms(guard: lr.Guard, laws_NxTxS: np.ndarray, states_NxT: np.ndarray) -> np.ndarray:
    """The step whose outcome raised the alarm, one after the last where none did, ``[N]``."""
    engine, (N, T) = guard.engine, states_NxT.shape
    raised_NxT = form_of(engine, N * T).run(engine.start(N), Inputs(laws_NxTxS), states_NxT).alarm_NxT
    return np.where(raised_NxT.any(axis=1), raised_NxT.argmax(axis=1), T) + 1


def chain(stays: float, count: int, steps: int, lag: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences, and their true laws given what is ``lag`` steps old."""
    rng = np.random.default_rng(seed)
    moves = rng.random((count, steps)) > stays
    moves[:, 0] = rng.random(count) < 0.5
    states = np.cumsum(moves, axis=1) % 2
    again = (1 + (2 * stays - 1) ** lag) / 2
    laws = np.full((count, steps, 2), 0.5)
    laws[:, lag:] = np.where(states[:, :-lag, None] == np.arange(2), again, 1 - again)
    return states, laws


def false_alarms() -> Table:
    rows = []
    for stays, lag in ((0.9, 2), (0.9, 5), (0.9, 10), (0.98, 20), (0.98, 28)):
        for steps in (300, 700, 1000):
            states, laws = chain(stays, 400, steps, lag, seed=lag)
            both = (float((alarms(guard_of(steps, d), laws, states) <= steps).mean()) for d in (1, lag))
            rows.append((f"{stays}", f"{lag}", f"{steps}", *(f"{share:.3f}" for share in both)))
    header = ("stays", "lag", "steps", "plain product", "with the lag")
    return Table(f"False alarms at delta = {DELTA}, 400 sequences", header, tuple(rows))


def prices() -> Table:
    rows, steps = [], 1000
    for lag in (1, 2, 5, 10, 28):
        chance = np.where(np.arange(steps) < 500, 0.9, 0.3)
        states = (np.random.default_rng(1).random((100, steps)) < chance).astype(int)
        guard = guard_of(steps, lag)
        delay = np.median(alarms(guard, np.tile([0.1, 0.9], (100, steps, 1)), states)) - 500
        rows.append((f"{lag}", f"{delay:.0f}", f"{guard.certificate.regret_bound:.3f}"))
    return Table("What a lag costs, 100 sequences", ("lag", "median delay", "certificate"), tuple(rows))


if __name__ == "__main__":
    print(false_alarms(), prices(), sep="\n\n")
