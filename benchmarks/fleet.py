"""A guard of 100,000 streams: a step, a file, streams that come and go, as ratios to a step; and memory."""

import os
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lowregret as lr

N = 100_000


def seconds(call: Callable[[], Any], times: int = 3) -> float:
    """The least of a few."""
    least = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - begin)
    return least


def fleet(n: int = N) -> None:
    """The default guard of a coin, and one told a scale for each stream; in the middle of a run, nobody switched."""
    rng, folder = np.random.default_rng(0), tempfile.TemporaryDirectory()
    for name, scaled in {"law alone": False, "a scale each": True}.items():
        guard, one, path = lr.Guard(lr.matching(), streams=n), lr.Guard(lr.matching()), f"{folder.name}/{name}"

        def step(guard: lr.Guard = guard, scaled: bool = scaled) -> None:
            m = guard.shape[0]
            chance = rng.uniform(0.3, 0.7, m)
            guard.advise(np.stack([1 - chance, chance], axis=-1), scale=rng.uniform(0.1, 1, m) if scaled else None)
            guard.observe((rng.random(m) < chance).astype(int))

        def alone(one: lr.Guard = one, scaled: bool = scaled) -> None:
            for _ in range(200):
                one.advise(np.array([0.5, 0.5]), scale=0.5 if scaled else None)
                one.observe(0)

        for _ in range(5):
            step()
        unit, single = seconds(step, 5), seconds(alone) / 200
        print(f"{n} streams, {name}: a step {unit * 1e3:.1f} ms, {n * single / unit:.0f} times faster than one by one")
        other = lr.Guard(lr.matching(), streams=1)
        rows: dict[str, Callable[[], Any]] = {
            "save": lambda guard=guard, path=path: guard.save(path),
            "load": lambda other=other, path=path: other.load(path),
            "dumps": guard.dumps,
            "add 1,000": lambda guard=guard: guard.add(n // 100),
            "retire 1,000": lambda guard=guard: guard.retire(guard.streams[: n // 100]),
        }
        for what, call in rows.items():
            took = seconds(call)
            print(f"  {what:14s} {took * 1e3:8.1f} ms {took / unit:8.2f} steps")
        assert other.shape == (n,)
        print(f"  the file {os.path.getsize(path) / 2**20:.1f} MiB, {os.path.getsize(path) / n:.0f} bytes a stream")
    folder.cleanup()
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB")


if __name__ == "__main__":
    fleet()
