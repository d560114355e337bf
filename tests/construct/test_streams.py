"""Streams of a built model: memories, batches of every shape, chunks, bases that exclude a token."""

from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.construct import build, predictor
from lowregret.transformer import Decoder, Size

from .test_deciding import early, rate

SIZE = Size(context=8, width=8, heads=2, layers=1, inner=8)


def bases() -> list[Any]:
    return [lr.Markov([[0.8, 0.2], [0.4, 0.6]], 1), Decoder(2, SIZE, seed=1)]


@pytest.mark.parametrize("base", bases(), ids=["predictor", "decoder"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (0, 2)])
def test_batches_of_every_shape(base: Any, shape: tuple[int, ...]) -> None:
    model = build(base, early(lr.matching(), 8))
    tokens = np.random.default_rng(0).integers(2, size=(*shape, 8))
    whole, memory = model.predict_sequence(tokens), model.start(shape, like=tokens)
    assert whole.shape == (*shape, 8, 2)
    for t in range(8):
        assert isinstance(model.predict(memory), np.ndarray)
        np.testing.assert_allclose(model.predict(memory), whole[..., t, :], atol=1e-6)
        memory = model.update(memory, tokens[..., t])
    np.testing.assert_array_equal(model.predict(memory), np.full((*shape, 2), 0.5))
    assert memory.cache.shape[: len(shape)] == shape


def test_tensors_give_tensors() -> None:
    model, token = build(bases()[0], early(lr.matching(), 8)), torch.tensor([0, 1])
    for memory in (model.start((2,)), model.start((2,), like=token)):
        for law in (model.predict(memory), model.predict(model.update(memory, token))):
            assert isinstance(law, torch.Tensor)
            assert law.dtype == torch.float64
    assert isinstance(model.predict_sequence(token[:, None]), torch.Tensor)


def test_it_goes_as_far_as_its_horizon_and_says_so() -> None:
    model = build(bases()[1], early(lr.matching(), 5))
    assert model.predict_sequence([0] * 5).shape == (5, 2)
    for ask in (
        lambda: lr.sample(model, 6, 2, 0),
        lambda: lr.evaluate.adversaries.greedy(model, lr.matching(), 6),
        lambda: build(model, early(lr.matching(), 6)),
    ):
        with pytest.raises(ValueError, match=r"context of 5 tokens.* got 6"):
            ask()
    assert lr.sample(model, 5, 2, 0).shape == (2, 5)


def test_long_batches_go_through_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = build(bases()[1], early(lr.matching(), 8)), np.random.default_rng(0).integers(2, size=(7, 8))
    whole = model.predict_sequence(tokens)
    monkeypatch.setattr(predictor, "_AT_ONCE", {"cpu": 2 * (3 * 8 + 1)})  # the most heads that a layer has are 2
    asked, forward = [], type(model.module).forward
    monkeypatch.setattr(
        type(model.module), "forward", lambda module, part: asked.append(len(part)) or forward(module, part)
    )
    np.testing.assert_allclose(model.predict_sequence(tokens), whole, atol=1e-6)
    assert asked == [3, 3, 1]


@pytest.mark.parametrize("make", [early, rate])
def test_a_base_that_excludes_a_token(make: Any) -> None:
    sure = lr.predictors.Scheduled([[1.0, 0.0]])
    model = build(sure, make(lr.matching(), 16))
    tokens = np.array([[0] * 16, [0] * 8 + [1] * 8, [1] * 16])
    whole = model.predict_sequence(tokens)
    np.testing.assert_allclose(lr.predictors.unroll(model, tokens), whole, atol=1e-12)
    np.testing.assert_allclose(whole[:, 0], [[1, 0]] * 3, atol=1e-12)
    assert whole[2, -1, 1] > 0.9  # it has switched


def test_the_layers_are_built_where_the_base_is() -> None:
    assert build(Decoder(2, SIZE).to("meta"), early(lr.matching(), 8)).device.type == "meta"
    assert build(lr.PolyaUrn(2), early(lr.matching(), 8)).device.type == "cpu"
