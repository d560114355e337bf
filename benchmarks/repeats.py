"""``python -m benchmarks.repeats paper --runs 0 1 2 3 4 0 0d 0d``: how far apart runs of ``paper reproduce`` end.

A run is named by its seed, with a ``d`` for ``--deterministic``; a name may stand twice. All run at once, each in a
process of its own. Written to ``repeats.json``: each run's summary and a digest of the weights of its models.

``--robust`` trains BERNOULLI_1 and ROBUST alone, which is most of the summary, and draws no page.
"""

import argparse
import concurrent.futures
import hashlib
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from lowregret.tables import Table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.repeats", description=__doc__)
    parser.add_argument("preset", nargs="?", default="quick")
    parser.add_argument("--runs", nargs="+", default=["0", "1", "2", "3", "4", "0", "0d", "0d"])
    parser.add_argument("--out", type=Path, default=Path("results/repeats"))
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument("--robust", action="store_true", help="BERNOULLI_1 and ROBUST alone")
    told, more = parser.parse_known_args()  # more for each run, such as --steps 5
    if told.robust and (len(more) % 2 or not all(value.isdigit() for value in (*told.runs, *more[1::2]))):
        parser.error("--robust takes runs by their seeds alone, such as --runs 1 2, and numbers such as --steps 5")
    told.out.mkdir(parents=True, exist_ok=True)
    folders = [told.out / f"{told.preset}-{i}-seed-{name}" for i, name in enumerate(told.runs)]
    with concurrent.futures.ThreadPoolExecutor(told.jobs) as pool:
        run = _robust_alone if told.robust else _run
        runs = list(pool.map(lambda one: run(told.preset, *one, more), zip(told.runs, folders, strict=True)))
    (told.out / "repeats.json").write_text(json.dumps({told.preset: runs}, indent=1) + "\n")
    print(spread(runs))


def _run(preset: str, name: str, folder: Path, more: list[str]) -> dict[str, Any]:
    asked = [sys.executable, "-m", "paper", "reproduce", "--preset", preset, "--seed", name.rstrip("d")]
    asked += ["--out", str(folder), *(["--deterministic"] if name.endswith("d") else []), *more]
    with open(folder.with_suffix(".log"), "w") as log:
        subprocess.run(asked, check=True, stdout=log, stderr=subprocess.STDOUT)
    found = json.loads((folder / "results.json").read_text())
    return _told(name, folder, found["summary"], sum(one["seconds"] for one in found["training"].values()))


def _robust_alone(preset: str, name: str, folder: Path, more: list[str]) -> dict[str, Any]:
    """A process of its own that ends in ``_robust``."""
    code = f"from benchmarks.repeats import _robust; _robust({preset!r}, {name!r}, {str(folder)!r}, {more!r})"
    with open(folder.with_suffix(".log"), "w") as log:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=log, stderr=subprocess.STDOUT)
    found = json.loads((folder / "results.json").read_text())
    return _told(name, folder, found["summary"], sum(found["training"].values()))


def _robust(preset: str, name: str, folder: str, more: list[str]) -> None:
    from rich.console import Console

    from lowregret.transformer import checkpoints
    from paper import trained
    from paper.presets import MODELS, PRESETS

    changes = {what.removeprefix("--"): int(value) for what, value in zip(more[::2], more[1::2], strict=True)}
    chosen, out, results = PRESETS[preset].changed(seed=int(name), **changes), Path(folder), {"seconds": {}}
    models = trained.train_models(chosen, out, Console(), None, lambda path: None, MODELS[:2])
    trained.measure(models, chosen, results, lambda now: None)
    results |= {
        "summary": trained.summary(results),
        "training": {one: checkpoints.read(out / "models" / f"{one}.safetensors").about["seconds"] for one in models},
    }
    (out / "results.json").write_text(json.dumps(results) + "\n")


def _told(name: str, folder: Path, summary: dict[str, float], seconds: float) -> dict[str, Any]:
    return {
        "run": name,
        "summary": {what.partition(" (")[0]: value for what, value in summary.items()},  # less which source
        "seconds": seconds,
        "weights": {path.stem: _digest(path) for path in sorted((folder / "models").glob("*.safetensors"))},
    }


def _digest(path: Path) -> str:
    """Of the weights alone: a checkpoint also says how long its training took."""
    from lowregret.transformer import checkpoints

    sums = hashlib.sha256()
    for name, tensor in sorted(checkpoints.read(path).tensors.items()):
        sums.update(name.encode() + tensor.numpy().tobytes())
    return sums.hexdigest()[:12]


def spread(runs: list[dict[str, Any]]) -> Table:
    """What each number was over the seeds (first runs, none deterministic), and over the runs of one seed."""
    of_seed: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        of_seed.setdefault(run["run"], []).append(run["summary"])
    seeds = [summaries[0] for name, summaries in of_seed.items() if not name.endswith("d")]
    rows = []
    for what in seeds[0]:
        values = [summary[what] for summary in seeds]
        cells = [what, f"{statistics.mean(values):.4f}", f"{min(values):.4f}", f"{max(values):.4f}"]
        for kind in ("", "d"):
            same = next((s for name, s in of_seed.items() if name.endswith("d") == bool(kind) and len(s) > 1), None)
            cells.append("" if same is None else ", ".join(f"{summary[what]:.4f}" for summary in same))
        rows.append(tuple(cells))
    head = ("what", "mean over seeds", "least", "most", "one seed again", "the same, --deterministic")
    return Table("Spread", head, tuple(rows))


if __name__ == "__main__":
    main()
