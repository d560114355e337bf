"""The Bayesian mixture against the marginal likelihood of every sequence; and the sequence that ruins it."""

import importlib
import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import checks
from lowregret.evaluate.adversaries import all_sequences

from ..conftest import extra, random_markov

torch = extra("torch")

SURE = lr.predictors.Scheduled([[0.9, 0.1]])
NEVER_ONE, NEVER_ZERO = lr.predictors.Scheduled([[1.0, 0.0]]), lr.predictors.Scheduled([[0.0, 1.0]])


def chance(predictor: lr.Predictor, tokens_NxT: np.ndarray) -> np.ndarray:
    """The probability of each whole sequence."""
    laws = predictor.predict_sequence(tokens_NxT)
    return np.take_along_axis(laws, tokens_NxT[..., None], -1)[..., 0].prod(-1)


@pytest.mark.parametrize("seed", range(8))
def test_a_sequence_is_as_likely_as_the_predictors_make_it_on_average(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S = 2 + seed % 2
    first, second, drifts = random_markov(rng, S), random_markov(rng, S), rng.dirichlet(np.ones(S), 4)
    parts = [first, lr.PolyaUrn(S), second, lr.predictors.Scheduled(drifts)]
    weights = None if seed < 2 else rng.dirichlet(np.ones(4))
    tokens = all_sequences(S, 8 if S == 2 else 5)
    mixture = lr.Mixture(parts, weights)
    shares = np.full(4, 0.25) if weights is None else weights
    expected = sum(w * chance(part, tokens) for w, part in zip(shares, parts, strict=True))
    np.testing.assert_allclose(chance(mixture, tokens), expected, rtol=1e-11)
    assert chance(mixture, tokens).sum() == pytest.approx(1)
    memory = mixture.start((len(tokens),))
    for t in range(tokens.shape[1]):
        memory = mixture.update(memory, tokens[:, t])
    each = np.stack([w * chance(part, tokens) for w, part in zip(shares, parts, strict=True)], -1)
    np.testing.assert_allclose(mixture.shares(memory), each / each.sum(-1, keepdims=True), rtol=1e-10, atol=1e-300)


def test_its_log_loss_is_near_the_best_beyond_all_floats() -> None:
    """After 20,000 steps each sequence has a probability that no float holds."""
    rng = np.random.default_rng(0)
    T, weights = 20_000, np.array([0.7, 0.3 - 1e-9, 1e-9])
    coins = [lr.predictors.Scheduled([[0.8, 0.2]]), lr.predictors.Scheduled([[0.3, 0.7]])]
    parts = [*coins, lr.Markov([[0.1, 0.9], [0.6, 0.4]], 1)]
    tokens = rng.random((3, T)) < np.array([0.2, 0.7, 0.55])[:, None]
    tokens = tokens.astype(np.int64)

    def losses(predictor: lr.Predictor) -> np.ndarray:
        return -np.log(np.take_along_axis(predictor.predict_sequence(tokens), tokens[..., None], -1)[..., 0]).sum(-1)

    each = np.stack([losses(part) for part in parts])
    own = losses(lr.Mixture(parts, weights))
    assert (own <= (each - np.log(weights)[:, None]).min(0) + 1e-7).all()
    assert (own >= each.min(0) - 1e-7).all(), "an average is never more likely than the most likely"
    assert each.min() > 8000


KINDS = {
    "two": lr.Mixture([SURE, lr.PolyaUrn(2)], [0.99, 0.01]),
    "three states": lr.Mixture([lr.Markov(np.eye(3) * 0.97 + 0.01, 1), lr.PolyaUrn(3), lr.PolyaUrn(3, 0.25)]),
    "alone": lr.Mixture([lr.PolyaUrn(2)]),
    "one state": lr.Mixture([lr.PolyaUrn(1), lr.PolyaUrn(1, 2.0)]),
    "some exclude": lr.Mixture(
        [lr.predictors.Scheduled([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), lr.PolyaUrn(2)], [0.9, 0.1]
    ),
    "all exclude": lr.Mixture(
        [lr.predictors.Scheduled([[0.5, 0.5], [1.0, 0.0]]), lr.predictors.Scheduled([[0.5, 0.5], [0.9, 0.1], [1, 0]])]
    ),
    "nested": lr.Mixture([lr.Mixture([SURE, lr.PolyaUrn(2)]), lr.robustify(SURE, lr.matching(), 20)]),
}


@pytest.mark.parametrize("name", KINDS)
def test_it_keeps_the_laws(name: str) -> None:
    assert len(checks.check_predictor(KINDS[name], tolerance=1e-12)) == len(checks.LAWS)


def test_who_excludes_what_comes_is_not_heard_again() -> None:
    mixture = lr.Mixture([NEVER_ONE, lr.PolyaUrn(2), SURE], [0.98, 0.01, 0.01])
    tokens = np.array([0, 1, 0, 0, 0])
    without = lr.Mixture([lr.PolyaUrn(2), SURE])
    np.testing.assert_allclose(
        mixture.predict_sequence(tokens)[2:], without.predict_sequence(tokens)[2:], rtol=1e-12, atol=0
    )


def test_what_everyone_excluded_changes_no_weights() -> None:
    mixture = lr.Mixture([NEVER_ONE, NEVER_ZERO, lr.predictors.Scheduled([[0.6, 0.4], [0.6, 0.4], [1.0, 0.0]])])
    memory = mixture.start()
    for token, expected in ((0, [0.625, 0, 0.375]), (0, [25 / 34, 0, 9 / 34]), (1, [25 / 34, 0, 9 / 34])):
        memory = mixture.update(memory, token)
        np.testing.assert_allclose(mixture.shares(memory), expected, rtol=1e-12)
    np.testing.assert_allclose(mixture.predict_sequence([0, 0, 1, 0])[-1], [1, 0])


@pytest.mark.needs("torch")
def test_a_torch_model_may_stand_anywhere_among_them() -> None:
    transformer = importlib.import_module("lowregret.transformer")
    size = transformer.Size(context=9, width=24, heads=3, layers=1, inner=24)
    model = transformer.Transformer(transformer.Decoder(2, size, seed=1))
    tokens = np.random.default_rng(0).integers(2, size=(3, 8))
    for parts in ([model, lr.PolyaUrn(2)], [lr.PolyaUrn(2), model]):
        mixture = lr.Mixture(parts)
        laws, memory = mixture.predict_sequence(tokens), mixture.start((3,))
        for t in range(8):
            law = mixture.predict(memory)
            assert isinstance(law, torch.Tensor)
            np.testing.assert_allclose(law.numpy(), laws[:, t], atol=1e-6)
            memory = mixture.update(memory, tokens[:, t])
        assert mixture.context == 9
        with pytest.raises(ValueError, match="context"):
            lr.sample(mixture, 10, 1, seed=0)
    assert lr.Mixture([SURE]).context is None


class Wrong(lr.PolyaUrn):
    """Its laws have sum 1.1."""

    def predict(self, memory: Any) -> Any:
        return super().predict(memory) * 1.1

    def laws(self, tokens: Any) -> Any:
        return super().laws(tokens) * 1.1


def test_each_predictor_is_checked() -> None:
    with pytest.raises(ValueError, match="probabilities of Wrong must sum to one"):
        lr.Mixture([lr.PolyaUrn(2), Wrong(2)]).start()
    with pytest.raises(ValueError, match="Wrong"):
        lr.Mixture([lr.PolyaUrn(2), Wrong(2)]).predict_sequence([0, 1])


# Why it is no answer


def ruin(horizon: int) -> tuple[lr.predictors.Scheduled, np.ndarray]:
    """A model and the states that come: sure and right every third step, otherwise a little wrong.

    The states have period 6 and are balanced, so an urn pays ln 2 a step in log loss; the model pays 2/3 ln(1/.4) +
    1/3 ln(1/.99), less, and keeps all the weight. It guesses right one time in three, a fixed guess one in two.
    """
    states = np.resize([1, 0, 1, 0, 1, 0], horizon)
    says = np.where(np.arange(horizon) % 3 == 2, 0.99, 0.4)  # of the state that comes
    return lr.predictors.Scheduled(np.where(states[:, None] == np.arange(2), says[:, None], 1 - says[:, None])), states


def test_the_sequence_that_ruins_it() -> None:
    coin, regrets = lr.matching(), []
    for T in (600, 2400):
        model, states = ruin(T)
        mixture = lr.Mixture([model, lr.PolyaUrn(2)], [1 - 1 / T, 1 / T])
        memory = mixture.start()
        for state in states[:60]:
            memory = mixture.update(memory, state)
        assert mixture.shares(memory)[1] < 1 / T, "the urn has less weight than at first"
        eta = T**-0.5
        regrets.append(lr.external_regret(coin, lr.policies.Respond(mixture, coin, eta), states)[-1])
        safe = lr.robustify(model, coin, T)
        guarded = lr.external_regret(coin, safe.respond(), states)[-1]
        assert guarded <= min(safe.certificate.regret_bound, 0.45 * regrets[-1])
    assert min(regrets) > 0.15, "linear: a sixth a step however long it lasts"
    assert regrets[1] > regrets[0] - 0.005
    assert regrets[1] == pytest.approx(1 / 6, abs=0.01)
    assert 2 / 3 * math.log(1 / 0.4) + math.log(1 / 0.99) / 3 < math.log(2)
