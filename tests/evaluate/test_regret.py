"""Regret against plain loops."""

from itertools import product

import numpy as np
import pytest

import lowregret as lr

from ..conftest import extra, random_problem

torch = extra("torch")


def regret_by_hand(problem: lr.DecisionProblem, policy: np.ndarray, tokens: np.ndarray) -> list[float]:
    regrets = []
    for t in range(1, len(tokens) + 1):
        own = sum(policy[s] @ problem.utility[:, tokens[s]] for s in range(t))
        fixed = [sum(problem.utility[a, tokens[s]] for s in range(t)) for a in range(problem.n_actions)]
        regrets.append((max(fixed) - own) / t)
    return regrets


@pytest.mark.parametrize("seed", range(8))
def test_every_prefix_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    tokens = rng.integers(problem.n_states, size=(2, 3, 15))
    policy = rng.dirichlet(np.ones(problem.n_actions), (2, 3, 15))
    regret = lr.external_regret(problem, policy, tokens)
    assert regret.shape == (2, 3, 15)
    for i in np.ndindex(2, 3):
        np.testing.assert_allclose(regret[i], regret_by_hand(problem, policy[i], tokens[i]), atol=1e-12)
    in_torch = lr.external_regret(problem, torch.as_tensor(policy), torch.as_tensor(tokens))
    np.testing.assert_allclose(in_torch.numpy(), regret, atol=1e-12)
    actions = policy.argmax(axis=-1)
    mixed = np.eye(problem.n_actions)[actions]
    np.testing.assert_allclose(lr.external_regret(problem, actions, tokens), lr.external_regret(problem, mixed, tokens))


def test_a_policy_is_run_on_the_tokens() -> None:
    problem, tokens = lr.matching(), np.array([[0, 1, 1, 1, 0]])
    hedge = lr.policies.Hedge(problem, 5)
    np.testing.assert_array_equal(
        lr.external_regret(problem, hedge, tokens), lr.external_regret(problem, hedge.policy_sequence(tokens), tokens)
    )
    with pytest.raises(ValueError, match="Respond"):
        lr.external_regret(problem, lr.PolyaUrn(2), tokens)  # type: ignore[arg-type]


def test_hedge_is_exponential_weights() -> None:
    problem, tokens = lr.rock_paper_scissors(), np.array([0, 0, 2, 1, 0])
    policy = lr.policies.Hedge(problem, horizon=25, rate=0.3).policy_sequence(tokens)
    for t in range(5):
        weights = np.exp(0.3 * problem.utility[:, tokens[:t]].sum(1))
        np.testing.assert_allclose(policy[t], weights / weights.sum(), rtol=1e-12)
    assert lr.policies.Hedge(problem, horizon=25).rate == pytest.approx(0.2)


@pytest.mark.parametrize("seed", range(6))
def test_internal_regret_is_that_of_the_best_map_with_one_change(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    A, tokens = problem.n_actions, rng.integers(problem.n_states, size=(2, 3, 9))
    mixed, pure = rng.dirichlet(np.ones(A), tokens.shape), rng.integers(A, size=tokens.shape)
    maps = [f for f in product(range(A), repeat=A) if sum(f[a] != a for a in range(A)) == 1]
    for played, as_given in ((mixed, mixed), (np.eye(A)[pure], pure)):
        found = lr.internal_regret(problem, as_given, tokens)
        for i in np.ndindex(2, 3):
            for t in range(1, 10):
                earned = problem.utility[:, tokens[i][:t]].T  # [t, A]
                own = (played[i][:t] * earned).sum()
                best = max(((played[i][:t] * earned[:, list(f)]).sum() for f in maps), default=own)
                assert found[(*i, t - 1)] == pytest.approx((best - own) / t, abs=1e-12)
        in_torch = lr.internal_regret(problem, torch.as_tensor(as_given), torch.as_tensor(tokens))
        np.testing.assert_allclose(in_torch.numpy(), found, atol=1e-12)
        if A == 2:
            np.testing.assert_allclose(found, lr.external_regret(problem, as_given, tokens), atol=1e-12)
        assert (lr.external_regret(problem, as_given, tokens) <= max(A - 1, 1) * np.maximum(found, 0) + 1e-12).all()
