"""Inputs that are unusual and right are taken."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr

from ..drawn import many
from .bad_inputs import CARRIERS, EVEN, GAME, HORIZON, PREDICTORS, TESTS, laws


@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([None, 4]),
    off=st.floats(-9e-7, 9e-7),
    carrier=st.sampled_from(["numpy", "list", "torch"]),
)
@many
def test_sums_off_by_less_than_a_millionth(seed: int, n: int | None, off: float, carrier: str) -> None:
    guard = lr.Guard(GAME, streams=n)
    law = CARRIERS[carrier](laws(np.random.default_rng(seed), guard.shape, 3) * (1 + off))
    token = np.zeros(guard.shape, dtype=np.int64)
    assert np.allclose(guard.advise(law).law, np.asarray(law) / (1 + off), rtol=0, atol=1e-12)
    guard.observe(token)
    assert np.isfinite(guard.regret).all()
    assert np.shape(GAME.best_response(law)) == guard.shape
    assert np.allclose(np.asarray(GAME.quantal_response(law, 0.1)).sum(-1), 1)
    if carrier != "torch":
        model = lr.FromFunction(lambda history: np.reshape(law, (-1, 3)), 3, batched=True)
        safe = lr.robustify(model, GAME, test=TESTS["ExactTest"])
        assert np.isfinite(safe.evidence(safe.update(safe.start(guard.shape), token))[0]).all()


@pytest.mark.parametrize("like", ["numpy, float32", "torch, float32"])
def test_single_precision_is_taken_as_it_is(like: str) -> None:
    law = CARRIERS[like](laws(np.random.default_rng(0), (2,), 3))
    assert np.allclose(lr.Guard(GAME, streams=2).advise(law).law, np.asarray(law), rtol=0, atol=1e-7)
    assert GAME.quantal_response(law, 0.1).dtype == law.dtype


def test_sums_do_not_depend_on_how_they_are_added() -> None:
    n = 50_000
    law = np.full((n, 2), 1 / n, dtype=np.float32).T  # states first in memory: NumPy adds them one after the other
    assert abs(float(law[0].sum(dtype=np.float64)) - 1) < 1e-7  # although adding in float32 is off by more than 1e-6
    assert abs(float(np.cumsum(law[0])[-1]) - 1) > 1e-6
    assert lr.DecisionProblem(np.zeros((1, n))).best_response(law).tolist() == [0, 0]


@pytest.mark.parametrize("carry", [list, tuple, np.array, lambda p: np.array(p, dtype=np.uint8), torch.tensor])
def test_certain_laws_may_be_integers(carry: Any) -> None:
    law, guard = carry([0, 1, 0]), lr.Guard(GAME)
    assert guard.advise(law).law.tolist() == [0.0, 1.0, 0.0]
    guard.observe(1)
    assert guard.events == []
    assert int(GAME.best_response(law)) == 1


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("name", PREDICTORS)
def test_tokens_of_any_integer_type(name: str, dtype: Any) -> None:
    predictor, tokens = PREDICTORS[name], np.array([[2, 0, 1, 1], [0, 2, 2, 1]])
    expected, hedge = predictor.predict_sequence(tokens), lr.policies.Hedge(GAME, 4)
    assert np.array_equal(predictor.predict_sequence(tokens.astype(dtype)), expected)
    memory, one = predictor.start((2,)), lr.predictors.Stream(predictor)
    for t in range(3):
        memory = predictor.update(memory, tokens[:, t].astype(dtype))
        one.update(tokens.astype(dtype)[0, t])  # a NumPy scalar
    assert np.allclose(predictor.predict(memory), expected[:, 3], atol=1e-12)
    assert np.allclose(one.predict(), expected[0, 3], atol=1e-12)
    regrets = [lr.external_regret(GAME, hedge, each) for each in (tokens, tokens.astype(dtype))]
    assert np.array_equal(*regrets)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_one_state_or_one_action_is_a_problem(shape: tuple[int, int]) -> None:
    problem = lr.DecisionProblem(np.linspace(-1, 1, shape[0] * shape[1]).reshape(shape))
    for n in (None, 2):
        guard = lr.Guard(problem, streams=n)
        for _ in range(HORIZON):
            guard.advise(np.full((*guard.shape, shape[1]), 1 / shape[1]))
            guard.observe(np.zeros(guard.shape, dtype=np.int64), action=guard.act(0))
        assert np.isfinite(guard.regret).all()
        assert np.isfinite(guard.certificate.at(9).regret_bound)
    for test in TESTS.values():
        safe = lr.robustify(lr.PolyaUrn(shape[1]), problem, test=test)
        tokens = np.zeros((2, HORIZON), dtype=np.int64)
        assert safe.predict_sequence(tokens).shape == (2, HORIZON, shape[1])
        assert safe.alarm_times(tokens).shape == (2,)
    assert problem.quantal_response(np.full(shape[1], 1 / shape[1]), 0.1).shape == (shape[0],)


@pytest.mark.parametrize("number", [1e-6, 1, np.float32(0.5), np.int64(2), 1e6], ids=repr)
def test_temperatures_of_any_type(number: Any) -> None:
    response = GAME.quantal_response([0.2, 0.3, 0.5], number)
    assert np.isfinite(response).all()
    assert response.sum() == pytest.approx(1)
    soft = lr.Guard(GAME, test=lr.ExactTest(horizon=np.int64(HORIZON)), response=lr.QuantalResponse(number))
    assert np.allclose(soft.advise(EVEN).policy, GAME.quantal_response(EVEN, number))


def test_fleets_of_no_streams() -> None:
    guard = lr.Guard(GAME, streams=0)
    assert guard.advise(np.zeros((0, 3))).law.shape == (0, 3)
    guard.observe(np.zeros(0, dtype=np.int64))
    guard.restart([])
    assert guard.regret.shape == (0,)
    assert lr.sample(lr.PolyaUrn(3), 4, 0, 0).shape == (0, 4)
    assert PREDICTORS["Robust"].alarm_times(np.zeros((0, 4), dtype=np.int64)).shape == (0,)
