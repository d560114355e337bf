"""What a bet against a best response is charged: by corners of all laws, by search, by enumeration, in every bound."""

import math
from itertools import combinations, product

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates import best_response, coupled, every_start, switching

from ..literal_theorem import some_game

MATCHING, RPS, SHOP = lr.matching(), lr.rock_paper_scissors(), lr.newsvendor(list(range(10)), 5, 3)


def corner_laws(problem: lr.DecisionProblem, b: int) -> list[np.ndarray]:
    """All corners of the laws to which b is a best response: S - 1 of the inequalities hold with equality."""
    U = problem.utility
    S = U.shape[1]
    rows = np.concatenate([np.delete(U, b, axis=0) - U[b], -np.eye(S)])  # each at most 0
    found = []
    for tight in combinations(range(len(rows)), S - 1):
        matrix = np.concatenate([rows[list(tight)], np.ones((1, S))])
        if abs(np.linalg.det(matrix)) < 1e-10:
            continue
        law = np.linalg.solve(matrix, np.append(np.zeros(S - 1), 1.0))
        if (rows @ law <= 1e-12).all():
            found.append(np.clip(law, 0, None) / np.clip(law, 0, None).sum())
    return found


def problems(count: int, seed: int = 0) -> list[lr.DecisionProblem]:
    rng = np.random.default_rng(seed)
    return [MATCHING, RPS, lr.cost_loss(1, 4), *(some_game(rng, 4, 4) for _ in range(count))]


def by_corners(problem: lr.DecisionProblem, rate: float) -> np.ndarray:
    """The linear programmes by going through all corners, ``[A, A]``: for each pair the most that is charged."""
    U, A = problem.utility, problem.n_actions
    most = np.zeros((A, A))
    for b in range(A):
        for law in corner_laws(problem, b):
            most[:, b] = np.maximum(most[:, b], np.log(np.exp(rate * (U - U[b])) @ law))
    return most


def test_matching_is_charged_the_logarithm_of_a_hyperbolic_cosine() -> None:
    rates = np.array([1e-6, 0.05, 1.0, 3.0, 40.0])
    wanted = np.log1p(2 * np.sinh(rates / 2) ** 2)  # cosh - 1 = 2 sinh^2(1/2)
    np.testing.assert_allclose(best_response.kappa(MATCHING, rates), wanted, rtol=1e-10)
    assert (best_response.kappa(MATCHING, rates) >= wanted * (1 - 1e-15)).all()
    assert best_response.kappa(MATCHING, 1e4) == pytest.approx(1e4 - math.log(2))  # no overflow


@pytest.mark.parametrize("rate", [0.02, 0.5, 2.0])
def test_three_forms_each_above_the_one_before(rate: float) -> None:
    """All corners of the laws, the linear programmes, two-point laws, Hoeffding; for every pair of actions."""
    alike, count = 0, 0
    for problem in problems(40):
        most = by_corners(problem, rate)
        exact = best_response.exact_kappa(problem, rate)
        table = best_response.pair_kappa(problem, [rate])[..., 0]
        assert most.max() - 1e-15 <= exact <= table.max()
        assert exact == pytest.approx(most.max(), rel=1e-6, abs=1e-12)
        assert (table >= most - 1e-12).all()
        assert (table <= (rate * problem.contrast) ** 2 / 8 * (1 + 1e-9)).all()  # Hoeffding's
        assert (table.diagonal() == 0).all()
        assert best_response.kappa(problem, rate) == pytest.approx(table.max(), rel=1e-14)
        count, alike = count + 1, alike + (exact >= table.max() * (1 - 1e-9))
    assert 0.3 < alike / count < 0.9  # the programmes are worth having, and often are not needed


def test_the_programmes_are_no_sharper_for_the_usual_problems() -> None:
    for problem in (MATCHING, RPS, SHOP):
        for rate in (0.1, 1.0):
            exact, kappa = best_response.exact_kappa(problem, rate), best_response.kappa(problem, rate)
            assert kappa * (1 - 1e-9) <= exact <= kappa


