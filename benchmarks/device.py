"""``python -m benchmarks.device``: the rules on torch tensors, eager, compiled and as a CUDA graph."""

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

import lowregret as lr
from lowregret.rules import FirstTest

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


def captured(rule: lr.rules.Rule, laws: torch.Tensor, tokens: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The pass recorded once and replayed: no time is lost launching kernels from Python."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            rule.first_trips(laws, tokens)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        times = rule.first_trips(laws, tokens)

    def replay() -> torch.Tensor:
        graph.replay()
        return times

    return replay


def main() -> None:
    warnings.filterwarnings("ignore", message="Dynamo detected a call to a `functools.lru_cache`")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = lr.sources.paper_sources(T)["b"]
    tokens = lr.sample(base, T, N, seed=0)
    probs = np.ascontiguousarray(base.predict_sequence(tokens))
    there, laws = torch.as_tensor(tokens, device=device), torch.as_tensor(probs, device=device)
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(f"trip times of {N} x {T} bits in float64 on {name}, torch {torch.__version__}")
    for rule in (lr.rules.RegretGap(lr.matching(), T), FirstTest(lr.matching(), T)):
        expected = rule.trip_times(probs, tokens)
        ways = {
            "checked": lambda rule=rule: rule.trip_times(laws, there),
            "unchecked": lambda rule=rule: rule.first_trips(laws, there),
        }
        rule.first_trips(laws, there)  # what is kept from the first pass must be there before the graph is traced
        ways["compiled"] = partial(torch.compile(rule.first_trips, fullgraph=True), laws, there)
        if device == "cuda":
            ways["as a CUDA graph"] = captured(rule, laws, there)
        for way, call in ways.items():
            same = np.array_equal(call().cpu().numpy(), expected)
            seconds = best_of(call, 30 if device == "cuda" else 3, device)
            peak = ""
            if device == "cuda":
                torch.cuda.reset_peak_memory_stats()
                call()
                used = torch.cuda.max_memory_allocated() / (laws.nbytes + there.nbytes)
                peak = f"  peak memory {used:.1f}x the input"
            print(f"  {type(rule).__name__:10s} {way:22s} {N * T / seconds / 1e9:8.4f} G tokens/s  same: {same}{peak}")


if __name__ == "__main__":
    main()
