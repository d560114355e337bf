"""How often the paper's test has an alarm while the base model is right, in runs too long to enumerate."""

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.engine import Engine
from lowregret.robust import algorithm_1

from ..conftest import random_markov, random_problem

T, N = 200, 4000


@pytest.mark.parametrize("seed", range(4))
def test_regret_gap_keeps_its_bound(seed: int) -> None:
    """Random games with up to 5 actions and 5 states; alarms that change a prediction."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    base = random_markov(rng, problem.n_states)
    tokens = lr.sample(base, T, N, seed=seed)
    probs = base.predict_sequence(tokens)
    for test in (lr.RegretGap(T, 0.2, span_aware=True), lr.RegretGap(None, span_aware=True, delta=0.1)):
        setting = algorithm_1(problem, test)
        count = int((Engine(setting).alarm_times(probs, tokens) < T).sum())
        # Were the true rate the bound or less, a count this high would have a chance below 1e-5.
        assert stats.binom.sf(count - 1, N, setting.certificate.tv_bound) > 1e-5
