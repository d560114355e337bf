"""Scoring rules, tips and V-regret against brute force, and what a grid of tips can and cannot see."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lowregret as lr
from lowregret.certificates import quantal_loss, smooth_cover_error
from lowregret.rules.scoring import ScoringRule, brier, log_loss, problem_of, scoring_rule_of, spherical, v_shaped
from lowregret.rules.tips import blind_spot, tips_of, v_regret, worst_tip

from ..drawn import SEEDED

DEGENERATE = {
    "one action": [[0.3, -0.2]],
    "constant": [[0.5, 0.5], [0.5, 0.5]],
    "duplicates": [[1, 0], [0, 1], [1, 0], [0, 1]],
    "dominated": [[1, 0], [-1, -1], [0, 1], [0.2, 0.2]],
    "never best, not dominated": [[1, 0], [0.4, 0.4], [0, 1]],
    "best on a tip alone": [[1, 0], [0.5, 0.5], [0, 1]],
    "tie at 0": [[0, 0], [0, 1]],
    "tie at 1": [[0.5, 0.25], [0, 0.25]],
    "three tie at 0": [[0, 0.5], [0, -1], [0, 1], [-1, 0]],
    "ties at both ends": [[1, -1], [1, 0], [0, 1], [-1, 1]],
    "dominant action": [[0.9, 0.9], [0.8, -1], [-1, 0.8]],
    "parallel": [[0, 0.5], [0.25, 0.75], [-0.5, 0.0]],
    "nearly the same": [[0.1 + 0.2, 0.5], [0.3, 0.5], [0.2, 0.7]],
}


def problems(n: int, seed: int) -> list[lr.DecisionProblem]:
    """Two-state problems with utilities anywhere, on a coarse lattice (many ties) and at the corners."""
    rng = np.random.default_rng(seed)
    found = [lr.DecisionProblem(u) for u in DEGENERATE.values()]
    for i in range(n):
        shape = rng.integers(1, 9), 2
        utility = (rng.uniform(-1, 1, shape), rng.integers(-4, 5, shape) / 4, rng.choice([-1.0, 0, 1], shape))[i % 3]
        found.append(lr.DecisionProblem(utility))
    return found


def laws(p: np.ndarray) -> np.ndarray:
    return np.stack([1 - p, p], axis=-1)


def v_loss(tip: float, p: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sign(tip - p) * (y - tip)


# The tips of a problem


def kinks_by_hand(problem: lr.DecisionProblem) -> dict[float, float]:
    """Every crossing of two lines in [0, 1] at which the actions that are best have more than one slope."""
    U = problem.utility
    slope = U[:, 1] - U[:, 0]
    found: dict[float, float] = {}
    for a, b in itertools.combinations(range(len(U)), 2):
        if slope[a] == slope[b]:
            continue
        v = (U[a, 0] - U[b, 0]) / (slope[b] - slope[a])
        value = U[:, 0] + v * slope
        best = value >= value.max() - 1e-12
        if -1e-12 <= v <= 1 + 1e-12 and best[a] and best[b]:
            found[round(v, 9) + 0.0] = float(np.ptp(slope[best]) / 2)
    return dict(sorted(found.items()))


def test_tips_are_where_the_best_actions_cross() -> None:
    for problem in problems(400, seed=0):
        tips, weights, actions, _ = tips_of(problem)
        by_hand = kinks_by_hand(problem)
        assert (np.diff(tips) > 0).all()
        np.testing.assert_allclose(tips, list(by_hand), atol=1e-8)
        np.testing.assert_allclose(weights, list(by_hand.values()), atol=1e-8)
        assert (weights > 0).all()
        assert weights.sum() <= problem.contrast / 2 + 1e-12
        assert len(actions) == len(tips) + 1


def test_the_loss_of_a_best_response_is_its_v_shaped_losses() -> None:
    rng = np.random.default_rng(1)
    for problem in problems(400, seed=1):
        tips, weights, actions, offset = tips_of(problem)
        edges = np.concatenate([[0], tips, [1]])
        p = np.concatenate([rng.random(20), (edges[1:] + edges[:-1]) / 2, [0, 1]])
        p = p[np.abs(p[:, None] - tips).min(axis=1, initial=1.0) > 1e-9]
        best = problem.best_response(laws(p))
        for y in (0, 1):
            mixed = offset[y] + sum(w * v_loss(v, p, np.array(y)) for v, w in zip(tips, weights, strict=True))
            np.testing.assert_allclose(mixed, -problem.utility[best, y], atol=1e-12)
            on_tip = offset[y] + sum(w * v_loss(v, tips, np.array(y)) for v, w in zip(tips, weights, strict=True))
            both = (problem.utility[actions[:-1], y] + problem.utility[actions[1:], y]) / 2
            np.testing.assert_allclose(on_tip + both, 0, atol=1e-12)  # the even mix of the neighbours


# Problem to scoring rule


def test_the_rules_regret_is_the_best_responses() -> None:
    """Lemma C.2, on forecasts of all kinds, those on tips among them, and every outcome sequence of six steps."""
    rng = np.random.default_rng(2)
    tokens = np.array(list(itertools.product([0, 1], repeat=6)))
    for problem in problems(120, seed=2):
        rule = scoring_rule_of(problem)
        special = np.concatenate([tips_of(problem).tips, [0, 1, 0.5], rng.random(3)])
        p = rng.choice(special, tokens.shape)
        best = problem.best_response(laws(p))
        regret = rule.regret(p, tokens)
        np.testing.assert_allclose(regret, lr.external_regret(problem, best, tokens), atol=1e-12)
        # The definition: the best constant forecast, searched for among those that matter.
        candidates = np.concatenate([special, np.linspace(0, 1, 13), np.arange(7) / 6])
        constant = np.stack([rule.loss(np.full(6, c), tokens).mean(-1) for c in candidates]).min(axis=0)
        np.testing.assert_allclose(regret[:, -1], rule.loss(p, tokens).mean(-1) - constant, atol=1e-12)


def test_the_rule_is_in_the_array_one_brings() -> None:
    problem = lr.DecisionProblem([[1, -0.5], [0.2, 0.3], [-1, 0.9]])
    rng = np.random.default_rng(3)
    p, tokens = rng.random((3, 4, 9)), rng.integers(2, size=(3, 4, 9))
    for rule in (scoring_rule_of(problem), brier(), spherical(), log_loss(0.05), v_shaped(0.4)):
        regret = rule.regret(p, tokens)
        in_torch = rule.regret(torch.as_tensor(p), torch.as_tensor(tokens))
        assert isinstance(in_torch, torch.Tensor)
        np.testing.assert_allclose(in_torch.numpy(), regret, atol=1e-12)
        np.testing.assert_allclose(rule.regret(laws(p), tokens), regret, atol=1e-12)


# Scoring rules


BUILT_IN = {"brier": brier(), "spherical": spherical(), "log_loss": log_loss(0.02), "v_shaped": v_shaped(0.35)}


@pytest.mark.parametrize("rule", BUILT_IN.values(), ids=BUILT_IN)
def test_no_constant_forecast_beats_the_share_of_ones(rule: ScoringRule) -> None:
    rng = np.random.default_rng(4)
    tokens = rng.integers(2, size=(20, 11))
    p = rng.random(tokens.shape)
    constants = np.concatenate([np.linspace(0, 1, 1001), np.arange(12) / 11])
    best = np.stack([rule.loss(np.full(11, c), tokens).mean(-1) for c in constants]).min(axis=0)
    np.testing.assert_allclose(rule.regret(p, tokens)[:, -1], rule.loss(p, tokens).mean(-1) - best, atol=1e-12)


def test_bayes_risks_in_closed_form() -> None:
    p = np.linspace(0, 1, 101)
    inside = np.clip(p, 0.02, 0.98)
    np.testing.assert_allclose(brier().bayes_risk(p), p * (1 - p), atol=1e-15)
    np.testing.assert_allclose(v_shaped(0.35).bayes_risk(p), -np.abs(p - 0.35), atol=1e-15)
    np.testing.assert_allclose(spherical().bayes_risk(p), -np.hypot(p, 1 - p), atol=1e-15)
    entropy = -p * np.log(inside) - (1 - p) * np.log(1 - inside)
    np.testing.assert_allclose(log_loss(0.02).bayes_risk(p), entropy, atol=1e-15)


@SEEDED
@given(st.integers(0, 2**32 - 1))
def test_mixtures_of_v_shapes_are_proper_and_their_negatives_are_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tips, weights = rng.random(4), rng.random(4) + 0.1

    def loss(p: np.ndarray, y: np.ndarray) -> np.ndarray:
        return sum(w * v_loss(v, p, y) for v, w in zip(tips, weights, strict=True)) + 3 * y

    ScoringRule(loss)
    with pytest.raises(ValueError, match=r"loss must be proper, and upside down is not: if the truth is q = .*p = "):
        ScoringRule(lambda p, y: -loss(p, y), name="upside down")


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("absolute", lambda p, y: abs(y - p)),
        ("one-sided", lambda p, y: (1 - y) * p),
        ("a little biased", lambda p, y: (y - p) ** 2 + 0.01 * p),
    ],
)
def test_improper_rules_are_refused_with_the_forecasts_that_break_them(name: str, loss: Callable) -> None:
    with pytest.raises(ValueError, match=f"loss must be proper, and {name} is not") as caught:
        ScoringRule(loss, name)
    words = str(caught.value).replace(",", "").split()
    q, p = float(words[words.index("q") + 2]), float(words[words.index("p") + 2])
    costs = [(1 - q) * loss(c, 0) + q * loss(c, 1) for c in (p, q)]
    assert costs[0] < costs[1]


# Scoring rule to problem


@pytest.mark.parametrize("n", [2, 3, 5, 11, 40])
def test_brier_with_n_actions(n: int) -> None:
    """Equally spaced with both ends 1 / (4 (n-1)^2), best 1 / (4 n^2)."""
    even = problem_of(brier(), forecasts=np.linspace(0, 1, n))
    assert even.error == pytest.approx(1 / (4 * (n - 1) ** 2), rel=1e-9)
    best = problem_of(brier(), n)
    assert best.error == pytest.approx(1 / (4 * n**2), rel=1e-7)
    np.testing.assert_allclose(best.forecasts, (np.arange(n) + 0.5) / n, atol=1e-7)


@pytest.mark.parametrize("rule", list(BUILT_IN.values())[:3], ids=list(BUILT_IN)[:3])
def test_the_error_is_the_largest_and_the_least(rule: ScoringRule) -> None:
    p = np.linspace(0, 1, 20_001)

    def largest(forecasts: np.ndarray) -> float:
        risks = [(1 - p) * rule.loss(q, 0) + p * rule.loss(q, 1) for q in forecasts]
        return float((np.min(risks, axis=0) - rule.bayes_risk(p)).max())

    rng = np.random.default_rng(5)
    for n in (1, 2, 4, 7):
        problem, forecasts, error = problem_of(rule, n)
        assert problem.n_actions == n == len(forecasts)
        assert error == pytest.approx(largest(forecasts), rel=1e-3)
        payoffs = problem.in_payoffs(problem.utility)
        for y in (0, 1):
            np.testing.assert_allclose(payoffs[:, y], -rule.loss(forecasts, y), atol=1e-12)
        for _ in range(30):  # no other forecasts do better
            moved = np.clip(forecasts + rng.normal(size=n) * rng.choice([0.001, 0.01, 0.1]), 0, 1)
            assert largest(moved) >= error * (1 - 1e-3)


def test_problems_come_back_from_their_rules() -> None:
    """A piecewise linear Bayes risk is met exactly, with the actions that are best somewhere and no others."""
    p = np.linspace(0, 1, 301)
    for problem in problems(40, seed=6):
        tips, weights, actions, _ = tips_of(problem)
        inside = (tips > 1e-6) & (tips < 1 - 1e-6)
        back, forecasts, error = problem_of(scoring_rule_of(problem), n_actions=12)
        assert error <= 1e-12
        assert back.n_actions == inside.sum() + 1 <= len(actions)
        payoffs = back.in_payoffs(back.utility)
        np.testing.assert_allclose((laws(p) @ payoffs.T).max(-1), (laws(p) @ problem.utility.T).max(-1), atol=1e-12)
        np.testing.assert_allclose(tips_of(back).tips, tips[inside], atol=1e-9)
        in_utility = float(back.regret_in_payoffs(1.0))
        np.testing.assert_allclose(tips_of(back).weights * in_utility, weights[inside], atol=1e-9)
        np.testing.assert_array_equal(back.best_response(laws(forecasts)), np.arange(back.n_actions))


# V-regret


def test_v_regret_is_regret_to_the_best_constant_forecast() -> None:
    rng = np.random.default_rng(7)
    tips = np.concatenate([[0, 1, 0.5], rng.random(5)])
    for T in (1, 2, 7, 30):
        p = rng.choice(np.concatenate([tips, rng.random(6)]), (3, 2, T))
        tokens = rng.integers(2, size=(3, 2, T))
        found = v_regret(p, tokens, tips)
        assert found.shape == (3, 2, 8)
        constants = np.concatenate([tips, np.linspace(0, 1, 101)])
        for j, v in enumerate(tips):
            best = np.min([v_loss(v, c, tokens).mean(-1) for c in constants], axis=0)
            np.testing.assert_allclose(found[..., j], v_loss(v, p, tokens).mean(-1) - best, atol=1e-12)
            np.testing.assert_allclose(found[..., j], v_shaped(v).regret(p, tokens)[..., -1], atol=1e-12)
        in_torch = v_regret(torch.as_tensor(laws(p)), torch.as_tensor(tokens), tips)
        np.testing.assert_allclose(in_torch.numpy(), found, atol=1e-12)


def test_no_tip_is_worse_than_the_worst() -> None:
    rng = np.random.default_rng(8)
    for T in (1, 2, 5, 40):
        p = rng.choice(np.concatenate([[0, 1], rng.integers(11, size=5) / 10, rng.random(4)]), (50, T))
        tokens = rng.integers(2, size=(50, T))
        tip, regret = worst_tip(p, tokens)
        everywhere = np.unique(np.concatenate([p.ravel(), np.linspace(0, 1, 501)]))
        beside = np.clip(np.concatenate([everywhere, p.ravel() - 1e-9, p.ravel() + 1e-9]), 0, 1)
        np.testing.assert_allclose(v_regret(p, tokens, beside).max(-1), regret, atol=1e-7)
        sides = np.clip(np.concatenate([tip[:, None] - 1e-9, tip[:, None] + 1e-9], axis=1), 0, 1)
        there = [v_regret(p[i], tokens[i], sides[i]).max() for i in range(50)]
        np.testing.assert_allclose(there, regret, atol=1e-7)
        in_torch = worst_tip(torch.as_tensor(p), torch.as_tensor(tokens))
        np.testing.assert_allclose(in_torch.regret.numpy(), regret, atol=1e-12)


def test_best_response_regret_is_a_mixture_of_v_regrets() -> None:
    """Regret = sum_j w_j V-regret(v_j) off the tips, at most beta/2 times the worst tip whatever the ties."""
    rng = np.random.default_rng(9)
    for problem in problems(150, seed=9):
        tips, weights, _, _ = tips_of(problem)
        p, tokens = rng.random((4, 25)), rng.integers(2, size=(4, 25))
        regret = lr.external_regret(problem, problem.best_response(laws(p)), tokens)[:, -1]
        mixed = v_regret(p, tokens, tips) @ weights
        np.testing.assert_allclose(regret, mixed, atol=1e-12)
        p = rng.choice(np.concatenate([tips, [0, 1]]), (4, 25))
        regret = lr.external_regret(problem, problem.best_response(laws(p)), tokens)[:, -1]
        assert (regret <= problem.contrast / 2 * worst_tip(p, tokens).regret + 1e-12).all()


# What a grid of tips can miss: the cover lemmas are in paper/statements/appendix_c_tips.py


@SEEDED
@given(st.lists(st.floats(0, 1), max_size=12))
def test_every_grid_has_a_blind_spot(grid: list[float]) -> None:
    between = np.concatenate([[0.0, 1.0], grid])
    if between[between > 0.5].min() - between[between <= 0.5].max() < 1e-9:
        return  # the two forecasts could not be told apart either
    p, tokens, tip = blind_spot(grid, horizon=10)
    assert v_regret(p, tokens, grid).max(initial=0) <= 1e-12
    assert v_regret(p, tokens, [tip])[0] >= 0.5 - 1e-12


def test_the_entropy_term_is_needed() -> None:
    """No V-regret at any tip, and a quantal responder's regret near eta ln 2, more than Lemma A.1's eta W."""
    n, eta = 20_000, 0.003
    extra = np.arange(1, int(0.02 * n))  # ones, forecast ever higher, as the V-regrets just allow
    p = np.concatenate([np.full(n, 0.5), (extra + n / 2) / (extra + n)])
    tokens = np.concatenate([np.tile([0, 1], n // 2), np.ones(len(extra), int)])
    assert worst_tip(p, tokens).regret <= 1e-12
    played = lr.matching().quantal_response(laws(p), eta)
    regret = lr.external_regret(lr.matching(), played, tokens)[-1] / eta
    assert 2 * quantal_loss(2) < 0.6 < regret <= math.log(2)


def test_the_error_is_what_the_statement_says() -> None:
    s = np.linspace(0, 1, 100_001)
    for epsilon in (0.001, 0.1, 0.5, 0.9, 1.0):
        kappa = (s * (1 + epsilon - s) + s**3 / 6).max()
        assert smooth_cover_error(0.5, epsilon, 10.0) == pytest.approx(0.25 * epsilon * kappa / 40, rel=1e-8)
    assert smooth_cover_error(2, 1e-9, 10.0) == pytest.approx(1e-10 * (math.sqrt(2) - 1) * 2 / 3, rel=1e-6)
    assert smooth_cover_error(2, 0.01, 1e-9) == smooth_cover_error(2, 0.01, 0) == 1.01**2 / 2
    assert smooth_cover_error(0, 0.1, 0.1) == 0


# Refusals


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tips_of(lr.rock_paper_scissors()), "problem must have two states, got one with 3"),
        (lambda: v_shaped(1.5), r"tip must lie in \[0, 1\], got 1.5"),
        (
            lambda: ScoringRule(lambda p, y: -np.log(np.where(y == 1, p, 1 - p)), "log"),
            r"finite, and log\(1, 0\) is inf",
        ),
        (lambda: log_loss(0.5), "floor must be below 1/2, got 0.5"),
        (lambda: problem_of(brier()), "n_actions or forecasts, one of them"),
        (lambda: problem_of(brier(), forecasts=[0, 2]), r"forecasts must be a list of numbers in \[0, 1\]"),
        (lambda: v_regret([0.5, 0.5], [0], [0.5]), r"p must have the shape of tokens, \(1,\), or \(1, 2\), got \(2,\)"),
        (lambda: blind_spot([0.5], 3), "horizon must be even, got 3"),
    ],
)
def test_refusals_name_the_argument(call: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
