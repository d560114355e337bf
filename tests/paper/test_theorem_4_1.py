"""Theorem 4.1: closed forms against all sequences, no model below the bound, and a search that comes close to it.

More is checked by the statements themselves (``paper/statements/section_4.py``).
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit

import lowregret as lr
from paper import bounded_search, de_bruijn, impossibility
from paper.statements.section_4 import some_bounded

from ..conftest import sweep


def full_regret(length: int) -> float:
    return float(expit(math.sqrt(length))) / 2 - 0.25


def random_model(rng: np.random.Generator, length: int) -> impossibility.Bounded:
    """Anything from M0 to M1, started at random or at best."""
    follow_N, initial_N = some_bounded(rng, length)
    start_N = impossibility.best_initial(follow_N) if rng.random() < 0.5 else initial_N
    return impossibility.stand(follow_N, start_N)


def test_contexts_are_read_off_the_cycle() -> None:
    for length in (1, 2, 5, 9):
        words_N, following_N = de_bruijn.cycle_contexts(length)
        bits = ["".join(map(str, np.roll(de_bruijn.de_bruijn_sequence(length), -i)[:length])) for i in range(2**length)]
        assert [int(word, 2) for word in bits] == words_N.tolist()
        np.testing.assert_array_equal((2 * words_N + following_N) % 2**length, np.roll(words_N, -1))


# Closed forms


@pytest.mark.parametrize("length", [1, 2, 3])
def test_closed_forms_against_all_sequences(length: int) -> None:
    """TV, regret and what a model is made of, for random models with uniform and with other initial laws."""
    rng, size = np.random.default_rng(length), 2**length
    for i in range(12):
        follow_N, initial_N = rng.random(size), rng.dirichlet(np.ones(size))
        if i % 3 == 0:
            follow_N[rng.integers(size)] = rng.integers(2)
            initial_N = np.eye(size)[rng.integers(size)]
        for start in (None, initial_N):
            model = impossibility.bounded_model(follow_N, start)
            found, brute = impossibility.measure(model, length), impossibility.measure_by_enumeration(model, length)
            assert found.tv == pytest.approx(brute.tv, abs=1e-12)
            assert found.regret == pytest.approx(brute.regret, abs=1e-12)
            np.testing.assert_allclose(found.follow_N, follow_N, atol=1e-12)
            np.testing.assert_allclose(found.initial_N, 1 / size if start is None else start, atol=1e-12)


def test_the_regret_to_half_half_from_first_principles() -> None:
    """One step at a time, without external_regret: 1/2 minus the chance of the bit that came."""
    rng, length = np.random.default_rng(5), 3
    model = impossibility.bounded_model(rng.random(8))
    M1, total = de_bruijn.de_bruijn_pair(length)[1], 0.0
    for tokens in product((0, 1), repeat=2 * length):
        chance, regret = 1.0, 0.0
        for t, token in enumerate(tokens):
            said, true = (np.asarray(m.predict_sequence(np.array(tokens))[t]) for m in (model, M1))
            chance *= true[token]
            regret += 0.5 - expit(math.sqrt(length) * (said[token] - said[1 - token]))
        total += chance * regret / (2 * length)
    assert impossibility.measure(model, length).regret == pytest.approx(total, abs=1e-12)


def test_the_worst_regret_is_the_adversarys() -> None:
    for length in (2, 4):
        model = impossibility.bounded_model(np.random.default_rng(length).random(2**length))
        worst = lr.evaluate.adversaries.exact_worst_case(model, lr.matching(), 2 * length, temperature=length**-0.5)
        assert impossibility.measure_by_enumeration(model, length).worst_regret == pytest.approx(worst.regret)


def test_the_best_initial_law_against_a_linear_programme() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        length = int(rng.integers(1, 5))
        size = 2**length
        follow_N = rng.random(size) ** rng.choice([0.1, 1.0])
        follow_N[rng.random(size) < 0.2] = rng.integers(2)
        product_N = np.array([np.prod([follow_N[(i + j) % size] for j in range(length)]) for i in range(size)])
        # Most sum of z with z_i <= 1/N and z_i <= mu_i P_i, over z >= 0 and laws mu.
        best = linprog(
            np.repeat([-1.0, 0.0], size),
            A_ub=np.hstack([np.eye(size), -np.diag(product_N)]),
            b_ub=np.zeros(size),
            A_eq=np.repeat([[0.0, 1.0]], size, axis=1),
            b_eq=[1.0],
            bounds=[(0, 1 / size)] * size + [(0, 1)] * size,
        )
        initial_N = impossibility.best_initial(follow_N)
        assert initial_N.min() >= 0
        assert initial_N.sum() == pytest.approx(1)
        assert impossibility.stand(follow_N, initial_N).tv == pytest.approx(1 + best.fun, abs=1e-9)


def test_models_that_are_not_bounded_are_refused() -> None:
    late = lr.predictors.Scheduled([[0.5, 0.5]] * 5 + [[0.1, 0.9]])  # other only at the last of 6 steps
    for bad in (lr.PolyaUrn(2), late, de_bruijn.de_bruijn_pair(4)[0]):
        with pytest.raises(ValueError, match=f"last 3 tokens only, and {type(bad).__name__} does not"):
            impossibility.measure(bad, 3)


# The bound


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
def test_no_model_lies_below_the_bound(length: int) -> None:
    rng = np.random.default_rng(100 + length)
    for _ in range(400):
        model = random_model(rng, length)
        assert model.regret >= impossibility.regret_bound(length, min(1.0, max(0.0, model.tv))) - 1e-12
        weight = 10 ** rng.uniform(-1, 2)
        assert model.tv + weight * model.regret >= impossibility.sum_bound(length, weight) - 1e-12 * weight - 1e-12


def test_the_sum_is_the_least_along_the_curve() -> None:
    """``sum_bound`` against a fine grid of distances, and ``regret_bound`` never rises with the distance."""
    grid = np.linspace(0, 1, 4001)
    for length in (1, 2, 3, 7, 12):
        curve = np.array([impossibility.regret_bound(length, tv) for tv in grid])
        assert (np.diff(curve) <= 1e-15).all()
        for weight in (0.3, 1, 2, 2.3, 3, 10, 100):
            least = (grid + weight * curve).min()
            assert impossibility.sum_bound(length, weight) == pytest.approx(least, abs=1 / 4000)  # a step of the grid
            assert impossibility.sum_bound(length, weight) <= least + 1e-12


def test_the_constants_of_the_bound() -> None:
    """k by a fine grid, and k <= 1, on which the proof of TV + regret >= F rests."""
    chance = np.linspace(1e-6, 1 - 1e-5, 200_001)
    for length in (1, 2, 3, 5, 10, 50):
        f = expit(math.sqrt(length) * (2 * chance - 1)) / 2 - 0.25
        steepest = ((full_regret(length) - f) / -np.log(chance)).max()
        kept = 0.3
        free = full_regret(length) * (2 * kept - 1) - impossibility.regret_bound(length, 1 - kept)
        if length > 1:  # with one token of context the bound is -F at this distance
            assert free == pytest.approx(steepest / length * kept * math.log(1 / kept), rel=1e-6)
        assert steepest <= (1 if length > 1 else 1 / 4)


@pytest.mark.parametrize("length", [6, 10])
def test_the_bound_is_tight_for_long_contexts(length: int) -> None:
    """The model of the proof comes within 2F(L-1)/N of it, and below what uniform starts could do."""
    chance = np.linspace(0.01, 1, 100_000, endpoint=False)
    f = expit(math.sqrt(length) * (2 * chance - 1)) / 2 - 0.25
    best, size = chance[((full_regret(length) - f) / -np.log(chance)).argmax()], 2**length
    kept = math.floor(best * size)
    arc = np.arange(size) < kept + length - 1
    follow_N = np.where(arc, np.where(np.arange(size) % length == 0, kept / size, 1.0), 0.0)
    found = impossibility.stand(follow_N, np.where(np.arange(size) < kept, 1 / kept, 0.0))
    assert found.tv == pytest.approx(1 - kept / size)
    gap = found.regret - impossibility.regret_bound(length, found.tv)
    assert -1e-12 <= gap <= 2 * full_regret(length) * (length - 1) / size + 1e-6
    if length >= 8:
        assert found.regret < full_regret(length) * (1 - 2 * found.tv)


# The search


@pytest.mark.parametrize("budget", [None, 0.2])
def test_the_gradient(budget: float | None) -> None:
    rng = np.random.default_rng(0)
    for length in (1, 2, 4):
        size = 2**length
        point, held = np.concatenate([rng.random(size), 2 * rng.random(size)]), rng.random(size + 2)

        def value(at: np.ndarray, held: np.ndarray = held) -> float:
            return bounded_search._lagrangian(at, budget, held, 7.0)[0]

        numeric = [(value(point + 1e-6 * e) - value(point - 1e-6 * e)) / 2e-6 for e in np.eye(2 * size)]
        np.testing.assert_allclose(bounded_search._lagrangian(point, budget, held, 7.0)[1], numeric, atol=1e-7)


def test_a_model_that_misses_its_budget_is_brought_just_within() -> None:
    rng = np.random.default_rng(0)
    for length in (1, 3, 5):
        far_N = rng.random(2**length)
        for budget in (0.0, 0.1, 0.4):
            found = bounded_search._furthest(np.ones(2**length), far_N, budget)
            assert budget - 1e-9 <= found.tv <= budget
        assert bounded_search._furthest(np.ones(2**length), far_N, 1.0).follow_N is far_N


@pytest.mark.long
def test_the_search_does_as_well_as_a_grid() -> None:
    """All models with chances in steps of 1/20 and a context of 2, each with its best initial law."""
    steps = np.linspace(0, 1, 21)
    follow_MxN = np.array([f for f in product(steps, repeat=4) if f[0] == max(f)])  # turned: the largest first
    product_MxN = -np.sort(-follow_MxN * np.roll(follow_MxN, -1, axis=1), axis=1)
    enough = 1 / (4 * np.maximum(product_MxN, 1e-300))
    left = 1 - np.concatenate([np.zeros((len(enough), 1)), np.cumsum(enough, axis=1)[:, :-1]], axis=1)
    tv_M = 1 - (np.clip(left, 0, enough) * product_MxN).sum(axis=1)
    regret_M = (expit(math.sqrt(2) * (2 * follow_MxN - 1)) / 2 - 0.25).mean(axis=1)
    budgets = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
    for row in bounded_search.trade_off(2, budgets, starts=8):
        assert row.bound <= row.found.regret <= regret_M[tv_M <= row.budget + 1e-9].min() + 1e-6
    found = bounded_search.least_sum(2, starts=4)
    assert found.tv + found.regret <= (tv_M + regret_M).min() + 1e-9


@pytest.mark.parametrize("length", sweep([2, 3, 4], usual=1))
def test_the_trade_off_and_the_theorem_itself(length: int) -> None:
    """Found models keep their budgets and the bound; each is far from M0 or regrets some sequence."""
    found = bounded_search.trade_off(length, (0.0, 1 / 24, 0.3, 0.7, 1.0), starts=3, seed=1)
    assert (found[0].found.tv, found[0].found.regret) == pytest.approx((0, full_regret(length)))
    assert found[-1].found.regret == pytest.approx(-full_regret(length))
    regrets = [row.found.regret for row in found]
    assert regrets == sorted(regrets, reverse=True)
    for row in found:
        assert row.found.tv <= row.budget + 1e-9
        assert row.found.regret >= row.bound - 1e-12
        assert max(row.found.tv, row.worst_regret) > impossibility.dichotomy(length) > 1 / 24
