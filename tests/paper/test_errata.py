"""Where the paper is loose or wrong: each counterexample, beside the statement that holds."""

import math

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret import certificates


def test_lemma_2_1_is_false_for_the_best_action_in_hindsight() -> None:
    """A fair coin: whatever is played, the expected regret is E|heads - T/2| / T = .01246 > 0 at T = 1024."""
    T, coin = 1024, lr.matching()
    heads = np.arange(T + 1)
    exact = float((stats.binom.pmf(heads, T, 0.5) * np.abs(heads - T / 2)).sum() / T)
    assert exact == pytest.approx(0.01246, abs=5e-6)
    assert exact == pytest.approx(1 / math.sqrt(2 * math.pi * T), rel=1e-2)
    fair = lr.predictors.Scheduled([[0.5, 0.5]])
    tokens = lr.sample(fair, T, 2000, seed=0)
    best = np.zeros_like(tokens)  # the best response to the true law, ties to action 0
    for policy in (best, lr.policies.Respond(fair, coin, T**-0.5), lr.policies.Respond(lr.PolyaUrn(2), coin, T**-0.5)):
        regret = lr.external_regret(coin, policy, tokens)[:, -1]
        assert abs(regret.mean() - exact) < 4 * regret.std() / math.sqrt(len(regret))
    assert exact <= certificates.lemma_2_1(coin, T)


def test_lemma_2_1_holds_for_each_fixed_action() -> None:
    """max_a E[regret to a] <= 0, and E[regret] <= J sqrt(ln A / 2T) (+ eta W for quantal responses): by enumeration."""
    rng = np.random.default_rng(0)
    T = 7
    grid = np.stack(np.meshgrid(*[np.arange(3)] * T, indexing="ij"), -1).reshape(-1, T)
    for _ in range(10):
        problem = lr.DecisionProblem(rng.uniform(-1, 1, (3, 3)))
        model = lr.Markov(rng.dirichlet(np.ones(3), 3), 1)
        probs = model.predict_sequence(grid)
        chance = np.take_along_axis(probs, grid[..., None], -1)[..., 0].prod(-1)
        actions = problem.best_response(probs)
        earned = problem.utility[actions, grid].sum(-1)
        for a in range(3):
            assert chance @ (problem.utility[a, grid].sum(-1) - earned) <= 1e-12
        assert chance @ lr.external_regret(problem, actions, grid)[:, -1] <= certificates.lemma_2_1(problem, T)
        warm = lr.external_regret(problem, lr.policies.Respond(model, problem, 0.3), grid)[:, -1]
        assert chance @ warm <= certificates.lemma_2_1(problem, T, 0.3)


def test_lemma_2_2_best_responses_can_be_beaten() -> None:
    """Whatever the model, playing the other bit costs at least 1/2; quantal responses to the urn are safe from it."""
    coin, T = lr.matching(), 400
    for model in (lr.predictors.Scheduled([[2 / 3, 1 / 3]]), lr.PolyaUrn(2), lr.Markov([[0.2, 0.8], [0.6, 0.4]], 1)):
        memory, tokens, actions = model.start(), [], []
        for _ in range(T):
            actions.append(int(coin.best_response(model.predict(memory))))
            tokens.append(1 - actions[-1])
            memory = model.update(memory, tokens[-1])
        assert lr.external_regret(coin, np.array(actions), np.array(tokens))[-1] >= 0.5
    urn = lr.policies.Respond(lr.PolyaUrn(2), coin, T**-0.5)
    assert lr.external_regret(coin, urn, np.array(tokens))[-1] < 0.1


def test_the_bad_sequence_of_section_3_is_all_ones() -> None:
    """A model that says 1 with probability 1/3 is right on all zeros; all ones is what hurts it."""
    coin, model = lr.matching(), lr.predictors.Scheduled([[2 / 3, 1 / 3]])
    player = lr.policies.Respond(model, coin, 1 / 32)
    zeros, ones = np.zeros(1024, dtype=int), np.ones(1024, dtype=int)
    assert lr.external_regret(coin, player, zeros)[-1] < 1e-4
    assert lr.external_regret(coin, player, ones)[-1] > 0.999


def test_the_comparator_cancels() -> None:
    """t (Regret_t - Regret_urn,t) is a plain sum of differences: no union over actions is needed."""
    rng = np.random.default_rng(0)
    problem = lr.DecisionProblem(rng.uniform(-1, 1, (4, 3)))
    base, urn = lr.Markov(rng.dirichlet(np.ones(3), 3), 1), lr.PolyaUrn(3)
    tokens = rng.integers(3, size=(5, 50))
    regrets = [lr.external_regret(problem, lr.policies.Respond(p, problem, 0.1), tokens) for p in (base, urn)]
    setting = lr.robust.algorithm_1(problem, lr.RegretGap(100), response=lr.QuantalResponse(0.1))
    gains = setting.watch.gains(lr.engine.Engine(setting).played_at_once(base.predict_sequence(tokens), tokens))
    np.testing.assert_allclose(gains.cumsum(-1), np.arange(1, 51) * (regrets[0] - regrets[1]), atol=1e-12)


