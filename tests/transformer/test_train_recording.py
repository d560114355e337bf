"""Trained on a recording: what is learnt, what counts, runs that go on."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.transformer import (
    DECAYING,
    Decoder,
    Distil,
    Imitate,
    Masked,
    Recording,
    Size,
    TrainingSettings,
    Transformer,
    data,
    train,
)
from lowregret.transformer.held_out import Compared, compared, measured
from lowregret.transformer.tasks import Batch, after_alarm, loss_of

from .test_tasks import robust_with_urn

SMALL = Size(8, 16, 2, 1, 16)
STICKY = np.array([[0.9, 0.1], [0.3, 0.7]])
FLOAT32 = (torch.float32, torch.float32)
RAGGED = [[0, 1, 1], [1, 0, 0, 1, 1, 0, 1, 0, 0, 1], [0, 1], [1] * 9 + [0]]


# What is learnt


def test_a_chain_is_learnt_from_its_recording(tmp_path: Path) -> None:
    """Held-out log-loss beside the chain's own, in closed form: H(pi) for the first step of a window, then h."""
    tokens = lr.sample(lr.Markov(STICKY, window=1), horizon=200, n=60, seed=3)
    task = Imitate(Recording.of(tokens, held_out=0.5))
    settings = TrainingSettings(size=SMALL, steps=150, batch=32, optimiser=DECAYING)
    model = train(task, tmp_path / "m.safetensors", settings)
    found = measured(task.source, model)
    pi = np.array([0.75, 0.25])
    first, rate = -(pi @ np.log(pi)), -(pi @ (STICKY * np.log(STICKY)).sum(1))
    exact = (first + 7 * rate) / 8
    held = tokens[30:].reshape(-1, 8)
    own = -(np.log(pi[held[:, 0]]) + np.log(STICKY[held[:, :-1], held[:, 1:]]).sum(1)) / 8
    # Means over 30 independent sequences, two-sided at 1e-6.
    spread = 4.9 * own.reshape(30, 25).mean(1).std(ddof=1) / math.sqrt(30)
    assert abs(own.mean() - exact) < spread
    assert abs(found.model - own.mean()) < 0.01  # on the same tokens: how far the law learnt is from the chain's
    assert abs(found.model - exact) < 0.01 + spread
    assert found.model < found.frequencies - 0.1


def test_every_token_held_out_counts_once_whatever_the_lengths() -> None:
    """By a loop over windows of 8 steps, the last of a sequence as long as it is."""
    model = Transformer(Decoder(2, SMALL, seed=1))
    rows = [*RAGGED * 3, [1, 0, 0] * 7]  # 13, of which 0.25 are three: 2, 10 and 21 long
    found = measured(Recording.of(rows, held_out=0.25), model)
    windows = [row[begin : begin + 8] for row in rows[-3:] for begin in range(0, len(row), 8)]
    counts = np.bincount(np.concatenate(rows[:-3])) + 1
    for told, laws in (
        (found.model, model.predict_sequence),
        (found.urn, lr.PolyaUrn(2).predict_sequence),
        (found.frequencies, lambda window: np.tile(counts / counts.sum(), (len(window), 1))),
    ):
        lost = [-math.log(laws(window)[t, token]) for window in windows for t, token in enumerate(window)]
        assert len(lost) == found.tokens == 33
        assert told == pytest.approx(np.mean(lost), rel=1e-6)


# What counts


