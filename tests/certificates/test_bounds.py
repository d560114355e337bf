"""No sequence breaks a certificate: exhaustively for short horizons (more of it: ``paper/statements``)."""

import itertools
import json
import math

import numpy as np
import pytest

import lowregret as lr
from lowregret import certificates
from lowregret.certificates.by_counts import worst_case as worst_case_by_counts
from lowregret.evaluate.adversaries import all_sequences
from lowregret.robust import algorithm_1

from ..conftest import random_markov, random_problem, with_urn


def test_the_printed_number_of_the_problem_s_own_contrast() -> None:
    """Matching, T = 1024, sharpened; those of the constant 8 are in evaluate/test_worst_cases.py."""
    given = algorithm_1(lr.matching(), lr.RegretGap(1024, span_aware=True)).certificate
    assert given.sharpen().regret_bound == pytest.approx(0.2256, abs=5e-5)
    assert given.tv_bound == 1 / 1024


@pytest.mark.parametrize("seed", range(40))
def test_the_urn_never_breaks_lemma_2_3(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 4, 3)
    T = int(rng.integers(1, 13 if problem.n_states == 2 else 9))
    temperature, prior = float(rng.choice([0.05, 0.3, T**-0.5, 2.0])), float(rng.choice([0.25, 1.0, 3.0]))
    urn, tokens = lr.PolyaUrn(problem.n_states, prior), all_sequences(problem.n_states, T)
    worst = lr.external_regret(problem, lr.policies.Respond(urn, problem, temperature), tokens)[:, -1].max()
    assert worst <= certificates.lemma_2_3(problem, T, temperature, prior) + 1e-12
    assert worst_case_by_counts(urn, problem, T, temperature) == pytest.approx(worst, abs=1e-12)


def test_the_bound_of_lemma_2_3_is_not_idle() -> None:
    """It is met within a factor two: a smaller bound would be broken."""
    for T in (12, 64, 1024):
        worst = worst_case_by_counts(lr.PolyaUrn(2), lr.matching(), T, T**-0.5)
        assert 0.5 < worst / certificates.lemma_2_3(lr.matching(), T, T**-0.5) <= 1


def test_the_bounds_on_the_gap_are_not_idle() -> None:
    """Some sequence of 12 comes close to what the threshold lets pass."""
    rng = np.random.default_rng(0)
    coin, T, tokens = lr.matching(), 12, all_sequences(2, 12)
    setting, closest = algorithm_1(coin, lr.RegretGap(T, 0.01, span_aware=True)), 0.0
    for _ in range(10):
        base = random_markov(rng, 2, 1)
        regret = lr.external_regret(coin, lr.robust.Robust(base, setting, coin).respond(), tokens)
        urn = lr.external_regret(coin, lr.policies.Respond(setting.fallback, coin, setting.temperature), tokens)
        passed = sum(v for name, v in setting.certificate.terms.items() if name != "fallback")
        closest = max(closest, (regret - urn)[:, -1].max() / passed)
    assert 1 / 2 < closest <= 1


def test_a_fallback_of_unknown_regret_enters_as_the_span() -> None:
    given = algorithm_1(lr.matching(), lr.RegretGap(100), lr.Markov([[0.5, 0.5], [0.5, 0.5]], 1)).certificate
    assert given.regret_bound == 1
    assert given.terms["fallback"] == 1
    assert "Markov" in given.statement
    assert given.sharpen().regret_bound == 1
    # A law that depends on the step alone can be searched for its worst case all the same.
    halves = lr.predictors.Scheduled([[0.5, 0.5]])
    sharp = algorithm_1(lr.matching(), lr.RegretGap(100), halves).certificate.sharpen()
    assert sharp.terms["fallback"] == pytest.approx(0.5)


def test_a_test_without_a_guarantee_says_so() -> None:
    certificate = algorithm_1(lr.matching(), lr.RegretRate(100)).certificate
    assert certificate.tv_bound == 1
    assert certificate.regret_bound == lr.matching().span
    assert "no guarantee" in certificate.statement
    assert certificate.at(10).regret_bound == lr.matching().span


def test_a_certificate_is_made_by_hand() -> None:
    """It holds at its own number of steps, and says so."""
    mine = lr.Certificate(
        regret_bound=0.1, tv_bound=0.05, statement="By hand.", theorem="mine", problem=lr.matching(), horizon=10
    )
    assert mine.at(10) == mine.sharpen() == mine
    assert json.loads(mine.to_json())["terms"] == {}
    for asked in (lambda: mine.at(5), lambda: mine.realised(0.9), lambda: mine.interval(1, 5)):
        with pytest.raises(ValueError, match="this certificate"):
            asked()
    assert lr.Certificate(0.1, 0.05, "By hand.", "mine", lr.matching()).at(7).regret_bound == 0.1


def test_a_certificate_of_several_episodes_holds_at_its_horizon() -> None:
    guard = lr.Guard(lr.matching(), test=lr.ExactTest(horizon=9))
    guard.restart()
    assert guard.certificate.at(9).episodes == 2
    with pytest.raises(ValueError, match="step must be the horizon 9"):
        guard.certificate.at(8)


def test_unknown_horizons_hold_at_every_step() -> None:
    certificate = with_urn(lr.matching(), None, 0.01).certificate
    assert certificate.regret_bound == 1
    bounds = [certificate.at(10**k).regret_bound for k in range(2, 7)]
    assert all(b > c for b, c in itertools.pairwise(bounds))
    assert bounds[-1] < 0.02
    coin = lr.matching()
    assert coin.anytime_temperature(1) * math.sqrt(2) == pytest.approx(0.60, abs=5e-3)
    exact_sum = sum(coin.anytime_temperature(t) for t in range(1, 1001))
    closed = certificates.bounds.summed_temperature(coin, 1000, None)
    assert exact_sum <= closed <= 1.05 * exact_sum


def test_sharpened_certificates_stay_sharp() -> None:
    certificate = algorithm_1(lr.matching(), lr.RegretGap(100)).certificate
    sharp = certificate.sharpen()
    assert sharp.at(100).regret_bound == sharp.regret_bound
    assert sharp.at(50).terms["fallback"] < certificate.at(50).terms["fallback"]


def test_certificates_print_and_dump() -> None:
    problem = lr.newsvendor([0, 10, 20], price=5, cost=3)
    certificate = with_urn(problem, 5000).certificate
    text = str(certificate)
    assert "in payoffs" in text
    assert "exact test" in text
    data = json.loads(certificate.to_json())
    assert data["regret_bound"] == certificate.regret_bound
    assert data["tv_bound"] == 1 / 5000
    assert data["regret_bound_in_payoffs"] == pytest.approx(certificate.regret_bound * 50)
    assert set(data) >= {"statement", "assumptions", "theorem", "terms", "horizon"}
    assert sum(data["terms"].values()) == pytest.approx(certificate.regret_bound)
