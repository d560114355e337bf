"""The next-token distance that certificates promise: the chain of its proof, by adding up all sequences."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.evaluate.distances import log_probs
from lowregret.robust import algorithm_1

from ..conftest import random_markov

T, DELTA = 9, 0.4
MATCHING = lr.matching()
SETTINGS: dict[str, Any] = {
    "with recovery": algorithm_1(MATCHING, lr.ExactTest(DELTA, T)),
    "onto the urn": algorithm_1(MATCHING, lr.ExactTest(DELTA, T), lr.PolyaUrn(2)),
    "any problem": algorithm_1(None, lr.VRegret(T, delta=DELTA)),
}


def chain(safe: Any, base: lr.Predictor, steps: int) -> tuple[float, float]:
    """E[(1/T) sum_t TV_t] and E[(T - tau)^+ / T] under the base's law, exactly."""
    tokens_NxT = np.array(list(product(range(base.n_states), repeat=steps)))
    chance_N = np.exp(log_probs(base, tokens_NxT, "base"))
    assert chance_N.sum() == pytest.approx(1)
    apart_NxT = np.abs(safe.predict_sequence(tokens_NxT) - base.predict_sequence(tokens_NxT)).sum(axis=-1) / 2
    left_N = np.maximum(steps - safe.alarm_times(tokens_NxT), 0) / steps
    return float(chance_N @ apart_NxT.mean(axis=1)), float(chance_N @ left_N)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_chain_of_the_proof_by_enumeration(name: str) -> None:
    found = []
    for seed in range(12):
        base = random_markov(np.random.default_rng(seed), 2, 1)
        safe = lr.robust.Robust(base, SETTINGS[name], None if name == "any problem" else MATCHING)
        promised = safe.certificate.next_token_tv
        assert promised == pytest.approx(DELTA * (T - 1) / T)
        apart, after = chain(safe, base, T)
        assert apart <= after + 1e-12 <= promised + 2e-12
        found.append(after / promised)
    assert max(found) > 0.1  # they do switch: a bound that is ten times smaller would be broken


def test_averaged_restarts_by_enumeration() -> None:
    base = lr.Markov([[0.9, 0.1], [0.2, 0.8]], window=1)
    safe = lr.AverageRestart(base, MATCHING, 1, 7, T, test=lr.ExactTest(0.8 / (T - 1), 7), fallback=lr.PolyaUrn(2))
    tokens_NxT = np.array(list(product(range(2), repeat=T)))
    apart_NxT = np.abs(safe.predict_sequence(tokens_NxT) - base.predict_sequence(tokens_NxT)).sum(axis=-1) / 2
    found = float(np.exp(log_probs(base, tokens_NxT, "base")) @ apart_NxT.mean(axis=1))
    assert 0 < found <= safe.certificate.next_token_tv == pytest.approx(0.8 * (T - 1) / T)


def test_it_is_in_json_and_in_words() -> None:
    given = SETTINGS["with recovery"].certificate
    assert json.loads(given.to_json())["next_token_tv"] == given.next_token_tv
    assert f"token   <= {given.next_token_tv:.3g} in TV" in str(given)
    assert given.at(4).next_token_tv == pytest.approx(DELTA * 3 / 4)
    assert given.at(1).next_token_tv == 0


def test_an_unknown_horizon_and_several_episodes() -> None:
    assert algorithm_1(MATCHING, lr.ExactTest(0.1)).certificate.next_token_tv == 0.1
    given = algorithm_1(MATCHING, lr.ExactTest(0.1, 100)).certificate
    assert given.over_episodes(4, 0.5).next_token_tv == pytest.approx(0.1)
    assert given.over_episodes(10, 0.5).next_token_tv is None


def test_nothing_is_promised_without_an_alarm_that_is_bounded() -> None:
    untested = lr.Guard(MATCHING, test=lr.NoTest(100)).certificate
    for given in (untested, algorithm_1(MATCHING, lr.RegretRate(100)).certificate):
        assert given.next_token_tv is None
        assert "token" not in str(given)
        assert given.to_dict()["next_token_tv"] is None
