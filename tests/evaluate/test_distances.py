"""Distances: against closed forms and brute force, and how often the intervals hold what they should."""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.evaluate import distances
from lowregret.evaluate.distances import Estimate, bounded_mean, exact_sequence_tv

from ..conftest import extra, random_markov, with_urn

torch = extra("torch")

COIN = lr.matching()
ESTIMATORS = ["symmetric", "one-sided"]


def ber(one: float) -> lr.predictors.Scheduled:
    return lr.predictors.Scheduled([[1 - one, one]])


def stuck(escape: float) -> lr.Markov:
    """All zeros, from which it escapes now and then."""
    return lr.Markov([[1 - escape, escape], [0.5, 0.5]], 1, initial=[1, 0])


def robust(horizon: int, **settings: Any) -> tuple[lr.Predictor, lr.robust.Robust]:
    base = lr.evaluate.sources.paper_sources(horizon)["b"]
    return base, lr.robust.Robust(base, with_urn(COIN, horizon, **settings), COIN)


class TorchBer(lr.Predictor):
    """Independent bits as a torch model would have them: single precision, torch tensors only."""

    n_states = 2

    def __init__(self, one: float, dtype: Any = None) -> None:
        self.law = torch.tensor([1 - one, one], dtype=dtype or torch.float32)

    def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> Any:
        return torch.zeros(batch_shape, dtype=torch.int64)

    def predict(self, memory: Any) -> Any:
        return self.law.expand(*memory.shape, 2)

    def update(self, memory: Any, token: Any) -> Any:
        assert isinstance(token, torch.Tensor)
        return memory + 1

    def predict_sequence(self, tokens: Any) -> Any:
        assert isinstance(tokens, torch.Tensor)
        return self.law.expand(*tokens.shape, 2)


# Exact values


