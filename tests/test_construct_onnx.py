"""The exported model gives in onnxruntime what it gives here, for whole sequences and for a stream."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret import construct
from lowregret.transformer import Decoder, Size

pytest.importorskip("onnxscript")


@pytest.mark.parametrize(
    ("rule", "n", "dtype"),
    [(lr.RegretRate, 2, torch.float64), (lr.ExactTest, 3, torch.float32)],
)
def test_onnxruntime_agrees(rule: type, n: int, dtype: torch.dtype, tmp_path: Path) -> None:
    onnxruntime = importlib.import_module("onnxruntime")
    decoder = Decoder(n, size=Size(context=32, width=16, heads=2, layers=1, inner=32), seed=1)
    model = construct.build(decoder, rule(lr.matching(n), 32), dtype=dtype)
    construct.export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    tokens = np.concatenate([lr.sample(lr.PolyaUrn(n), 32, 6, seed=0), np.ones((1, 32), dtype=int)])
    whole = model.predict_sequence(tokens)
    (laws,) = session.run(None, {"tokens": tokens})
    assert np.abs(laws - whole).max() < 1e-5  # the decoder itself is in float32
    for t in range(1, 33):  # a stream: what comes next is not known yet
        seen = np.concatenate([tokens[:, : t - 1], np.zeros((7, 1), dtype=int)], axis=-1)
        (laws,) = session.run(None, {"tokens": seen})
        assert np.abs(laws[:, -1] - whole[:, t - 1]).max() < 1e-5


def test_only_decoders_can_be_exported(tmp_path: Path) -> None:
    model = construct.build(lr.PolyaUrn(2), lr.RegretGap(lr.matching(), 8))
    with pytest.raises(ValueError, match="must be built on a Decoder to be exported, got one on Asked"):
        construct.export_onnx(model, tmp_path / "model.onnx")
