"""A built model survives its file, and the command line writes one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import lowregret as lr
from lowregret import construct
from lowregret.transformer import Decoder, Size, Transformer, checkpoints
from lowregret.transformer import load as load_decoder
from lowregret.transformer import save as save_decoder
from paper.app import _app

SIZE = Size(context=48, width=16, heads=2, layers=1, inner=32)
TESTS = [lr.RegretGap, lr.RegretRate]


def small() -> construct.Constructed:
    return construct.build(Decoder(2, size=SIZE), lr.robust.algorithm_1(lr.matching(), lr.RegretGap(8)))


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("n", [2, 3])
def test_what_is_read_is_what_was_written(test: Any, n: int, tmp_path: Path) -> None:
    setting = lr.robust.algorithm_1(lr.matching(n), test(40))
    model = construct.build(Decoder(n, size=SIZE, seed=1), setting)
    construct.save(model, tmp_path / "model.safetensors")
    again = construct.load(tmp_path / "model.safetensors")
    tokens = lr.sample(lr.PolyaUrn(n), 40, 16, seed=0)
    np.testing.assert_array_equal(again.predict_sequence(tokens), model.predict_sequence(tokens))
    np.testing.assert_array_equal(lr.predictors.unroll(again, tokens[:2]), lr.predictors.unroll(model, tokens[:2]))
    assert (again.sizes, again.problem.utility.tolist()) == (model.sizes, lr.matching(n).utility.tolist())
    assert not again.module.training
    names = [[layer.head_names for layer in m.module.every_layer] for m in (again, model)]
    assert names[0] == names[1]
    plain = construct.load(tmp_path / "model.safetensors", fused=False)
    assert not any(layer.fused for layer in (plain.module.beside, *plain.module.layers))
    assert all(layer.fused for layer in (again.module.beside, *again.module.layers))
    np.testing.assert_allclose(plain.predict_sequence(tokens), model.predict_sequence(tokens), atol=1e-6)
    about, promise = json.loads((tmp_path / "model.json").read_text())["built"], setting.certificate
    assert (about["rule"], about["horizon"]) == (test.__name__, 40)
    assert (about["regret_bound"], about["tv_bound"]) == (promise.regret_bound, promise.tv_bound)


@pytest.mark.parametrize("test", TESTS)
def test_a_decoder_in_doubles_stays_so(test: Any, tmp_path: Path) -> None:
    decoder, setting = Decoder(2, size=SIZE, seed=1), lr.robust.algorithm_1(lr.matching(), test(40))
    tokens = np.concatenate([lr.sample(lr.PolyaUrn(2), 40, 8, seed=0), np.ones((1, 40), dtype=int)])
    single = construct.build(decoder, setting).predict_sequence(tokens)
    model = construct.build(Transformer(decoder.double()), setting)
    laws = model.predict_sequence(tokens)
    np.testing.assert_allclose(laws, single, atol=1e-5)
    np.testing.assert_allclose(lr.predictors.unroll(model, tokens), laws, atol=1e-12)
    construct.save(model, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(construct.load(tmp_path / "model.safetensors").predict_sequence(tokens), laws)


def test_a_file_is_read_to_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    construct.save(small(), tmp_path / "b.safetensors")
    monkeypatch.setattr(construct.files, "device_named", torch.device)  # every device counts as there
    model = construct.load(tmp_path / "b.safetensors", "meta")
    assert (model.device.type, model.base.device.type) == ("meta", "meta")


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    save_decoder(Decoder(2, size=SIZE), tmp_path / "decoder.safetensors")
    with pytest.raises(ValueError, match="is not of a built model"):
        construct.load(tmp_path / "decoder.safetensors")
    construct.save(small(), tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match=r"b.safetensors is of a constructed model, .*construct.load reads it"):
        load_decoder(tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match="device"):
        construct.load(tmp_path / "b.safetensors", device="gpu")
    setting = lr.robust.algorithm_1(lr.matching(), lr.RegretGap(8))
    with pytest.raises(ValueError, match="must be built on a Decoder to be saved, got one on PredictorModule"):
        construct.save(construct.build(lr.PolyaUrn(2), setting), tmp_path / "c.safetensors")


def test_files_with_parts_missing_are_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "part.safetensors", tmp_path / "whole.safetensors"
    construct.save(small(), whole)
    found = checkpoints.read(whole)
    about, tensors = found.about, found.tensors
    # A layer without perceptrons takes nothing from them; the format is written with every file.
    needed = [name for name, t in tensors.items() if not (name.endswith("outer_DxF") and t.numel() == 0)]
    lacks = [({name: t for name, t in tensors.items() if name != gone}, about) for gone in needed]
    lacks += [
        (tensors, {key: value for key, value in about.items() if key != gone}) for gone in about.keys() - {"format"}
    ]
    lacks += [
        (tensors, {**about, "layers": about["layers"][:-1]}),
        (tensors, {**about, "layers": [1, 2]}),
        (tensors, {**about, "stream": {"one": 1}}),
        (tensors, {**about, "gives": "odds"}),
        ({**tensors, "position_TxD": tensors["position_TxD"][:, :3]}, about),
        ({**tensors, "more": tensors["token_SxD"].clone()}, about),
    ]
    for some, said in lacks:
        checkpoints.write(path, some, said)
        with pytest.raises(ValueError, match=r"part\.safetensors"):
            construct.load(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With decoders in it: a base, one of three states, one of a shorter context."""
    save_decoder(Decoder(2, size=SIZE, seed=2), tmp_path / "base.safetensors")
    save_decoder(Decoder(3, size=SIZE, seed=2), tmp_path / "three.safetensors")
    save_decoder(Decoder(2, size=SIZE._replace(context=16), seed=2), tmp_path / "short.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lowregret(*arguments: str) -> Any:
    return CliRunner().invoke(_app(), arguments)


def test_the_command(folder: Path) -> None:
    done = lowregret("construct", "base.safetensors", "--out", "deep/built.safetensors")
    assert done.exit_code == 0, done.output
    robust = lr.robustify(load_decoder("base.safetensors"), lr.matching(), test=lr.RegretGap(48))
    promise, model = robust.certificate, construct.load("deep/built.safetensors")
    first, second, third = done.output.splitlines()
    assert first == (
        f"RegretGap over 48 steps: regret at most {promise.regret_bound:.4f} a step on every sequence (no guarantee), "
        f"TV at most {promise.tv_bound:.3g} from base"
    )
    assert second.startswith("4 layers more: ")
    assert f"{model.sizes.parameters} weights that are not zero" in second
    assert third == "Written: deep/built.safetensors"
    tokens = np.array([[0] * 48, [1] * 48])
    np.testing.assert_allclose(model.predict_sequence(tokens), robust.predict_sequence(tokens), atol=1e-6)
    done = lowregret("construct", "base.safetensors", "--rule", "rate", "--horizon", "20", "--out", "r.safetensors")
    assert "RegretRate over 20 steps: regret at most 1.0000 a step on every sequence (no guarantee)" in done.output
    game = ("--problem", "rock_paper_scissors", "--out", "game.safetensors")
    done = lowregret("construct", "three.safetensors", "--rule", "rate", *game)
    assert done.exit_code == 0, done.output
    assert "5 layers more" in done.output
    robust = lr.robustify(load_decoder("three.safetensors"), lr.rock_paper_scissors(), test=lr.RegretRate(48))
    tokens, model = np.repeat(np.arange(3)[:, None], 48, axis=1), construct.load("game.safetensors")
    np.testing.assert_allclose(model.predict_sequence(tokens), robust.predict_sequence(tokens), atol=1e-6)


def test_built_models_are_evaluated(folder: Path) -> None:
    utility = "[[1, -1], [-0.2, 0.6]]"
    built = ("construct", "base.safetensors", "--problem", utility, "--rule", "rate", "--out", "built.safetensors")
    assert lowregret(*built).exit_code == 0
    done = lowregret("evaluate", "built.safetensors", "--against", "base.safetensors", "-n", "4", "--out", "n.json")
    assert done.exit_code == 0, done.output
    ours, theirs, T = construct.load("built.safetensors"), load_decoder("base.safetensors"), 48
    problem, sources = lr.DecisionProblem(json.loads(utility)), lr.evaluate.sources.paper_sources(48)
    robust = lr.robustify(theirs, problem, test=lr.RegretRate(T))
    found, tokens = json.loads(Path("n.json").read_text()), lr.sample(sources["b"], T, 4, 0)
    assert found == {
        **json.loads(lr.compare({"built": ours}, sources, problem, T, 4, 0).to_json()),
        "greedy": float(lr.evaluate.adversaries.greedy(ours, problem, T).regret),
        "next_token_tv": lr.next_token_tv(ours, theirs, tokens)._asdict(),
        "sequence_tv": lr.sequence_tv(ours, theirs, T, 4, 0)._asdict(),
    }
    assert found["greedy"] == pytest.approx(lr.evaluate.adversaries.greedy(robust, problem, T).regret, abs=1e-5)
    assert found["next_token_tv"]["value"] > 0
    done = lowregret("evaluate", "base.safetensors", "--against", "built.safetensors", "-n", "4")
    assert "sequence_tv to built" in done.output


def test_what_the_commands_refuse(folder: Path) -> None:
    Path("junk.safetensors").write_text("junk")
    for made in (
        ("base.safetensors", "--out", "built.safetensors"),
        ("base.safetensors", "--horizon", "9", "--out", "few.safetensors"),
        ("three.safetensors", "--problem", "rock_paper_scissors", "--out", "three_built.safetensors"),
    ):
        assert lowregret("construct", *made).exit_code == 0
    before = sorted(path.name for path in folder.iterdir())
    on, to = ("construct", "base.safetensors"), ("--out", "new.safetensors")
    measure = ("evaluate", "base.safetensors", "--against")
    for arguments, words in (
        (("construct", "none.safetensors", *to), "there is no checkpoint none.safetensors"),
        (("construct", ".", *to), "checkpoint . is a folder"),
        (("construct", "junk.safetensors", *to), "junk.safetensors is truncated or not a safetensors file"),
        (("construct", "built.safetensors", *to), "built.safetensors is of a constructed model"),
        ((*on, *to, "--horizon", "49"), "horizon must be at most the base's context of 48 tokens, got 49"),
        ((*on, *to, "--rule", "best"), "rule must be one of rate, gap, got 'best'"),
        ((*on, *to, "--rule", "exact"), "rule must be one of rate, gap, got 'exact'"),
        ((*on, *to, "--dtype", "float16"), "dtype must be one of float64, float32, got 'float16'"),
        ((*on, *to, "--problem", "rock_paper_scissors"), "Transformer predicts 2, the setting's problem has 3"),
        ((*on, "--out", "."), "path must end in .safetensors, got '.'"),
        ((*on, "--out", "base.json/b.safetensors"), "base.json is a file: there can be no folder"),
        ((*on, "--out", "./base.safetensors"), "--out must be another path than the checkpoint"),
        (("evaluate", "three.safetensors"), "three.safetensors must predict two states"),
        (("evaluate", "three_built.safetensors"), "three_built.safetensors must predict two states"),
        ((*measure, "three.safetensors"), "three.safetensors must predict two states"),
        ((*measure, "short.safetensors"), "short.safetensors ends at 16"),
        ((*measure, "few.safetensors"), "few.safetensors ends at 9"),
        ((*measure, "none.safetensors"), "there is no checkpoint none.safetensors"),
        (("evaluate", "built.safetensors", "--device", "gpu"), "device must be one of cpu"),
    ):
        refused = lowregret(*arguments)
        assert refused.exit_code == 2, (arguments, refused.output)
        assert words in " ".join(refused.output.replace("│", " ").split())
        assert "Mean regret" not in refused.output  # before the work
    assert sorted(path.name for path in folder.iterdir()) == before


def own_units() -> lr.DecisionProblem:
    return lr.DecisionProblem.from_payoffs(
        [[0.1, -3.7], [1 / 3, 2e-5]], actions=["wait", "protect"], states=["calm", "\u00e9v\u00e9nement"]
    )


@pytest.mark.parametrize("test", TESTS)
def test_names_units_and_promises_survive(test: Any, tmp_path: Path) -> None:
    problem = own_units()
    setting = lr.robust.algorithm_1(problem, test(24))
    built = construct.build(Decoder(2, size=SIZE, seed=1), setting)
    construct.save(built, tmp_path / "b.safetensors")
    tokens = np.array([[0, 1, 1, 0] * 6])
    for model in (built, construct.load(tmp_path / "b.safetensors")):
        assert model.problem == model.respond().problem == model.certificate.problem == problem
        assert model.respond().problem.regret_in_payoffs(1.0) == problem.regret_in_payoffs(1.0) != 1.0
        assert model.respond().problem.in_payoffs(0.3) == problem.in_payoffs(0.3)
        assert (model.problem.actions, model.problem.states) == (problem.actions, problem.states)
        regret = lr.external_regret(problem, model.respond(), tokens)
        assert regret.shape == tokens.shape
        promise, given = model.certificate, setting.certificate
        assert (promise.regret_bound, promise.tv_bound) == (given.regret_bound, given.tv_bound)
        assert (promise.statement, promise.assumptions) == (given.statement, given.assumptions)
        assert promise.horizon == 24
        assert f"{promise.regret_bound_in_payoffs:.4g} in payoffs" in str(promise)
        assert json.loads(promise.to_json())["theorem"] == given.theorem
        assert promise.regret_bound == pytest.approx(min(problem.span, sum(promise.terms.values())))
    assert construct.load(tmp_path / "b.safetensors").certificate == built.certificate


def test_files_from_before_names_were_kept(tmp_path: Path) -> None:
    """Format 1 had a matrix and two bounds: numbers for names, a scale of one."""
    setting = lr.robust.algorithm_1(own_units(), lr.RegretGap(8))
    construct.save(construct.build(Decoder(2, size=SIZE), setting), tmp_path / "b.safetensors")
    found = checkpoints.read(tmp_path / "b.safetensors")
    old = {k: v for k, v in found.about["built"].items() if k not in ("actions", "states", "units", "certificate")}
    checkpoints.write(tmp_path / "b.safetensors", found.tensors, {**found.about, "built": old})
    model = construct.load(tmp_path / "b.safetensors")
    assert model.problem == lr.DecisionProblem(own_units().utility)
    assert model.certificate.regret_bound == old["regret_bound"]