def test_bets_charged_by_their_pair_are_fair_under_every_law_that_agrees_with_the_advice() -> None:
    """Whatever was stated: under any law to which b is best the mean of exp(lam x - charge) is at most 1."""
    rng, tightest = np.random.default_rng(1), 0.0
    for problem in problems(20, seed=2):
        rates = np.array([0.1, 1.0, 2.0]) / problem.span
        table = best_response.pair_kappa(problem, rates)
        for law in rng.dirichlet(np.full(problem.n_states, 0.4), 300):
            b = int(problem.best_response(law))
            x_AxS = problem.utility - problem.utility[b]
            mean_AxK = np.einsum("aks,s->ak", np.exp(rates[:, None] * x_AxS[:, None]), law) / np.exp(table[:, b])
            assert mean_AxK.max() <= 1 + 1e-12
            tightest = max(tightest, np.delete(mean_AxK, b, axis=0).max(initial=0.0))
    assert tightest > 0.99


def test_nothing_at_stake_nothing_charged() -> None:
    for utility in ([[0.3, -0.2]], [[0.5, 0.5], [0.5, 0.5]], [[0.2, 0.7], [0.1, 0.6]], [[1, 0.5], [0.5, 0.5]]):
        problem = lr.DecisionProblem(utility)  # one action; two alike; one that is never worse
        assert best_response.kappa(problem, 1.0) == 0
        assert best_response.exact_kappa(problem, 1.0) == 0
        assert best_response.main_rate(problem, 100, 5.0) == math.inf
        assert coupled.kappa(problem, np.ones(2), 0.0).tolist() == [0.0, 0.0]
    dominated = lr.DecisionProblem([[1, 0], [0, 1], [0.4, 0.4]])  # the third is never a best response
    two = lr.DecisionProblem([[1, 0], [0, 1]])
    assert best_response.exact_kappa(dominated, 1.0) <= best_response.exact_kappa(two, 1.0) * (1 + 1e-12)
    assert best_response.pair_kappa(dominated, [1.0])[0, 2, 0] > 0


def test_the_main_rate_is_the_best_one() -> None:
    for problem in problems(10, seed=3):
        rate, grid = best_response.main_rate(problem, 500, 6.0), np.geomspace(1e-4, 1e3, 20_001)
        if not math.isfinite(rate):
            continue
        bounds = (500 * best_response.kappa(problem, grid) + 6) / grid
        own = (500 * best_response.kappa(problem, rate) + 6) / rate
        assert own <= bounds.min() * (1 + 1e-6)
        assert own <= problem.contrast * math.sqrt(500 * 6 / 2)  # Hoeffding's


def test_numbers_are_charged_by_their_knots() -> None:
    """Between knots a payoff is straight: no law of outcomes, on knots or between them, is charged more."""

    def earned(order: float, demand: np.ndarray) -> np.ndarray:
        return 5 * np.minimum(order, demand) - 3 * order

    shop = lr.Payoff(earned, [0, 10, 15, 20], -60, 40, knots=[10, 15, 20], outcomes=(0, 40))
    rng, rates = np.random.default_rng(4), np.array([0.3, 1.5])
    table, exact_K = best_response.pair_kappa(shop, rates), best_response.exact_kappa(shop, rates)
    assert (exact_K <= table.max(axis=(0, 1))).all()
    assert exact_K.max() > 0.9 * table.max()
    assert coupled.kappa(shop, rates, 0.0) == pytest.approx(table.max(axis=(0, 1)))  # type: ignore[arg-type]
    closest = 0.0
    for _ in range(4000):
        points = rng.uniform(0, 30, 3)
        points = np.where(rng.random(3) < 0.5, rng.choice([0.0, 10, 15, 20], 3), points)
        law = rng.dirichlet(np.ones(3))
        U = shop.utilities(points)
        b = int(np.argmax(U @ law))
        value = np.log(np.einsum("aks,s->ak", np.exp(rates[:, None] * (U - U[b])[:, None]), law))
        assert (value <= exact_K + 1e-12).all()
        closest = max(closest, float(value.max()))
    assert closest > 0.9 * exact_K.max()
    prior = every_start.joint_prior(shop, 300, 0.05, 0.0)  # type: ignore[arg-type]
    assert prior.rates_K[0] == best_response.main_rate(shop, 300, math.log(4 / (0.75 * 0.05)))
    unknown = lr.Payoff(earned, [0, 10], -60, 40)
    np.testing.assert_allclose(best_response.kappa(unknown, rates), np.log(np.cosh(2 * rates)))


