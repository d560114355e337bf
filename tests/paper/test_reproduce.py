"""``python -m paper reproduce`` end to end, at a size that takes seconds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import lowregret as lr
from lowregret.evaluate.distances import Estimate
from lowregret.transformer import (
    DECAYING,
    NANODO,
    Decoder,
    Distil,
    Imitate,
    Masked,
    Size,
    Transformer,
    checkpoints,
    load,
)
from lowregret.transformer.training import described
from paper import report, trained
from paper.app import app
from paper.presets import MODELS, PRESETS
from paper.report import PAIRS
from paper.reproduce import reproduce

TINY = replace(
    PRESETS["recovering"],
    size=Size(16, 16, 2, 1, 16),
    steps=3,
    batch=4,
    robust_steps=3,
    robust_batch=4,
    play_every=3,
    play_count=16,
    samples=6,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recovering")
    reproduce(TINY, out, "cpu")
    return out


@pytest.mark.long
def test_everything_is_written(finished: Path) -> None:
    models = {f"{name}.safetensors" for name in MODELS}
    assert {p.name for p in finished.iterdir()} >= {"results.json", "regret.png", "regret.svg", "report.md", "models"}
    assert {p.name for p in (finished / "models").glob("*.safetensors")} == models
    page = (finished / "report.md").read_text()
    assert "0.7602 ±0.0267" in page
    assert "in which BERNOULLI can return" in page
    results = json.loads((finished / "results.json").read_text())
    assert set(results["training"]) == set(MODELS)
    for run in results["training"].values():
        assert (run["torch"], run["compute"], run["stream"]) == (torch.__version__, "float32", "float32")
        assert run["device"] == results["environment"]["device"]
    assert len(results["comparison"]["cells"]) == 8 * 4
    base = load(finished / "models/BERNOULLI_1.safetensors")
    assert checkpoints.read(finished / "models/ROBUST.safetensors").about["init"] == described(base)


@pytest.mark.long
def test_a_second_run_only_reads(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {p: p.stat().st_mtime_ns for p in (finished / "models").iterdir()}
    for name in trained.MEASURED:
        monkeypatch.setitem(trained.MEASURED, name, lambda *_: pytest.fail("measured again"))
    reproduce(TINY, finished, "cpu")
    assert {p: p.stat().st_mtime_ns for p in (finished / "models").iterdir()} == before
    with pytest.raises(ValueError, match="another preset or other numbers"):
        reproduce(replace(TINY, seed=1), finished, "cpu")


@pytest.mark.long
def test_it_goes_on_where_it_stopped(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    monkeypatch.setitem(trained.MEASURED, "comparison", stop)
    with pytest.raises(Stopped):
        reproduce(TINY, tmp_path, "cpu")
    assert "greedy" in json.loads((tmp_path / "results.json").read_text())
    monkeypatch.undo()
    results = reproduce(TINY, tmp_path, "cpu")
    whole = json.loads((finished / "results.json").read_text())
    for part in ("greedy", "next_token_tv", "comparison", "sequence_tv", "summary"):
        assert results[part] == whole[part], part


def different_models(size: Size) -> dict[str, Transformer]:
    """Four that nobody could take for one another."""
    models = {name: Transformer(Decoder(2, size, seed=i)) for i, name in enumerate(MODELS)}
    for i, model in enumerate(models.values()):
        model.decoder.embedding.weight.data *= 2 + i
    return models


def test_every_measurement_is_of_the_model_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = replace(TINY, samples=5, seed=3)
    models, T, coin = different_models(preset.size), 16, lr.matching()
    monkeypatch.setattr(trained, "_AT_ONCE", 2)  # sampled in blocks, the same as at once
    results: dict[str, Any] = {name: part(models, preset) for name, part in trained.MEASURED.items()}
    # Sequence TV from its definition, on the same draws.
    chance = {}
    for i, name in enumerate(MODELS):
        drawn = np.asarray(lr.sample(models[name], T, 5, 3 + 2 + i))
        for other in MODELS:
            laws = models[other].predict_sequence(drawn).astype(np.float64)
            chance[name, other] = np.take_along_axis(laws, drawn[..., None], -1).prod((1, 2))
    tv = results["sequence_tv"]
    for p, q in PAIRS:
        found = {way: estimate["value"] for way, estimate in tv[f"{p} to {q}"].items()}
        first = np.maximum(0, 1 - chance[p, q] / chance[p, p]).mean()
        second = np.maximum(0, 1 - chance[q, p] / chance[q, q]).mean()
        apart = [np.abs(chance[d, p] - chance[d, q]) / (chance[d, p] + chance[d, q]) for d in (p, q)]
        expected = {"from_first": first, "from_second": second, "symmetric": np.mean(apart)}
        assert found == pytest.approx(expected, abs=1e-5), (p, q)
    # Regrets of everyone everywhere; Algorithm 1 has BERNOULLI_1 as its base.
    exact = lr.robustify(models["BERNOULLI_1"], coin, T)
    players = {"BERNOULLI": models["BERNOULLI_1"], "POLYAURN": models["POLYAURN"], "ROBUST": models["ROBUST"]}
    players |= {"Algorithm 1": exact}
    compared = lr.compare(players, lr.evaluate.sources.paper_sources(T), coin, T, 5, 3)
    regrets = {(cell.source, cell.predictor): cell.regret.value for cell in compared.cells}
    cells = {(c["source"], c["predictor"]): c["regret"]["value"] for c in results["comparison"]["cells"]}
    assert cells == pytest.approx(regrets, abs=1e-6)
    greedy = {name: float(lr.evaluate.adversaries.greedy(p, coin, T).regret) for name, p in players.items()}
    assert results["greedy"] == pytest.approx(
        {**greedy, "urn": lr.evaluate.adversaries.greedy(lr.PolyaUrn(2), coin, T).regret}
    )
    # The summary, from the cells and pairs.
    next_token, away = results["next_token_tv"], {s: r for (s, who), r in cells.items() if who == "ROBUST" and s != "b"}
    worst = max(away.values())
    above = {s: cells[s, "ROBUST"] - cells[s, "Algorithm 1"] for s in lr.evaluate.sources.paper_sources(T)}
    furthest = max(above, key=above.get)
    expected = {
        "next-token TV, two seeds of BERNOULLI": next_token["BERNOULLI_1 to BERNOULLI_2"]["value"],
        "next-token TV, ROBUST to BERNOULLI_1": next_token["ROBUST to BERNOULLI_1"]["value"],
        "next-token TV, POLYAURN to BERNOULLI_1": next_token["POLYAURN to BERNOULLI_1"]["value"],
        "sequence TV, two seeds of BERNOULLI": tv["BERNOULLI_1 to BERNOULLI_2"]["symmetric"]["value"],
        "sequence TV, ROBUST to BERNOULLI_1": tv["ROBUST to BERNOULLI_1"]["symmetric"]["value"],
        "regret of ROBUST on its own source b": cells["b", "ROBUST"],
        f"largest regret of ROBUST on the other seven ({next(s for s in away if away[s] == worst)})": worst,
        f"regret of ROBUST above that of Algorithm 1 at most ({furthest})": above[furthest],
        "regret of ROBUST against the greedy adversary": greedy["ROBUST"],
    }
    assert trained.summary(results) == pytest.approx(expected)
    assert len(set(expected.values())) == 9  # so that none can stand for another
    # And what people read.
    training = {"ROBUST": {"steps": 1, "batch": 2, "seconds": 3, "median_tokens_per_second": 4, "loss": [[1, 0.5]]}}
    tables = {
        one.title.split(" (")[0]: one for one in report.tables({**results, "summary": expected, "training": training})
    }
    for row, (p, q) in zip(tables["Sequence TV"].rows, PAIRS, strict=True):
        ways = [str(Estimate(**tv[f"{p} to {q}"][way])) for way in ("from_first", "from_second", "symmetric")]
        assert row[:4] == (f"{p} to {q}", *ways)
    for row, (p, q) in zip(tables["Next-token TV"].rows, PAIRS, strict=True):
        assert row[:2] == (f"{p} to {q}", str(Estimate(**next_token[f"{p} to {q}"])))


@pytest.mark.long
def test_what_was_measured_on_models_that_are_gone_is_measured_again(finished: Path, tmp_path: Path) -> None:
    import shutil

    out = tmp_path / "copy"
    shutil.copytree(finished, out)
    path, whole = out / "results.json", json.loads((out / "results.json").read_text())
    elsewhere = {**whole, "environment": {"torch": "1", "device": "another"}}
    path.write_text(json.dumps(elsewhere))
    assert reproduce(TINY, out, "cpu")["environment"] == elsewhere["environment"]  # only read
    (out / "models/POLYAURN.safetensors").unlink()
    path.write_text(json.dumps({**elsewhere, "greedy": {"ROBUST": 9.0}}))
    again = reproduce(TINY, out, "cpu")
    assert again["greedy"] == whole["greedy"]
    assert again["environment"] == whole["environment"]
    for text, words in ((json.dumps({**whole, "format": 2}), "is not of format 1"), ("{", r"results\.json is damaged")):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            reproduce(TINY, out, "cpu")


def test_presets() -> None:
    """Every number by itself: a preset that drifts is another experiment."""
    small, large = Size(256, 64, 2, 2, 256), Size(1024, 256, 4, 3, 1024)
    sizes = {"quick": (small, 500, 16, 1000, 32, 256), "recovering": (large, 2000, 128, 8000, 256, 1024)}
    sizes["paper"] = (large, 500, 128, 500, 128, 1024)
    plays = {
        "quick": (50, 64, 0.03, "float32"),
        "recovering": (400, 512, 0.03, "float32"),
        "paper": (100, 256, 0.1, None),
    }
    for name, preset in PRESETS.items():
        steps = preset.steps, preset.batch, preset.robust_steps, preset.robust_batch
        assert (preset.size, *steps, preset.samples) == sizes[name]
        assert (preset.play_every, preset.play_count, preset.response_weight, preset.stream) == plays[name]
        assert (preset.distilled, preset.optimiser) == ((False, NANODO) if name == "paper" else (True, DECAYING))
    assert PRESETS.keys() == sizes.keys()


@pytest.mark.parametrize("name", ["quick", "paper"])
def test_what_each_model_is_trained_to_do(name: str) -> None:
    chosen = PRESETS[name]
    T, base, source = (
        chosen.horizon,
        Transformer(Decoder(2, chosen.size)),
        lr.evaluate.sources.paper_sources(chosen.horizon)["b"],
    )
    for i, model in enumerate(MODELS):
        found, task = chosen.settings(model), chosen.task(model, base)
        steps = (chosen.robust_steps, chosen.robust_batch) if model == "ROBUST" else (chosen.steps, chosen.batch)
        assert (found.steps, found.batch, found.size, found.stream) == (*steps, chosen.size, chosen.stream)
        assert (found.optimiser, found.seed, found.compute) == (chosen.optimiser, i, None)
        assert described(task.source) == described(lr.PolyaUrn(2) if model == "POLYAURN" else source)
        if model != "ROBUST":
            assert isinstance(task, Imitate)
            assert task.soft == chosen.distilled
    more = {"horizon": T} if chosen.distilled else {"test": lr.RegretRate(T, alpha=1.5)}
    task = chosen.task("ROBUST", base)
    assert type(task) is (Distil if chosen.distilled else Masked)
    assert described(task.robust) == described(lr.robustify(base, lr.matching(), **more))
    if isinstance(task, Distil):
        numbers = (task.play_every, task.play_count, task.response_weight, task.play_share, task.pool)
        assert numbers == (50, 64, 0.03, 0.25, 2048)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its options reach the run; ``--deterministic`` tells torch, and takes it back; Ctrl-C says how it goes on."""
    seen: list[Any] = []

    def run(preset: Any, out: Path, device: str | None) -> None:
        seen.append((preset, out, device, torch.are_deterministic_algorithms_enabled()))
        if preset.seed == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr("paper.reproduce.reproduce", run)
    run_it = lambda *more: CliRunner().invoke(app, ["reproduce", *more])  # noqa: E731
    assert run_it("--preset", "paper").exit_code == 0
    assert run_it("--seed", "1", "--out", str(tmp_path), "--device", "cpu", "--deterministic").exit_code == 0
    assert seen == [
        (PRESETS["paper"], Path("results/paper"), None, False),
        (replace(PRESETS["quick"], seed=1), tmp_path, "cpu", True),
    ]
    assert not torch.are_deterministic_algorithms_enabled()
    assert "preset must be one of quick, paper, recovering" in run_it("--preset", "finest").output
    stopped = run_it("--seed", "9")
    assert (stopped.exit_code, stopped.stderr) == (130, "\nStopped. The same command continues where it was.\n")


def test_two_seeds_share_no_model() -> None:
    seeds = [replace(PRESETS["quick"], seed=seed).settings(model).seed for seed in range(5) for model in MODELS]
    assert len(set(seeds)) == len(seeds)
