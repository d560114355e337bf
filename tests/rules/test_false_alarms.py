"""How often rules trip when the base model is right: seeded, judged by binomial intervals."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.rules import FirstTest

from ..conftest import random_markov, random_problem, sweep

T, N = 200, 4000


def false_switches(rules: Sequence[lr.rules.Rule], base: lr.Predictor, n: int, seed: int) -> list[int]:
    """Of n sequences from the base model itself, the same for all rules, how many change a prediction."""
    horizon = rules[0].horizon or T
    tokens = lr.sample(base, horizon, n, seed=seed)
    probs = base.predict_sequence(tokens)
    return [int((rule.trip_times(probs, tokens) < horizon).sum()) for rule in rules]


@pytest.mark.parametrize("seed", sweep(range(24), usual=6))
def test_exact_test_keeps_its_delta(seed: int) -> None:
    """Random games with up to 5 actions and 5 states, Markov base models of order 0 to 2."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    base = random_markov(rng, problem.n_states)
    delta = float(rng.choice([0.01, 0.05, 0.2]))
    rules = (
        FirstTest(problem, T, delta=delta, gate=0),
        FirstTest(problem, T, delta=delta),
        FirstTest(problem, None, delta=delta, gate=0),
    )
    for count in false_switches(rules, base, N, seed):
        # Were the true rate delta or less, a count this high would have a chance below 1e-5.
        assert stats.binom.sf(count - 1, N, delta) > 1e-5


def test_the_count_is_not_idle() -> None:
    """A rule that claims a tenth of its true delta is found out by the same judgement."""
    base = lr.predictors.Scheduled([[0.55, 0.45]])
    rule = FirstTest(lr.matching(), T, delta=0.5, gate=0)
    (count,) = false_switches([rule], base, N, 0)
    assert stats.binom.sf(count - 1, N, 0.05) < 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_regret_gap_keeps_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    base = random_markov(rng, problem.n_states)
    rules = lr.rules.RegretGap(problem, T, 0.2, True), lr.rules.RegretGap(problem, None, span_aware=True, delta=0.1)
    for rule, count in zip(rules, false_switches(rules, base, N, seed), strict=True):
        assert stats.binom.sf(count - 1, N, rule.certificate.tv_bound) > 1e-5


@pytest.mark.parametrize("n", sweep([4_000, 20_000], usual=1))
def test_the_rates_of_the_notes(n: int) -> None:
    """On the paper's own D0 at T = 1024: RegretRate .0522, the exact test (delta = 2/T) 7e-4 and gated 4e-4."""
    horizon = 1024
    base = lr.sources.paper_sources(horizon)["b"]
    coin = lr.matching()
    exact = [FirstTest(coin, horizon, delta=2 / horizon, gate=gate) for gate in (0.0, 0.5)]
    counts = false_switches([lr.rules.RegretRate(coin, horizon), *exact], base, n, 0)
    for count, rate in zip(counts, (0.0522, 7e-4, 4e-4), strict=True):
        low, high = stats.binomtest(count, n).proportion_ci(0.999)
        assert low <= rate <= high
    for count in counts[1:]:
        assert stats.binom.sf(count - 1, n, 2 / horizon) > 1e-5
