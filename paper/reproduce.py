"""``python -m paper reproduce``: Section 5.2 from nothing to its figure and tables, resumable at every stage."""

import json
import time
from dataclasses import replace
from pathlib import Path

import typer

from lowregret import files
from lowregret.evaluate.comparison import Comparison
from lowregret.transformer.backends import machine

from . import report, trained
from .eight_sources import draw
from .presets import MODELS, PRESETS, Preset
from .report import Results

FORMAT = 1


def preset_named(name: str, seed: int = 0) -> Preset:
    """A preset by its name, with a seed of one's own."""
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    return replace(PRESETS[name], seed=seed)


def reproduce(preset: Preset, out: Path, device: str | None = None) -> Results:
    """Train the four models, measure them, write everything to ``out``; what an earlier run finished is kept."""
    results = _begun(preset, out)
    out.mkdir(parents=True, exist_ok=True)
    models = trained.train_models(preset, out, device)
    results.setdefault("environment", machine(models["ROBUST"].device))
    results["training"] = trained.trainings(out)
    for name, part in trained.MEASURED.items():
        if name not in results:
            typer.echo(f"measuring {name.replace('_', ' ')}")
            begin = time.perf_counter()
            results[name] = part(models, preset)
            results["seconds"][name] = round(time.perf_counter() - begin, 2)
            _keep(results, out)
    results["summary"] = trained.summary(results)
    _keep(results, out)
    draw(Comparison.from_json(results["comparison"]), out)
    tables = report.tables(results)
    (out / "report.md").write_text(report.page(results))
    typer.echo("\n" + "\n\n".join(map(str, tables)))
    typer.echo(f"\nWritten to {out}: report.md, results.json, regret.png, regret.svg, models/")
    return results


def _begun(preset: Preset, out: Path) -> Results:
    """The results so far; those of another preset, or of other numbers, are refused."""
    path, wanted = out / "results.json", json.loads(json.dumps(preset.described()))
    if not path.exists():
        return {"format": FORMAT, "preset": wanted, "seconds": {}}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}; remove it") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path} is not of format {FORMAT}, which this version reads: remove it, or write elsewhere")
    if found.get("preset") != wanted:
        raise ValueError(f"{out} holds results of another preset or other numbers: remove it, or write elsewhere")
    if not all((out / "models" / f"{name}.safetensors").exists() for name in MODELS):
        for part in (*trained.MEASURED, "summary", "environment"):  # of models that are no more
            found.pop(part, None)
    return found


def _keep(results: Results, out: Path) -> None:
    """Whole or not at all: a run that is stopped goes on from it."""
    files.replace(out / "results.json", (json.dumps(results, allow_nan=False) + "\n").encode())
