"""The decoder computes what its equations say, looks only backwards, and is a predictor like any other."""

import contextlib
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.transformer import SIZES, Decoder, Size, Transformer
from lowregret.transformer import predictor as predicting
from lowregret.transformer.decoder import attend_to_cache, by_sigmoid
from lowregret.transformer.predictor import Extending

SMALL = Size(context=16, width=24, heads=3, layers=2, inner=48)


def by_hand(decoder: Decoder, tokens: list[int]) -> np.ndarray:
    """The same decoder for one sequence, in NumPy and float64, position by position and head by head."""
    w = {name: p.detach().double().numpy() for name, p in decoder.named_parameters()}
    D, H = decoder.size.width, decoder.size.heads
    E = D // H

    def norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * scale

    seen = [decoder.n_states, *tokens[:-1]]
    x = w["embedding.weight"][seen] + w["position.weight"][: len(seen)]
    for i in range(decoder.size.layers):
        y = norm(x, w[f"blocks.{i}.attention_norm.weight"])
        query, key, value = np.split(y @ w[f"blocks.{i}.query_key_value.weight"].T, 3, axis=-1)
        mixed = np.zeros_like(x)
        for h in range(H):
            part = slice(h * E, (h + 1) * E)
            for t in range(len(seen)):
                scores = key[: t + 1, part] @ query[t, part] / np.sqrt(E)
                weights = np.exp(scores - scores.max())
                mixed[t, part] = weights / weights.sum() @ value[: t + 1, part]
        x = x + mixed @ w[f"blocks.{i}.attention_out.weight"].T
        inner = norm(x, w[f"blocks.{i}.inner_norm.weight"]) @ w[f"blocks.{i}.inner.weight"].T
        inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = x + inner @ w[f"blocks.{i}.inner_out.weight"].T
    return norm(x, w["out_norm.weight"]) @ w["embedding.weight"][: decoder.n_states].T


@pytest.mark.parametrize("n_states", [1, 2, 5])
@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [(torch.float32, 1e-5), (torch.float64, 1e-12), (torch.bfloat16, 1e-5), (torch.float16, 1e-5)],
)
def test_the_decoder_is_its_equations(kind: torch.dtype, tolerance: float, n_states: int) -> None:
    """In doubles to the last digits; weights in half precision are computed in single."""
    decoder = Decoder(n_states, SMALL, seed=3)
    with torch.no_grad():  # scales other than one, so that they count
        for name, p in decoder.named_parameters():
            if "norm" in name:
                p.uniform_(0.5, 1.5)
    model, tokens = Transformer(decoder.to(kind)), np.random.default_rng(0).integers(n_states, size=(4, SMALL.context))
    probs = model.predict_sequence(tokens)
    assert probs.dtype == (np.float64 if kind == torch.float64 else np.float32)
    logits = np.stack([by_hand(decoder, row.tolist()) for row in tokens])
    np.testing.assert_allclose(probs, np.exp(logits) / np.exp(logits).sum(-1, keepdims=True), atol=tolerance)
    lr.checks.check_predictor(model, horizon=SMALL.context, tolerance=tolerance)
    memory = model.start((2,))
    for _ in range(SMALL.context):  # to the last: after that nothing is asked
        memory = model.update(memory, [0, n_states - 1])
    assert memory.probs.dtype == memory.cache.dtype == decoder.precision


def test_gradients_reach_back_and_never_forward() -> None:
    decoder = Decoder(3, SMALL, seed=1)
    captured: list[torch.Tensor] = []

    def keep(module: torch.nn.Module, args: tuple) -> None:
        args[0].retain_grad()
        captured.append(args[0])

    handle = decoder.blocks[0].register_forward_pre_hook(keep)
    tokens = torch.randint(3, (1, SMALL.context), generator=torch.Generator().manual_seed(0))
    for t in range(SMALL.context):
        captured.clear()
        decoder(tokens)[0, t].square().sum().backward()
        reach = captured[0].grad[0].abs().sum(-1)
        # Input 0 is BOS, input i the token i - 1: step t may see inputs 0 .. t, that is tokens before t.
        assert bool((reach[: t + 1] > 0).all()), t
        assert bool((reach[t + 1 :] == 0).all()), t
    handle.remove()


