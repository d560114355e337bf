"""``python -m benchmarks.repeats paper --runs 0 1 2 3 4 0 0d 0d``: how far apart runs of ``paper reproduce`` end.

A run is named by its seed, with a ``d`` for ``--deterministic``; a name may stand twice. All run at once, each in a
process of its own. Written to ``repeats.json``: each run's summary and a digest of the weights of its models.
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
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    folders = [options.out / f"{options.preset}-{i}-seed-{name}" for i, name in enumerate(options.runs)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(lambda run: _run(options.preset, *run), zip(options.runs, folders, strict=True)))
    (options.out / "repeats.json").write_text(json.dumps({options.preset: runs}, indent=1) + "\n")
    print(spread(runs))


def _run(preset: str, name: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "paper", "reproduce", "--preset", preset, "--seed", name.rstrip("d")]
    command += ["--out", str(folder), *(["--deterministic"] if name.endswith("d") else [])]
    with open(folder.with_suffix(".log"), "w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
    found = json.loads((folder / "results.json").read_text())
    return {
        "run": name,
        "summary": {what.partition(" (")[0]: value for what, value in found["summary"].items()},  # less which source
        "seconds": sum(one["seconds"] for one in found["training"].values()),
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
