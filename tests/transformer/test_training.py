"""Training: one step by hand, the mask by hand, and runs that are killed, resumed and shared."""

import contextlib
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.transformer import (
    DECAYING,
    NANODO,
    Decoder,
    Distil,
    Imitate,
    Masked,
    Optimiser,
    Progress,
    Size,
    TrainingSettings,
    Transformer,
    checkpoints,
    data,
    load,
    train,
    training,
)
from lowregret.transformer.tasks import Batch, Responses, Task, after_alarm, loss_of, robust_probs
from lowregret.transformer.training import Training, described

from ..conftest import with_urn

SMALL = Size(32, 16, 2, 1, 32)
FLOAT32 = (torch.float32, torch.float32)
GAP = lr.RegretGap(32)


def robust_with_urn(base: lr.Predictor, problem: lr.DecisionProblem, T: int, delta: float | None = None) -> Any:
    return lr.robust.Robust(base, with_urn(problem, T, delta), problem)


class Fixed:
    """A decoder that says what it is told to."""

    def __init__(self, probs: np.ndarray) -> None:
        self.logits = torch.log(torch.tensor(probs, dtype=torch.float32))

    def __call__(self, tokens: torch.Tensor, *types: torch.dtype) -> torch.Tensor:
        return self.logits


def adamw_by_hand(weights: dict, gradients: list[dict], rates: list[float], o) -> dict:
    """Decoupled weight decay, bias-corrected moments: Loshchilov and Hutter, line by line, in float64."""
    m = {k: np.zeros_like(v) for k, v in weights.items()}
    v = {k: np.zeros_like(x) for k, x in weights.items()}
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradient.values()))
        scale = 1.0 if o.clip is None else min(1.0, o.clip / (norm + 1e-6))
        for k, g in gradient.items():
            g = g * scale
            m[k] = o.betas[0] * m[k] + (1 - o.betas[0]) * g
            v[k] = o.betas[1] * v[k] + (1 - o.betas[1]) * g**2
            step = m[k] / (1 - o.betas[0] ** t) / (np.sqrt(v[k] / (1 - o.betas[1] ** t)) + o.eps)
            weights[k] = weights[k] * (1 - rate * o.weight_decay) - rate * step
    return weights


@pytest.mark.parametrize("optimiser", [NANODO, DECAYING], ids=["nanodo", "decaying"])
def test_optimiser_steps_are_adamw(optimiser, tmp_path: Path) -> None:
    settings = TrainingSettings(size=SMALL, steps=10, batch=4, seed=3, optimiser=optimiser)
    source = lr.evaluate.sources.paper_sources(32)["b"]
    run = Training(Imitate(source), tmp_path / "m.safetensors", settings)
    weights = {k: p.detach().double().numpy().copy() for k, p in run.decoder.named_parameters()}
    gradients, rates = [], []
    for step in range(3):
        tokens = data.sequences(source, 4, 32, data.generator("cpu", 3, step, 0))
        logits = run.decoder(tokens)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 2), tokens.reshape(-1))
        found = torch.autograd.grad(loss, list(run.decoder.parameters()))
        names = [k for k, _ in run.decoder.named_parameters()]
        gradients.append({k: g.double().numpy() for k, g in zip(names, found, strict=True)})
        rates.append(optimiser.rate(step, 10))
        assert float(run.advance()) == pytest.approx(loss.item(), rel=1e-5)
    expected = adamw_by_hand(weights, gradients, rates, optimiser)
    for k, p in run.decoder.named_parameters():
        np.testing.assert_allclose(p.detach().numpy(), expected[k], atol=2e-6, err_msg=k)


def test_a_golden_step(tmp_path: Path) -> None:
    """Recorded once: initial weights, batch, loss and update together."""
    settings = TrainingSettings(size=SMALL, steps=100, batch=8, seed=0, optimiser=NANODO)
    run = Training(Imitate(lr.evaluate.sources.paper_sources(32)["b"]), tmp_path / "m.safetensors", settings)
    losses = [float(run.advance()) for _ in range(3)]
    total = sum(float(p.detach().double().abs().sum()) for p in run.decoder.parameters())
    assert losses == pytest.approx([0.764853, 0.748311, 0.749756], abs=2e-6)
    assert total == pytest.approx(563.0816, rel=1e-6)


def test_rates() -> None:
    assert (
        Optimiser(
            peak=1.6e-3,
            start=1.6e-4,
            warmup=1000,
            falls=False,
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=0.1,
            clip=None,
        )
        == NANODO
    )
    assert (
        Optimiser(
            peak=1e-3, start=2e-5, warmup=49, falls=True, betas=(0.9, 0.95), eps=1e-8, weight_decay=1e-4, clip=1.0
        )
        == DECAYING
    )
    assert NANODO.rate(0, 500) == 1.6e-4
    assert NANODO.rate(500, 500) == pytest.approx(8.8e-4)
    assert NANODO.rate(1000, 500) == NANODO.rate(10**6, 500) == 1.6e-3
    rates = [DECAYING.rate(step, 300) for step in range(300)]
    assert max(rates) == rates[DECAYING.warmup] == 1e-3
    assert all(a > b for a, b in pairwise(rates[49:]))
    assert rates[-1] < 1e-6


