"""What ``python -m benchmarks.device --compare`` asks of each tree, in a process of its own: checks, then speeds.

A part gives lines of a name, a number and its unit. One that fails says why, and the others go on.
"""

import json
import math
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

import lowregret as lr
from benchmarks.training import finish, sampling, tokens_per_second
from lowregret.transformer import DECAYING, NANODO, Decoder, Distil, Imitate, Masked, TrainingSettings, Transformer
from lowregret.transformer.decoder import SIZES, Size
from lowregret.transformer.training import Training

Line = tuple[str, float, str]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = DEVICE == "cpu"  # without a GPU: only to see that it runs
T = 64 if SMALL else 1024


TESTS = {"every start": lr.ExactTest(1 / T, T), "regret rate": lr.RegretRate(T)}


def seconds(call: Callable[[], object], at_once: int, repeats: int) -> float:
    """Of one call, the median over so many times ``at_once`` calls: what Python does is hidden if they are many."""
    times = []
    for i in range(repeats + 3):
        finish(DEVICE)
        begin = time.perf_counter()
        for _ in range(at_once):
            call()
        finish(DEVICE)
        times += [(time.perf_counter() - begin) / at_once] if i > 2 else []
    return float(np.median(times))


def tests() -> Iterator[Line]:
    """Recorded tokens a second, T x T in float64: one call after the other, then many without waiting between them."""
    source = lr.evaluate.sources.paper_sources(T)["b"]
    tokens = lr.sample(source, T, T, seed=0)
    laws = torch.as_tensor(np.array(np.broadcast_to(source.predict_sequence(tokens), (T, T, 2))), device=DEVICE)
    there = torch.as_tensor(tokens, device=DEVICE)
    for name, test in TESTS.items():
        with lr.robustify(source, lr.matching(), test=test).streams.engine_for(laws) as engine:
            engine.alarm_times(laws, there)  # what is kept from the first pass is not made in a trace
        ways: dict[str, Callable[[], object]] = {"": partial(engine.alarm_times, laws, there)}
        if name != "regret rate":
            ways[", compiled"] = partial(torch.compile(engine.alarm_times, fullgraph=True), laws, there)
        for way, call in ways.items():
            for how, at_once in (("", 20), (", one call", 1)):
                try:
                    took = seconds(call, at_once, 3 if SMALL else 20)
                    yield f"{name}{way}{how}", T * T / took / 1e9, "G tokens/s"
                except Exception as error:
                    print(f"{name}{way}: {type(error).__name__}: {str(error)[:600]}", flush=True)


def sampled() -> Iterator[Line]:
    """Cached sampling beside re-running the prefix."""
    cached, again = sampling(Size(T, 16, 2, 1, 32) if SMALL else SIZES["paper"], 4 if SMALL else 128, DEVICE)
    yield "sampling with the cache", cached, "s"
    yield "over re-running the prefix", again / cached, "x"
    if not SMALL:
        yield "draws agree with re-running", _agreement(), "share"


def _agreement() -> float:
    """How many of the tokens that the cache draws are those of the laws of a whole pass, by the same uniforms."""
    model = Transformer(Decoder(2, SIZES["paper"], seed=0).to(DEVICE))
    tokens = lr.sample(model, T, 16, 0)
    uniforms = torch.as_tensor(np.random.default_rng(0).random((16, T)), device=DEVICE)
    return float((tokens == (uniforms >= model.probs_on_device(tokens)[..., 0].double()).long()).double().mean())


def steps() -> Iterator[Line]:
    """Training: tokens a second."""
    size = Size(T, 16, 2, 1, 32) if SMALL else SIZES["paper"]
    source, coin = lr.evaluate.sources.paper_sources(T)["b"], lr.matching()
    base = Transformer(Decoder(2, size, seed=1).to(DEVICE))
    masked = Masked(source, lr.robustify(base, coin, test=lr.RegretRate(T)))
    distilled = Distil(source, lr.robustify(base, coin, test=lr.ExactTest(2 / T, T)), play_share=0.0)
    for name, task, batch, wide in (
        ("BERNOULLI, batch 128", Imitate(source), 128, False),
        ("ROBUST (masked), batch 128", masked, 128, False),
        ("ROBUST (distilled), batch 128", distilled, 128, True),
    ):
        batch = 4 if SMALL else batch
        kept = {"optimiser": DECAYING, "stream": "float32"} if wide else {"optimiser": NANODO}
        settings = TrainingSettings(size=size, batch=batch, **kept)  # type: ignore[arg-type]
        torch._dynamo.reset()
        try:
            speed, warm = tokens_per_second(task, settings, DEVICE, DEVICE == "cuda", 2 if SMALL else 30)
            print(f"{name}: first steps {warm:.0f} s", flush=True)
            yield name, speed / 1e6, "M tokens/s"
        except Exception:
            traceback.print_exc()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


def replay() -> Iterator[Line]:
    """Steps that are replayed beside steps that are taken one by one, and a run that stopped beside a whole one."""
    size, many = Size(256, 64, 2, 2, 256), 6 if SMALL else 24
    size = Size(16, 16, 2, 1, 32) if SMALL else size
    source, coin = lr.evaluate.sources.paper_sources(size.context)["b"], lr.matching()
    base = Transformer(Decoder(2, size, seed=1).to(DEVICE))
    settings = TrainingSettings(size=size, batch=32, steps=100, optimiser=DECAYING, stream="float32")
    rate = lr.robustify(base, coin, test=lr.RegretRate(size.context))
    exact = lr.robustify(base, coin, test=lr.ExactTest(2 / size.context, size.context))
    kinds: dict[str, Callable[[], object]] = {
        "imitate": lambda: Imitate(source),
        "imitate, soft": lambda: Imitate(lr.PolyaUrn(2), soft=True),
        "masked": lambda: Masked(source, rate),
        "distil (not replayed)": lambda: Distil(source, exact, play_every=5, play_count=8, pool=16),
    }
    for name, kind in kinds.items():
        try:
            with tempfile.TemporaryDirectory() as folder:

                def run(file: str, kind: Callable[[], object] = kind, folder: str = folder) -> Training:
                    path = Path(folder) / f"{file}.safetensors"
                    return Training(kind(), path, settings, device=DEVICE)  # type: ignore[arg-type]

                plain, fast, stopped = run("plain"), run("fast"), run("stopped")
                plain.stream = None
                one_by_one = [float(plain.advance()) for _ in range(many)]
                replayed = [float(fast.advance()) for _ in range(many)]
                print(f"{name}, one by one: {[round(x, 5) for x in one_by_one]}", flush=True)
                print(f"{name}, replayed:   {[round(x, 5) for x in replayed]}", flush=True)
                yield f"{name}: replayed or not", float(fast.replay is not None), "(1: yes)"
                yield f"{name}: largest difference of a loss", _apart(one_by_one, replayed), ""
                for _ in range(many // 2):
                    stopped.advance()
                stopped.save()
                again = run("stopped")
                resumed = [float(again.advance()) for _ in range(many - many // 2)]
                yield f"{name}: the same after a stop", _apart(replayed[many // 2 :], resumed), ""
        except Exception:
            traceback.print_exc()


def _apart(some: list[float], others: list[float]) -> float:
    return max((abs(a - b) for a, b in zip(some, others, strict=True)), default=math.nan)


PARTS = {part.__name__: part for part in (tests, sampled, steps, replay)}


def main(name: str) -> None:
    try:
        for line in PARTS[name]():
            print("LINE " + json.dumps(line), flush=True)
    except Exception:
        traceback.print_exc()


if __name__ == "__main__":
    main(sys.argv[1])
