"""Predictors against closed forms, samples against the laws they claim to come from."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.evaluate.adversaries import all_sequences

from ..conftest import extra, random_markov

torch = extra("torch")


def sequence_probability(predictor: lr.Predictor, tokens: np.ndarray) -> np.ndarray:
    probs = predictor.predict_sequence(tokens)
    return np.take_along_axis(probs, tokens[..., None], -1)[..., 0].prod(-1)


@pytest.mark.parametrize(("n_states", "prior"), [(2, 1.0), (3, 1.0), (3, 0.5), (4, 2.0)])
def test_the_urn_is_a_dirichlet_mixture(n_states: int, prior: float) -> None:
    """The closed form: drawing the bias once from the Dirichlet and the tokens independently."""
    tokens = all_sequences(n_states, 5)
    for row, probability in zip(tokens, sequence_probability(lr.PolyaUrn(n_states, prior), tokens), strict=True):
        counts = Counter(row.tolist())
        log = math.lgamma(n_states * prior) - math.lgamma(5 + n_states * prior)
        log += sum(math.lgamma(c + prior) - math.lgamma(prior) for c in counts.values())
        assert probability == pytest.approx(math.exp(log), rel=1e-12)


@pytest.mark.parametrize("window", [0, 1, 2, 3])
def test_markov_looks_its_context_up(window: int) -> None:
    rng = np.random.default_rng(window)
    table = rng.dirichlet(np.ones(3), (3,) * window)
    model = lr.Markov(table, window, initial=[0.2, 0.3, 0.5])
    tokens = rng.integers(3, size=20)
    probs = model.predict_sequence(tokens)
    for t in range(20):
        expected = table[tuple(tokens[t - window : t])] if t >= window else [0.2, 0.3, 0.5]
        np.testing.assert_array_equal(probs[t], expected)


@pytest.mark.parametrize("seed", range(6))
def test_samples_have_the_law_of_the_predictor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_markov(rng, 3) if seed % 2 else lr.PolyaUrn(3)
    tokens = all_sequences(3, 3)
    expected = sequence_probability(model, tokens)
    assert expected.sum() == pytest.approx(1)
    drawn = lr.sample(model, 3, 20_000, seed=seed)
    codes = drawn @ [9, 3, 1]
    observed = np.bincount(codes, minlength=27)
    common = expected * 20_000 > 5
    table = np.append(observed[common], observed[~common].sum())
    law = np.append(expected[common], expected[~common].sum())
    keep = law > 0
    assert stats.chisquare(table[keep], law[keep] / law[keep].sum() * table[keep].sum()).pvalue > 1e-4


class Deaf(lr.PolyaUrn):
    """Goes by no ``like``, but by a kind of its own."""

    kind: Any = None

    def start(self, batch_shape: Any = (), like: Any = None) -> Any:
        return super().start(batch_shape, like=self.kind)


class DeafInTorch(Deaf):
    kind = torch.zeros(())


def test_samples_are_seeded_and_the_same_in_the_kind_of_array_that_is_asked_for() -> None:
    expected = lr.sample(lr.PolyaUrn(3), 30, 50, seed=3)
    assert expected.shape == (50, 30)
    np.testing.assert_array_equal(expected, lr.sample(lr.PolyaUrn(3), 30, 50, seed=np.random.default_rng(3)))
    assert not np.array_equal(expected, lr.sample(lr.PolyaUrn(3), 30, 50, seed=4))
    for urn, like in ((lr.PolyaUrn, torch.zeros(())), (Deaf, torch.zeros(())), (DeafInTorch, None)):
        drawn = lr.sample(urn(3), 30, 50, seed=3, like=like)
        assert isinstance(drawn, torch.Tensor)
        assert drawn.dtype == torch.int64
        np.testing.assert_array_equal(expected, drawn.numpy())


def test_a_state_of_probability_zero_is_never_drawn() -> None:
    for law in ([0.0, 0.3, 0.7, 0.0], [0.3, 0.0, 0.0, 0.7], [0.1, 0.2, 0.7, 0.0]):
        drawn = lr.sample(lr.predictors.Scheduled([law]), 50, 2000, seed=0)
        assert set(np.unique(drawn)) == {s for s, p in enumerate(law) if p > 0}


def test_the_eight_sources() -> None:
    sources = lr.evaluate.sources.paper_sources(1024)
    assert list(sources) == ["a", "b", "c", "d", "sin2", "sin5", "sin10", "sin20"]
    ones = {name: source.predict_sequence(np.zeros(1024, dtype=int))[:, 1] for name, source in sources.items()}
    assert ones["a"][[0, 511, 512, 1023]] == pytest.approx([2 / 3, 2 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(ones["a"], 1 - ones["b"])
    for n in (2, 5, 10, 20):
        for t in (1, 7, 500, 1024):
            expected = abs(math.sin(math.pi / 6 + t * math.pi / (1024 / n)))
            assert ones[f"sin{n}"][t - 1] == pytest.approx(expected, abs=1e-12)
