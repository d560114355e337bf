"""The shrunk urn is Hedge as a law, within its bound on every sequence."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import lowregret as lr
from lowregret import certificates, checks
from lowregret.evaluate import adversaries
from lowregret.evaluate.adversaries import all_sequences
from lowregret.predictors import equaliser
from lowregret.predictors.urns import on_simplex

from ..conftest import random_problem

COIN, RPS = lr.matching(), lr.rock_paper_scissors()
SKEW = lr.DecisionProblem([[0.6, -1.0, 0.2, 0.0], [0.0, 0.3, 0.2, -0.5]])
TILTED = lr.DecisionProblem.from_payoffs([[0, 7], [1, 5]])


def equalised(rng: np.random.Generator, actions: int, states: int) -> lr.DecisionProblem:
    """A random game that has an equaliser."""
    utility, nu = rng.uniform(-1, 1, (actions, states)), rng.dirichlet(np.ones(states))
    utility = utility - (utility @ nu)[:, None]
    return lr.DecisionProblem(utility / np.abs(utility).max())


# The equaliser


def test_equalisers_are_found_or_shown_not_to_exist() -> None:
    """Where none is found, some bet on the differences of actions wins in every state, so none exists (Gordan)."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(150):
        problem = random_problem(rng, 4, 5)
        nu, D = equaliser(problem), problem.advantage
        if nu is not None:
            found += 1
            assert nu.min() >= 0
            assert nu.sum() == pytest.approx(1, abs=1e-12)
            assert np.ptp(problem.utility @ nu) < 1e-10
            continue
        n = len(D)
        bet = linprog(
            np.append(np.zeros(n), -1.0),
            A_ub=np.append(-D.T, np.ones((D.shape[1], 1)), axis=1),
            b_ub=np.zeros(D.shape[1]),
            bounds=[(-1, 1)] * n + [(None, None)],
        )
        assert -bet.fun > 1e-9
    assert 30 < found < 120


# The shrunk urn


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_up_to_one_it_is_hedge(kind: str) -> None:
    import torch

    rng = np.random.default_rng(1)
    random_games = [equalised(rng, actions, states) for actions, states in [(2, 3), (3, 4), (5, 5)]]
    for problem in (COIN, RPS, SKEW, TILTED, lr.matching(4), *random_games):
        T, c = 80, float(rng.uniform(0.1, 1))
        tokens = rng.integers(problem.n_states, size=(20, T))
        tokens = torch.as_tensor(tokens) if kind == "torch" else tokens
        hedge = lr.policies.Hedge(problem, T, rate=c / math.sqrt(T)).policy_sequence(tokens)
        urn = lr.policies.Respond(lr.predictors.ShrunkUrn(problem, T, c), problem, T**-0.5).policy_sequence(tokens)
        assert abs(hedge - urn).max() < 1e-12


@pytest.mark.parametrize("problem", [COIN, lr.matching(3), SKEW, TILTED], ids=["coin", "matching 3", "skew", "tilted"])
def test_above_one_it_is_hedge_until_it_must_be_clipped(problem: lr.DecisionProblem) -> None:
    rng = np.random.default_rng(2)
    T = 400
    c = lr.predictors.ShrunkUrn(problem, T).c
    assert c == pytest.approx(math.sqrt(8 * math.log(problem.n_actions)) / problem.span)
    # Half the sequences are nearly constant: they reach the edge.
    tokens = np.where(rng.random((40, T)) < 0.97, rng.integers(problem.n_states, size=(40, 1)), 0)
    tokens[:20] = rng.integers(problem.n_states, size=(20, T))
    law = lr.predictors.ShrunkUrn(problem, T).predict_sequence(tokens)
    hedge = lr.policies.Hedge(problem, T, rate=c / math.sqrt(T)).policy_sequence(tokens)
    urn = problem.quantal_response(law, T**-0.5)
    early = np.arange(T) <= T / c
    assert np.abs(hedge - urn)[:, early].max() < 1e-11
    assert (law.min(-1) < 1e-9).any()  # at the edge
    worse = ((hedge - urn) @ problem.utility).max()  # over states too
    assert 0 < worse <= certificates.bounds.clipping_loss(problem, T**-0.5) + 1e-15


