"""Algorithm 1 from above: brute force as oracle, the notes' worst cases, and no bound above its certificate."""

from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.evaluate.adversaries import all_sequences, beam
from paper.two_sided import worst_two_sided

from ..conftest import random_problem

COIN = lr.matching()
THIRD = lr.predictors.Scheduled([[2 / 3, 1 / 3]])  # says 1 with probability 1/3


@pytest.mark.parametrize(
    ("horizon", "worst_case", "certified"), [(128, 0.8706, 0.9377), (512, 0.5114, 0.5256), (1024, 0.3828, 0.3902)]
)
def test_worst_cases_of_the_notes_are_attained(horizon: int, worst_case: float, certified: float) -> None:
    """Theorem 3.1's test on Ber(1/3): the bound lies below the certificate."""
    robust = lr.robustify(THIRD, COIN, test=lr.RegretGap(horizon))
    found = worst_two_sided(robust, horizon)
    assert found.upper == pytest.approx(worst_case, abs=5e-5)
    assert found.exact
    assert lr.external_regret(COIN, robust.respond(), found.tokens)[-1] == pytest.approx(found.upper, abs=1e-9)
    assert robust.certificate.sharpen().regret_bound == pytest.approx(certified, abs=5e-5)


def early_gap(problem: lr.DecisionProblem, horizon: int, temperature: float) -> Any:
    """Theorem 3.1 with so low a threshold that there is an alarm within a few steps."""
    test = lr.RegretGap(horizon, span_aware=True)
    object.__setattr__(test, "alpha", -0.8)
    return lr.robust.algorithm_1(problem, test, response=lr.QuantalResponse(temperature))


@pytest.mark.parametrize("seed", range(30))
def test_no_sequence_is_above_the_bound_and_constant_models_attain_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = [COIN, lr.matching(3), random_problem(rng, 3, 3)][seed % 3]
    S = problem.n_states
    horizon = 14 if S == 2 else 8
    constant = lr.predictors.Scheduled(rng.dirichlet(np.full(S, 0.3), 1) * 0.99 + 0.01 / S)
    varied = lr.predictors.Scheduled(rng.dirichlet(np.ones(S), horizon))
    setting = early_gap(problem, horizon, temperature=float(rng.choice([0.01, 0.2])))
    for base in (constant, varied, lr.PolyaUrn(S, 5.0)):
        robust = lr.robust.Robust(base, setting, problem)
        found = worst_two_sided(robust, horizon)
        truth = lr.external_regret(problem, robust.respond(), all_sequences(S, horizon))[:, -1].max()
        assert found.regret - 1e-12 <= truth <= found.upper + 1e-12
        assert lr.external_regret(problem, robust.respond(), found.tokens)[-1] == pytest.approx(found.regret, abs=1e-12)
        if base is constant:
            assert found.upper == pytest.approx(truth, abs=1e-9)


def test_some_of_these_sequences_raise_an_alarm() -> None:
    robust = lr.robust.Robust(THIRD, early_gap(COIN, 14, 0.01), COIN)
    assert 0.05 < (robust.alarm_times(all_sequences(2, 14)) < 14).mean() < 0.95


@pytest.mark.parametrize("source", ["sin5", "sin10"])
def test_the_bound_lies_between_a_sequence_and_the_certificate(source: str) -> None:
    """For a model that changes over time it need not be attained."""
    robust = lr.robustify(lr.evaluate.sources.paper_sources(128)[source], COIN, test=lr.RegretGap(128, span_aware=True))
    found = worst_two_sided(robust, 128)
    assert found.upper is not None
    assert not found.exact
    assert beam(robust, COIN, 128).regret <= found.upper
    assert found.regret < found.upper <= robust.certificate.sharpen().regret_bound + 1e-12
