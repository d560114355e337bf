"""``python -m paper reproduce``: Section 5.2 from nothing to a page, resumable at every stage."""

import contextlib
import io
import json
from pathlib import Path

from rich.console import Console

from lowregret import files
from lowregret.transformer.backends import device_named, machine

from . import report, trained
from .presets import MODELS, PRESETS, Preset, Results

FORMAT = 1


def reproduce(
    preset: Preset, out: Path, collect: Path | None = None, device: str | None = None, command: str = ""
) -> Results:
    """Train the four models, measure them, write everything to ``out``; what an earlier run finished is kept.

    Parameters
    ----------
    preset
        One of ``PRESETS``, or a changed one.
    collect
        A folder for copies of the eight files that matter (four models, results.json, regret.png, regret.svg and
        index.html), each made as soon as there is something to copy.
    command
        How it was called, to be written down.
    """
    if device is not None:
        device_named(device)
    files.apart({"collect": collect}, {"out": out, "the folder of the models": out / "models"})
    folders = [folder for folder in (out, collect) if folder is not None]
    files.writable(*(files.in_folder(folder) for folder in folders), folder=True)
    with contextlib.ExitStack() as alone:
        for folder in folders:
            alone.enter_context(files.locked(folder / ".lock", f"{folder} is being written by another run"))
        return _reproduced(preset, out, collect, device, command)


def _reproduced(preset: Preset, out: Path, collect: Path | None, device: str | None, command: str) -> Results:
    console = Console()
    results = _begun(preset, out, command)

    def kept(path: Path) -> None:
        if collect is not None:
            files.replace(collect / path.name, path.read_bytes())

    def keep(now: Results) -> None:
        files.replace(out / "results.json", (json.dumps(now, allow_nan=False) + "\n").encode())
        kept(out / "results.json")

    keep(results)
    models = trained.train_models(preset, out, console, device, kept)
    results.setdefault("environment", machine(models["ROBUST"].device))
    results["training"] = trained.trainings(out)
    keep(results)
    with console.status("measuring") if console.is_terminal else contextlib.nullcontext():
        trained.measure(models, preset, results, keep)
    results["summary"] = trained.summary(results)
    keep(results)
    for path in draw(results, out):
        kept(path)
    for table in report.tables(results):
        console.print(str(table) + "\n", highlight=False, markup=False, soft_wrap=True)
    written = f"Written to {out}: index.html, results.json, regret.png, regret.svg, models/"
    console.print(written, highlight=False, markup=False, soft_wrap=True)
    return results


def draw(results: Results, out: Path) -> list[Path]:
    """The figure and the page, from the numbers alone."""
    drawn = report.figure(results)
    paths = [out / name for name in ("regret.png", "regret.svg", "index.html")]
    png = io.BytesIO()
    drawn.savefig(png, format="png", dpi=150)
    contents = png.getvalue(), report.svg(drawn).encode(), report.page(results, drawn).encode()
    files.replace_all(dict(zip(paths, contents, strict=True)))
    import matplotlib.pyplot as plt

    plt.close(drawn)
    return paths


def preset_named(name: str) -> Preset:
    """A preset by its name."""
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name]


def _begun(preset: Preset, out: Path, command: str) -> Results:
    """The results so far; those of another preset, or of other numbers, are refused."""
    path, wanted = out / "results.json", json.loads(json.dumps(preset.described()))
    if not path.exists():
        return {"format": FORMAT, "preset": wanted, "command": command, "seconds": {}}
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