def test_matching_is_clipped_by_projection() -> None:
    """mu = nu + (c/T)(n - (t-1) nu), projected, step by step."""
    T, S = 60, 4
    tokens = np.minimum(np.random.default_rng(5).integers(12, size=T), S - 1)
    urn, edge = lr.predictors.ShrunkUrn(lr.matching(S), T), False
    for t, law in enumerate(urn.predict_sequence(tokens)):
        counts = np.bincount(tokens[:t], minlength=S)
        point = 1 / S + urn.c / T * (counts - t / S)
        np.testing.assert_allclose(law, on_simplex(point), atol=1e-14)
        edge = edge or point.min() < 0
    assert edge


def test_the_projection_onto_the_simplex() -> None:
    """By its optimality conditions: a constant off each point where positive, at most that much where zero."""
    rng = np.random.default_rng(3)
    points = rng.normal(0, 1, (500, 4))
    points += (1 - points.sum(-1, keepdims=True)) / 4
    law = on_simplex(points)
    assert law.min() == 0
    np.testing.assert_allclose(law.sum(-1), 1, atol=1e-12)
    lowered = points - law
    level = np.where(law > 0, lowered, -np.inf).max(-1, keepdims=True)
    assert np.abs(np.where(law > 0, lowered - level, 0)).max() < 1e-12
    assert np.where(law == 0, lowered - level, 0).max() < 1e-12
    inside = rng.dirichlet(np.ones(4), 50)
    np.testing.assert_allclose(on_simplex(inside), inside, atol=1e-15)