def test_a_temperature_of_zero_is_the_best_response_in_every_bound() -> None:
    rates, T, delta = np.array([0.1, 0.5, 1.0]), 200, 0.01
    kappa_K = best_response.kappa(RPS, rates)
    np.testing.assert_array_equal(coupled.kappa(RPS, rates, 0.0), kappa_K)
    assert coupled.kappa(RPS, 0.5, np.zeros((2, 1))).shape == (2, 1)
    np.testing.assert_allclose(coupled.charges(RPS, rates, T, 0)(np.array([0, 7])), [0 * kappa_K, 7 * kappa_K])
    rate = best_response.main_rate(RPS, T, 6.0)
    assert coupled.main_rate(RPS, T, 0.0, 6.0) == rate
    assert (T * (rate * RPS.contrast) ** 2 / 8 + 6) / rate >= coupled.free_rate_bound(RPS, T, 0.0, 6.0)
    prior = every_start.joint_prior(RPS, T, delta, 0.0)
    assert prior.rates_K[0] == best_response.main_rate(RPS, T, math.log(3 / (0.75 * delta)))
    own_K, costs_K, t = best_response.kappa(RPS, prior.rates_K), prior.log_costs_K(delta), np.array([0, 1, 50, 200])
    for contexts, exactly in product((1, 4), (False, True)):
        found = switching.before(RPS, prior, delta, 0.0, contexts, 1, exactly, T)(t)
        literal = [min(2.0 * n, min((n * own_K + contexts * costs_K) / prior.rates_K)) for n in t]
        np.testing.assert_allclose(found, literal, rtol=1e-9)
    late_costs_K = prior.log_costs_K(delta, 5)
    wanted = min(2.0 * 60, min((60 * own_K + late_costs_K) / prior.rates_K))
    assert switching.interval(RPS, prior, delta, 0.0, 1, 5, 64) == pytest.approx(wanted)
    test = RPS, prior, delta, 0.0
    wanted = min(2.0 * 90, min((90 * own_K + 3 * costs_K) / prior.rates_K))
    assert switching.before(*test, 1, 3, False, 200)(np.array([90]))[0] == pytest.approx(wanted)
    assert switching.before(*test, 1, 3, True, 200)(np.array([90]))[0] == pytest.approx(wanted)
    assert switching.interval(*test, 3, 1, 90) == pytest.approx(wanted)


def test_changing_payoffs_are_charged_by_the_widest() -> None:
    rng, rates = np.random.default_rng(8), np.array([0.1, 1.0])
    wide = best_response.kappa(RPS.payoff_range, rates)
    assert all(
        (best_response.kappa(lr.DecisionProblem(U), rates) <= wide).all() for U in rng.uniform(-1, 1, (50, 3, 3))
    )
    np.testing.assert_allclose(wide, np.log(np.cosh(2 * rates)))
    scaled = best_response.pair_kappa(RPS, [0.5]) - best_response.pair_kappa(
        lr.DecisionProblem(RPS.utility * 0.6), [0.5]
    )
    assert (scaled >= 0).all()  # a step that counts less is charged less
