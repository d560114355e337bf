"""What each task gives to learn: batches, masks and losses by hand, targets beside Algorithm 1 itself."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.transformer import (
    Decoder,
    Distil,
    Imitate,
    Masked,
    Recording,
    Size,
    TrainingSettings,
    Transformer,
    data,
)
from lowregret.transformer.tasks import Batch, Responses, after_alarm, loss_of, robust_probs

from ..conftest import with_urn

SMALL = Size(32, 16, 2, 1, 32)
FLOAT32 = (torch.float32, torch.float32)
GAP = lr.RegretGap(32)


def robust_with_urn(base: lr.Predictor, problem: lr.DecisionProblem, T: int, delta: float | None = None) -> Any:
    return lr.robust.Robust(base, with_urn(problem, T, delta), problem)


def returning(source: lr.Predictor, base: lr.Predictor, T: int = 32, **settings: object) -> Distil:
    """Recovery to learn, with a test that often raises an alarm and a budget that is often spent."""
    back = lr.Recovery(memories=(5, 20), share=0.02, budget=0.2)
    robust = lr.robustify(base, lr.matching(), test=lr.ExactTest(0.3, T), fallback=back)
    return Distil(source, robust, **{"play_every": 3, "play_count": 4, "pool": 6, **settings})


def tasks(kind: str, T: int = 32):
    source, coin = lr.evaluate.sources.paper_sources(T)["b"], lr.matching()
    base = Transformer(Decoder(2, SMALL, seed=9))
    if kind == "imitate":
        return Imitate(source)
    if kind == "recording":
        return Imitate(Recording.of([[0, 1, 1, 0, 1] * 8, [1, 0, 0]], held_out=0))
    if kind == "masked":
        return Masked(source, lr.robustify(base, coin, test=lr.RegretRate(T)))
    if kind == "returning":
        return returning(source, base)
    return Distil(source, robust_with_urn(base, coin, T), play_every=3, play_count=4, pool=6)


class Fixed:
    """A decoder that says what it is told to."""

    def __init__(self, probs: np.ndarray) -> None:
        self.logits = torch.log(torch.tensor(probs, dtype=torch.float32))

    def __call__(self, tokens: torch.Tensor, *types: torch.dtype) -> torch.Tensor:
        return self.logits


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


def test_soft_targets_are_the_sources_laws() -> None:
    source = lr.evaluate.sources.paper_sources(32)["sin5"]
    assert Imitate(source).batch(3, slice(None), 32, data.generator("cpu", 0), None).targets_BxTxS is None
    batch = Imitate(source, soft=True).batch(3, slice(None), 32, data.generator("cpu", 0), None)
    np.testing.assert_allclose(batch.targets_BxTxS, source.predict_sequence(batch.tokens_BxT.numpy()), atol=1e-7)


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


@pytest.mark.parametrize("test", [lr.ExactTest(1 / 32, 32), GAP, lr.RegretGap(32, sharp=True), lr.RegretRate(32)])
def test_no_device_waits_for_the_mask(test: Any) -> None:
    """On tensors that have no numbers whatever asks for one fails, and so does a tensor from elsewhere."""
    robust = lr.robustify(lr.PolyaUrn(3), lr.matching(3), test=test, fallback=lr.PolyaUrn(3))
    tokens, probs = torch.zeros((4, 32), dtype=torch.int64, device="meta"), torch.ones((4, 32, 3), device="meta")
    assert after_alarm(robust, probs, tokens).device == tokens.device


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


def test_a_hand_made_batch_to_distil(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows by part: half from the source, then other worlds, then the pool; the base is asked as training says."""
    T = 32
    source, base = lr.evaluate.sources.paper_sources(T)["b"], Transformer(Decoder(2, SMALL, seed=1))
    monkeypatch.setattr(data, "other_worlds", lambda source, n, horizon, random: torch.zeros((n, horizon)).long())
    task = Distil(source, robust_with_urn(base, lr.matching(), T))
    plain = task.batch(7, slice(None), T, data.generator("cpu", 0), None)
    assert plain.tokens_BxT.sum(-1).tolist()[4:] == [0, 0, 0]  # nothing was played yet
    assert torch.equal(plain.tokens_BxT[:4], data.sequences(source, 4, T, data.generator("cpu", 0)))
    task.played_NxT = torch.ones((5, T), dtype=torch.int64)
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


def test_worlds_end_at_home_for_what_can_return_only(monkeypatch: pytest.MonkeyPatch) -> None:
    T = 32
    source = lr.evaluate.sources.paper_sources(T)["b"]
    monkeypatch.setattr(data, "back_home", lambda away, home, random: torch.ones_like(away))
    for task, ends in ((returning(source, source), True), (tasks("distil"), False)):
        tokens = task.batch(8, slice(None), T, data.generator("cpu", 0), None).tokens_BxT
        assert bool((tokens[4:] == 1).all()) == ends


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


def test_the_pool_keeps_the_latest_and_is_played_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def roll(decoder: Decoder, n: int, horizon: int, choose: object) -> torch.Tensor:
        calls.append(n)
        return torch.full((n, horizon), len(calls) % 2)

    monkeypatch.setattr(data, "roll", roll)
    task, decoder = tasks("distil"), Decoder(2, SMALL)  # every 3 steps 4 sequences, of which 6 are kept
    played = []
    for step in range(8):
        task.before(step, decoder, TrainingSettings(size=SMALL))
        played.append(len(calls))
    assert played == [1, 1, 1, 2, 2, 2, 3, 3]
    assert calls == [4, 4, 4]
    assert task.played_NxT[:, 0].tolist() == [0, 0, 1, 1, 1, 1]


def test_which_steps_can_be_replayed() -> None:
    source, base = lr.evaluate.sources.paper_sources(32)["b"], Transformer(Decoder(2, SMALL))
    robust = robust_with_urn(base, lr.matching(), 32)
    for task in (Imitate(source), Imitate(lr.PolyaUrn(3), soft=True), Masked(source, robust)):
        assert task.replayable
    for task in (
        Imitate(lr.PolyaUrn(2, 0.5)),
        Imitate(lr.Markov([[0.5, 0.5], [0.2, 0.8]], window=1)),
        Imitate(Recording.of([[0, 1, 1, 0, 1] * 20] * 3)),
        Masked(source, robust_with_urn(source, lr.matching(), 32)),
        Masked(source, lr.robustify(base, lr.matching(), test=lr.ExactTest(horizon=32), fallback=source)),
        Distil(source, robust),
    ):
        assert not task.replayable
