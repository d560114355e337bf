"""The exported models give in onnxruntime what they give here: whole sequences, and streams token by token."""

import importlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret import construct
from lowregret.construct.onnx import OneToken
from lowregret.rules import FirstTest
from lowregret.transformer import Decoder, Size

from .test_deciding import Early
from .test_every_start import with_urn
from .test_modules import Recurrent, Shifted

pytest.importorskip("onnxscript")
SIZE = Size(context=32, width=16, heads=2, layers=2, inner=32)
ONE_BLOCK = SIZE._replace(layers=1)  # an export takes seconds a block
NUMPY = {"tensor(double)": np.float64, "tensor(float)": np.float32}


def session_of(model: construct.Constructed, path: Path, streaming: bool = False) -> Any:
    before = logging.getLogger("torch.onnx").level
    construct.export_onnx(model, path, streaming=streaming)
    assert logging.getLogger("torch.onnx").level == before
    return importlib.import_module("onnxruntime").InferenceSession(path, providers=["CPUExecutionProvider"])


def some_tokens(n: int, horizon: int) -> np.ndarray:
    """The last of them is what the decoder, which likes ones, expects least."""
    return np.concatenate([lr.sample(lr.PolyaUrn(2), horizon, n, seed=0)[1:], np.zeros((1, horizon), dtype=int)])


def caches_of(session: Any, n: int) -> dict[str, np.ndarray]:
    sizes = {"batch": n, "length": 0}
    return {i.name: np.zeros([sizes.get(d, d) for d in i.shape], NUMPY[i.type]) for i in session.get_inputs()[1:]}


@pytest.mark.parametrize("rule", [FirstTest, with_urn])
def test_onnxruntime_agrees(rule: Any, tmp_path: Path) -> None:
    model = construct.build(Decoder(3, ONE_BLOCK, seed=1), rule(lr.matching(3), 32))
    session, tokens = session_of(model, tmp_path / "made/model.onnx"), some_tokens(7, 32)
    whole = model.predict_sequence(tokens)
    assert np.abs(whole - model.base.predict_sequence(tokens))[-1].max() > 0.1  # it switches
    (laws,) = session.run(None, {"tokens": tokens})
    assert np.abs(laws - whole).max() < 1e-6  # the decoder itself is in float32
    for rows, t in ((1, 1), (1, 2), (7, 1), (3, 17), (1, 32)):
        (laws,) = session.run(None, {"tokens": tokens[:rows, :t]})
        assert np.abs(laws - whole[:rows, :t]).max() < 1e-6


@pytest.mark.parametrize(
    ("rule", "dtype", "size"),
    [
        (lr.rules.RegretRate, torch.float32, ONE_BLOCK),
        pytest.param(Early, torch.float64, SIZE, marks=pytest.mark.long),
        pytest.param(FirstTest, torch.float64, ONE_BLOCK, marks=pytest.mark.long),
        pytest.param(with_urn, torch.float64, ONE_BLOCK, marks=pytest.mark.long),
        pytest.param(with_urn, torch.float32, ONE_BLOCK, marks=pytest.mark.long),
    ],
)
def test_a_stream_in_onnxruntime_agrees(rule: Any, dtype: torch.dtype, size: Size, tmp_path: Path) -> None:
    horizon = 24  # shorter than the decoder's context
    model = construct.build(Decoder(2, size, seed=1), rule(lr.matching(), horizon), dtype=dtype)
    session = session_of(model, tmp_path / "step.onnx", streaming=True)
    assert [i.name for i in session.get_inputs()] == ["token", "decoder_cache", "built_cache"]
    for n in (1, 2, 7):
        tokens = some_tokens(n, horizon)
        whole = model.predict_sequence(tokens)
        assert np.abs(whole - model.base.predict_sequence(tokens))[-1].max() > 0.1  # it switches
        caches, token = caches_of(session, n), np.full(n, 2)
        for t in range(horizon):
            law, *new = session.run(None, {"token": token, **caches})
            assert np.abs(law - whole[:, t]).max() < 1e-6
            assert law.dtype == np.dtype(str(dtype).removeprefix("torch."))
            caches, token = dict(zip(caches, new, strict=True)), tokens[:, t]
        with pytest.raises(Exception, match="out of data bounds, idx=24"):  # the horizon is over
            session.run(None, {"token": token, **caches})


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", [Early, lr.rules.RegretRate, FirstTest, with_urn])
def test_a_step_is_what_the_model_does(rule: Any, dtype: torch.dtype, kind: torch.dtype) -> None:
    model = construct.build(Decoder(2, SIZE, seed=1).to(kind), rule(lr.matching(), 32), dtype=dtype)
    step, tokens = OneToken(model.module), some_tokens(5, 32)
    whole, caches, token = model.predict_sequence(tokens), step.caches(5), torch.full((5,), 2)
    for t in range(32):
        assert caches[0].shape[-2] == caches[1].shape[1] == t
        law, *caches = step(token, *caches)
        token = torch.as_tensor(tokens[:, t])
        assert np.abs(law.numpy() - whole[:, t]).max() < (1e-12 if kind == dtype == torch.float64 else 1e-6)


def of_ones_own() -> construct.Constructed:
    rule = lr.rules.RegretRate(lr.matching(), 24)
    return construct.build(Shifted(Recurrent(3), 2), rule, gives="logits", dtype=torch.float32)


@pytest.mark.long
def test_a_module_of_ones_own_is_exported_for_whole_sequences(tmp_path: Path) -> None:
    model = of_ones_own()
    session, tokens = session_of(model, tmp_path / "model.onnx"), some_tokens(5, 24)
    whole = model.predict_sequence(tokens)
    for rows, t in ((1, 2), (5, 24)):
        (laws,) = session.run(None, {"tokens": tokens[:rows, :t]})
        assert np.abs(laws - whole[:rows, :t]).max() < 1e-6


def test_a_module_of_ones_own_is_no_stream(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="built on a Decoder to be exported as a stream, got one on Shifted"):
        construct.export_onnx(of_ones_own(), tmp_path / "step.onnx", streaming=True)


@pytest.mark.parametrize("streaming", [False, True])
def test_what_is_refused(streaming: bool, tmp_path: Path) -> None:
    model = construct.build(Decoder(2, SIZE), lr.rules.RegretGap(lr.matching(), 8))
    short = construct.build(Decoder(2, SIZE), lr.rules.RegretGap(lr.matching(), 1))
    urn = construct.build(lr.PolyaUrn(2), lr.rules.RegretGap(lr.matching(), 8))
    (tmp_path / "file").write_text("")
    for wrong, path, words in (
        (urn, "model.onnx", "to be exported, got one on the predictor PolyaUrn"),
        (model.module.base, "model.onnx", "model must be a built model .*, got Decoder"),
        (short, "model.onnx", "model must have a horizon of at least 2 to be exported, got 1"),
        (model, "", "path must be a file, and .* is a folder"),
        (model, "file/model.onnx", "file is a file: there can be no folder"),
    ):
        with pytest.raises(ValueError, match=words):
            construct.export_onnx(wrong, tmp_path / path, streaming)
    with pytest.raises(ValueError, match="path"):
        construct.export_onnx(model, 3, streaming)
