"""Internal regret: pairs as comparators by all sequences, the fallback's bound by its own loop, the certificate."""

import math
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates import best_response, coupled, every_start, internal, switching

from ..literal_theorem import answer, by_prefix, chance_of, some_game, some_laws

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()


class StoltzLugosi:
    """The fallback, as far as certificates ask."""

    name, acts = "StoltzLugosi", True

    def regret_after(self, problem: Any, steps: int, temperature: float | None) -> Any:
        return partial(internal.stoltz_lugosi, problem)


def certificate(problem: lr.DecisionProblem, T: int, delta: float, temperature: float) -> lr.Certificate:
    prior = internal.internal_prior(problem, T, delta, temperature)
    return internal.certify_internal(problem, T, temperature, StoltzLugosi(), prior, delta, "pairs of actions")


def test_rock_paper_scissors_by_best_responses() -> None:
    made = certificate(RPS, 1024, 2 / 1024, 0.0)
    assert made.regret_bound == pytest.approx(0.194, rel=0.005)
    assert made.sharpen().regret_bound == pytest.approx(made.regret_bound, rel=1e-9)
    assert "playing b whenever a was played gains no more" in str(made)
    assert made.limit() is None
    assert made.interval(3, 50) == internal.interval(
        RPS, internal.internal_prior(RPS, 1024, 2 / 1024, 0.0), 2 / 1024, 0.0, 3, 50
    )


def test_two_actions_have_no_other_regret() -> None:
    for temperature in (0.0, 0.1, None):
        own, usual = (
            make(MATCHING, 300, 0.05, temperature) for make in (internal.internal_prior, every_start.joint_prior)
        )
        np.testing.assert_array_equal(own.rates_K, usual.rates_K)
        warmth = 300**-0.5 if temperature is None else temperature
        t = np.array([1, 30, 300])
        inner = internal.before(MATCHING, own, 0.05, warmth, False, 300)(t)
        np.testing.assert_allclose(inner, switching.before(MATCHING, usual, 0.05, warmth, 1, False, 300)(t))


def test_quantal_pairs_are_charged_as_of_two_actions() -> None:
    """No law, no pair: ln E exp(lam pi_a (U(b) - U(a))) stays below kappa of two actions, and comes near."""
    rng, nearest = np.random.default_rng(0), 1.0
    for i in range(12):
        problem = [RPS, lr.matching(4), some_game(rng, 4, 3)][i % 3]
        rate, warmth = math.exp(rng.uniform(-2, 1)) / problem.span, math.exp(rng.uniform(-4, -1))
        bound = float(coupled.kappa(problem, rate, warmth, n_actions=2))
        most = 0.0
        for law in rng.dirichlet(np.full(problem.n_states, 0.8), 1500):
            pi = answer(problem.utility, law, warmth)
            for a, b in permutations(range(problem.n_actions), 2):
                x_S = pi[a] * (problem.utility[b] - problem.utility[a])
                most = max(most, math.log(float(law @ np.exp(rate * x_S))))
        assert most <= bound
        nearest = min(nearest, (bound - most) / bound)
    assert nearest < 0.2
    L = every_start.main_log_cost(0.01, 6)
    warmth = coupled.certificate_temperature(RPS, 1000, L, n_actions=2)
    assert warmth == pytest.approx(1.5 * math.sqrt(L / 2000))
    rate = coupled.main_rate(RPS, 1000, warmth, L, n_actions=2)
    best = (1000 * coupled.kappa(RPS, rate, warmth, n_actions=2) + L) / rate
    assert best == pytest.approx(3 / 2 * math.sqrt(1000 * L / 2), rel=1e-6)  # R (1 - 1/2) sqrt(T L / 2)
    steps = np.array([1, 40, 200])
    scheduled = coupled.charges(RPS, [0.5], 200, None, n_actions=2)(steps)[:, 0]
    exact = np.cumsum(coupled.kappa(RPS, 0.5, RPS.anytime_temperature(np.arange(1, 201)), n_actions=2))[steps - 1]
    np.testing.assert_allclose(scheduled, exact, rtol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 0.15])
def test_bounds_are_their_formula(temperature: float) -> None:
    """min_k [ charges + ln(1 / (m delta)) ] / lam_k, with the charges of these steps."""
    prior = internal.internal_prior(RPS, 200, 0.05, temperature)
    kappa_K = coupled.kappa(RPS, prior.rates_K, temperature, n_actions=2)
    for start, end in ((1, 200), (1, 40), (30, 120)):
        costs_K = -np.log(prior.weights_K(start) * 0.05)
        wanted = min(((end - start + 1) * kappa_K + costs_K) / prior.rates_K)
        assert internal.interval(RPS, prior, 0.05, temperature, start, end) == pytest.approx(wanted)
        if start == 1:
            assert internal.before(RPS, prior, 0.05, temperature, False, 200)(np.array([end]))[0] == pytest.approx(
                wanted
            )


