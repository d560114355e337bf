"""``python -m benchmarks.objectives``: what each way of training buys, in one table.

BERNOULLI_1, POLYAURN and ROBUST are those of ``python -m paper reproduce --preset paper``: with its folder as ``--out``
they are read and not trained again. The others start from BERNOULLI_1 and are written beside them. A run that was
stopped goes on where it was. ``--size quick`` is the same with 128 steps and a small decoder.
"""

import argparse
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

import lowregret as lr
from lowregret import files
from lowregret.comparison import Comparison
from lowregret.distances import Estimate, next_token_tv, sequence_tv
from lowregret.robust import Robust
from lowregret.rules import FirstTest
from lowregret.sources import paper_sources
from lowregret.tables import Table
from lowregret.transformer import DECAYING, Distil, Size, Task, TrainingSettings, Transformer, train
from lowregret.transformer.progress import shown
from lowregret.transformer.regret_tasks import ImitateLeast, RegretLoss
from paper.presets import PRESETS, Preset

BASE = "BERNOULLI_1"
OF_THE_PAPER = (BASE, "POLYAURN", "ROBUST")
HEADER = ("trained as", "regret at home", "other seven, mean", "largest", "greedy", "next-token TV", "sequence TV")


@dataclass(frozen=True)
class Plan:
    """The paper's recipe at a size, and how long the others train from its BERNOULLI_1."""

    preset: Preset
    steps: int
    play_count: int  # sequences that are played against Distil's student at a time
    rounds_of: int  # sequences in a round of ImitateLeast

    def tasks(self, base: Transformer) -> dict[str, Task]:
        T, coin = self.preset.horizon, lr.matching()
        source, warmth = paper_sources(T)["b"], 1 / math.sqrt(T)
        every = max(1, self.steps // 20)
        return {
            "DISTILLED": Distil(source, base, exact_test(T), play_every=every, play_count=self.play_count),
            "REGRET": RegretLoss(source, coin, warmth),
            "REGRET_AND_TOKENS": RegretLoss(source, coin, warmth, imitation=30.0),
            "LEAST_REGRET": ImitateLeast(source, coin, warmth, count=self.rounds_of),
        }

    def settings(self, name: str) -> TrainingSettings:
        if name in OF_THE_PAPER:
            return self.preset.settings(name)
        return TrainingSettings(self.preset.size, self.steps, self.preset.batch, self.preset.seed, DECAYING)


PAPER = PRESETS["paper"]
QUICK = replace(
    PAPER, name="quick", size=Size(128, 32, 2, 2, 128), steps=400, robust_steps=400, batch=32, robust_batch=32
)
PLANS = {
    "quick": Plan(replace(QUICK, samples=256), steps=400, play_count=32, rounds_of=64),
    "paper": Plan(PAPER, steps=1500, play_count=128, rounds_of=256),
}


def exact_test(horizon: int) -> FirstTest:
    """The rule of the ``best`` preset: what Distil learns, and the yardstick in the last row."""
    return FirstTest(lr.matching(), horizon, delta=2 / horizon, gate=0)


def trained(plan: Plan, out: Path, device: str | None) -> dict[str, Transformer]:
    """Every model, trained or read."""
    models: dict[str, Transformer] = {}

    def made(name: str, task: Task, init: Transformer | None) -> None:
        with shown(name, Console()) as report:
            path, state = out / "models" / f"{name}.safetensors", out / "training" / name
            settings = plan.settings(name)
            models[name] = train(task, path, settings, init=init, device=device, state=state, on_report=report)

    for name in OF_THE_PAPER:
        made(name, plan.preset.task(name, models.get(BASE)), None)
    for name, task in plan.tasks(models[BASE]).items():
        made(name, task, models[BASE])
    return models


def measured(models: dict[str, Transformer], plan: Plan) -> tuple[Table, dict[str, object]]:
    """The table, and all numbers behind it as JSON."""
    preset, coin, base = plan.preset, lr.matching(), models[BASE]
    T, n, seed = preset.horizon, preset.samples, preset.seed
    players: dict[str, lr.Predictor] = {**models, "Algorithm 1, computed": Robust(base, exact_test(T))}
    found = lr.compare(players, paper_sources(T), coin, T, n, seed)
    greedy = {name: float(lr.adversaries.greedy(player, coin, T).regret) for name, player in players.items()}
    others = {name: player for name, player in players.items() if name != BASE}
    prefixes = lr.sample(paper_sources(T)["b"], T, n, seed + 1)
    next_token = {name: next_token_tv(player, base, prefixes) for name, player in others.items()}
    sequence = {name: sequence_tv(player, base, T, n, seed + 2) for name, player in others.items()}
    rows = [row(name, found, greedy[name], next_token.get(name), sequence.get(name)) for name in players]
    title = f"{T} steps, {n} sequences a source; regret is ± its standard error, distances are to {BASE}"
    numbers = {
        "comparison": json.loads(found.to_json()),
        "greedy": greedy,
        "next_token_tv": {name: value._asdict() for name, value in next_token.items()},
        "sequence_tv": {name: value._asdict() for name, value in sequence.items()},
    }
    return Table(title, HEADER, tuple(rows)), numbers


def row(
    name: str, found: Comparison, greedy: float, next_token: Estimate | None, sequence: Estimate | None
) -> tuple[str, ...]:
    """What one model came to."""
    cells = {cell.source: cell for cell in found.cells if cell.predictor == name}
    home = cells.pop("b")
    mean = sum(cell.regret.value for cell in cells.values()) / len(cells)
    error = math.hypot(*(cell.error for cell in cells.values())) / len(cells)
    worst = max(cells.values(), key=lambda cell: cell.regret.value)
    return (
        name,
        f"{home.regret.value:+.4f} ±{home.error:.4f}",
        f"{mean:+.4f} ±{error:.4f}",
        f"{worst.regret.value:+.4f} ±{worst.error:.4f} ({worst.source})",
        f"{greedy:+.4f}",
        "" if next_token is None else f"{next_token.value:.4f}",
        "" if sequence is None else f"{sequence.value:.3f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=list(PLANS), default="quick")
    parser.add_argument("--out", type=Path, help="a run folder; results/objectives-SIZE unless given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    asked = parser.parse_args()
    plan, out = PLANS[asked.size], asked.out or Path("results") / f"objectives-{asked.size}"
    plan = replace(plan, preset=plan.preset.changed(seed=asked.seed))
    table, numbers = measured(trained(plan, out, asked.device), plan)
    numbers = {"command": f"python -m benchmarks.objectives --size {asked.size} --seed {asked.seed}", **numbers}
    files.replace(out / "objectives.json", (json.dumps(numbers, allow_nan=False) + "\n").encode())
    print(table)


if __name__ == "__main__":
    main()
