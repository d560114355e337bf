"""``python -m benchmarks.device``: the tests on torch tensors, eager, compiled and as a CUDA graph.

With ``--compare BEFORE AFTER``, two trees, the checks of the second and the speeds of both side by side, each measured
by its own ``device_parts.py``: training steps, recorded tests and cached sampling.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import lowregret as lr

T, N = 1024, 1024


def best_of(call: Callable[[], object], repeats: int, device: str) -> float:
    """The fastest of several runs, in seconds, the device's queue drained."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)


def captured(engine: Any, laws: torch.Tensor, tokens: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The pass recorded once and replayed: no time is lost launching kernels from Python."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            engine.alarm_times(laws, tokens)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        times = engine.alarm_times(laws, tokens)

    def replay() -> torch.Tensor:
        graph.replay()
        return times

    return replay


def asked(part: str, tree: str) -> dict[str, tuple[float, str]]:
    """What a part finds in a tree, by name; all else that it prints is passed on."""
    path = os.pathsep.join([os.path.abspath(f"{tree}/src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    command, found = [sys.executable, "-W", "ignore", "-m", "benchmarks.device_parts", part], {}
    begin = time.perf_counter()
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=tree, env=environment, **pipes) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("LINE "):
                name, value, unit = json.loads(line.removeprefix("LINE "))
                found[name] = value, unit
            else:
                print("  |", line, end="", flush=True)
    print(f"  | {part} of {tree}: exit {run.returncode}, {time.perf_counter() - begin:.0f} s", flush=True)
    return found


def compare(before: str, after: str, parts: list[str]) -> None:
    for part in parts:
        beside = part in ("tests", "sampled", "steps")
        print(part, flush=True)
        olds, news = asked(part, before) if beside else {}, asked(part, after)
        for name in {**olds, **news}:
            (old, unit), (new, other) = olds.get(name, (None, "")), news.get(name, (None, ""))
            ratio = f"{new / old:6.2f}x" if old and new is not None else ""
            shown = "".join(f"{'-' if value is None else format(value, '.4g'):>10s}" for value in (old, new))
            print(f"  {name:62s}{shown} {unit or other:11s}{ratio}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="two trees")
    parser.add_argument("--parts", nargs="+", default=["tests", "sampled", "steps", "replay"])
    chosen = parser.parse_args()
    if chosen.compare:
        compare(*chosen.compare, chosen.parts)
    else:
        tests_in_three_ways()


def tests_in_three_ways() -> None:
    warnings.filterwarnings("ignore", message="Dynamo detected a call to a `functools.lru_cache`")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = lr.evaluate.sources.paper_sources(T)["b"]
    tokens = lr.sample(base, T, N, seed=0)
    probs = np.ascontiguousarray(base.predict_sequence(tokens))
    there, laws = torch.as_tensor(tokens, device=device), torch.as_tensor(probs, device=device)
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(f"alarm times of {N} x {T} bits in float64 on {name}, torch {torch.__version__}")
    for test in (lr.RegretGap(T), lr.RegretRate(T)):
        robust = lr.robustify(base, lr.matching(), test=test)
        expected = robust.alarm_times(tokens)
        with robust.streams.engine_for(laws) as engine:
            engine.alarm_times(laws, there)  # what is kept from the first pass must be there before the graph is traced
        ways = {"eager": partial(engine.alarm_times, laws, there)}
        ways["compiled"] = partial(torch.compile(engine.alarm_times, fullgraph=True), laws, there)
        if device == "cuda":
            ways["as a CUDA graph"] = captured(engine, laws, there)
        for way, call in ways.items():
            same = np.array_equal(call().cpu().numpy(), expected)
            seconds = best_of(call, 30 if device == "cuda" else 3, device)
            peak = ""
            if device == "cuda":
                torch.cuda.reset_peak_memory_stats()
                call()
                used = torch.cuda.max_memory_allocated() / (laws.nbytes + there.nbytes)
                peak = f"  peak memory {used:.1f}x the input"
            print(f"  {type(test).__name__:10s} {way:22s} {N * T / seconds / 1e9:8.4f} G tokens/s  same: {same}{peak}")


if __name__ == "__main__":
    main()