def test_theorem_3_1_at_the_papers_own_size() -> None:
    """At T = 1024 the threshold on the regret gap never falls below .3509 with alpha = 1, .2546 with alpha = .001."""
    coin, sources = lr.matching(), lr.evaluate.sources.paper_sources(1024)
    t = np.arange(1, 1024, dtype=float)  # an alarm at T changes nothing
    shares = {}
    for alpha, lowest in ((1, 0.3509), (0.001, 0.2546)):
        safe = lr.robustify(sources["b"], coin, test=lr.RegretGap(1024, alpha))
        assert (safe.setting.watch.threshold_at(t) / t).min() == pytest.approx(lowest, abs=5e-5)
        for name in sources.keys() - {"b"}:
            tokens = lr.sample(sources[name], 1024, 200, seed=1)
            shares[alpha, name] = (safe.alarm_times(tokens) < 1024).mean()
    assert {name for (alpha, name), share in shares.items() if alpha == 1 and share > 0.5} == {"sin2"}
    assert {name for (alpha, name), share in shares.items() if alpha < 1 and share > 0.5} == {"sin2", "sin5"}
    assert shares[0.001, "sin2"] == 1
    assert shares[0.001, "c"] == 0  # whatever alpha: the model's regret stays 1/6 there


def test_the_crossing_step_costs_one_span() -> None:
    """At the alarm more than the threshold is already lost: the printed proof says less. One span covers it."""
    coin, T = lr.matching(), 40
    tokens = np.ones((1, T), dtype=int)
    base, test = lr.predictors.Scheduled([[0.6, 0.4]]), lr.RegretGap(T, 0.01, span_aware=True)
    safe = lr.robustify(base, coin, test=test)
    s = int(safe.alarm_times(tokens)[0])
    assert s < T
    regret = lr.external_regret(coin, safe.respond(), tokens)[0]
    urn = lr.external_regret(coin, lr.policies.Respond(lr.PolyaUrn(2), coin, safe.temperature), tokens)[0]
    gap, threshold_at = s * (regret - urn)[s - 1], safe.setting.watch.threshold_at  # what had been lost at the alarm
    assert threshold_at(float(s)) < gap <= threshold_at(float(s - 1)) + coin.span


def test_the_urn_may_regret_a_suffix() -> None:
    """T/2 zeros, then ones: the second half costs .48 of all steps in regret to ones; over the whole it is small."""
    coin, T = lr.matching(), 1024
    tokens = np.repeat([0, 1], T // 2)
    policy = lr.policies.Respond(lr.PolyaUrn(2), coin, T**-0.5).policy_sequence(tokens)
    suffix = lr.external_regret(coin, policy[T // 2 :], tokens[T // 2 :])[-1]
    assert suffix * (T // 2) / T == pytest.approx(0.48, abs=0.01)
    assert lr.external_regret(coin, policy, tokens)[-1] < certificates.lemma_2_3(coin, T, T**-0.5)


def test_the_repair_the_urns_regret_is_never_far_below_zero() -> None:
    """At any s it is at least -[(s-1) eta ln A + max C - mean C] / s."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        problem = lr.DecisionProblem(rng.uniform(-1, 1, (3, 2)))
        tokens = np.stack(np.meshgrid(*[np.arange(2)] * 10, indexing="ij"), -1).reshape(-1, 10)
        regret = lr.external_regret(problem, lr.policies.Respond(lr.PolyaUrn(2), problem, 0.2), tokens)
        C = problem.utility.sum(1)
        for s in range(1, 11):
            floor = -((s - 1) * 0.2 * math.log(3) + C.max() - C.mean()) / s
            assert regret[:, s - 1].min() >= floor - 1e-12


def test_the_papers_urn_is_frozen_after_its_first_token() -> None:
    """Without the smoothing of Equation (1), sum / t, once seen, is 0 or 1 for ever: the sampled urn never moves."""
    tokens = [1]
    rng = np.random.default_rng(0)
    for t in range(1, 50):
        tokens.append(int(rng.random() < sum(tokens) / t))
    assert set(tokens) == {1}
    shares = lr.sample(lr.PolyaUrn(2), 400, 2000, seed=0).mean(-1)
    assert stats.kstest(shares, "uniform").pvalue > 1e-4  # the smoothed urn's bias is uniform


def test_the_experiments_rule_is_not_safe() -> None:
    """regret > 1.5 / sqrt(t) switches with chance .21 on a coin of the worst bias, though the model is right."""
    coin, T = lr.matching(), 1024
    rates = []
    for p in (0.5, 0.52, 0.55, 0.6):
        base = lr.predictors.Scheduled([[1 - p, p]])
        tokens = lr.sample(base, T, 4000, seed=1)
        rates.append((lr.robustify(base, coin, test=lr.RegretRate(T)).alarm_times(tokens) < T).mean())
    assert 0.15 < max(rates) < 0.25