@pytest.mark.parametrize(("horizon", "scaled"), [(64, 0.550), (1024, 0.574), (8192, 0.582)])
def test_the_exact_worst_case_of_the_shrunk_urn(horizon: int, scaled: float) -> None:
    """No log T: times sqrt(T) it stays below 0.60, as that of the Hedge it equals does; the bound is met closely."""
    urn = lr.predictors.ShrunkUrn(COIN, horizon)
    worst = adversaries.exact_worst_case(urn, COIN, horizon)
    assert worst.exact
    assert worst.regret * math.sqrt(horizon) == pytest.approx(scaled, abs=5e-4)
    assert worst.regret <= urn.regret_bound(COIN, horizon, horizon**-0.5) <= worst.regret * 1.08
    if horizon < 8192:
        hedge = lr.policies.Hedge(COIN, horizon, rate=math.sqrt(8 * math.log(2) / horizon))
        assert adversaries.exact_worst_case(hedge, COIN, horizon).regret == pytest.approx(worst.regret, rel=1e-4)
        setting = lr.robust.algorithm_1(COIN, lr.RegretGap(horizon), urn)
        assert setting.certificate.sharpen().terms["fallback"] == pytest.approx(worst.regret, abs=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_no_sequence_breaks_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S = int(rng.integers(2, 4))
    problem = lr.matching(S) if seed % 5 == 0 else equalised(rng, int(rng.integers(2, 5)), S)
    T = 10 if S == 2 else 7
    tokens = all_sequences(S, T)
    clips = problem.n_actions == 2 or seed % 5 == 0
    for c in (0.3, 1.0, None, *((1.5, 6.0) if clips else ())):
        urn = lr.predictors.ShrunkUrn(problem, T, c)
        for temperature in (0.05, T**-0.5, 1.0):
            regret = lr.external_regret(problem, lr.policies.Respond(urn, problem, temperature), tokens)
            for t in range(1, T + 1):
                assert regret[:, t - 1].max() <= urn.regret_bound(problem, t, temperature) + 1e-12


def test_the_term_for_clipping_is_needed_and_vanishes() -> None:
    """Far too warm, the sequence of ones breaks the bound of Hedge alone; at T = 1024 the term is below 1e-13."""
    T, warmth, rate = 100, 2.0, 0.235
    for problem in (COIN, lr.matching(3)):
        urn = lr.predictors.ShrunkUrn(problem, T, c=rate * T * warmth)
        regret = lr.external_regret(problem, lr.policies.Respond(urn, problem, warmth), [1] * T)[-1]
        alone, bound = certificates.hedge(problem, T, rate), urn.regret_bound(problem, T, warmth)
        assert alone < regret <= bound
        assert regret > 0.7 * bound
    assert certificates.bounds.clipping_loss(COIN, 1 / 32) < 1.3e-14
    assert certificates.bounds.clipping_loss(lr.matching(4), 1e-3) < 1e-100


def test_what_is_refused() -> None:
    fee = lr.trading([-1, 1], fee=0.5)
    with pytest.raises(ValueError, match="problem has no equaliser"):
        lr.predictors.ShrunkUrn(fee, 10)
    assert lr.predictors.ShrunkUrn(RPS, 10).c == 1
    with pytest.raises(ValueError, match="c must be at most 1"):
        lr.predictors.ShrunkUrn(RPS, 10, c=1.01)
    urn = lr.predictors.ShrunkUrn(COIN, 2)
    memory = urn.update(urn.update(urn.start(), 1), 1)
    urn.predict(memory)
    with pytest.raises(ValueError, match="horizon of 2 steps is over"):
        urn.update(memory, 1)
    with pytest.raises(ValueError, match="longer than the urn's horizon"):
        urn.predict_sequence([1, 1, 1])
    assert urn.regret_bound(COIN, 2, 0.5) is not None
    assert urn.regret_bound(COIN, 3, 0.5) is None
    assert urn.regret_bound(TILTED, 2, 0.5) is None
    assert urn.regret_bound(COIN, 2, None) is None
    for problem, horizon, message in (
        (COIN, 3, "fallback ShrunkUrn was made for 2 steps"),
        (COIN, None, "unknown"),
        (TILTED, 2, "fallback ShrunkUrn was made for another problem"),
    ):
        with pytest.raises(ValueError, match=message):
            lr.robust.algorithm_1(problem, lr.ExactTest(0.1, horizon), urn)


# As fallbacks, and as predictors


SUBJECTS = {
    "shrunk, coin": lr.predictors.ShrunkUrn(COIN, 12),
    "shrunk, slow": lr.predictors.ShrunkUrn(COIN, 12, c=0.5),
    "shrunk, far past the edge": lr.predictors.ShrunkUrn(TILTED, 12, c=9.0),
    "shrunk, four states": lr.predictors.ShrunkUrn(lr.matching(4), 12),
    "shrunk, two actions, four states": lr.predictors.ShrunkUrn(SKEW, 12, c=9.0),
    "shrunk, rock paper scissors": lr.predictors.ShrunkUrn(RPS, 20),
    "shrunk, one action": lr.predictors.ShrunkUrn(lr.DecisionProblem([[0.3, -0.2]]), 12),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_fallbacks_keep_the_laws(name: str) -> None:
    subject = SUBJECTS[name]
    assert len(checks.check_predictor(subject, tolerance=1e-12)) == len(checks.LAWS)
    tokens = np.random.default_rng(0).integers(subject.n_states, size=(50, 12))
    counts = (tokens[:, :11, None] == np.arange(subject.n_states)).sum(1)
    np.testing.assert_allclose(subject.law_of_counts(counts), subject.predict_sequence(tokens)[:, -1], atol=1e-12)
    if subject.problem.n_actions > 1:
        base = lr.predictors.Scheduled([np.eye(subject.n_states)[-1] * 0.9 + 0.1 / subject.n_states])
        test, response = lr.ExactTest(0.6, 12), lr.QuantalResponse(0.2)
        safe = lr.robustify(base, subject.problem, test=test, fallback=subject, response=response)
        checks.check_robust(safe, tolerance=1e-12)
