"""The programs for a GPU give the trip times of the array form; without a GPU they are interpreted."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import lowregret as lr
from lowregret.rules import FirstTest, RegretRate, Rule, kernels

torch = pytest.importorskip("torch")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytest.importorskip("triton")

T = 50
COIN = lr.matching()
THREE = lr.DecisionProblem([[1.0, -0.5], [0.2, 0.1], [-1.0, 0.9]])


def streams(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Laws and tokens, ``n`` of each kind: at home, broken from the start or late, a coin, and with excluded states."""
    rng = np.random.default_rng(0)
    up_NxT = rng.beta(1, 1, (5 * n, T))
    tokens_NxT = (rng.random((5 * n, T)) < up_NxT).astype(np.int64)
    tokens_NxT[n : 2 * n] = 1 - tokens_NxT[n : 2 * n]
    tokens_NxT[2 * n : 3 * n, 20:] = 1 - tokens_NxT[2 * n : 3 * n, 20:]
    up_NxT[3 * n : 4 * n] = 0.5
    up_NxT[4 * n :] = np.where(rng.random((n, T)) < 0.1, 0.0, up_NxT[4 * n :])
    return np.stack([1 - up_NxT, up_NxT], axis=-1), tokens_NxT


RULES = {
    "every start": lr.ExactTest(COIN, T, delta=0.05),
    "every start, three actions": lr.ExactTest(THREE, 200, delta=0.3),
    "every start, unknown horizon": lr.ExactTest(COIN, None, delta=0.05, fallback=lr.PolyaUrn(2)),
    "first test": FirstTest(COIN, T, delta=0.05),
    "first test, no gate, another urn": FirstTest(THREE, T, delta=0.1, gate=0, fallback=lr.PolyaUrn(2, 0.5)),
    "first test, unknown horizon": FirstTest(COIN, None, delta=0.1),
    "first test, the gate decides": FirstTest(COIN, T, delta=0.5, gate=1.0),
    "regret rate": RegretRate(COIN, T),
    "regret rate, three actions": RegretRate(THREE, 60, alpha=1.0),
}


@pytest.mark.parametrize("name", RULES)
def test_trip_times_are_those_of_the_array_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowregret.rules import triton_kernels

    rule = RULES[name]
    n = 2 if rule.horizon is None else 4  # of each kind: to interpret forty rates is slow
    laws, tokens = streams(n)
    replaced, expected = rule.replaced(laws, tokens)
    assert len(np.unique(expected)) > 4  # some trip, at different times
    assert expected.max() == T + 1
    monkeypatch.setattr(kernels, "on_gpu", lambda laws: triton_kernels)
    there = torch.as_tensor(laws, device=DEVICE), torch.as_tensor(tokens, device=DEVICE)
    several = rule.first_trips(*(part.reshape(5, n, *part.shape[1:]) for part in there))  # any number of batch axes
    assert_array_equal(several.cpu(), expected.reshape(5, n))
    found, times = rule.replaced(*there)
    assert_array_equal(times.cpu(), expected)
    np.testing.assert_allclose(found.cpu(), replaced, rtol=1e-12)


def test_a_single_step_a_single_rate_and_laws_that_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowregret.rules import triton_kernels

    on_gpu = {torch.Tensor: triton_kernels}
    monkeypatch.setattr(kernels, "on_gpu", lambda laws: on_gpu.get(type(laws)))
    laws, tokens = streams(1)
    for rule in (FirstTest(COIN, 3, delta=1e-50), FirstTest(COIN, 2, delta=0.5), lr.ExactTest(COIN, 2, delta=0.5)):
        for steps in range(1, rule.horizon + 1):
            probs = np.stack([laws[4, -steps:]] * 2)  # the last of them has an excluded state
            came = tokens[[0, 4], -steps:]
            found = rule.first_trips(torch.as_tensor(probs[:1], device=DEVICE), torch.as_tensor(came, device=DEVICE))
            assert_array_equal(found.cpu(), rule.first_trips(probs, came))


def test_what_the_programs_are_not_for_is_the_array_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowregret.rules import triton_kernels

    assert kernels.on_gpu(np.full((1, 9, 2), 0.5)) is None
    assert kernels.on_gpu(torch.full((1, 9, 2), 0.5)) is None
    monkeypatch.setattr(kernels, "on_gpu", lambda laws: triton_kernels)
    laws, tokens = torch.full((1, 9, 2), 0.5, dtype=torch.float64), torch.ones((1, 9), dtype=torch.int64)
    others: list[Rule] = [
        lr.ExactTest(COIN, 9, temperature=0.0),
        lr.ExactTest(COIN, 9, temperature=0.0, likelihood=True),
        lr.ExactTest(COIN, 9, references=("mine",)),
        FirstTest(COIN, 9, fallback=lr.predictors.Scheduled(np.full((9, 2), 0.5))),
    ]
    assert [rule.by_kernel(laws, tokens) for rule in others] == [None] * len(others)
