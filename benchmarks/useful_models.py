"""``python -m benchmarks.useful_models``: alarms on models that are miscalibrated but useful, and what they cost.

To guess one of two states. At each step the model names one of them and says that it comes with .9 (or .8), where .7
(or .65) is true: the probabilities are wrong, and the advice is as good as any. It names the same at every step, or
either with a chance of a half; then no fixed action is any good, and frequencies have two stories to tell.

Alarms of the usual guard at delta .05 and 1/T, with 95% Wilson intervals; the
cost is what the guard earned less than the model's best response, in the runs in which an alarm sounded, and in all
runs as a share of what the model earns above guessing. All seeds are fixed.
"""

import argparse
import itertools

import numpy as np
from scipy import stats

import lowregret as lr
from lowregret.engine import Inputs
from lowregret.engine.loop import form_of
from lowregret.tables import Table

COIN, TRUE = lr.matching(), {0.9: 0.7, 0.8: 0.65}


def runs(names: str, says: float, true: float, steps: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Laws ``[N, T, 2]`` and states ``[N, T]``."""
    rng = np.random.default_rng([seed, steps, round(100 * says)])
    which = rng.integers(2, size=(count, steps)) * (names == "either")
    laws = np.where(np.arange(2) == which[..., None], says, 1 - says)
    return laws, np.where(rng.random((count, steps)) < true, which, 1 - which)


def row(names: str, says: float, true: float, steps: int, delta: float, count: int) -> tuple[str, ...]:
    laws, states = runs(names, says, true, steps, count, seed=0)
    engine = lr.Guard(COIN, test=lr.ExactTest(delta, steps)).engine
    trace = form_of(engine, states.size).run(engine.start(count), Inputs(laws), states)
    heard = trace.alarm_NxT.any(axis=1)
    earned = [np.take_along_axis(each, states[..., None], axis=-1) for each in (trace.policy_NxTxA, trace.model_NxTxA)]
    lost = (earned[1] - earned[0]).sum(axis=(1, 2))
    print(
        f"{names}: {says:g} is {true:g}, {steps:,} steps, delta {delta:.3g}: {heard.sum()} of {count} alarm", flush=True
    )
    found = stats.binomtest(int(heard.sum()), count).proportion_ci(method="wilson")
    cost = lost[heard] if heard.any() else np.zeros(1)
    edge = count * steps * (true - 0.5)
    return (
        names,
        f"{says:g} is {true:g}",
        f"{steps:,}",
        "1/T" if delta == 1 / steps else f"{delta:g}",
        f"{heard.mean():.3f}",
        f"{found.low:.3f} to {found.high:.3f}",
        f"{cost.mean():.1f}",
        f"{cost.max():.1f}",
        f"{cost.sum() / edge:.3%}",
    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("-n", type=int, default=300, help="runs of each row")
    asked.add_argument("--steps", type=int, nargs="*", default=[1_000, 5_000, 20_000], help="how long they are")
    asked.add_argument("--says", type=float, nargs="*", default=list(TRUE), help="which models")
    asked.add_argument("--names", nargs="*", default=["same", "either"], help="same, either: what they name")
    given = asked.parse_args()
    count = given.n
    header = ("names", "says", "steps", "delta", "alarms", "95%", "lost, mean", "most", "of the edge, all runs")
    rows = []
    for names, says, steps in itertools.product(given.names, given.says, given.steps):
        rows += [row(names, says, TRUE[says], steps, delta, count) for delta in (1 / steps, 0.05)]
    print(Table(f"Alarms on useful models, {count} runs a row", header, tuple(rows)))


if __name__ == "__main__":
    main()
