"""``make bench``: what things cost, as ratios taken in one run. Figures vary with the machine; nothing is asserted.

The ratios are then set beside those of the last release; ``--keep`` keeps them for this one (``benchmarks/history``).
"""

import contextlib
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

import lowregret as lr
from lowregret.policies import shadow
from lowregret.rules import bets, kernels

from . import history
from .loops import regret_gap_loop

T, N = 1024, 1024


def best_of(call: Callable[[], object], repeats: int = 7) -> float:
    """The fastest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def batched_against_loop() -> None:
    coin = lr.matching()
    base = lr.sources.paper_sources(T)["b"]
    tokens = lr.sample(base, T, N, seed=0)
    probs = np.ascontiguousarray(base.predict_sequence(tokens))
    chances, rows = probs[..., 1].tolist(), tokens.tolist()
    rule, name = lr.rules.RegretGap(coin, T), "RegretGap"
    print(f"Algorithm 1 on {N} x {T} bits, one core  ns/token  times the loop  peak memory / input")
    expected = [regret_gap_loop(c, r, T) for c, r in zip(chances, rows, strict=True)]
    some = list(zip(chances, rows, strict=True))[:64]
    scalar = best_of(lambda: [regret_gap_loop(c, r, T) for c, r in some], 5) / len(some)
    print(f"  {name + ', scalar loop':36s} {scalar / T * 1e9:8.1f}")
    for way, least in (("arrays", tokens.size + 1), ("arrays and numba", 0)):
        kernels._WORTH = least
        batched = best_of(lambda: rule.trip_times(probs, tokens)) / N
        if not np.array_equal(rule.trip_times(probs, tokens), expected):
            raise SystemExit(f"{name}: {way} and the loop disagree")
        tracemalloc.start()
        rule.trip_times(probs, tokens)
        peak = tracemalloc.get_traced_memory()[1] / (probs.nbytes + tokens.nbytes)
        tracemalloc.stop()
        print(f"  {name + ', ' + way:36s} {batched / T * 1e9:8.1f} {scalar / batched:14.1f}x {peak:20.2f}")


def many_streams() -> None:
    streams = 100_000
    rng = np.random.default_rng(0)
    problem = lr.matching()
    probs, token = rng.dirichlet([1, 1], streams), rng.integers(2, size=streams)
    rules = {
        "RegretGap": lr.rules.RegretGap(problem, T),
        "ExactTest, an urn": lr.ExactTest(problem, T, fallback=lr.PolyaUrn(2)),
        "ExactTest, Recovery": lr.ExactTest(problem, T),
    }
    print(f"{streams} streams, one step, update   us a stream   times RegretGap")
    cost: dict[str, float] = {}
    for name, rule in rules.items():
        memory = rule.update(rule.start((streams,)), probs, token)
        step = best_of(lambda rule=rule, memory=memory: rule.update(memory, probs, token))
        cost[name] = step
        print(f"  {name:36s} {step / streams * 1e6:8.3f} {step / cost['RegretGap']:14.2f}x")
    guard = lr.Guard(problem, 10**6, batch_shape=(streams,))

    def guarded() -> None:
        guard.advise(probs)
        guard.observe(token)

    step = best_of(guarded)
    print(f"  {'ExactTest, Recovery, in a Guard':36s} {step / streams * 1e6:8.3f} {step / cost['RegretGap']:14.2f}x")


def one_stream() -> None:
    """The least of many short runs, in turns: whatever else the machine does then falls on all of them."""
    count = 200
    print("one stream, advise + observe:   us a step   times RegretGap")
    for problem in (lr.matching(), lr.rock_paper_scissors()):
        rng, S = np.random.default_rng(0), problem.n_states
        probs = rng.dirichlet([1] * S, count)
        states = [int(rng.choice(S, p=p)) for p in probs]
        rules = {
            "RegretGap": lr.rules.RegretGap(problem, 10**6),
            "ExactTest, an urn, no compiler": lr.ExactTest(problem, 10**6, delta=1e-3, fallback=lr.PolyaUrn(S)),
            "ExactTest, Recovery, no compiler": lr.ExactTest(problem, 10**6, delta=1e-3),
            "ExactTest, an urn": lr.ExactTest(problem, 10**6, delta=1e-3, fallback=lr.PolyaUrn(S)),
            "ExactTest, Recovery": lr.ExactTest(problem, 10**6, delta=1e-3),
        }
        guards = {name: lr.Guard(problem, 10**6, rule=rule) for name, rule in rules.items()}
        least = dict.fromkeys(rules, float("inf"))
        steps = bets._STEPS
        for _ in range(40):
            for name, guard in guards.items():
                bets._STEPS = shadow._STEPS = 1 << 60 if "no compiler" in name else steps
                begin = time.perf_counter()
                for p, s in zip(probs, states, strict=True):
                    guard.advise(p)
                    guard.observe(problem.states[s])
                least[name] = min(least[name], (time.perf_counter() - begin) / count)
        bets._STEPS = shadow._STEPS = steps
        for name in rules:
            title = f"{problem.n_actions} actions, {name}"
            times = least[name] / least["RegretGap"]
            print(f"  {title:48s} {least[name] * 1e6:8.1f} {times:9.2f}x")


def both_tests() -> None:
    """Recorded sequences."""
    problem, base = lr.matching(), lr.sources.paper_sources(T)["b"]
    tokens = lr.sample(base, T, N, seed=0)
    probs = np.ascontiguousarray(base.predict_sequence(tokens))
    rules = {"RegretGap": lr.rules.RegretGap(problem, T), "ExactTest": lr.ExactTest(problem, T)}
    least_worth = kernels._WORTH
    print(f"recorded, {N} x {T} bits                  ns/token   times RegretGap")
    for way, worth in (("arrays", 1 << 60), ("arrays and numba", 0)):
        kernels._WORTH = worth
        cost = {name: best_of(lambda rule=rule: rule.trip_times(probs, tokens)) for name, rule in rules.items()}
        for name, seconds in cost.items():
            title = f"{name}, {way}"
            print(f"  {title:36s} {seconds / tokens.size * 1e9:8.1f} {seconds / cost['RegretGap']:14.2f}x")
    kernels._WORTH = least_worth


def bounded_memory() -> None:
    horizon, count = 10**6, 50
    alternator = lr.Markov([[0.2, 0.8], [0.8, 0.2]], window=1)
    games = {
        "matching": (lr.matching(), alternator),
        "RPS": (lr.rock_paper_scissors(), lr.Markov(np.full(3, 1 / 3), 0)),
    }
    print("AverageRestart, one stream, us a step     copies 256   512  1024  2048  4096   last doubling")
    for name, (problem, base) in games.items():
        for rule in ("Theorem 4.2", "ExactTest"):
            costs = []
            for extra in (256, 512, 1024, 2048, 4096):
                urn = lr.PolyaUrn(problem.n_states)
                test = lr.ExactTest(problem, extra, delta=0.01 / horizon, fallback=urn)
                inner = test if rule == "ExactTest" else None
                costs.append(_restart_step(lr.AverageRestart(base, problem, 1, extra, horizon, rule=inner), count))
            spread = " ".join(f"{cost * 1e6:5.0f}" for cost in costs)
            print(f"  {name + ', ' + rule:46s} {spread} {costs[-1] / costs[-2]:8.2f}x")


def _restart_step(safe: lr.AverageRestart, count: int) -> float:
    """Answer and update, once; the state that comes is the same each time, so that most copies have switched."""
    answer = safe.predict if safe.problem.n_actions == 2 else safe.policy
    memory = safe.start()
    for _ in range(2 * count):
        memory = safe.update(memory, 1)

    def run() -> None:
        nonlocal memory
        for _ in range(count):
            answer(memory)
            memory = safe.update(memory, 1)

    return best_of(run, 5) / count


def unknown_problems() -> None:
    rows = 64
    base = lr.sources.paper_sources(T)["b"]
    tokens = lr.sample(base, T, rows, seed=0)
    probs = np.ascontiguousarray(base.predict_sequence(tokens))
    print(f"Algorithm 3, {T + 1} tips, {T} steps    one stream, us a step   recorded, ms a sequence: arrays   numba")
    for test in ("threshold", "exact"):
        rule = lr.rules.VRegret(T, test=test)
        memory = rule.update(rule.start(), probs[0, 0], tokens[0, 0])
        step = best_of(lambda rule=rule, memory=memory: rule.update(memory, probs[0, 0], tokens[0, 0]), 50)
        costs = []
        for least, some in ((1 << 60, 8), (0, rows)):
            kernels._WORTH = least
            rule.trip_times(probs[:some], tokens[:some])
            whole = best_of(lambda rule=rule, some=some: rule.trip_times(probs[:some], tokens[:some]), 3)
            costs.append(whole / some * 1e3)
        print(f"  {test:36s} {step * 1e6:14.0f} {costs[0]:36.1f} {costs[1]:8.1f}")


def importing() -> None:
    code = "import time; t = time.perf_counter(); import lowregret; print(time.perf_counter() - t)"
    best = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))
    print(f"import lowregret: {best:.3f} s")


if __name__ == "__main__":
    heard = history.Heard()
    with contextlib.redirect_stdout(heard):
        batched_against_loop()
        both_tests()
        many_streams()
        one_stream()
        bounded_memory()
        unknown_problems()
        importing()
    found = history.ratios(heard.getvalue())
    print(history.compared(found, lr.__version__))
    if "--keep" in sys.argv:
        history.keep(found, lr.__version__)