def test_nothing_after_the_end_of_a_sequence_counts() -> None:
    """The loss is the mean over recorded steps, by a loop; what comes after an end changes nothing."""
    decoder = Decoder(2, SMALL, seed=1)
    batch = Imitate(Recording.of(RAGGED, held_out=0)).batch(40, slice(None), 8, data.generator("cpu", 2), None)
    assert batch.weights_BxT is not None
    total, count = loss_of(decoder, batch, FLOAT32, None)
    laws = Transformer(decoder).predict_sequence(batch.tokens_BxT)
    lengths = batch.weights_BxT.sum(-1).long().tolist()
    assert set(lengths) == {2, 3, 8}
    by_hand = sum(-math.log(laws[b, t, batch.tokens_BxT[b, t]]) for b, n in enumerate(lengths) for t in range(n))
    assert (total.item(), count.item()) == (pytest.approx(by_hand, rel=1e-5), sum(lengths))
    other = torch.where(batch.weights_BxT > 0, batch.tokens_BxT, 1 - batch.tokens_BxT)
    again = loss_of(decoder, Batch(other, None, batch.weights_BxT), FLOAT32, None)
    assert again[0].item() == pytest.approx(total.item(), rel=1e-6)
    gradients = [torch.autograd.grad(loss, list(decoder.parameters())) for loss in (total, again[0])]
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [Masked, Distil])
def test_robust_tasks_take_recordings(kind: Any) -> None:
    """The first half of a batch are windows, as far as they go; what is to be learnt there is Algorithm 1's."""
    recording, base = Recording.of(RAGGED, held_out=0), Transformer(Decoder(2, SMALL, seed=1))
    robust = robust_with_urn(base, lr.matching(), 8, delta=0.9)
    batch = kind(recording, robust).batch(24, slice(None), 8, data.generator("cpu", 0), None)
    windows = recording.windows(12, 8, data.generator("cpu", 0))
    assert torch.equal(batch.tokens_BxT[:12], windows.tokens_NxT)
    assert torch.equal(batch.weights_BxT[:12], windows.own_NxT)
    assert not windows.own_NxT.bool().all()
    if kind is Distil:
        assert batch.weights_BxT[12:].bool().all()
        expected = robust.predict_sequence(batch.tokens_BxT)
        torch.testing.assert_close(batch.targets_BxTxS, expected, atol=1e-6, rtol=0)
    else:
        late = after_alarm(robust, base.predict_sequence(batch.tokens_BxT[12:]), batch.tokens_BxT[12:])
        assert torch.equal(batch.weights_BxT[12:], late.float())
    with pytest.raises(ValueError, match="source must have the problem's 3 states"):
        kind(recording, robust_with_urn(Transformer(Decoder(3, SMALL)), lr.matching(3), 8))


def test_a_student_is_compared_on_what_was_held_out() -> None:
    base = Transformer(Decoder(2, SMALL, seed=1))
    rows = np.zeros((20, 8), dtype=np.int64)
    rows[18:] = 1  # only what is held out has ones
    task = Distil(Recording.of(rows, n_states=2), robust_with_urn(base, lr.matching(), 8))
    seen: list[torch.Tensor] = []

    def laws(tokens: torch.Tensor) -> torch.Tensor:
        seen.append(tokens)
        return Transformer.probs_on_device(base, tokens)

    spied = Transformer(base.decoder)
    object.__setattr__(spied, "probs_on_device", laws)
    object.__setattr__(task.robust, "base", spied)
    found = compared(task, base, TrainingSettings(size=SMALL, steps=2))
    assert isinstance(found, Compared)
    assert found.student == found.base
    assert seen[0][:32].bool().all()


def test_divergences_are_from_algorithm_1() -> None:
    """By hand: the mean divergence of the base's laws and responses from the robust ones, on the same sequences."""
    coin, T = lr.matching(), 16
    base = Transformer(Decoder(2, Size(16, 16, 2, 1, 16), seed=1))
    safe = lr.robustify(base, coin, test=lr.ExactTest(0.5, T), fallback=lr.PolyaUrn(2))
    task = Distil(lr.evaluate.sources.paper_sources(T)["b"], safe, response_weight=0.5)
    settings = TrainingSettings(size=(16, 16, 2, 1, 16), steps=2, batch=2)
    tokens = task.batch(64, slice(None), T, data.generator("cpu", 0, 2, 2), base.probs_on_device).tokens_BxT.numpy()
    laws, robust = base.predict_sequence(tokens), safe.predict_sequence(tokens)

    def divergence(p: Any, q: Any) -> float:
        return float((p * np.log(p / q)).sum(-1).mean())

    played, wanted = (coin.quantal_response(law.astype(float), safe.temperature) for law in (laws, robust))
    expected = divergence(robust, laws) + 0.5 * divergence(wanted, played)
    assert expected > 1e-3
    assert compared(task, base, settings).base == pytest.approx(expected, rel=1e-3)