@pytest.mark.parametrize("seed", range(6))
def test_exact_tv_by_brute_force(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    n_states, horizon = int(rng.integers(2, 5)), 4
    p, q = random_markov(rng, n_states), lr.PolyaUrn(n_states, prior=0.5)
    monkeypatch.setattr(distances, "_LAWS_AT_ONCE", 200)  # several batches
    apart = 0.0
    for sequence in itertools.product(range(n_states), repeat=horizon):
        chances = []
        for predictor in (p, q):
            stream, chance = lr.predictors.Stream(predictor), 1.0
            for token in sequence:
                chance *= float(stream.predict()[token])
                stream.update(token)
            chances.append(chance)
        apart += abs(chances[0] - chances[1]) / 2
    assert exact_sequence_tv(p, q, horizon) == pytest.approx(apart, abs=1e-12)


def test_exact_tv_says_how_far_it_goes() -> None:
    with pytest.raises(ValueError, match="horizon must be at most 20 with 2 states"):
        exact_sequence_tv(ber(0.3), ber(0.4), 21)
    assert exact_sequence_tv(lr.PolyaUrn(1), lr.predictors.Scheduled([[1.0]]), 1000) == 0


# The estimators and their intervals


class Regime(NamedTuple):
    p: lr.Predictor
    q: lr.Predictor
    horizon: int


REGIMES = {
    "tiny": Regime(ber(0.3), ber(0.3005), 8),
    "medium": Regime(ber(0.3), ber(0.5), 8),
    "urn": Regime(ber(0.3), lr.PolyaUrn(2), 8),
    "near one": Regime(ber(0.15), ber(0.85), 8),
    "rare": Regime(stuck(0.002), stuck(0.0), 8),
    "robust": Regime(*robust(12, delta=0.1), 12),
    "three states": Regime(lr.predictors.Scheduled([[0.2, 0.3, 0.5]]), lr.PolyaUrn(3), 5),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", REGIMES)
def test_intervals_hold_the_exact_value(name: str, estimator: str) -> None:
    """In 93 of 100 repetitions or more (binomial judgement), and the estimator is unbiased."""
    p, q, horizon = REGIMES[name]
    exact, times = exact_sequence_tv(p, q, horizon), 60
    found = [lr.sequence_tv(p, q, horizon, 100, seed, estimator) for seed in range(times)]
    assert all(0 <= e.low <= e.value <= e.high <= 1 for e in found)
    held = sum(e.low <= exact + 1e-12 and exact - 1e-12 <= e.high for e in found)
    assert held >= stats.binom.ppf(1e-4, times, 0.93)
    values = np.array([e.value for e in found])
    assert abs(values.mean() - exact) <= 4 * values.std() / math.sqrt(times) + 1e-12


@pytest.mark.parametrize("n", [1, 10, 300])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_bounded_mean_of_bits_is_clopper_and_pearson(n: int, share: float) -> None:
    ones = round(n * share)
    low = stats.beta.ppf(0.025, ones, n - ones + 1) if ones else 0.0
    high = stats.beta.ppf(0.975, ones + 1, n - ones) if ones < n else 1.0
    found = bounded_mean([1.0] * ones + [0.0] * (n - ones), 0, 1)
    assert found.value == ones / n
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.006 * (high - low))


def test_bounded_mean_is_a_quantile_under_dirichlet_weights() -> None:
    rng = np.random.default_rng(0)
    values = rng.beta(0.3, 2, 25)
    weights = rng.dirichlet(np.ones(26), 100_000)
    low = np.quantile(weights @ np.append(values, -1), 0.025)
    high = np.quantile(weights @ np.append(values, 3), 0.975)
    assert bounded_mean(values, -1, 3)[1:] == pytest.approx((low, high), abs=0.01)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "predictor", [lr.PolyaUrn(3), stuck(0.1), stuck(0.0), ber(0.3), robust(30, delta=0.3)[1], TorchBer(0.3)]
)
def test_nothing_is_zero_apart_from_itself(predictor: lr.Predictor, estimator: str) -> None:
    found = lr.sequence_tv(predictor, predictor, 30, 64, 0, estimator)
    assert found.value == found.low == 0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 64), rel=0.01)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sequences_that_one_side_excludes(estimator: str) -> None:
    zeros, ones = ber(0.0), ber(1.0)
    found = lr.sequence_tv(zeros, ones, 2000, 50, 0, estimator)
    assert (found.value, found.high) == (1, 1)
    half = lr.Markov([[0.5, 0.5], [0.0, 1.0]], 1)  # a one stays: most sequences of a fair coin are impossible
    assert lr.sequence_tv(ber(0.5), half, 10, 400, 0, estimator).low < exact_sequence_tv(ber(0.5), half, 10)
    assert lr.sequence_tv(ber(0.5), half, 10, 400, 0, estimator).value > 0.95


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_batches_change_nothing(estimator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = lr.sequence_tv(ber(0.3), lr.PolyaUrn(2), 20, 101, 5, estimator)
    tokens = lr.sample(ber(0.3), 20, 101, 5)
    next_at_once = lr.next_token_tv(ber(0.3), lr.PolyaUrn(2), tokens)
    monkeypatch.setattr(distances, "_LAWS_AT_ONCE", 7 * 20 * 2)
    assert lr.sequence_tv(ber(0.3), lr.PolyaUrn(2), 20, 101, 5, estimator) == at_once
    assert lr.next_token_tv(ber(0.3), lr.PolyaUrn(2), tokens) == next_at_once


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_torch_and_numpy_meet(estimator: str) -> None:
    """Same uniforms, same sequences; single precision costs digits only."""
    exact = lr.sequence_tv(ber(0.25), ber(0.5), 20, 200, 3, estimator)
    double = TorchBer(0.25, torch.float64)
    pairs: list[tuple[lr.Predictor, lr.Predictor]] = [
        (double, ber(0.5)),
        (ber(0.25), TorchBer(0.5)),
        (TorchBer(0.25), TorchBer(0.5, torch.float64)),
    ]
    for p, q in pairs:
        assert lr.sequence_tv(p, q, 20, 200, 3, estimator) == pytest.approx(exact, abs=1e-5)
        assert exact_sequence_tv(p, q, 8) == pytest.approx(exact_sequence_tv(ber(0.25), ber(0.5), 8), abs=1e-6)
    tokens = lr.sample(ber(0.25), 20, 50, 0)
    for given in (tokens, torch.tensor(tokens)):
        for p, q in pairs:
            assert lr.next_token_tv(p, q, given).value == pytest.approx(0.25, abs=1e-6)


# The next token


def test_next_token_tv_takes_prefixes_from_the_empty_one() -> None:
    """Against a loop over streams; the last token does not count, the empty prefix does."""
    rng = np.random.default_rng(0)
    p, q = random_markov(rng, 3, 2), lr.PolyaUrn(3)
    tokens = rng.integers(0, 3, (2, 5, 7))
    values = []
    for sequence in tokens.reshape(10, 7):
        ours, theirs, apart = lr.predictors.Stream(p), lr.predictors.Stream(q), []
        for token in sequence:
            apart.append(np.abs(ours.predict() - theirs.predict()).sum() / 2)
            ours.update(int(token))
            theirs.update(int(token))
        values.append(np.mean(apart))
    found = lr.next_token_tv(p, q, tokens)
    assert found.value == pytest.approx(np.mean(values), abs=1e-12)
    assert found.low < found.value < found.high


@pytest.mark.parametrize(
    "setting",
    [None, lr.robust.algorithm_1(COIN, lr.RegretRate(64)), with_urn(COIN, 64, 0.1), with_urn(COIN, 64, 0.5)],
    ids=["urn", "rate", "0.1", "0.5"],
)
def test_next_token_intervals_hold_the_mean(setting: Any) -> None:
    """Also where nearly all values are 0. The truth is the mean over many sequences, from which the few are drawn."""
    base = lr.evaluate.sources.paper_sources(64)["b"]
    other = lr.PolyaUrn(2) if setting is None else lr.robust.Robust(base, setting, COIN)
    tokens = lr.sample(base, 64, 20_000, seed=0)
    exact = lr.next_token_tv(base, other, tokens).value
    rng, times = np.random.default_rng(1), 150
    found = [lr.next_token_tv(base, other, tokens[rng.integers(0, len(tokens), 60)]) for _ in range(times)]
    assert sum(e.low <= exact <= e.high for e in found) >= stats.binom.ppf(1e-4, times, 0.93)


# What is refused


def test_refusals_name_the_argument() -> None:
    p, tokens = ber(0.3), [[0, 1]]
    for call in (
        lambda q: lr.sequence_tv(p, q, 5, 10, 0),
        lambda q: exact_sequence_tv(p, q, 5),
        lambda q: lr.next_token_tv(p, q, tokens),
    ):
        with pytest.raises(ValueError, match=r"p and q must predict the same states: Scheduled \(p\) has 2, .* has 3"):
            call(lr.PolyaUrn(3))
        with pytest.raises(ValueError, match="q must be a Predictor, got Hedge"):
            call(lr.policies.Hedge(COIN, 4))
    with pytest.raises(ValueError, match=r"estimator must be .symmetric. or .one-sided., got 'naive'"):
        lr.sequence_tv(p, p, 5, 10, 0, estimator="naive")


def test_a_predictor_at_odds_with_itself_is_named() -> None:
    class Fickle(lr.predictors.Scheduled):
        def predict_sequence(self, tokens: Any) -> Any:
            return np.broadcast_to([0.0, 1.0], (*tokens.shape, 2))

    with pytest.raises(ValueError, match=r"q drew a sequence to which it then gave probability 0"):
        lr.sequence_tv(ber(0.5), Fickle([[1.0, 0.0]]), 3, 10, 0)


def test_estimates_print() -> None:
    assert str(Estimate(0.5, 0.25, 0.75)) == "0.50 (95%: 0.25 to 0.75)"
    assert str(Estimate(0.0, 0.0, 0.0)) == "0.0000 (95%: 0.0000 to 0.0000)"
    assert f"{Estimate(0.5, 0.25, 0.75):.3f}" == "0.500 (95%: 0.250 to 0.750)"