@pytest.mark.parametrize("properties", [("_multiplies",), ("_multiplies", "_adds")])
def test_few_states_are_multiplied_and_very_few_added_up(properties: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, found = torch.randint(2, (4, SMALL.context), generator=torch.Generator().manual_seed(2)), []
    assert not Decoder(2, SMALL)._multiplies  # on a CPU looking up is faster
    for as_on_a_gpu in (True, False):
        for name in properties:
            monkeypatch.setattr(Decoder, name, as_on_a_gpu)
        decoder = Decoder(2, SMALL, seed=1)
        decoder(tokens).square().sum().backward()
        found.append([decoder(tokens).detach(), *(p.grad for p in decoder.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_gelu_by_a_sigmoid_is_gelu_by_tanh() -> None:
    x = torch.linspace(-30, 30, 4001, dtype=torch.float64, requires_grad=True)
    ours, torchs = by_sigmoid(x), torch.nn.functional.gelu(x, approximate="tanh")
    torch.testing.assert_close(ours, torchs, atol=1e-14, rtol=1e-13)
    slopes = (torch.autograd.grad(y.sum(), x)[0] for y in (ours, torchs))
    torch.testing.assert_close(*slopes, atol=1e-14, rtol=1e-13)


def test_a_growing_cache_is_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a replay that computes, and plain torch in place of the program: which steps, with which inputs."""
    recorded: list[int] = []

    class Computes:
        def __init__(self, does: Any, stream: Any) -> None:
            recorded.append(int(does.args[2][0]))
            self.does = does

        def __call__(self) -> torch.Tensor:
            return self.does()

    class OnGpu:  # a tensor that says so
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor, self.is_cuda, self.shape, self.device = tensor, True, tensor.shape, tensor.device

        def __getattr__(self, name: str) -> Any:
            return getattr(self.tensor, name)

    monkeypatch.setattr(predicting, "Replay", Computes)
    monkeypatch.setattr(predicting, "recording_stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(predicting, "_FIRST_STEPS", 4)
    monkeypatch.setattr(predicting, "triton_installed", True)
    stand_in = SimpleNamespace(attend=partial(attend_to_cache, filled=None))
    monkeypatch.setitem(sys.modules, "lowregret.transformer.triton_attention", stand_in)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "Stream", lambda: None)
    decoder = Decoder(2, SMALL, seed=1)
    tokens = torch.randint(2, (5, SMALL.context), generator=torch.Generator().manual_seed(2))
    extend, caches = Extending(decoder), [decoder.empty_cache(5) for _ in range(3)]
    for t in range(SMALL.context):
        at = torch.full((5,), t)
        if t == 9:  # another place: what was recorded would write to the old one
            caches[2].copy_(caches[0])
            caches[0] = caches[2]
        found = extend(tokens[:, t], OnGpu(caches[0]), at, t)  # type: ignore[arg-type]
        torch.testing.assert_close(found, decoder.extend(tokens[:, t], caches[1], at, t))
    assert recorded == [5, 10]  # from the second step at a place on


def test_initial_weights_are_nanodos() -> None:
    decoder = Decoder(2, "paper", seed=0)
    D = SIZES["paper"].width
    assert decoder.position.weight.std().item() == pytest.approx(D**-0.5, rel=0.02)
    block = decoder.blocks[0]
    for part in block.query_key_value.weight.split(D):
        assert part.abs().max().item() == pytest.approx((6 / (2 * D)) ** 0.5, rel=1e-3)
    assert block.inner.weight.abs().max().item() == pytest.approx((6 / (D + 1024)) ** 0.5, rel=1e-3)
    assert all("bias" not in name for name, _ in decoder.named_parameters())
    count = sum(p.numel() for p in decoder.parameters())
    assert count == 3 * D + 1024 * D + 3 * (4 * D * D + 2 * D * 1024 + 2 * D) + D
    assert not torch.equal(Decoder(2, "quick", seed=0).position.weight, Decoder(2, "quick", seed=1).position.weight)


def test_streams_of_different_ages_share_a_memory() -> None:
    from lowregret.memory import where

    model = Transformer(Decoder(2, SMALL, seed=4))
    rng = np.random.default_rng(1)
    tokens = rng.integers(2, size=(3, SMALL.context))
    memory = model.start((3,))
    old = np.array([True, False, True])
    begun = 5
    for t in range(begun):
        memory = model.update(memory, tokens[:, t])
    memory = where(torch.tensor(old), memory, model.start((3,)))  # the middle one starts anew
    for t in range(begun, SMALL.context):
        memory = model.update(memory, tokens[:, t])
        fresh = model.predict_sequence(np.append(tokens[1, begun : t + 1], 0))[-1]
        np.testing.assert_allclose(memory.probs[1].numpy(), fresh, atol=1e-5)
        if t + 1 < SMALL.context:
            whole = model.predict_sequence(tokens[:, : t + 2])[:, -1]
            np.testing.assert_allclose(memory.probs.numpy()[old], whole[old], atol=1e-5)


def test_a_fork_copies_once_and_then_appends_in_place() -> None:
    model = Transformer(Decoder(2, SMALL, seed=4))
    one = model.update(model.start((2,)), [0, 1])
    two = model.update(one, [1, 1])
    assert two.cache is one.cache  # the last to write appends
    other = model.update(one, [0, 0])
    assert other.cache is not one.cache
    assert model.update(other, [0, 0]).cache is other.cache
    part = lr.take(two, slice(0, 1))  # a view: must not write into what it was cut from
    before = two.cache.clone()
    model.update(part, [1])
    assert torch.equal(two.cache, before)


def test_how_many_tokens_were_seen_is_asked_only_where_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    told = predicting._range
    monkeypatch.setattr(predicting, "_range", lambda seen_B: (asked.append(len(seen_B)), told(seen_B))[1])
    model = Transformer(Decoder(2, SMALL, seed=4))
    expected = lr.sample(model, SMALL.context, 3, 0)
    assert not asked  # streams that begin together grow together
    memory = model.update(model.update(model.start((3,)), [0, 1, 1]), [1, 1, 0])
    assert not asked
    memory = model.update(lr.take(memory, slice(1, 3)), [0, 0])
    assert asked == [2]  # a selection: its streams might be of any age
    assert model.update(memory, [0, 0]).seen.tolist() == [4, 4]
    assert asked == [2]
    assert torch.equal(lr.sample(model, SMALL.context, 3, 0, like=expected), expected)
    with pytest.raises(ValueError, match="token must lie in"):
        model.update(memory, [0, 2])


def test_what_does_not_fit_is_refused() -> None:
    model = Transformer(Decoder(2, SMALL))
    with pytest.raises(ValueError, match="at most 16 long"):
        model.predict_sequence(np.zeros(17, dtype=int))
    memory = model.start(())
    for _ in range(SMALL.context):
        memory = model.update(memory, 0)
    assert memory.probs.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="context of 16 tokens is full"):
        model.update(memory, 0)
    for size in ("large", (16, 24, 5, 1, 8)):
        with pytest.raises(ValueError, match="size"):
            Decoder(2, size)


def test_long_batches_go_through_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Transformer(Decoder(3, SMALL, seed=2))
    tokens = np.random.default_rng(0).integers(3, size=(7, SMALL.context))
    whole = model.predict_sequence(tokens)
    monkeypatch.setattr(predicting, "_TOKENS_AT_ONCE", {"cpu": 2 * SMALL.context + 1})
    np.testing.assert_allclose(model.predict_sequence(tokens), whole, atol=1e-6)


def test_nothing_is_made_up_past_the_context() -> None:
    model, coin = Transformer(Decoder(2, SMALL, seed=1)), lr.matching()
    source = lr.evaluate.sources.paper_sources(17)["b"]
    for ask in (
        lambda: lr.sample(model, 17, 2, 0),
        lambda: lr.robustify(model, coin, 17),
        lambda: lr.evaluate.adversaries.greedy(lr.policies.Respond(model, coin, 0.2), coin, 17),
        lambda: lr.compare({"b": source}, {"model": model}, coin, 17, 2, 0),
    ):
        with pytest.raises(ValueError, match=r"context of 16 .* 17"):
            ask()
    assert lr.sample(lr.robustify(model, coin, 16), 16, 2, 0).shape == (2, 16)


def test_half_precision_is_close_and_logits_are_single() -> None:
    decoder = Decoder(2, SMALL, seed=0)
    tokens = torch.randint(2, (4, SMALL.context), generator=torch.Generator().manual_seed(0))
    decoder.requires_grad_(False)
    full = decoder(tokens)
    for stream in (None, torch.float32):
        half = decoder(tokens, torch.bfloat16, stream)
        assert half.dtype == torch.float32
        assert 0 < float((half - full).abs().max()) < 0.1
        laws = Transformer(decoder).probs_on_device(tokens, torch.bfloat16, stream)
        torch.testing.assert_close(laws, torch.softmax(half, -1))
