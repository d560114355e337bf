"""A built model survives its file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret import construct
from lowregret.transformer import Decoder, Size, Transformer, checkpoints
from lowregret.transformer import load as load_decoder
from lowregret.transformer import save as save_decoder

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
