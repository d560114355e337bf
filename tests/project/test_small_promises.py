"""Small things that are promised and that no other test looks at."""

import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates import bounds as certificates
from lowregret.checks import check_predictor
from lowregret.robust import algorithm_1


def test_lemma_2_3_is_its_formula_where_the_span_is_not_one() -> None:
    problem, T, eta = lr.DecisionProblem([[0.5, -0.25], [0.0, 0.75], [-0.75, 0.25]]), 50, 0.2
    m, C = problem.n_states, problem.utility.sum(axis=1)
    harmonic = sum(1 / (m + i) for i in range(T))
    direct = eta * (T + m - 1) * math.log(3) + problem.span**2 / (8 * eta) * harmonic
    direct += eta * m * math.log(np.mean(np.exp(C / (eta * m)))) - C.min()
    assert problem.span != 1
    assert certificates.lemma_2_3(problem, T, eta) == pytest.approx(direct / T, rel=1e-12)


def test_no_more_tokens_than_the_horizon() -> None:
    def fn(history: Any) -> Any:
        if len(history) > 6:
            raise ValueError("too long")
        return [0.5, 0.5] if len(history) < 2 else [[0.2, 0.8], [0.6, 0.4]][int(history[-2])]

    safe = lr.AverageRestart(lr.FromFunction(fn, n_states=2), lr.matching(), 2, 4, horizon=6)
    check_predictor(safe, horizon=6)


def test_capped_is_said_only_where_it_is() -> None:
    capped = algorithm_1(lr.matching(), lr.RegretGap(horizon=64)).certificate
    total = sum(capped.terms.values())
    assert capped.regret_bound < total < 2 * capped.regret_bound
    assert "capped at the span 1" in str(capped)
    assert "capped" not in str(algorithm_1(lr.matching(), lr.RegretGap(horizon=4096)).certificate)
