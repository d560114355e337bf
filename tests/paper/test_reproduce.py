"""``python -m paper reproduce``, ``train`` and ``evaluate`` end to end, at a size that takes seconds."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import lowregret as lr
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
from lowregret.transformer.backends import attention
from lowregret.transformer.training import described
from paper import report, trained
from paper.app import _app
from paper.presets import MODELS, PAIRS, PRESETS
from paper.reproduce import reproduce

TINY = {"size": Size(16, 16, 2, 1, 16), "steps": 3, "batch": 4, "samples": 6}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recovering")
    reproduce(PRESETS["recovering"].changed(**TINY), out / "all", out / "few", "cpu", "python -m paper reproduce")
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
    assert "<figcaption>" in page
    assert "prefers-color-scheme: dark" in page
    assert all(outside not in page.split("<figure>")[0] + page.split("</figure>")[1] for outside in ("http", "src="))
    results = json.loads((finished / "all/results.json").read_text())
    assert set(results["training"]) == set(MODELS)
    for run in results["training"].values():
        assert (run["torch"], run["compute"], run["stream"]) == (torch.__version__, "float32", "float32")
        assert run["device"] == results["environment"]["device"]
    assert len(results["comparison"]["cells"]) == 8 * 4
    assert "/" not in results["command"]


def test_the_numbers_are_those_of_the_models(finished: Path) -> None:
    results = json.loads((finished / "all/results.json").read_text())
    models = {name: load(finished / f"all/models/{name}.safetensors") for name in MODELS}
    T, coin = 16, lr.matching()
    source = lr.evaluate.sources.paper_sources(T)["b"]
    tokens = lr.sample(source, T, 6, 1)
    for p, q in PAIRS:
        ours, theirs = models[p].predict_sequence(tokens), models[q].predict_sequence(tokens)
        expected = np.abs(ours - theirs).sum(-1).mean() / 2
        assert results["next_token_tv"][f"{p} to {q}"]["value"] == pytest.approx(expected, abs=1e-6)
    assert checkpoints.read(finished / "all/models/ROBUST.safetensors").about["init"] == described(
        models["BERNOULLI_1"]
    )
    assert results["greedy"]["ROBUST"] == pytest.approx(
        lr.evaluate.adversaries.greedy(models["ROBUST"], coin, T).regret
    )
    regret = lr.external_regret(coin, lr.policies.Respond(models["ROBUST"], coin, T**-0.5), lr.sample(source, T, 6, 0))
    cell = next(c for c in results["comparison"]["cells"] if (c["source"], c["predictor"]) == ("b", "ROBUST"))
    assert cell["regret"]["value"] == pytest.approx(float(np.mean(np.asarray(regret)[:, -1])), abs=1e-6)
    assert results["summary"]["regret of ROBUST on its own source b"] == cell["regret"]["value"]


def test_a_second_run_only_reads(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {p: p.stat().st_mtime_ns for p in (finished / "all/models").iterdir()}
    for part in ("greedy_regrets", "regret_curves", "next_token_table", "sequence_table"):
        monkeypatch.setattr(trained, part, lambda *_: pytest.fail("measured again"))
    reproduce(PRESETS["recovering"].changed(**TINY), finished / "all", None, "cpu", "")
    assert {p: p.stat().st_mtime_ns for p in (finished / "all/models").iterdir()} == before
    with pytest.raises(ValueError, match="another preset or other numbers"):
        reproduce(PRESETS["recovering"].changed(**TINY, seed=1), finished / "all", None, "cpu", "")


def test_it_goes_on_where_it_stopped(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    monkeypatch.setattr(trained, "regret_curves", stop)
    preset = PRESETS["recovering"].changed(**TINY)
    with pytest.raises(Stopped):
        reproduce(preset, tmp_path / "out", tmp_path / "few", "cpu", "")
    assert "greedy" in json.loads((tmp_path / "few/results.json").read_text())
    monkeypatch.undo()
    results = reproduce(preset, tmp_path / "out", None, "cpu", "")
    whole = json.loads((finished / "all/results.json").read_text())
    for part in ("greedy", "next_token_tv", "comparison", "sequence_tv", "summary"):
        assert results[part] == whole[part], part


def test_the_comparison_survives_json() -> None:
    sources, T = lr.evaluate.sources.paper_sources(16), 16
    players = {"urn": lr.PolyaUrn(2), "robust": lr.robustify(sources["b"], lr.matching(), T)}
    found = lr.compare(players, sources, lr.matching(), T, 20, 0)
    again = lr.evaluate.comparison.Comparison.from_json(found.to_json())
    assert str(again.table()) == str(found.table())
    np.testing.assert_allclose(again.regret_PxWxT, found.regret_PxWxT, atol=1e-7)


def different_models(size: Size) -> dict[str, Transformer]:
    """Four that nobody could take for one another."""
    models = {name: Transformer(Decoder(2, size, seed=i)) for i, name in enumerate(MODELS)}
    for i, model in enumerate(models.values()):
        model.decoder.embedding.weight.data *= 2 + i
    return models


def test_every_measurement_is_of_the_model_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = PRESETS["recovering"].changed(**{**TINY, "samples": 5}, seed=3)
    models, T, coin, results = different_models(preset.size), 16, lr.matching(), {"seconds": {}}
    monkeypatch.setattr(trained, "_AT_ONCE", 2)  # sampled in blocks, the same as at once
    trained.measure(models, preset, results, lambda now: None)
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
    regrets = {}
    for source, law in lr.evaluate.sources.paper_sources(T).items():
        for name, player in players.items():
            found = lr.external_regret(coin, lr.policies.Respond(player, coin, T**-0.5), lr.sample(law, T, 5, 3))
            regrets[source, name] = float(np.asarray(found)[:, -1].mean())
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
    tables = {table.title.split(" (")[0]: table for table in report.tables({**results, "summary": expected})}
    for row, (p, q) in zip(tables["Sequence TV"].rows, PAIRS, strict=True):
        ways = [
            str(lr.evaluate.distances.Estimate(**tv[f"{p} to {q}"][way]))
            for way in ("from_first", "from_second", "symmetric")
        ]
        assert row[:4] == (f"{p} to {q}", *ways)
    assert tables["Sequence TV"].header[1:4] == ("sampling the first", "sampling the second", "symmetric")
    for row, (p, q) in zip(tables["Next-token TV"].rows, PAIRS, strict=True):
        assert row[:2] == (f"{p} to {q}", str(lr.evaluate.distances.Estimate(**next_token[f"{p} to {q}"])))


def test_small_distances_keep_their_digits() -> None:
    small = {"value": 0.00031, "low": 0.00029, "high": 0.00033}
    table = report.tables({"next_token_tv": {f"{p} to {q}": small for p, q in PAIRS}})[0]
    assert table.rows[0][1].startswith("0.00031")
    assert report.tables({"summary": {"next-token TV": 0.0000312}})[0].rows[0][1] == "3.12e-05"


def test_drawing_leaves_matplotlib_as_it_was(finished: Path) -> None:
    import matplotlib

    before, backend = dict(matplotlib.rcParams), matplotlib.get_backend()
    results = json.loads((finished / "all/results.json").read_text())
    first, second = (report.svg(report.figure(results)) for _ in range(2))
    assert first == second
    assert (dict(matplotlib.rcParams), matplotlib.get_backend()) == (before, backend)
    matplotlib.pyplot.close("all")


def test_what_was_measured_on_models_that_are_gone_is_measured_again(finished: Path, tmp_path: Path) -> None:
    import shutil

    out, preset = tmp_path / "all", PRESETS["recovering"].changed(**TINY)
    shutil.copytree(finished / "all", out)
    path, whole = out / "results.json", json.loads((out / "results.json").read_text())
    elsewhere = {**whole, "environment": {"torch": "1", "device": "another"}}
    path.write_text(json.dumps(elsewhere))
    assert reproduce(preset, out, None, "cpu", "")["environment"] == elsewhere["environment"]  # only read
    (out / "models/POLYAURN.safetensors").unlink()
    path.write_text(json.dumps({**elsewhere, "greedy": {"ROBUST": 9.0}}))
    again = reproduce(preset, out, None, "cpu", "")
    assert again["greedy"] == whole["greedy"]
    assert again["environment"] == whole["environment"]
    for text, words in ((json.dumps({**whole, "format": 2}), "is not of format 1"), ("{", r"results\.json is damaged")):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            reproduce(preset, out, None, "cpu", "")


@pytest.mark.parametrize("name", ["quick", "paper", "recovering"])
def test_presets(name: str) -> None:
    """Every number by itself: a preset that drifts is another experiment."""
    small, large = Size(256, 64, 2, 2, 256), Size(1024, 256, 4, 3, 1024)
    size, optimiser, steps, batch, robust_steps, robust_batch, samples, stream = {
        "quick": (small, DECAYING, 500, 16, 1000, 32, 256, "float32"),
        "paper": (large, NANODO, 500, 128, 500, 128, 1024, None),
        "recovering": (large, DECAYING, 2000, 128, 8000, 256, 1024, "float32"),
    }[name]
    chosen, source = PRESETS[name], lr.evaluate.sources.paper_sources(size.context)["b"]
    assert (chosen.horizon, chosen.samples, chosen.seed) == (size.context, samples, 0)
    base = Transformer(Decoder(2, size))
    for i, model in enumerate(("BERNOULLI_1", "ROBUST", "BERNOULLI_2", "POLYAURN")):
        found, robust = chosen.settings(model), model == "ROBUST"
        assert (found.size, found.optimiser, found.seed, found.stream, found.compute) == (
            size,
            optimiser,
            i,
            stream,
            None,
        )
        assert (found.steps, found.batch) == ((robust_steps, robust_batch) if robust else (steps, batch))
        task = chosen.task(model, base)
        if not robust:
            assert isinstance(task, Imitate)
            assert task.soft == (name != "paper")
            wanted = lr.PolyaUrn(2) if model == "POLYAURN" else source
            assert described(task.source) == described(wanted)
        else:
            assert type(task) is (Masked if name == "paper" else Distil)
            assert described(task.source) == described(source)
            assert task.robust.base is base
    T, coin = size.context, lr.matching()
    more = {"test": lr.RegretRate(T, alpha=1.5)} if name == "paper" else {"horizon": T}
    expected = lr.robustify(base, coin, **more)
    assert described(chosen.robust(base)) == described(expected)
    assert described(chosen.task("ROBUST", base).robust) == described(expected)
    if name != "paper":
        task = chosen.task("ROBUST", base)
        numbers = (task.play_every, task.play_count, task.response_weight, task.play_share, task.pool)
        played = {"quick": (50, 64, 0.03), "recovering": (400, 512, 0.03)}
        assert numbers == (*played[name], 0.25, 2048)


def test_recovering_end_to_end(tmp_path: Path) -> None:
    """The student learns what ``robustify`` says by default, and stands beside it."""
    preset = PRESETS["recovering"].changed(**{**TINY, "steps": 2})
    assert preset.play_every == 2
    results = reproduce(preset, tmp_path, None, "cpu", "python -m paper reproduce --preset recovering")
    models = {name: load(tmp_path / f"models/{name}.safetensors") for name in MODELS}
    T, coin = 16, lr.matching()
    safe = lr.robustify(models["BERNOULLI_1"], coin, T)
    assert results["greedy"].keys() == {"BERNOULLI", "POLYAURN", "ROBUST", "Algorithm 1", "urn"}
    assert results["greedy"]["Algorithm 1"] == pytest.approx(lr.evaluate.adversaries.greedy(safe, coin, T).regret)
    found = lr.external_regret(coin, safe.respond(), lr.sample(lr.evaluate.sources.paper_sources(T)["a"], T, 6, 0))
    cell = next(c for c in results["comparison"]["cells"] if (c["source"], c["predictor"]) == ("a", "Algorithm 1"))
    assert cell["regret"]["value"] == pytest.approx(float(np.mean(np.asarray(found)[:, -1])), abs=1e-6)
    about = checkpoints.read(tmp_path / "models/ROBUST.safetensors").about
    assert about["task"]["Distil"]["robust"]["Robust"]["setting"] == described(safe.setting)
    assert "in which BERNOULLI can return" in (tmp_path / "index.html").read_text()


def test_runs_that_are_to_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets what torch must be told, and takes it back."""
    seen: dict[str, object] = {}

    def run(preset: object, out: object, collect: object, device: object, command: str) -> None:
        with attention():
            on = [
                name
                for name in ("math", "flash", "mem_efficient")
                if getattr(torch.backends.cuda, f"{name}_sdp_enabled")()
            ]
        seen.update(command=command, on=on, repeats=torch.are_deterministic_algorithms_enabled())
        seen["workspace"] = os.environ.get("CUBLAS_WORKSPACE_CONFIG")

    monkeypatch.setattr("paper.reproduce.reproduce", run)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    asked = ["reproduce", "--preset", "paper", "--out", str(tmp_path / "runs")]
    assert CliRunner().invoke(_app(), asked).exit_code == 0
    assert (seen["repeats"], seen["workspace"]) == (False, None)
    assert CliRunner().invoke(_app(), [*asked, "--deterministic"]).exit_code == 0
    assert seen == {
        "command": "python -m paper reproduce --preset paper --deterministic",
        "on": ["math"],
        "repeats": True,
        "workspace": ":4096:8",
    }
    assert not torch.are_deterministic_algorithms_enabled()
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def test_two_seeds_share_no_model() -> None:
    seeds = [PRESETS["quick"].changed(seed=seed).settings(model).seed for seed in range(5) for model in MODELS]
    assert len(set(seeds)) == len(seeds)


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
    found, T, coin = json.loads((tmp_path / "n.json").read_text()), 16, lr.matching()
    ours, theirs, sources = load(robust), load(base), lr.evaluate.sources.paper_sources(16)
    tokens = lr.sample(sources["b"], T, 4, 0)
    assert found == {
        **json.loads(lr.compare({"robust": ours}, sources, coin, T, 4, 0).to_json()),
        "greedy": lr.evaluate.adversaries.greedy(ours, coin, T).regret,
        "next_token_tv": lr.next_token_tv(ours, theirs, tokens)._asdict(),
        "sequence_tv": lr.sequence_tv(ours, theirs, T, 4, 0)._asdict(),
    }
    about = checkpoints.read(robust).about
    assert about["task"]["Distil"]["robust"]["Robust"]["setting"]["test"]["ExactTest"]["delta"] == 2 / T
    assert about["init"] == described(theirs)
    file = tmp_path / "file"
    file.write_text("")
    new, under = str(tmp_path / "new.safetensors"), str(file / "x.safetensors")
    deeper = tmp_path / "made/n.json"
    assert run.invoke(app, ["evaluate", base, "-n", "4", "--out", str(deeper)]).exit_code == 0
    assert deeper.exists()
    for arguments, words in (
        (["train", "distilled", "--out", robust], "needs --base"),
        (["train", "nothing", "--out", robust], "task must be"),
        (["train", "bernoulli", "--out", base, *small, "--seed", "1"], "another settings"),
        (["evaluate", str(tmp_path / "none.safetensors")], "there is no checkpoint"),
        (["reproduce", "--preset", "finest"], "preset must be one of quick, paper, recovering"),
        (["train", "bernoulli", "--out", new, *small, "--device", "cuda:9"], "device must be one of cpu"),
        (["train", "bernoulli", "--out", new, *small, "--device", "gpu"], "device must be one of cpu"),
        (["train", "bernoulli", "--out", under, *small], "is a file: there can be no folder"),
        (["train", "bernoulli", "--out", ".", *small], "path must end in .safetensors"),
        (["train", "bernoulli", "--out", new, "--size", "16,a,2,1,2"], "--size must be a name or whole numbers"),
        (["train", "polyaurn", "--out", new, "--problem", "nope", *small], "--problem must be matching"),
        (["evaluate", base, "--out", str(file / "n.json")], "is a file: there can be no folder"),
        (["evaluate", base, "--out", str(tmp_path)], "--out must be a file"),
        (["evaluate", base, "--device", "gpu"], "device must be one of cpu"),
        (["reproduce", "--out", str(file)], "is a file: there can be no folder"),
        (["reproduce", "--out", str(tmp_path / "r"), "--device", "gpu"], "device must be one of cpu"),
    ):
        refused = run.invoke(app, arguments)
        assert refused.exit_code == 2, (arguments, refused.output)
        assert words in " ".join(refused.output.replace("│", " ").split())
