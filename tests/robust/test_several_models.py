"""Several models behind one test: each keeps its own chance of a switch, and their shares can be read."""

import json
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.evaluate.adversaries import all_sequences

from ..conftest import random_markov

COIN = lr.matching()
UP, DOWN = lr.predictors.Scheduled([[0.2, 0.8]]), lr.predictors.Scheduled([[0.8, 0.2]])


def chances(parts: list[Any], tokens: np.ndarray) -> np.ndarray:
    """How likely each of the models makes each whole sequence, ``[N, sequences]``."""
    found = []
    for part in parts:
        laws = part.predict_sequence(tokens)
        found.append(np.take_along_axis(laws, tokens[..., None], -1)[..., 0].prod(-1))
    return np.stack(found)


def robust(mixture: lr.Mixture, delta: float, T: int) -> lr.robust.Robust:
    return lr.robustify(mixture, COIN, test=lr.ExactTest(delta, T), response=lr.QuantalResponse(0.3))


@pytest.mark.parametrize("seed", range(8))
def test_each_model_keeps_its_own_chance_of_an_alarm(seed: int) -> None:
    """Over all sequences: at most delta each, guarded at delta_for(delta); at most delta_mix / w_i for any weights."""
    rng, T, delta = np.random.default_rng(seed), 9, 0.3
    parts = [lr.predictors.Scheduled(rng.dirichlet([0.4, 0.4], T)) for _ in range(2)] + [
        random_markov(rng, 2),
        lr.PolyaUrn(2),
    ]
    mixture = lr.Mixture(parts, None if seed % 2 else rng.dirichlet(np.ones(4)))
    tokens = all_sequences(2, T)
    for level in (delta, mixture.delta_for(delta)):
        late = robust(mixture, level, T).alarm_times(tokens) <= T
        switched = chances(parts, tokens)[:, late].sum(axis=-1)
        assert (switched <= level / np.array(mixture.weights) + 1e-12).all()
    assert (switched <= delta).all()
    assert mixture.delta_for(delta) == pytest.approx(delta * min(mixture.weights))  # type: ignore[arg-type]


def test_at_delta_itself_a_model_can_be_left_more_often() -> None:
    """Seven models say 0, one says 1 with a chance of .8: where that one is right, a switch is the rule."""
    T, delta = 10, 0.3
    mixture, tokens = lr.Mixture([DOWN] * 7 + [UP]), all_sequences(2, T)
    found = {}
    for level in (delta, mixture.delta_for(delta)):
        late = robust(mixture, level, T).alarm_times(tokens) <= T
        found[level] = chances([UP], tokens)[0, late].sum()
    assert found[delta] > 0.8
    assert found[mixture.delta_for(delta)] <= delta
    assert mixture.delta_for(delta) == pytest.approx(delta / 8)


def test_shares_are_read_live() -> None:
    """By Bayes' rule, word by word; and after a switch the mixture's own share on top."""
    rng, T = np.random.default_rng(1), 60
    weights = [0.5, 0.3, 0.2]
    mixture = lr.Mixture([DOWN, lr.predictors.Scheduled([[0.9, 0.1]]), lr.Markov([[0.6, 0.4], [0.7, 0.3]], 1)], weights)
    test = lr.ExactTest(mixture.delta_for(0.2), T)
    alone = lr.predictors.Stream(mixture)
    guard = lr.Guard(COIN, test=test, response=lr.QuantalResponse())
    safe = lr.predictors.Stream(lr.robustify(mixture, COIN, test=test))
    tokens = np.where(np.arange(T) < 30, 1, rng.integers(2, size=T))  # all of them expect 0
    literal, played = np.array(weights), []
    for t, token in enumerate(tokens):
        laws = [part.predict_sequence(tokens[: t + 1])[t] for part in mixture.predictors]
        np.testing.assert_allclose(alone.shares, literal, rtol=1e-9)
        np.testing.assert_allclose(safe.shares, alone.shares * guard.share, rtol=1e-9)
        played.append(safe.shares.sum())
        guard.advise(alone.predict())
        for each in (alone, safe):
            each.update(token)
        guard.observe(int(token))
        literal = literal * [law[token] for law in laws]
        literal /= literal.sum()
    assert guard.switched
    assert any(0 < total < 1 for total in played)
    again = lr.predictors.Stream(safe.predictor)
    again.load_state_dict(json.loads(json.dumps(safe.state_dict(), allow_nan=False)))
    assert np.array_equal(again.shares, safe.shares)
    batch = lr.predictors.Stream(mixture, (4,))
    assert batch.shares.shape == (4, 3)


def test_the_certificate_says_it() -> None:
    test = lr.ExactTest(0.02, 100)
    even = lr.robustify(lr.Mixture([UP, DOWN]), COIN, test=test).certificate
    assert "any one of the 2 models is right, a switch has a chance of at most 0.04." in str(even)
    odd = lr.robustify(lr.Mixture([UP, DOWN], [0.8, 0.2]), COIN, test=test).certificate
    assert "at most 0.025, 0.1, in their order" in odd.statement
    alone = lr.robustify(UP, COIN, test=test)
    assert "models" not in str(alone.certificate)
    assert alone.shares(alone.start((3,))).tolist() == [[1.0], [1.0], [1.0]]
    with pytest.raises(ValueError, match="shares needs a predictor made of models, such as Mixture, got Scheduled"):
        lr.predictors.Stream(UP).shares  # noqa: B018
    with pytest.raises(ValueError, match="delta"):
        lr.Mixture([UP]).delta_for(1.5)