@pytest.mark.parametrize("temperature", [0.0, 0.15])
def test_every_sequence_of_small_problems_is_within_the_bounds(temperature: float) -> None:
    """Bets on every pair, psi+ charged: chance of an alarm, and every interval before it, by all sequences."""
    rng, used = np.random.default_rng(3), 0.0
    for i in range(4):
        problem = RPS if i == 0 else some_game(rng, 3, 2 + i % 2)
        A, S = problem.utility.shape
        T, delta, U = 6 if S == 2 else 5, 0.6, problem.utility
        prior = internal.internal_prior(problem, T, delta, temperature)
        tables = [some_laws(rng, (S**t,), S, zeros=False) for t in range(T)]
        if i == 0:
            tables = [np.full((S**t, S), 1 / S) for t in range(T)]
        states = np.array(list(product(range(S), repeat=T)))
        laws, pairs, alarm = by_prefix(tables, states), list(permutations(range(A), 2)), 0.0
        chance = chance_of(laws, states)
        ends = [(j, t) for j in range(1, T + 1) for t in range(j, T + 1)]
        within = {(j, t): internal.interval(problem, prior, delta, temperature, j, t) for j, t in ends}
        for n, sequence in enumerate(states):
            wealth, unspent, trip, gains = np.zeros((len(pairs), len(prior.rates_K))), 1.0, T + 1, []
            for t in range(1, T + 1):
                p = laws[n, t - 1]
                pi = np.eye(A)[int(np.argmax(U @ p))] if temperature == 0 else answer(U, p, temperature)
                x_PxS = np.array([pi[a] * (U[b] - U[a]) for a, b in pairs])
                psi = np.log(np.einsum("pks,s->pk", np.exp(prior.rates_K[:, None] * x_PxS[:, None]), p))
                x_P = x_PxS[:, sequence[t - 1]]
                fresh = prior.weights_K(t)
                unspent -= fresh.sum() * len(pairs)
                wealth = (wealth + fresh) * np.exp(prior.rates_K * x_P[:, None] - np.maximum(psi, 0))
                gains.append(x_P)
                if trip > T and wealth.sum() + unspent >= 1 / delta:
                    trip = t
            alarm += chance[n] * (trip <= T)
            for j in range(1, T + 1):
                for t in range(j, min(trip, T + 1)):
                    most = np.sum(gains[j - 1 : t], axis=0).max()
                    assert most <= within[j, t] + 1e-12
                    used = max(used, most / within[j, t])
        assert alarm <= delta + 1e-12
    assert used > 0.6


def test_references_are_charged_as_of_all_actions() -> None:
    t, made = np.array([1, 30, 200]), (RPS, internal.internal_prior(RPS, 200, 0.05, 0.15, references=2), 0.05, 0.15)
    assert made[1].comparators == 8
    beside = internal.before(*made, False, 200, references=2)(t)
    np.testing.assert_allclose(beside, switching.before(*made, 1, False, 200)(t))
    assert (beside >= internal.before(*made, False, 200)(t)).all()
    assert internal.interval(*made, 1, 200, references=2) == pytest.approx(beside[-1])


def fixed_point(weights: dict[tuple[int, int], float], A: int) -> np.ndarray:
    """pi with pi = sum over pairs of weight times (pi with a's chance moved to b)."""
    matrix = np.eye(A)
    for (a, b), w in weights.items():
        matrix[a, a] -= w
        matrix[b, a] += w
    values, vectors = np.linalg.eig(matrix)
    pi = np.abs(np.real(vectors[:, int(np.argmin(np.abs(values - 1)))]))
    return pi / pi.sum()


@pytest.mark.parametrize("problem", [MATCHING, RPS, lr.matching(4), lr.newsvendor([0, 1, 2, 3], 5, 3)])
def test_the_fallback_loses_no_more_than_its_bound(problem: lr.DecisionProblem) -> None:
    """Hedge over pairs at its fixed point, by its own loop, against states that hurt."""
    A, T, U = problem.n_actions, 150, problem.utility
    pairs, rng = list(permutations(range(A), 2)), np.random.default_rng(4)
    rate = math.sqrt(8 * math.log(len(pairs)) / T) / problem.span
    gain_P, gain_AxA = np.zeros(len(pairs)), np.zeros((A, A))
    for t in range(T):
        weight = np.exp(rate * (gain_P - gain_P.max()))
        pi = fixed_point(dict(zip(pairs, weight / weight.sum(), strict=True)), A)
        assert pi @ U == pytest.approx(
            sum(w / weight.sum() * moved(pi, *pair) @ U for w, pair in zip(weight, pairs, strict=True)), abs=1e-9
        )
        x = np.array([[pi[a] * (U[b] - U[a]) for b in range(A)] for a in range(A)])
        worst = [(gain_AxA + x[..., s]).max() for s in range(problem.n_states)]
        state = int(np.argmax(worst)) if t % 5 else int(rng.integers(problem.n_states))
        gain_AxA += x[..., state]
        gain_P += np.array([x[a, b, state] for a, b in pairs])
    bound = internal.stoltz_lugosi(problem, np.array([T]))[0]
    assert 0.1 * bound < gain_AxA.max() <= bound
    assert bound <= internal.stoltz_lugosi(problem, T, tuned=False)
    assert internal.stoltz_lugosi(problem, [0, 1]).tolist()[0] == 0


def moved(pi: np.ndarray, a: int, b: int) -> np.ndarray:
    other = pi.copy()
    other[b], other[a] = pi[a] + pi[b], 0.0
    return other


def test_one_action_has_no_pairs() -> None:
    alone = lr.DecisionProblem([[0.3, -0.4]])
    assert internal.stoltz_lugosi(alone, [5]).tolist() == [0.0]
    assert certificate(alone, 50, 0.1, 0.0).regret_bound == 0
    assert best_response.kappa(alone, 1.0) == 0
