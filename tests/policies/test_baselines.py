"""AdaHedge, fixed share and switching back against literal transcriptions and their bounds; policies as fallbacks."""

import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import certificates
from lowregret.engine import Actions, Engine, Inputs, Setting
from lowregret.evaluate.adversaries import all_sequences

from ..conftest import extra, random_markov, random_problem

torch = extra("torch")

COIN, RPS = lr.matching(), lr.rock_paper_scissors()


def small_case(seed: int) -> tuple[np.random.Generator, lr.DecisionProblem, np.ndarray]:
    """A random game and every sequence of its states, of length 10 or 7."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 4, 3)
    return rng, problem, all_sequences(problem.n_states, 10 if problem.n_states == 2 else 7)


def hostile(player: Any, problem: lr.DecisionProblem, horizon: int, starts: np.ndarray, honest: np.ndarray) -> Any:
    """The state worst for the player at every step, after an honest start."""
    memory, played = player.start((len(starts),)), []
    for t in range(horizon):
        worst = (player.policy(memory) @ problem.utility).argmin(-1)
        played.append(np.where(t < starts, honest[:, t], worst))
        memory = player.update(memory, played[-1])
    return np.stack(played, -1)


# AdaHedge


def literal_ada_hedge(problem: lr.DecisionProblem, tokens: np.ndarray) -> np.ndarray:
    """As in the literature, on losses, one number at a time."""
    K, total_loss, gaps, played = problem.n_actions, [0.0] * problem.n_actions, 0.0, []

    def mix_loss(losses: list[float]) -> tuple[list[float], float]:
        low = min(losses)
        if gaps == 0:
            weights = [float(loss == low) for loss in losses]
            return [w / sum(weights) for w in weights], low
        rate = math.log(K) / gaps
        weights = [math.exp(-rate * (loss - low)) for loss in losses]
        return [w / sum(weights) for w in weights], low - math.log(sum(weights) / K) / rate

    for token in tokens:
        weights, before = mix_loss(total_loss)
        played.append(weights)
        loss = [-float(problem.utility[a, token]) for a in range(K)]
        total_loss = [a + b for a, b in zip(total_loss, loss, strict=True)]
        after = mix_loss(total_loss)[1]
        gaps += max(0.0, sum(w * x for w, x in zip(weights, loss, strict=True)) - (after - before))
    return np.array(played)


@pytest.mark.parametrize("seed", range(10))
def test_ada_hedge_is_what_the_literature_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = [COIN, RPS][seed] if seed < 2 else random_problem(rng, 5, 4)
    tokens = (
        rng.integers(problem.n_states, size=300) if seed % 3 else np.repeat(rng.integers(problem.n_states, size=30), 10)
    )
    np.testing.assert_allclose(
        lr.policies.AdaHedge(problem).policy_sequence(tokens), literal_ada_hedge(problem, tokens), atol=1e-8
    )


@pytest.mark.parametrize("seed", range(40))
def test_ada_hedge_never_breaks_its_bound(seed: int) -> None:
    _, problem, tokens = small_case(seed)
    regret = lr.external_regret(problem, lr.policies.AdaHedge(problem), tokens).max(0)
    for t, worst in enumerate(regret, start=1):
        assert worst <= certificates.ada_hedge(problem, t) + 1e-12
        assert certificates.ada_hedge(problem, t) == lr.policies.AdaHedge(problem).regret_bound(problem, t, None)


def test_ada_hedge_under_attack() -> None:
    """Long hostile play stays within the bound; alternation, then one state for good, comes within a sixth of it."""
    T = 600
    for problem in (COIN, RPS, lr.cost_loss(1, 4), lr.DecisionProblem(RPS.utility * 1e-6)):
        player = lr.policies.AdaHedge(problem)
        tokens = hostile(player, problem, T, np.array([0, 10, T // 3]), np.zeros((3, T), dtype=int))
        bound = np.array([certificates.ada_hedge(problem, t) for t in range(1, T + 1)])
        assert (lr.external_regret(problem, player, tokens) <= bound + 1e-12).all()
    t = np.arange(T)
    tokens = np.stack([np.where(t < turn, t % 2, 1) for turn in range(0, T, 50)])
    closest = lr.external_regret(COIN, lr.policies.AdaHedge(COIN), tokens)[:, -1].max() / certificates.ada_hedge(
        COIN, T
    )
    assert 5 / 6 < closest <= 1


def test_ada_hedge_plays_alike_what_earns_alike() -> None:
    problem = lr.DecisionProblem([[1.0, 1.0], [1.0, -1.0], [0.5, 0.5]])
    played = lr.policies.AdaHedge(problem).policy_sequence([0, 0, 0])
    np.testing.assert_allclose(played[0], [1 / 3] * 3)
    assert played[-1, 2] < played[1, 2] < 1 / 3
    assert played[-1, 0] == played[-1, 1]
    same = lr.policies.AdaHedge(lr.DecisionProblem([[0.3, -0.2], [0.3, -0.2]])).policy_sequence([0, 1, 0])
    np.testing.assert_array_equal(same, np.full((3, 2), 0.5))
    assert certificates.ada_hedge(lr.DecisionProblem([[0.3, -0.2], [0.3, -0.2]]), 10) == 0
    # It scales with the stakes: a thousandth of the utilities, the same play.
    tokens = np.random.default_rng(0).integers(3, size=200)
    small = lr.policies.AdaHedge(lr.DecisionProblem(RPS.utility / 1024)).policy_sequence(tokens)
    np.testing.assert_allclose(small, lr.policies.AdaHedge(RPS).policy_sequence(tokens), atol=1e-9)


# Fixed share


def test_fixed_share_is_what_it_says() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        problem, rate, share = random_problem(rng, 4, 4), float(rng.uniform(0.1, 3)), float(rng.uniform(0.01, 0.9))
        tokens = rng.integers(problem.n_states, size=50)
        player, weights = (
            lr.policies.FixedShare(problem, 50, rate, share),
            np.full(problem.n_actions, 1 / problem.n_actions),
        )
        for played, token in zip(player.policy_sequence(tokens), tokens, strict=True):
            np.testing.assert_allclose(played, weights, atol=1e-12)
            weights = weights * np.exp(rate * problem.utility[:, token])
            weights = (1 - share) * weights / weights.sum() + share / problem.n_actions


def best_path(problem: lr.DecisionProblem, tokens: np.ndarray, switches: int) -> np.ndarray:
    """The most that a sequence of actions with at most so many changes earns on each row."""
    earned = problem.utility.T[tokens]  # [N, T, A]
    best = np.full((switches + 1, *earned[:, 0].shape), -np.inf)
    best[:] = earned[:, 0]
    for t in range(1, tokens.shape[1]):
        for k in range(switches, -1, -1):
            move = best[k - 1].max(-1, keepdims=True) if k else -np.inf
            best[k] = np.maximum(best[k], move) + earned[:, t]
    return best[-1].max(-1)


@pytest.mark.parametrize("seed", range(30))
def test_fixed_share_never_breaks_its_bounds(seed: int) -> None:
    rng, problem, tokens = small_case(seed)
    T = tokens.shape[1]
    for player in (
        lr.policies.FixedShare(problem, T),
        lr.policies.FixedShare(problem, T, rate=float(rng.uniform(0.2, 2)), share=0.3),
    ):
        regret = lr.external_regret(problem, player, tokens).max(0)
        for t, worst in enumerate(regret, start=1):
            assert worst <= player.regret_bound(problem, t, None) + 1e-12
        own = (player.policy_sequence(tokens) * problem.utility.T[tokens]).sum((-1, -2))
        for k in range(4):
            behind = (best_path(problem, tokens, k) - own).max() / T
            assert behind <= certificates.fixed_share(problem, T, player.rate, player.share, switches=k) + 1e-12


def test_the_bound_of_fixed_share_is_not_idle_and_its_rate_is_the_best() -> None:
    T = 2000
    player = lr.policies.FixedShare(COIN, T)
    tokens = hostile(player, COIN, T, np.zeros(1), np.zeros((1, T), dtype=int))
    regret = lr.external_regret(COIN, player, tokens)[0, -1]
    bound = player.regret_bound(COIN, T, None)
    assert bound / 3 < regret <= bound
    for factor in (0.9, 1.1):
        assert certificates.fixed_share(COIN, T, player.rate * factor, player.share) > bound


# Policies as fallbacks


def policies(problem: lr.DecisionProblem, horizon: int) -> dict[str, lr.policies.Policy]:
    return {
        "hedge": lr.policies.Hedge(problem, horizon),
        "adahedge": lr.policies.AdaHedge(problem),
        "fixed share": lr.policies.FixedShare(problem, horizon),
        "respond": lr.policies.Respond(lr.PolyaUrn(problem.n_states), problem, 0.2),
    }


def behind(test: Any, policy: Any, problem: lr.DecisionProblem = COIN) -> Setting:
    """What a guard with quantal responses is made of."""
    return Setting(problem, Actions(), test, policy, lr.QuantalResponse())


@pytest.mark.parametrize("name", policies(COIN, 40))
def test_behind_every_test_a_policy_is_played_as_a_stream_and_at_once(name: str) -> None:
    rng, policy = np.random.default_rng(0), policies(COIN, 40)[name]
    tokens, probs = (rng.random((64, 40)) < 0.85).astype(int), np.broadcast_to([0.9, 0.1], (64, 40, 2))
    for test in (lr.ExactTest(1 / 40, 40), lr.RegretGap(40, 0.01, span_aware=True), lr.RegretRate(40, 0.7)):
        engine = Engine(behind(test, policy))
        trace = engine.run(engine.start(64), Inputs(probs), tokens)
        times = np.where(trace.alarm_NxT.any(-1), trace.alarm_NxT.argmax(-1), 40) + 1
        assert (times <= 40).any()
        np.testing.assert_array_equal(engine.alarm_times(probs, tokens), times)
        late = np.arange(40) >= times[:, None]
        np.testing.assert_allclose(trace.policy_NxTxA[late], policy.policy_sequence(tokens)[late], atol=1e-12)
        with pytest.raises(ValueError, match=r"is a policy: it must be a predictor"):
            lr.robustify(lr.predictors.Scheduled([[0.9, 0.1]]), COIN, test=test, fallback=policy)


def test_hedge_and_the_shrunk_urn_are_one_fallback() -> None:
    """The urn with c = 1 responds as Hedge does, so there is an alarm over both or over none."""
    rng = np.random.default_rng(0)
    for problem in (COIN, RPS):
        tokens, base = rng.integers(problem.n_states, size=(50, 200)), random_markov(rng, problem.n_states, 1)
        tokens[::2] = np.where(rng.random((25, 200)) < 0.95, base.predict_sequence(tokens[::2])[:, :1].argmin(-1), 0)
        probs = base.predict_sequence(tokens)
        urn, hedge = (
            behind(lr.RegretGap(200, 0.01, sharp=True), fallback, problem)
            for fallback in (lr.predictors.ShrunkUrn(problem, 200, c=1.0), lr.policies.Hedge(problem, 200))
        )
        times = Engine(urn).alarm_times(probs, tokens)
        assert 1 / 3 <= (times < 200).mean() < 1
        np.testing.assert_array_equal(Engine(hedge).alarm_times(probs, tokens), times)
        assert hedge.certificate.terms["fallback"] == pytest.approx(urn.certificate.terms["fallback"], rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_no_sequence_breaks_a_certificate_over_a_policy(seed: int) -> None:
    """What a guard plays, on all sequences, with each policy behind Theorem 3.1's test."""
    rng, problem, tokens = small_case(seed)
    T, base = tokens.shape[1], random_markov(rng, problem.n_states, 1)
    probs = base.predict_sequence(tokens)
    own = lr.policies.Respond(base, problem, T**-0.5).policy_sequence(tokens)
    for name, policy in policies(problem, T).items():
        setting = behind(lr.RegretGap(T, 0.01, span_aware=True), policy, problem)
        late, held_T = np.arange(T) >= Engine(setting).alarm_times(probs, tokens)[:, None], setting.certificate
        played = policy.policy_sequence(tokens)
        regret = lr.external_regret(problem, np.where(late[..., None], played, own), tokens)
        alone = lr.external_regret(problem, policy, tokens)
        for t in range(1, T + 1):
            held = held_T.at(t)
            assert regret[:, t - 1].max() <= held.regret_bound + 1e-12
            passed = sum(value for term, value in held.terms.items() if term != "fallback")
            assert (regret - alone)[:, t - 1].max() <= passed + 1e-12
        assert (name == "respond") == ("not known" in setting.certificate.statement)


def test_policies_that_do_not_fit() -> None:
    for policy, horizon, message in (
        (lr.policies.Hedge(COIN, 9), 10, "fallback Hedge was made for 9 steps, the test may run for 10"),
        (lr.policies.FixedShare(COIN, 9), None, "unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            lr.Guard(COIN, test=lr.ExactTest(0.1, horizon), fallback=policy, response=lr.QuantalResponse())
    endless = behind(lr.ExactTest(0.1), lr.policies.AdaHedge(COIN)).certificate
    assert endless.at(10**6).regret_bound < 0.01
