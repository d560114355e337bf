"""``make bench``: what things cost, as ratios taken in one run. Figures vary with the machine; nothing is asserted."""

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

import lowregret as lr
from lowregret import kernels

from .loops import exact_test_loop, regret_gap_loop

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
    gap, exact = lr.RegretGap(coin, T), lr.ExactTest(coin, T)
    rates = exact.rates_K.tolist()
    loops = {
        gap: lambda c, r: regret_gap_loop(c, r, T),
        exact: lambda c, r: exact_test_loop(c, r, T, exact.delta, rates, exact.gate),
    }
    print(f"Algorithm 1 on {N} x {T} bits, one core  ns/token  times the loop  peak memory / input")
    for rule, loop in loops.items():
        expected = [loop(c, r) for c, r in zip(chances, rows, strict=True)]
        some = list(zip(chances, rows, strict=True))[:64]
        scalar = best_of(lambda loop=loop, some=some: [loop(c, r) for c, r in some], 5) / len(some)
        print(f"  {type(rule).__name__ + ', scalar loop':36s} {scalar / T * 1e9:8.1f}")
        for way, least in (("arrays", tokens.size + 1), ("arrays and numba", 0)):
            kernels._WORTH = least
            batched = best_of(lambda rule=rule: rule.trip_times(probs, tokens)) / N
            if not np.array_equal(rule.trip_times(probs, tokens), expected):
                raise SystemExit(f"{type(rule).__name__}: {way} and the loop disagree")
            tracemalloc.start()
            rule.trip_times(probs, tokens)
            peak = tracemalloc.get_traced_memory()[1] / (probs.nbytes + tokens.nbytes)
            tracemalloc.stop()
            name = f"{type(rule).__name__}, {way}"
            print(f"  {name:36s} {batched / T * 1e9:8.1f} {scalar / batched:14.1f}x {peak:20.2f}")


def many_streams() -> None:
    streams = 100_000
    rng = np.random.default_rng(0)
    problem = lr.matching()
    rule = lr.ExactTest(problem, T)
    probs, token = rng.dirichlet([1, 1], streams), rng.integers(2, size=streams)
    memory = rule.update(rule.start((streams,)), probs, token)
    step = best_of(lambda: rule.update(memory, probs, token))
    guard = lr.Guard(problem, 10**6, batch_shape=(streams,))

    def guarded() -> None:
        guard.advise(probs)
        guard.observe(token)

    print(
        f"{streams} streams, one step: ExactTest.update {step / streams * 1e6:.3f} us a stream, "
        f"Guard advise + observe {best_of(guarded) / streams * 1e6:.3f} us a stream"
    )


def one_stream() -> None:
    rng = np.random.default_rng(0)
    count = 2000
    for rule in (lr.ExactTest(lr.matching(), 10**6, delta=1e-3), lr.ExactTest(lr.rock_paper_scissors(), 10**6)):
        guard = lr.Guard(rule.problem, 10**6, rule=rule)
        probs, states = rng.dirichlet([1] * rule.n_states, count), rng.integers(rule.n_states, size=count).tolist()

        def run(guard: lr.Guard = guard, probs: np.ndarray = probs, states: list[int] = states) -> None:
            for p, s in zip(probs, states, strict=True):
                guard.advise(p)
                guard.observe(s)

        print(
            f"one stream, {rule.problem}: advise + observe {best_of(run, 5) / count * 1e6:.1f} us "
            f"({len(rule.rates_K)} rates)"
        )


def importing() -> None:
    code = "import time; t = time.perf_counter(); import lowregret; print(time.perf_counter() - t)"
    best = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))
    print(f"import lowregret: {best:.3f} s")


if __name__ == "__main__":
    batched_against_loop()
    many_streams()
    one_stream()
    importing()