def test_losses_by_hand() -> None:
    probs = np.array([[[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]]])
    tokens = torch.tensor([[1, 0, 1]])
    loss, count = loss_of(Fixed(probs), Batch(tokens), FLOAT32, None)
    assert (float(loss), float(count)) == (pytest.approx(-math.log(0.75 * 0.5 * 0.1), rel=1e-6), 3)
    weights = torch.tensor([[0.0, 1.0, 1.0]])
    loss, count = loss_of(Fixed(probs), Batch(tokens, None, weights), FLOAT32, None)
    assert (float(loss), float(count)) == (pytest.approx(-math.log(0.5 * 0.1), rel=1e-6), 2)
    targets = np.array([[[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]])
    divergence = sum(p * math.log(p / q) for p, q in zip(targets.ravel(), probs.ravel(), strict=True) if p)
    batch = Batch(tokens, torch.tensor(targets, dtype=torch.float32))
    assert float(loss_of(Fixed(probs), batch, FLOAT32, None)[0]) == pytest.approx(divergence, rel=1e-5)
    coin, warmth = lr.matching(), 0.25
    responses = [coin.quantal_response(x.reshape(-1, 2), warmth) for x in (targets, probs)]
    extra = float((responses[0] * np.log(responses[0] / responses[1])).sum())
    wanted = Responses(torch.tensor(coin.utility.T / warmth, dtype=torch.float32), 0.5)
    both = loss_of(Fixed(probs), batch, FLOAT32, wanted)[0]
    assert float(both) == pytest.approx(divergence + 0.5 * extra, rel=1e-5)


def test_the_mask_of_a_hand_made_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Base: always 1/3. After t ones the response has regret .72, which first exceeds 1.5/sqrt(t) at t = 5."""
    T = 8
    base = lr.predictors.Scheduled([[2 / 3, 1 / 3]])
    robust = lr.robustify(base, lr.matching(), test=lr.RegretRate(T))
    urn_half = torch.tensor([[1] * T, [0] * T, [0, 0, 0, 1, 1, 1, 1, 1]])
    monkeypatch.setattr(data, "urns", lambda *_: urn_half)
    batch = Masked(base, robust).batch(6, slice(None), T, data.generator("cpu", 0), None)
    assert torch.equal(batch.tokens_BxT[3:], urn_half)
    assert torch.equal(batch.tokens_BxT[:3], data.sequences(base, 3, T, data.generator("cpu", 0)))  # drawn first
    expected = np.ones((6, T))
    for i, tokens in enumerate(urn_half.numpy()):  # step by step, as the paper says it
        policy = 1 / (1 + math.exp(-(1 / 3) / robust.temperature))  # chance of action 0
        earned, alarm = 0.0, None
        for t in range(1, T + 1):
            earned += policy if tokens[t - 1] == 0 else 1 - policy
            best = max((tokens[:t] == a).sum() for a in (0, 1))
            if alarm is None and (best - earned) / t > 1.5 / math.sqrt(t):
                alarm = t
        expected[3 + i] = 0 if alarm is None else np.arange(T) >= alarm
    np.testing.assert_array_equal(batch.weights_BxT.numpy(), expected)
    assert expected[3].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert expected[4].sum() == 0  # discarded: the base does well on it
    # Every third row of each part, as one of three processes would take them.
    part = Masked(base, robust).batch(6, slice(0, None, 3), T, data.generator("cpu", 0), None)
    np.testing.assert_array_equal(part.weights_BxT.numpy(), expected[[0, 3]])


@pytest.mark.parametrize(
    ("test", "fallback"),
    [
        (lr.ExactTest(1 / 32, 32), lr.PolyaUrn(3)),
        *((t, None) for t in (GAP, lr.RegretRate(32), lr.ExactTest(1 / 32, 32))),
    ],
)
def test_distilled_targets_are_algorithm_1s(test: Any, fallback: Any) -> None:
    base = Transformer(Decoder(3, SMALL, seed=0))
    robust = lr.robustify(base, lr.matching(3), test=test, fallback=fallback)
    tokens = torch.randint(3, (64, 32), generator=torch.Generator().manual_seed(0))
    tokens[:32] = tokens[:32, :1]  # some with an alarm
    targets = robust_probs(robust, base.probs_on_device(tokens), tokens)
    torch.testing.assert_close(targets, robust.predict_sequence(tokens), atol=1e-5, rtol=0)
    if test is not GAP:
        assert not torch.allclose(targets, base.probs_on_device(tokens), atol=1e-2)


@pytest.mark.parametrize("test", [lr.ExactTest(1 / 32, 32), GAP, lr.RegretGap(32, sharp=True), lr.RegretRate(32)])
def test_no_device_waits_for_the_mask(test: Any) -> None:
    """On tensors that have no numbers whatever asks for one fails, and so does a tensor from elsewhere."""
    robust = lr.robustify(lr.PolyaUrn(3), lr.matching(3), test=test, fallback=lr.PolyaUrn(3))
    tokens, probs = torch.zeros((4, 32), dtype=torch.int64, device="meta"), torch.ones((4, 32, 3), device="meta")
    assert after_alarm(robust, probs, tokens).device == tokens.device


def test_a_hand_made_batch_to_distil(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows by part: half from the source, then other worlds, then the pool; the base is asked as training says."""
    T = 32
    source, base = lr.evaluate.sources.paper_sources(T)["b"], Transformer(Decoder(2, SMALL, seed=1))
    monkeypatch.setattr(data, "other_worlds", lambda source, n, horizon, random: torch.zeros((n, horizon)).long())
    task = Distil(source, robust_with_urn(base, lr.matching(), T))
    plain = task.batch(7, slice(None), T, data.generator("cpu", 0), None)
    assert plain.tokens_BxT.sum(-1).tolist()[4:] == [0, 0, 0]  # nothing was played yet
    assert torch.equal(plain.tokens_BxT[:4], data.sequences(source, 4, T, data.generator("cpu", 0)))
    task.played_NxT = torch.ones((5, T), dtype=torch.uint8)
    for share, n, away, played in ((0.25, 8, 2, 2), (0.5, 8, 0, 4), (0.5, 7, 0, 3), (0.5, 1, 0, 0), (0.0, 4, 2, 0)):
        task.play_share = share
        tokens = task.batch(n, slice(None), T, data.generator("cpu", 0), None).tokens_BxT
        assert len(tokens) == n
        assert tokens.sum(-1).tolist()[n - away - played :] == [0] * away + [T] * played
    other = Transformer(Decoder(2, SMALL, seed=2))
    for laws, expected in ((None, base.probs_on_device), (other.probs_on_device, other.probs_on_device)):
        batch = task.batch(4, slice(None), T, data.generator("cpu", 0), laws)
        wanted = robust_probs(task.robust, expected(batch.tokens_BxT), batch.tokens_BxT)
        torch.testing.assert_close(batch.targets_BxTxS, wanted)


def returning(source: lr.Predictor, base: lr.Predictor, T: int = 32, **settings: object) -> Distil:
    """Recovery to learn, with a test that often raises an alarm and a budget that is often spent."""
    back = lr.Recovery(memories=(5, 20), share=0.02, budget=0.2)
    robust = lr.robustify(base, lr.matching(), test=lr.ExactTest(0.3, T), fallback=back)
    return Distil(source, robust, **{"play_every": 3, "play_count": 4, "pool": 6, **settings})


@pytest.mark.parametrize("kind", ["distil", "returning"])
def test_the_teacher_is_asked_for_many_steps_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch of a lesson is the one its step would have alone, with the forecasts of the algorithm itself."""
    T, lessons, teach = 32, [], Distil._taught

    def taught(self: Distil, drawn: list, base: object) -> list:
        lessons.append(len(drawn))
        return teach(self, drawn, base)

    monkeypatch.setattr(Distil, "_taught", taught)
    task, alone, decoder = tasks(kind), tasks(kind), Decoder(2, SMALL)
    settings, seen = TrainingSettings(size=SMALL, steps=8, batch=16, seed=5), []
    for step in (0, 1, 2, 3, 4, 7):  # the last as after a restart
        task.before(step, decoder, settings)
        if step == 7:
            task._lesson = None
        alone.played_NxT = task.played_NxT
        batch = task.batch(16, slice(1, 7), T, data.generator("cpu", 99), None)
        own = alone.batch(16, slice(1, 7), T, data.generator("cpu", 5, step, 0), None)
        assert torch.equal(batch.tokens_BxT, own.tokens_BxT)
        torch.testing.assert_close(batch.targets_BxTxS, own.targets_BxTxS, atol=1e-6, rtol=0)
        expected = task.robust.predict_sequence(batch.tokens_BxT.numpy())
        np.testing.assert_allclose(batch.targets_BxTxS, expected, atol=1e-6)
        seen.append(batch.targets_BxTxS)
    assert [n for n in lessons if n > 1] == [3, 3, 2]  # of eight steps
    assert len({probs.numpy().tobytes() for probs in seen}) == 6  # no batch came twice


def test_some_worlds_end_at_home() -> None:
    """Half of them, from the later of two uniform steps on; each share within 5 standard errors."""
    n, T = 4000, 16
    tokens = data.back_home(torch.zeros((n, T)).long(), torch.ones((n, T)).long(), data.generator("cpu", 0))
    assert bool((tokens.diff() >= 0).all())
    for t in range(T):
        expected = 0.5 * ((t + 1) / T) ** 2
        assert float(tokens[:, t].double().mean()) == pytest.approx(expected, abs=5 * math.sqrt(0.25 / n))


def test_worlds_end_at_home_for_what_can_return_only(monkeypatch: pytest.MonkeyPatch) -> None:
    T = 32
    source = lr.evaluate.sources.paper_sources(T)["b"]
    monkeypatch.setattr(data, "back_home", lambda away, home, random: torch.ones_like(away))
    for task, ends in ((returning(source, source), True), (tasks("distil"), False)):
        tokens = task.batch(8, slice(None), T, data.generator("cpu", 0), None).tokens_BxT
        assert bool((tokens[4:] == 1).all()) == ends


def test_the_pool_keeps_the_latest_and_is_played_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def play(decoder: Decoder, source: object, utility: object, temperature: float, n: int, random: object):
        calls.append(n)
        return torch.full((n, 32), len(calls) % 2)

    monkeypatch.setattr(data, "greedy_play", play)
    task, decoder = tasks("distil"), Decoder(2, SMALL)  # every 3 steps 4 sequences, of which 6 are kept
    played = []
    for step in range(8):
        task.before(step, decoder, TrainingSettings(size=SMALL))
        played.append(len(calls))
    assert played == [1, 1, 1, 2, 2, 2, 3, 3]
    assert calls == [4, 4, 4]
    assert task.played_NxT[:, 0].tolist() == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["imitate", "masked"])
def test_replayed_steps_are_the_steps(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a replay that computes: what is set before each step."""
    recorded: list[int] = []

    class Computes:
        def __init__(self, does: Any, stream: Any, random: Any) -> None:
            recorded.append(fast.step)
            self.does = does

        def __call__(self) -> torch.Tensor:
            return self.does()

    monkeypatch.setattr(training, "Replay", Computes)
    monkeypatch.setattr(training, "recording_stream", lambda stream: contextlib.nullcontext())
    settings = TrainingSettings(size=SMALL, steps=20, batch=4, optimiser=DECAYING)
    plain, fast = (Training(tasks(kind), tmp_path / f"{name}.safetensors", settings) for name in ("plain", "fast"))
    assert plain.stream is None
    fast.stream = object()  # type: ignore[assignment]
    assert [float(plain.advance()) for _ in range(6)] == [float(fast.advance()) for _ in range(6)]
    assert recorded == [4]
    for one, other in zip(plain.decoder.parameters(), fast.decoder.parameters(), strict=True):
        assert torch.equal(one, other)


def test_which_steps_can_be_replayed() -> None:
    source, base = lr.evaluate.sources.paper_sources(32)["b"], Transformer(Decoder(2, SMALL))
    robust = robust_with_urn(base, lr.matching(), 32)
    for task in (Imitate(source), Imitate(lr.PolyaUrn(3), soft=True), Masked(source, robust)):
        assert task.replayable
    for task in (
        Imitate(lr.PolyaUrn(2, 0.5)),
        Imitate(lr.Markov([[0.5, 0.5], [0.2, 0.8]], window=1)),
        Imitate.from_tokens([[0, 1, 1, 0, 1] * 20] * 3),
        Masked(source, robust_with_urn(source, lr.matching(), 32)),
        Masked(source, lr.robustify(base, lr.matching(), test=lr.ExactTest(horizon=32), fallback=source)),
        Distil(source, robust),
    ):
        assert not task.replayable


def test_two_states_are_drawn_as_more_are() -> None:
    laws = torch.rand((7, 50), generator=torch.Generator().manual_seed(0))
    two = data.draw(torch.stack([laws, 1 - laws], -1), 7, data.generator("cpu", 1))
    three = data.draw(torch.stack([laws, 1 - laws, 0 * laws], -1), 7, data.generator("cpu", 1))
    assert torch.equal(two, three)
    assert two.dtype == three.dtype


def test_soft_targets_are_the_sources_laws() -> None:
    source = lr.evaluate.sources.paper_sources(32)["sin5"]
    assert Imitate(source).batch(3, slice(None), 32, data.generator("cpu", 0), None).targets_BxTxS is None
    batch = Imitate(source, soft=True).batch(3, slice(None), 32, data.generator("cpu", 0), None)
    np.testing.assert_allclose(batch.targets_BxTxS, source.predict_sequence(batch.tokens_BxT.numpy()), atol=1e-7)


def test_the_teacher_is_the_base_in_the_types_of_the_run(tmp_path: Path) -> None:
    tokens = torch.randint(2, (4, 32), generator=torch.Generator().manual_seed(0))
    for stream in ("float32", "bfloat16"):
        task = tasks("distil")
        settings = TrainingSettings(size=SMALL, steps=2, batch=4, compute="bfloat16", stream=stream)
        run = Training(task, tmp_path / f"{stream}.safetensors", settings)
        expected = task.robust.base.probs_on_device(tokens, torch.bfloat16, getattr(torch, stream))
        assert torch.equal(run.base(tokens), expected)
    assert not torch.equal(task.robust.base.probs_on_device(tokens, torch.bfloat16, torch.float32), expected)


def test_a_batch_in_which_nothing_counts_changes_no_weight_to_nan(tmp_path: Path) -> None:
    class Nothing(Task):
        source = lr.PolyaUrn(2)

        def batch(self, n: int, rows: slice, horizon: int, *_: object) -> Batch:
            return Batch(torch.zeros((n, horizon)).long(), None, torch.zeros((n, horizon)))

    run = Training(Nothing(), tmp_path / "m.safetensors", TrainingSettings(size=SMALL, steps=3, batch=2))
    assert float(run.advance()) == 0
    assert all(bool(p.isfinite().all()) for p in run.decoder.parameters())


def test_the_pool_holds_what_the_greedy_adversary_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    coin, source = lr.matching(), lr.evaluate.sources.paper_sources(32)["b"]
    model = Transformer(Decoder(2, SMALL, seed=8))
    real = torch.rand
    # Uniforms of one: nobody follows the source, nothing is noise.
    monkeypatch.setattr(torch, "rand", lambda *a, **k: torch.ones_like(real(*a, **k)))
    played = data.greedy_play(model.decoder, source, coin.utility, 32**-0.5, 3, data.generator("cpu", 0))
    worst = lr.evaluate.adversaries.greedy(model, coin, 32)
    assert played.tolist() == [worst.tokens.tolist()] * 3


def test_greedy_play_follows_the_source_first_and_makes_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off the source's path a token is random with a chance of .75 x .15, and half of the random ones are another."""
    n, T, coin = 600, 32, lr.matching()
    model = Transformer(Decoder(2, SMALL, seed=8))
    home = torch.randint(2, (n, T), generator=torch.Generator().manual_seed(3))
    monkeypatch.setattr(data, "sequences", lambda *_: home)
    played = data.greedy_play(model.decoder, lr.PolyaUrn(2), coin.utility, T**-0.5, n, data.generator("cpu", 0))
    law = model.probs_on_device(played)[..., 1]
    least = torch.where(law < 0.5, 1, 0)  # of two states the one that the response earns less on
    random = data.generator("cpu", 0)  # how long each follows is drawn first, then whether it does
    follow = torch.randint(T, (n,), generator=random)
    follow = torch.where(torch.rand(n, generator=random) < 0.5, follow, 0)
    follows = torch.arange(T) < follow[:, None]
    assert bool((played == home)[follows].all())
    alone = follow == 0
    wrong = (played != least)[alone].double().mean(-1)
    assert abs(float(wrong.mean()) - 0.75 * 0.15 / 2) <= 5 * float(wrong.std()) / math.sqrt(len(wrong))
    spread = 5 * math.sqrt(0.25 / n)
    assert 0.5 - spread <= float(alone.double().mean()) <= 0.5 + 1 / T + spread


def test_every_world_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth each; half follow the source up to a uniform step. Each share within 5 standard errors."""
    n, T = 4000, 16
    worlds = ("urns", "drifts", "changes", "turned", "stuck")
    for k, world in enumerate(worlds, start=1):
        monkeypatch.setattr(data, world, lambda *_, k=k: torch.full((n, T), k))
    monkeypatch.setattr(data, "sequences", lambda *_: torch.zeros((n, T)).long())
    tokens = data.other_worlds(lr.PolyaUrn(6), n, T, data.generator("cpu", 0))
    within = 5 * math.sqrt(0.25 / n)
    for k in range(1, 6):
        assert float((tokens[:, -1] == k).double().mean()) == pytest.approx(0.2, abs=within)
    for t in range(T):
        follows = 0.5 * (T - 1 - t) / T
        assert float((tokens[:, t] == 0).double().mean()) == pytest.approx(follows, abs=within)
    assert bool(((tokens == 0) | (tokens == tokens[:, -1:])).all())


def test_worlds_are_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    n, T, random = 8000, 64, data.generator("cpu", 0)
    within = 5 * math.sqrt(0.25 / n)
    bits = torch.randint(2, (50, T), generator=random)
    assert torch.equal(data.turned(bits, 2, random), 1 - bits)
    three = torch.arange(3).repeat(200, 1)
    renamed = data.turned(three, 3, random)
    assert torch.equal(renamed.sort(-1).values, three)
    assert len(renamed.unique(dim=0)) == 5  # every renaming but none at all
    at = torch.tensor([0, 20, 63] * 100)
    near = data.stuck(torch.arange(T).repeat(300, 1), at, random)
    assert [set(near[at == k].flatten().tolist()) for k in (0, 20, 63)] == [
        {0, 1, 2},
        {18, 19, 20, 21, 22},
        {61, 62, 63},
    ]
    # Law k gives state k: the tokens count the changes so far, each at a uniform step of 1.5 T.
    monkeypatch.setattr(data, "dirichlet", lambda shape, random: torch.eye(6).expand(n, 6, 6))
    parts = data.changes(n, T, 6, random).double()
    assert bool((parts.diff() >= 0).all())
    for t in range(T):
        assert float(parts[:, t].mean()) == pytest.approx(5 * t / (1.5 * T), abs=5 * math.sqrt(1.25 / n))
    # From state 0 to 1, half of them by a state of their own: |sin| of a uniform phase has mean 2/pi at every step.
    monkeypatch.setattr(data, "dirichlet", lambda shape, random: torch.eye(2).expand(n, 2, 2))
    ones = data.drifts(n, T, 2, random).double().mean(0)
    np.testing.assert_allclose(ones, 0.5 * 2 / math.pi + 0.25, atol=within)


@pytest.mark.parametrize("n_states", [2, 4])
def test_worlds_are_sequences_of_states(n_states: int) -> None:
    table = np.random.default_rng(0).dirichlet(np.ones(n_states), 64)
    for source in (
        lr.predictors.Scheduled(table),
        lr.PolyaUrn(n_states),
        lr.Markov(np.full((n_states,) * 2, 1 / n_states), 1),
    ):
        tokens = data.other_worlds(source, 50, 64, data.generator("cpu", 1))
        assert tokens.shape == (50, 64)
        assert set(tokens.unique().tolist()) == set(range(n_states))
        assert torch.equal(tokens, data.other_worlds(source, 50, 64, data.generator("cpu", 1)))
        assert not torch.equal(tokens, data.other_worlds(source, 50, 64, data.generator("cpu", 2)))


def test_sources_are_drawn_from_their_laws() -> None:
    """Chances within 5 standard errors (chance of failing below 1e-4 over all bits); the urn's sums are uniform."""
    n, T = 20_000, 16
    source = lr.evaluate.sources.paper_sources(T)["sin2"]
    chance = np.asarray(source.probs_TxS if hasattr(source, "probs_TxS") else source.predict_sequence([0] * T))[:, 1]
    mean = data.sequences(source, n, T, data.generator("cpu", 0)).double().mean(0).numpy()
    assert (np.abs(mean - chance) <= 5 * np.sqrt(chance * (1 - chance) / n) + 1e-9).all()
    sums = data.sequences(lr.PolyaUrn(2), n, T, data.generator("cpu", 0)).sum(-1)
    counts = torch.bincount(sums, minlength=T + 1).double()
    expected = n / (T + 1)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    from scipy.stats import chi2

    assert statistic < chi2.ppf(1 - 1e-6, T)


def tasks(kind: str, T: int = 32):
    source, coin = lr.evaluate.sources.paper_sources(T)["b"], lr.matching()
    base = Transformer(Decoder(2, SMALL, seed=9))
    if kind == "imitate":
        return Imitate(source)
    if kind == "masked":
        return Masked(source, lr.robustify(base, coin, test=lr.RegretRate(T)))
    if kind == "returning":
        return returning(source, base)
    return Distil(source, robust_with_urn(base, coin, T), play_every=3, play_count=4, pool=6)


class Stopped(Exception):
    pass


def stopped(task: Task, path: Path, settings: TrainingSettings, at: int, **options: Any) -> None:
    """A run that was stopped after a report."""

    def give_up(p: Progress) -> None:
        if p.step >= at:
            raise Stopped

    with pytest.raises(Stopped):
        train(task, path, settings, on_report=give_up, **options)


def metrics_of(path: Path) -> list[dict]:
    return checkpoints.read(path).about["metrics"]


EIGHT = TrainingSettings(size=SMALL, steps=8, batch=4, optimiser=DECAYING)


@pytest.mark.parametrize("kind", ["imitate", "masked", "distil", "returning"])
def test_a_run_that_stopped_anywhere_ends_the_same(kind: str, tmp_path: Path) -> None:
    whole_path, every = tmp_path / "whole.safetensors", {"save_every": 3, "report_every": 2}
    whole = train(tasks(kind), whole_path, EIGHT, **every)
    for stop in (2, 4, 6):
        path = tmp_path / f"{stop}.safetensors"
        stopped(tasks(kind), path, EIGHT, stop, **every)
        assert path.with_suffix(".state.safetensors").exists() == (stop > 2)  # saved after steps 3 and 6
        same(train(tasks(kind), path, EIGHT, **every), whole)
        assert [p["step"] for p in metrics_of(path)] == [2, 4, 6, 8]
        assert [p["loss"] for p in metrics_of(path)] == [p["loss"] for p in metrics_of(whole_path)]
        assert sorted(file.name for file in tmp_path.glob(f"{stop}*")) == [f"{stop}.json", f"{stop}.safetensors"]
    same(train(tasks(kind), whole_path, EIGHT), whole)  # finished: read, not trained


def test_seconds_and_speed_go_on_with_the_run(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    stopped(
        tasks("imitate"),
        path,
        EIGHT,
        4,
        save_every=4,
        report_every=2,
    )
    train(tasks("imitate"), path, EIGHT, save_every=4, report_every=2)
    lines = metrics_of(path)
    for before, p in pairwise([{"seconds": 0.0}, *lines]):
        took = p["seconds"] - before["seconds"]
        assert p["tokens_per_second"] * took == pytest.approx(2 * EIGHT.batch * SMALL.context, rel=1e-6)


def test_one_run_at_a_time_writes_a_model(tmp_path: Path) -> None:
    path, tried = tmp_path / "m.safetensors", []

    def meanwhile(p: Progress) -> None:
        with pytest.raises(ValueError, match=r"m\.safetensors is being written by a training"):
            train(tasks("imitate"), tmp_path / "x/../m.safetensors", EIGHT)
        tried.append(p.step)

    train(tasks("imitate"), path, EIGHT, report_every=4, on_report=meanwhile)
    assert tried == [4, 8]


def test_a_task_that_served_another_run_starts_afresh(tmp_path: Path) -> None:
    task = tasks("distil")
    same(*(train(task, tmp_path / f"{i}.safetensors", replace(EIGHT, steps=4)) for i in range(2)))


def test_a_run_that_is_lost_says_so(tmp_path: Path) -> None:
    """Steps far too large: what was saved stays finite."""
    wild = Optimiser(1e30, 1e30, 0, False, (0.9, 0.95), 1e-8, 0.0, None)
    for name, save_every, report_every in (("a", 1, 1), ("b", 1, 10), ("c", 10, 2)):
        path = tmp_path / f"{name}.safetensors"
        with pytest.raises(ValueError, match=r"training was lost by step \d+: the loss or the weights"):
            train(
                tasks("imitate"),
                path,
                replace(EIGHT, optimiser=wild),
                save_every=save_every,
                report_every=report_every,
            )
        assert not path.exists()
        for state in tmp_path.glob(f"{name}.state.safetensors"):
            assert all(bool(value.isfinite().all()) for value in checkpoints.read(state).tensors.values())
    run = Training(tasks("imitate"), tmp_path / "d.safetensors", EIGHT)
    run.decoder.position.weight.data[-1] = math.inf  # before any loss has seen it
    with pytest.raises(ValueError, match="training was lost by step 0"):
        run.refuse_lost()


def test_another_run_is_not_continued(tmp_path: Path) -> None:
    first, second = (Transformer(Decoder(2, SMALL, seed=seed)) for seed in (5, 6))
    stopped(tasks("imitate"), tmp_path / "m.safetensors", EIGHT, 6, init=first, save_every=3, report_every=2)
    train(tasks("imitate"), tmp_path / "done.safetensors", EIGHT, init=first)
    for change, words in (
        ({"init": second}, "another init"),
        ({"init": None}, "another init"),
        ({"settings": replace(EIGHT, seed=1)}, "another settings: seed: 0 there, 1 here"),
        ({"task": Imitate(lr.PolyaUrn(2))}, "another task"),
    ):
        for name in ("m", "done"):
            given = {"task": tasks("imitate"), "settings": EIGHT, "init": first, **change}
            with pytest.raises(ValueError, match=f"from a run with {words}"):
                train(given["task"], tmp_path / f"{name}.safetensors", given["settings"], init=given["init"])
    half = replace(EIGHT, compute="bfloat16")
    state = tmp_path / "m.state.safetensors"
    tensors, about = checkpoints.read(state)
    checkpoints.write(state, tensors, {**about, "types": "(torch.bfloat16, torch.bfloat16)"})
    with pytest.raises(ValueError, match="another types"):
        train(tasks("imitate"), tmp_path / "m.safetensors", EIGHT, init=first)
    assert half.types(torch.device("cpu")) == (torch.bfloat16, torch.bfloat16)


def test_descriptions_differ_where_weights_do() -> None:
    heads = [Transformer(Decoder(2, SMALL._replace(heads=h))) for h in (2, 4)]
    tables = [lr.predictors.Scheduled([[p, 1 - p]]) for p in (0.4, 0.5)]
    for things in (heads, tables):
        found = [json.dumps(described(Imitate(thing))) for thing in things]
        assert found[0] != found[1]
        assert found == [json.dumps(described(Imitate(thing))) for thing in things]
    assert json.dumps(described(lr.FromFunction(lambda history: [0.5, 0.5], 2)))


def same(one: Transformer, other: Transformer) -> None:
    for (name, a), (_, b) in zip(one.decoder.named_parameters(), other.decoder.named_parameters(), strict=True):
        assert torch.equal(a, b), name


KILLER = """
import json, os, random, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from lowregret.transformer import checkpoints
from tests.transformer.test_training import *

path = Path(sys.argv[1])
state = path.with_suffix(".state.safetensors")
chance, steps = random.Random(0), []
Training(tasks("distil"), path.with_name("warm.safetensors"), LONG).advance()  # what is imported late is there
while len(steps) < 10:
    begun = state.stat().st_mtime_ns if state.exists() else 0
    child = os.fork()
    if not child:
        train(tasks("distil"), path, LONG, save_every=1)
        os._exit(0)
    while not state.exists() or state.stat().st_mtime_ns == begun:
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not path.exists(), "the run was over before it could be killed ten times"
    steps.append(checkpoints.read(state).about["step"])
print(steps)
"""
LONG = TrainingSettings(size=SMALL, steps=2000, batch=2, optimiser=DECAYING)


def script(tmp_path: Path, text: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """A Python program beside the tests, in one thread."""
    path = tmp_path / "program.py"
    path.write_text(text)
    places = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(Path(__file__).resolve().parents[2])]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, places)), **environment}
    command = [sys.executable, str(path), *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
def test_a_run_killed_ten_times_ends_the_same(tmp_path: Path) -> None:
    process = script(tmp_path, KILLER, tmp_path / "killed.safetensors")
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    steps = json.loads(out)
    assert steps[0] >= 1
    assert all(a < b for a, b in pairwise(steps))
    # From here to the end, beside a run that nobody disturbed.
    ends = []
    for name in ("killed", "whole"):
        run = Training(tasks("distil"), tmp_path / f"{name}.safetensors", LONG)
        assert run.step == (steps[-1] if name == "killed" else 0)
        while run.step < steps[-1] + 5:
            run.advance()
        ends.append(Transformer(run.decoder))
    same(*ends)


TWO = """
import sys, torch
torch.set_num_threads(1)
from tests.transformer.test_training import *
for kind in KINDS:
    train(tasks(kind), f"{sys.argv[1]}/two-{kind}.safetensors", SHARED, report_every=1)
"""
KINDS = ("imitate", "masked", "distil", "returning")
# With so large an eps a step is proportional to the gradient: one that is off by a factor shows.
PLAIN = replace(DECAYING, peak=1.0, start=1.0, eps=1.0, clip=None)
SHARED = TrainingSettings(size=SMALL, steps=5, batch=8, optimiser=PLAIN)


@pytest.mark.long
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    port = str(free_port())
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    processes = [script(tmp_path, TWO, tmp_path, RANK=str(rank), **meeting) for rank in range(2)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    for kind in KINDS:
        alone = train(tasks(kind), tmp_path / f"one-{kind}.safetensors", SHARED, report_every=1)
        losses = [[p["loss"] for p in metrics_of(tmp_path / f"{n}-{kind}.safetensors")] for n in ("one", "two")]
        assert losses[1] == pytest.approx(losses[0], rel=1e-4), kind
        theirs = load(tmp_path / f"two-{kind}.safetensors").decoder
        for a, b in zip(alone.decoder.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-4, rtol=0)


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    settings = TrainingSettings(size=SMALL, steps=1, batch=2)
    path = tmp_path / "m.safetensors"
    source, coin = lr.evaluate.sources.paper_sources(32)["b"], lr.matching()
    with pytest.raises(ValueError, match="robust is for 16 steps, the decoder's context is 32"):
        train(Masked(source, lr.robustify(source, coin, test=lr.RegretRate(16))), path, settings)
    short = Transformer(Decoder(2, SMALL._replace(context=16)))
    with pytest.raises(ValueError, match="base has a context of 16"):
        lr.robustify(short, coin, test=lr.RegretRate(32))
    with pytest.raises(ValueError, match="source"):
        train(Imitate(short), path, settings)
    for wrong, words in (
        (lambda: Imitate("b"), "source must be a Predictor, got 'b'"),
        (lambda: Masked(source, source), r"robust must be robustify\(base, problem, horizon\)"),
        (lambda: train("bernoulli", path, settings), "task must be an Imitate"),
        (lambda: train(Imitate(source), path, settings, init=short.decoder), "init must be a Transformer, got Decoder"),
        (lambda: train(Imitate(source), path, {}), "settings must be TrainingSettings"),
        (lambda: train(Imitate(source), path, settings, device="gpu"), "device must be one of cpu"),
        (lambda: train(Imitate(source), tmp_path / "m.json", settings), r"path must end in \.safetensors"),
        (lambda: train(Imitate(source), tmp_path, settings), r"path must end in \.safetensors"),
        (lambda: Optimiser(-1, 0, 0, True, (0.9, 0.9), 1e-8, 0, None), "peak must be"),
        (lambda: replace(DECAYING, betas=(0.9, 1.0)), "betas must be two numbers"),
        (lambda: replace(DECAYING, clip=0.0), "clip must be"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()
    assert list(tmp_path.iterdir()) == []
    for endless in (lr.robustify(source, coin, test=lr.ExactTest()), lr.robustify(source, None, 32)):
        with pytest.raises(ValueError, match="robust must be robustify"):
            Masked(source, endless)
    with pytest.raises(ValueError, match="what Masked learns after the alarm"):
        Masked(source, lr.robustify(source, coin, 32))
    with pytest.raises(ValueError, match=r"play_share must lie between 0 and 0\.5"):
        Distil(source, robust_with_urn(source, coin, 32), play_share=0.7)
    with pytest.raises(ValueError, match="init must be of the same size"):
        train(Imitate(source), path, settings, init=short)
    for wrong in (
        {"steps": 0},
        {"batch": 0},
        {"seed": -1},
        {"seed": 2**70},
        {"compute": "half"},
        {"optimiser": "nanodo"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            TrainingSettings(**wrong)


def test_learning_happens(tmp_path: Path) -> None:
    """A few seconds of training bring the laws of source b near; the two recipes agree on what is to be learnt."""
    source = lr.evaluate.sources.paper_sources(32)["b"]
    settings = TrainingSettings(size=SMALL, steps=250, batch=16, optimiser=DECAYING)
    model = train(Imitate(source, soft=True), tmp_path / "b.safetensors", settings)
    tokens = lr.sample(source, 32, 128, 0)
    assert lr.next_token_tv(model, source, tokens).high < 0.05
    assert lr.next_token_tv(Transformer(Decoder(2, SMALL)), source, tokens).low > 0.1
