"""``python -m benchmarks.training``: tokens a second of training steps, and sampling with the cache.

Each line is printed as soon as it is known. Figures vary with the machine; nothing is asserted.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch

import lowregret as lr
from lowregret.transformer import (
    DECAYING,
    NANODO,
    Decoder,
    Distil,
    Imitate,
    Masked,
    Task,
    TrainingSettings,
    Transformer,
)
from lowregret.transformer.decoder import SIZES, Size
from lowregret.transformer.training import Training


def finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def tokens_per_second(
    task: Task, settings: TrainingSettings, device: str, compiled: bool, steps: int
) -> tuple[float, float]:
    """Of one training step, and the seconds that the first two took (compiling)."""
    with tempfile.TemporaryDirectory() as folder:
        run = Training(task, Path(folder) / "model.safetensors", settings, device=device, compiled=compiled)
        begin = time.perf_counter()
        for _ in range(2):
            run.advance()
        finish(device)
        warm, times = time.perf_counter() - begin, []
        for _ in range(3):  # the best of three stretches
            begin = time.perf_counter()
            for _ in range(steps):
                run.advance()
            finish(device)
            times.append(time.perf_counter() - begin)
    return steps * settings.batch * settings.size.context / min(times), warm


def steps(size: Size, batch: int, device: str, repeats: int) -> None:
    T = size.context
    source, coin = lr.evaluate.sources.paper_sources(T)["b"], lr.matching()
    base = Transformer(Decoder(2, size, seed=1).to(device))
    bernoulli = Imitate(source)
    robust = Masked(source, lr.robustify(base, coin, test=lr.RegretRate(T)))
    distilled = Distil(source, lr.robustify(base, coin, test=lr.ExactTest(2 / T, T)), play_share=0.0)
    paper = TrainingSettings(size=size, batch=batch, optimiser=NANODO)
    wide = TrainingSettings(size=size, batch=batch, optimiser=NANODO, stream="float32")
    best = TrainingSettings(size=size, batch=batch, optimiser=DECAYING, stream="float32")
    rows: list[tuple[str, Task, TrainingSettings, bool]] = [
        ("BERNOULLI, plain eager step", bernoulli, paper, False),
        ("BERNOULLI, compiled", bernoulli, paper, True),
        ("ROBUST (masked), compiled", robust, paper, True),
        ("BERNOULLI, the same, float32 stream", bernoulli, wide, True),
        ("ROBUST (distilled), float32 stream", distilled, best, True),
    ]
    plain = None
    for name, task, settings, compiled in rows:
        torch._dynamo.reset()
        speed, warm = tokens_per_second(task, settings, device, compiled, repeats)
        plain = plain or speed
        print(
            f"  {name:40s} {speed / 1e6:8.3f} M tokens/s  {speed / plain:5.2f}x  (first steps {warm:.0f} s)", flush=True
        )


def sampling(size: Size, n: int, device: str) -> tuple[float, float]:
    """Seconds for ``n`` sequences with the cache, and by re-running the prefix: from its cost at nine lengths."""
    model = Transformer(Decoder(2, size, seed=0).to(device))
    T = size.context

    def timed(call: Callable[[], object]) -> float:
        finish(device)
        begin = time.perf_counter()
        call()
        finish(device)
        return time.perf_counter() - begin

    lr.sample(model, min(T, 64), n, 0)  # so far that what is compiled or recorded on the way is there
    cached = timed(lambda: lr.sample(model, T, n, 0))
    tokens = torch.randint(2, (n, T), device=device)
    lengths = sorted({max(1, round(T * i / 8)) for i in range(9)})
    model.probs_on_device(tokens)
    at = [timed(lambda t=t: model.probs_on_device(tokens[:, :t])) for t in lengths]
    points = pairwise(zip(lengths, at, strict=True))
    return cached, sum((b - a) * (x + y) / 2 for (a, x), (b, y) in points)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="paper", choices=list(SIZES))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=30, help="steps in each timed stretch")
    parser.add_argument("--samples", type=int, default=128)
    chosen = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    size = SIZES[chosen.size]
    print(f"training steps, size {chosen.size}, batch {chosen.batch}, {name}, torch {torch.__version__}", flush=True)
    steps(size, chosen.batch, device, chosen.repeats)
    print("sampling in float32", flush=True)
    cached, again = sampling(size, chosen.samples, device)
    print(f"  {chosen.samples} sequences of {size.context}: with the cache {cached:.2f} s,", end=" ")
    print(f"re-running the prefix {again:.2f} s (from its cost at 9 lengths): {again / cached:.1f}x", flush=True)


if __name__ == "__main__":
    main()
