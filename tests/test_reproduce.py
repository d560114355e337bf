"""``lowregret reproduce``, ``train`` and ``evaluate`` end to end, at a size that takes seconds."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import lowregret as lr
from lowregret.cli import _app
from lowregret.paper import report, trained
from lowregret.paper.presets import MODELS, PAIRS, PRESETS
from lowregret.paper.reproduce import reproduce
from lowregret.transformer import Size, load

TINY = {"size": Size(16, 16, 2, 1, 16), "steps": 3, "batch": 4, "samples": 6}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("best")
    reproduce(PRESETS["best"].changed(**TINY), out / "all", out / "few", "cpu", "lowregret reproduce")
    return out


def test_everything_is_written(finished: Path) -> None:
    models = {f"{name}.safetensors" for name in MODELS}
    assert {p.name for p in (finished / "few").iterdir()} == {
        "results.json",
        "regret.png",
        "regret.svg",
        "index.html",
        *models,
    }
    assert {p.name for p in (finished / "all/models").glob("*.safetensors")} == models
    page = (finished / "all/index.html").read_text()
    assert "<svg" in page
    assert "0.7602 ±0.0267" in page
    assert all(outside not in page.split("<figure>")[0] + page.split("</figure>")[1] for outside in ("http", "src="))
    results = json.loads((finished / "all/results.json").read_text())
    assert set(results["training"]) == set(MODELS)
    assert len(results["comparison"]["cells"]) == 8 * 4
    assert "/" not in results["command"]


def test_the_numbers_are_those_of_the_models(finished: Path) -> None:
    results = json.loads((finished / "all/results.json").read_text())
    models = {name: load(finished / f"all/models/{name}.safetensors") for name in MODELS}
    T, coin = 16, lr.matching()
    source = lr.sources.paper_sources(T)["b"]
    tokens = lr.sample(source, T, 6, 1)
    for p, q in PAIRS:
        ours, theirs = models[p].predict_sequence(tokens), models[q].predict_sequence(tokens)
        expected = np.abs(ours - theirs).sum(-1).mean() / 2
        assert results["next_token_tv"][f"{p} to {q}"]["value"] == pytest.approx(expected, abs=1e-6)
    # One-sided, from its definition, on the same draws.
    p, q = models["BERNOULLI_1"], models["BERNOULLI_2"]
    drawn = np.asarray(lr.sample(p, T, 6, 2))
    chance = [np.take_along_axis(m.predict_sequence(drawn), drawn[..., None], -1).prod((1, 2)) for m in (p, q)]
    expected = np.maximum(0, 1 - chance[1] / chance[0]).mean()
    found = results["sequence_tv"]["BERNOULLI_1 to BERNOULLI_2"]["from_first"]["value"]
    assert found == pytest.approx(expected, abs=1e-5)
    assert results["greedy"]["ROBUST"] == pytest.approx(lr.adversaries.greedy(models["ROBUST"], coin, T).regret)
    regret = lr.external_regret(coin, lr.Respond(models["ROBUST"], coin, T**-0.5), lr.sample(source, T, 6, 0))
    cell = next(c for c in results["comparison"]["cells"] if (c["source"], c["predictor"]) == ("b", "ROBUST"))
    assert cell["regret"]["value"] == pytest.approx(float(np.mean(np.asarray(regret)[:, -1])), abs=1e-6)
    assert results["summary"]["regret of ROBUST on its own source b"] == cell["regret"]["value"]


def test_a_second_run_only_reads(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {p: p.stat().st_mtime_ns for p in (finished / "all/models").iterdir()}
    for part in ("greedy_regrets", "regret_curves", "next_token_table", "sequence_table"):
        monkeypatch.setattr(trained, part, lambda *_: pytest.fail("measured again"))
    reproduce(PRESETS["best"].changed(**TINY), finished / "all", None, "cpu", "")
    assert {p: p.stat().st_mtime_ns for p in (finished / "all/models").iterdir()} == before
    with pytest.raises(ValueError, match="another preset or other numbers"):
        reproduce(PRESETS["best"].changed(**TINY, seed=1), finished / "all", None, "cpu", "")


def test_it_goes_on_where_it_stopped(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    monkeypatch.setattr(trained, "regret_curves", stop)
    preset = PRESETS["best"].changed(**TINY)
    with pytest.raises(Stopped):
        reproduce(preset, tmp_path / "out", tmp_path / "few", "cpu", "")
    assert "greedy" in json.loads((tmp_path / "few/results.json").read_text())
    monkeypatch.undo()
    results = reproduce(preset, tmp_path / "out", None, "cpu", "")
    whole = json.loads((finished / "all/results.json").read_text())
    for part in ("greedy", "next_token_tv", "comparison", "sequence_tv", "summary"):
        assert results[part] == whole[part], part


def test_the_comparison_survives_json() -> None:
    sources, T = lr.sources.paper_sources(16), 16
    players = {"urn": lr.PolyaUrn(2), "robust": lr.robustify(sources["b"], lr.matching(), T)}
    found = lr.compare(players, sources, lr.matching(), T, 20, 0)
    again = report.comparison(json.loads(found.to_json()))
    assert str(again.table()) == str(found.table())
    np.testing.assert_allclose(again.regret_PxWxT, found.regret_PxWxT, atol=1e-7)


@pytest.mark.parametrize("preset", ["quick", "paper", "best"])
def test_presets_can_be_trained(preset: str) -> None:
    chosen = PRESETS[preset]
    assert chosen.horizon == (256 if preset == "quick" else 1024)
    for model in MODELS:
        assert chosen.settings(model).size == chosen.size
    assert len({chosen.settings(model).seed for model in MODELS}) == 4
    assert chosen.rule.horizon == chosen.horizon


def test_train_and_evaluate(tmp_path: Path) -> None:
    run, app = CliRunner(), _app()
    small = ["--size", "16,16,2,1,16", "--steps", "2", "--batch", "4"]
    base, robust = str(tmp_path / "base.safetensors"), str(tmp_path / "robust.safetensors")
    for arguments in (
        ["train", "bernoulli", "--out", base, *small],
        ["train", "polyaurn", "--out", str(tmp_path / "urn.safetensors"), "--soft", *small],
        ["train", "distilled", "--base", base, "--out", robust, *small],
        ["train", "robust", "--rule", "rate", "--base", base, "--out", str(tmp_path / "masked.safetensors"), *small],
    ):
        done = run.invoke(app, arguments)
        assert done.exit_code == 0, done.output
    done = run.invoke(app, ["evaluate", robust, "--against", base, "-n", "4", "--out", str(tmp_path / "n.json")])
    assert done.exit_code == 0, done.output
    assert "Regret against the greedy adversary" in done.output
    assert set(json.loads((tmp_path / "n.json").read_text())) > {"greedy", "next_token_tv", "sequence_tv", "cells"}
    for arguments, words in (
        (["train", "distilled", "--out", robust], "needs --base"),
        (["train", "nothing", "--out", robust], "task must be"),
        (["train", "bernoulli", "--out", base, *small, "--seed", "1"], "another settings"),
        (["evaluate", str(tmp_path / "none.safetensors")], "there is no checkpoint"),
        (["reproduce", "--preset", "finest"], "preset must be one of quick, paper, best"),
    ):
        refused = run.invoke(app, arguments)
        assert refused.exit_code == 2
        assert words in " ".join(refused.output.replace("│", " ").split())
