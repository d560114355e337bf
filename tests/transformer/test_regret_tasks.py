"""Regret as the loss, by hand and by finite differences; the samples with least regret, by brute force."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.transformer import DECAYING, Decoder, Size, TrainingSettings, Transformer, data, train
from lowregret.transformer.regret_tasks import ImitateLeast, RegretLoss, least, noisy, regrets
from lowregret.transformer.tasks import Batch, ResponseLoss, Scaled

T = 16
SMALL = Size(T, 16, 2, 1, 32)
COIN, RAIN = lr.matching(), lr.cost_loss(cost=1, loss=4)
SOURCES = lr.sources.paper_sources(T)


def by_hand(laws_NxTxS: np.ndarray, tokens_NxT: np.ndarray, problem: lr.DecisionProblem, temperature: float) -> list:
    """The average regret of each sequence, a loop a step."""
    found = []
    for laws_TxS, tokens_T in zip(laws_NxTxS, tokens_NxT, strict=True):
        earned, fixed_A = 0.0, np.zeros(problem.n_actions)
        for law_S, state in zip(laws_TxS, tokens_T, strict=True):
            weights_A = np.exp(problem.utility @ law_S / temperature)
            earned += weights_A @ problem.utility[:, state] / weights_A.sum()
            fixed_A += problem.utility[:, state]
        found.append((fixed_A.max() - earned) / len(tokens_T))
    return found


def loss_by_hand(logits: np.ndarray, tokens: np.ndarray, task: RegretLoss) -> float:
    laws = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    regret = by_hand(laws, tokens, task.problem, task.temperature)
    groups, total = len(tokens) // task.worlds, 0.0
    for g in range(groups):
        scaled = [regret[w * groups + g] / task.temperature for w in range(task.worlds)]
        weights = [math.exp(task.sharpness * x) for x in scaled]
        total += sum(f * math.log1p(math.exp(x)) for f, x in zip(weights, scaled, strict=True)) / sum(weights)
        chances = [laws[g, t, tokens[g, t]] for t in range(tokens.shape[1])]
        total -= task.imitation * sum(map(math.log, chances)) / len(chances)
    return total


@pytest.mark.parametrize("imitation", [0.0, 0.7])
def test_the_loss_and_its_gradient(imitation: float) -> None:
    rng = np.random.default_rng(0)
    task = RegretLoss(lr.PolyaUrn(2), RAIN, temperature=0.3, worlds=2, sharpness=3.0, imitation=imitation)
    tokens, logits = rng.integers(2, size=(4, 3)), rng.normal(size=(4, 3, 2))
    leaf = torch.tensor(logits, requires_grad=True)
    stakes = Scaled(torch.tensor(RAIN.utility.T / 0.3), imitation)
    found = task.loss(lambda *_: leaf, Batch(torch.tensor(tokens)), (torch.float64, torch.float64), stakes)
    assert found.tolist() == pytest.approx([loss_by_hand(logits, tokens, task), 2], rel=1e-12)
    found[0].backward()
    assert leaf.grad is not None
    for place in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[place] = 1e-5
        slope = (loss_by_hand(logits + step, tokens, task) - loss_by_hand(logits - step, tokens, task)) / 2e-5
        assert float(leaf.grad[place]) == pytest.approx(slope, abs=1e-8)


def test_regret_is_that_of_the_library() -> None:
    rng = np.random.default_rng(1)
    game = lr.rock_paper_scissors()
    laws, tokens = rng.dirichlet(np.ones(3), size=(5, 7)), rng.integers(3, size=(5, 7))
    found = regrets(torch.tensor(laws), torch.tensor(tokens), Scaled(torch.tensor(game.utility.T / 0.2), 0.0))
    np.testing.assert_allclose(found.numpy() * 0.2, by_hand(laws, tokens, game, 0.2), atol=1e-12)
    urn = lr.PolyaUrn(3)
    expected = lr.external_regret(game, lr.policies.Respond(urn, game, 0.2), tokens)[..., -1]
    own = torch.tensor(urn.predict_sequence(tokens))
    found = regrets(own, torch.tensor(tokens), Scaled(torch.tensor(game.utility.T / 0.2), 0.0))
    np.testing.assert_allclose(found.numpy() * 0.2, expected, atol=1e-12)


def test_processes_share_whole_groups() -> None:
    task = RegretLoss(SOURCES["b"], COIN, 0.25, worlds=3)

    def drawn(rows: slice) -> np.ndarray:
        tokens = task.batch(9, rows, T, data.generator("cpu", 5), None).tokens_BxT
        return tokens.view(3, -1, T).numpy()

    whole = drawn(slice(None))
    assert whole.shape == (3, 3, T)
    for rank in range(2):
        np.testing.assert_array_equal(drawn(slice(rank, None, 2)), whole[:, rank::2])
    home = data.sequences(SOURCES["b"], 3, T, data.generator("cpu", 5))
    np.testing.assert_array_equal(whole[0], home.numpy())
    for n, rows in ((10, slice(None)), (3, slice(1, None, 2))):
        with pytest.raises(ValueError, match=f"batch must be groups of 3 sequences, one a process at least, got {n}"):
            task.batch(n, rows, T, data.generator("cpu", 5), None)


def test_the_least_of_each_sequence_are_kept() -> None:
    rng = np.random.default_rng(2)
    laws, tokens = rng.dirichlet(np.ones(2), size=(6, 5, 4)), rng.integers(2, size=(5, 4))
    scaled = Scaled(torch.tensor(RAIN.utility.T / 0.5), 0.0)
    kept_tokens, kept_laws = least(torch.tensor(laws), torch.tensor(tokens), scaled, keep=2)
    regret_LxN = np.array([by_hand(one, tokens, RAIN, 0.5) for one in laws])
    for i in range(5):
        order = sorted(range(6), key=lambda s, i=i: regret_LxN[s, i])
        for rank in range(2):
            np.testing.assert_array_equal(kept_tokens[rank * 5 + i], tokens[i])
            np.testing.assert_array_equal(kept_laws[rank * 5 + i], laws[order[rank], i])


def test_noise_moves_whole_stretches() -> None:
    logits = torch.randn((40, 30, 2), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    laws = noisy(logits, samples=5, noise=0.5, random=data.generator("cpu", 3)).double()
    assert laws.shape == (5, 40, 30, 2)
    torch.testing.assert_close(laws[0], torch.softmax(logits, -1))
    moves = laws[..., 1].logit() - torch.softmax(logits, -1)[..., 1].logit()
    changes = (moves[1:].diff(dim=-1).abs() > 1e-5).sum(-1)
    assert 1 <= int(changes.max()) <= 5
    assert float(moves[1:, :, 0].std()) == pytest.approx(0.5 * math.sqrt(2), rel=0.2)


def task_named(kind: str) -> RegretLoss | ImitateLeast:
    warmth = 1 / math.sqrt(T)
    if kind == "regret":
        return RegretLoss(SOURCES["b"], COIN, warmth, worlds=4)
    return ImitateLeast(SOURCES["b"], COIN, warmth, count=32, every=5, noise=1.0)


def test_rounds_keep_what_had_less_regret_than_oneself() -> None:
    task, decoder = task_named("least"), Decoder(2, SMALL, seed=1)
    assert isinstance(task, ImitateLeast)
    with torch.no_grad():
        task.before(0, decoder, seed=7)
        assert task.tokens_NxT is not None
        assert task.laws_NxTxS is not None
        own = torch.softmax(decoder(task.tokens_NxT), -1)
    scaled = Scaled.of(ResponseLoss(COIN, task.temperature, 0.0), torch.device("cpu"))
    assert scaled is not None
    gain = regrets(own, task.tokens_NxT, scaled) - regrets(task.laws_NxTxS, task.tokens_NxT, scaled)
    assert bool((gain >= -1e-6).all())
    assert float((gain > 0.01).float().mean()) > 0.9
    first, again = task.tokens_NxT, task_named("least")
    again.restore(task.state())
    drawn = [t.batch(6, slice(1, None, 2), T, data.generator("cpu", 1), None) for t in (task, again)]
    assert torch.equal(drawn[0].tokens_BxT, drawn[1].tokens_BxT)
    assert drawn[0].targets_BxTxS is not None
    assert drawn[1].targets_BxTxS is not None
    assert torch.equal(drawn[0].targets_BxTxS, drawn[1].targets_BxTxS)
    assert drawn[0].tokens_BxT.shape == (3, T)
    for step, same in ((4, True), (5, False)):
        task.before(step, decoder, seed=7)
        assert torch.equal(task.tokens_NxT, first) == same


@pytest.mark.parametrize("kind", ["regret", "least"])
def test_training_lowers_regret(kind: str, tmp_path: Path) -> None:
    settings = TrainingSettings(SMALL, steps=150, batch=32, optimiser=replace(DECAYING, peak=5e-3, warmup=5))
    trained = train(task_named(kind), tmp_path / "m.safetensors", settings)
    players = {"before": Transformer(Decoder(2, SMALL, settings.seed)), "after": trained}
    worlds = {f"{chance}": lr.predictors.Scheduled([[1 - chance, chance]]) for chance in (0.1, 0.9)}
    found = lr.compare(players, worlds, COIN, T, 200, seed=1)
    before, after = ([cell.regret for cell in found.cells if cell.predictor == who] for who in players)
    assert sum(regret.high for regret in after) < sum(regret.low for regret in before) - 0.1


def test_refusals() -> None:
    recording = lr.transformer.Recording.of([[0, 1] * 10])
    made = {RegretLoss: {"worlds": 1, "sharpness": 0.0, "imitation": -1.0}, ImitateLeast: {"noise": 0.0, "keep": 17}}
    for kind, wrong in made.items():
        with pytest.raises(ValueError, match="source must be a Predictor"):
            kind(recording, COIN, 0.25)
        with pytest.raises(ValueError, match="temperature"):
            kind(SOURCES["b"], COIN, 0.0)
        with pytest.raises(ValueError, match="states"):
            kind(lr.PolyaUrn(3), COIN, 0.25)
        for name, value in wrong.items():
            with pytest.raises(ValueError, match=name):
                kind(SOURCES["b"], COIN, 0.25, **{name: value})
    task, laws = task_named("least"), torch.full((2, T, 2), 0.5)
    for tokens in (torch.full((2, T), 2), torch.zeros((2, T)), torch.zeros((3, T), dtype=torch.int64)):
        with pytest.raises(ValueError, match="tokens"):
            task.restore({"tokens": tokens, "laws": laws})
