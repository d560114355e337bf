"""How often there is an alarm while the base model is right, and how soon once it is not: judged by intervals."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.engine import Engine, Setting
from lowregret.robust import algorithm_1

from ..conftest import random_markov, random_problem, sweep, with_urn

T, N = 200, 4000
LONG, RUNS, BREAK = 5000, 60, 4000
COIN, THREE, RPS = lr.matching(), lr.matching(3), lr.rock_paper_scissors()


def false_alarms(settings: Sequence[Setting], base: lr.Predictor, n: int, seed: int) -> list[int]:
    """Of n sequences from the base model itself, the same for all, how many change a prediction."""
    horizon = settings[0].test.horizon or T
    tokens = lr.sample(base, horizon, n, seed=seed)
    probs = base.predict_sequence(tokens)
    return [int((Engine(setting).alarm_times(probs, tokens) < horizon).sum()) for setting in settings]


@pytest.mark.parametrize("seed", sweep(range(24), usual=3))
def test_exact_test_keeps_its_delta(seed: int) -> None:
    """Random games with up to 5 actions and 5 states, Markov base models of order 0 to 2."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    base = random_markov(rng, problem.n_states)
    delta = float(rng.choice([0.01, 0.05, 0.2]))
    n = N // 4 if seed < 3 else N  # fewer of those that are always tried
    for count in false_alarms((with_urn(problem, T, delta), with_urn(problem, None, delta)), base, n, seed):
        # Were the true rate delta or less, a count this high would have a chance below 1e-5.
        assert stats.binom.sf(count - 1, n, delta) > 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_regret_gap_keeps_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    base = random_markov(rng, problem.n_states)
    gaps = lr.RegretGap(T, 0.2, span_aware=True), lr.RegretGap(None, span_aware=True, delta=0.1)
    settings = [algorithm_1(problem, gap) for gap in gaps]
    for setting, count in zip(settings, false_alarms(settings, base, N, seed), strict=True):
        assert stats.binom.sf(count - 1, N, setting.certificate.tv_bound) > 1e-5


# A break late in a long run is found within days, whatever came before; useful models are mostly kept


def always(*probs: float) -> lr.predictors.Scheduled:
    return lr.predictors.Scheduled([probs])


def broken(model: lr.Predictor, truth: lr.Predictor) -> np.ndarray:
    """Right for four fifths of the time; both are of independent tokens."""
    before, after = lr.sample(model, BREAK, RUNS, seed=1), lr.sample(truth, LONG - BREAK, RUNS, seed=2)
    return np.concatenate([before, after], axis=-1)


@pytest.mark.parametrize(
    ("problem", "model", "truth", "within"),
    [
        (COIN, always(0.4, 0.6), always(0.6, 0.4), 300),
        (COIN, always(0.1, 0.9), always(0.6, 0.4), 80),
        (THREE, always(0.5, 0.3, 0.2), always(0.2, 0.3, 0.5), 100),
        (RPS, always(0.5, 0.3, 0.2), always(0.2, 0.3, 0.5), 100),
    ],
)
def test_a_break_at_four_fifths_is_found(
    problem: lr.DecisionProblem, model: lr.Predictor, truth: lr.Predictor, within: int
) -> None:
    """The median delay is at most ``within``: else this count would come once in ten thousand times."""
    times = lr.robustify(model, problem, LONG).alarm_times(broken(model, truth))
    found = int(((times > BREAK) & (times <= BREAK + within)).sum())
    assert stats.binom.sf(found - 1, RUNS, 0.5) < 1e-4, f"{found} of {RUNS}"


def test_a_miscalibrated_model_that_is_useful_is_mostly_kept() -> None:
    """Says .9 where .7 is right: an alarm in at most .15 of the runs, else so many would come once in a thousand."""
    model, truth = always(0.1, 0.9), always(0.3, 0.7)
    alarms = int((lr.robustify(model, COIN, LONG).alarm_times(lr.sample(truth, LONG, 200, seed=3)) <= LONG).sum())
    assert stats.binom.sf(alarms - 1, 200, 0.15) > 1e-3, f"{alarms} of 200"
