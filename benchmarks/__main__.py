"""``make bench``: what a guard costs, in updates of River's ADWIN, taken in one run. Nothing is asserted.

The ratios are then set beside those of the last release; ``--keep`` keeps them for this one (``benchmarks/history``).
A step is advise, act and observe, of one stream and two actions. Guards that were made before the loop was compiled
keep to arrays, as all do without the extra ``fast``.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
from river import drift, linear_model

import lowregret as lr
from lowregret.engine import Inputs
from lowregret.engine.loop import form_of, warm_up

from . import history

COIN, STEPS, ROUNDS = lr.matching(), 200, 30
FLEET, RECORDED = 10_000, (2_000, 1_000)


def least(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The fastest of several runs of each, in seconds, in turns: what else the machine does falls on all of them."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            found[name] = min(found[name], time.perf_counter() - begin)
    return found


def row(name: str, seconds: float, unit: float, scale: float = 1e6) -> None:
    print(f"  {name:44s} {seconds * scale:10.2f} {seconds / unit:12.2f}x")


def coins(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts that are right, and what came."""
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.2, 0.8, shape)
    return np.stack([1 - chance, chance], axis=-1), (rng.random(shape) < chance).astype(np.int64)


def guarded(alarm: bool) -> Callable[[], None]:
    """Steps of a guard in whatever form there is now."""
    guard, (probs, states) = lr.Guard(COIN), coins(STEPS)
    if alarm:  # the model had excluded what came
        guard.advise(np.array([1.0, 0.0]))
        guard.observe(1)
    came = states.tolist()

    def run() -> None:
        for law, state in zip(probs, came, strict=True):
            guard.advise(law)
            guard.observe(state, guard.act(0))

    return run


def by_river() -> dict[str, Callable[[], None]]:
    probs, states = coins(100 + ROUNDS, STEPS)
    losses = (probs.argmax(axis=-1) != states).astype(float).tolist()
    rows = [dict(enumerate(x)) for x in np.random.default_rng(1).normal(size=(STEPS, 8)).tolist()]
    came, model = states[0].tolist(), linear_model.LogisticRegression()

    def hearing(detector: drift.ADWIN) -> Callable[[], None]:
        fresh = iter(losses)  # the same again and again would be a change

        def run() -> None:
            for loss in next(fresh):
                detector.update(loss)

        for _ in range(100):  # a window of the usual length
            run()
        return run

    def learning() -> None:
        for x, y in zip(rows, came, strict=True):
            model.predict_proba_one(x)
            model.learn_one(x, bool(y))

    return {
        "River: ADWIN": hearing(drift.ADWIN()),
        "River: ADWIN(clock=1)": hearing(drift.ADWIN(clock=1)),
        "River: LogisticRegression, predict and learn": learning,
    }


def one_stream() -> float:
    """Seconds of an ADWIN update."""
    calls = by_river()
    for form in ("arrays", "compiled"):
        if form == "compiled" and not warm_up():
            continue
        for alarm in (False, True):
            calls[f"Guard, {form}, {'after' if alarm else 'before'} an alarm"] = guarded(alarm)
    found = least(calls, ROUNDS)
    unit = found["River: ADWIN"] / STEPS
    print("one stream, a step                                      us   times ADWIN")
    for name, seconds in found.items():
        row(name, seconds / STEPS, unit)
    return unit


def many_streams(unit: float) -> None:
    probs, states = coins(FLEET)
    guard = lr.Guard(COIN, streams=FLEET)

    def step() -> None:
        guard.advise(probs)
        guard.observe(states)

    print("many streams, a step of one                             us   times ADWIN")
    row(f"Guard, fleet of {FLEET:,}", least({"": step}, 10)[""] / FLEET, unit)
    laws, came = coins(*RECORDED)
    form, rows = form_of(guard.engine, came.size), guard.engine.start(len(came))
    recorded = least({"": lambda: form.run(rows, Inputs(laws), came)}, 3)[""]
    row(f"recording of {RECORDED[0]:,} x {RECORDED[1]:,}", recorded / came.size, unit)


def once(unit: float) -> None:
    probs, states = coins(365)
    print("once                                                    ms   times ADWIN")
    calls = {"Guard()": lambda: lr.Guard(COIN), "backtest of a year": lambda: lr.backtest(COIN, probs, states)}
    for name, seconds in least(calls, 10).items():
        row(name, seconds, unit, 1e3)


def beginning() -> None:
    """In processes of their own, beside the import of NumPy."""
    code = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
    step = "g = lowregret.Guard(lowregret.matching()); g.advise([.5, .5]); g.observe(0)"
    loop = "from lowregret.engine.loop import warm_up; warm_up()"

    def seconds(done: str, cache: str) -> float:
        given = {**os.environ, "NUMBA_CACHE_DIR": cache}
        return float(subprocess.check_output([sys.executable, "-c", code.format(done)], env=given))

    print("from the start                                           s   times import numpy")
    with tempfile.TemporaryDirectory() as cache:
        unit = min(seconds("import numpy", cache) for _ in range(3))
        for name, done, times in (
            ("import lowregret", "import lowregret", 3),
            ("import, Guard() and a first step", f"import lowregret; {step}", 3),
            ("the same, compiled, empty cache", f"import lowregret; {loop}; {step}", 1),
            ("the same, compiled, again", f"import lowregret; {loop}; {step}", 3),
        ):
            row(name, min(seconds(done, cache) for _ in range(times)), unit, 1.0)


if __name__ == "__main__":
    heard = history.Heard()
    with contextlib.redirect_stdout(heard):
        update = one_stream()
        many_streams(update)
        once(update)
        beginning()
    kept = history.ratios(heard.getvalue())
    print(history.compared(kept, lr.__version__))
    if "--keep" in sys.argv:
        history.keep(kept, lr.__version__)
