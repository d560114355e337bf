"""A built model survives its file, with its names, units and promises."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret import construct
from lowregret.transformer import Decoder, Size
from lowregret.transformer import load as load_decoder
from lowregret.transformer import save as save_decoder

SIZE = Size(context=48, width=16, heads=2, layers=1, inner=32)


def setting_with(test: Any) -> Any:
    problem = lr.DecisionProblem.from_payoffs(
        [[0.1, -3.7], [1 / 3, 2e-5]], actions=["wait", "protect"], states=["calm", "\u00e9v\u00e9nement"]
    )
    return lr.robust.algorithm_1(problem, test, lr.PolyaUrn(2, 0.7), lr.QuantalResponse(0.3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    construct.save(construct.build(Decoder(2, size=SIZE), setting_with(lr.RegretGap(8))), tmp_path / "b.safetensors")
    return tmp_path / "b.safetensors"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("test", [lr.RegretGap(40, 0.5, span_aware=True), lr.RegretRate(40, 0.9)])
def test_what_is_read_is_what_was_written(test: Any, double: bool, dtype: torch.dtype, tmp_path: Path) -> None:
    decoder, path = Decoder(2, size=SIZE, seed=1), tmp_path / "model.safetensors"
    setting = setting_with(test)
    model = construct.build(decoder.double() if double else decoder, setting, dtype=dtype)
    construct.save(model, path)
    again = construct.load(path)
    tokens = np.concatenate([lr.sample(lr.PolyaUrn(2), 40, 8, seed=0), np.ones((1, 40), dtype=int)])
    probs = model.predict_sequence(tokens)
    np.testing.assert_array_equal(again.predict_sequence(tokens), probs)
    np.testing.assert_array_equal(lr.predictors.unroll(again, tokens[:2]), lr.predictors.unroll(model, tokens[:2]))
    if double and dtype == torch.float64:
        np.testing.assert_allclose(lr.predictors.unroll(model, tokens), probs, atol=1e-12)
    assert not again.module.training
    assert (again.sizes, again.setting, repr(again)) == (model.sizes, setting, repr(model))
    problem = setting.problem
    assert again.problem == again.respond().problem == again.certificate.problem == problem
    assert again.problem.regret_in_payoffs(1.0) == problem.regret_in_payoffs(1.0) != 1.0
    assert again.certificate == setting.certificate


def test_files_of_other_kinds_are_refused(path: Path, tmp_path: Path) -> None:
    save_decoder(Decoder(2, size=SIZE), tmp_path / "decoder.safetensors")
    with pytest.raises(ValueError, match="is not of a built model"):
        construct.load(tmp_path / "decoder.safetensors")
    with pytest.raises(ValueError, match=r"b.safetensors is of a constructed model, .*construct.load reads it"):
        load_decoder(path)
    with pytest.raises(ValueError, match="must be built on a Decoder to be saved, got one on PredictorModule"):
        construct.save(construct.build(lr.PolyaUrn(2), setting_with(lr.RegretGap(8))), tmp_path / "c.safetensors")
