"""The every-start test is its theorem, line by line: recorded, streaming, in torch, and at the extremes."""

import math

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates import coupled
from lowregret.rules import bets

from ..conftest import extra
from ..literal_theorem import some_game, some_laws, told, weights

torch = extra("torch")

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()


def streamed(rule: lr.rules.ExactTest, probs: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray, list]:
    """Trip times, ln E_t after every step ``[..., T]``, and the suspicion after every step."""
    memory, levels, suspicions = rule.start(tuple(tokens.shape[:-1]), like=probs), [], []
    for t in range(tokens.shape[-1]):
        memory = rule.update(memory, probs[..., t, :], tokens[..., t])
        levels.append(np.log(np.asarray(rule.bets.together(memory.statistics))))
        suspicions.append([np.asarray(part) for part in (rule.suspicion(memory) or ())[:3]])
    times = np.asarray(memory.tripped_at)
    return np.where(times == 0, tokens.shape[-1] + 1, times), np.stack(levels, axis=-1), suspicions


def some_rule(rng: np.random.Generator, horizon: int | None) -> lr.rules.ExactTest:
    problem = some_game(rng)
    return lr.rules.ExactTest(
        problem,
        horizon,
        delta=float(rng.choice([0.9, 0.5, 0.2])),
        fallback=lr.policies.AdaHedge(problem) if rng.random() < 0.3 else lr.PolyaUrn(problem.n_states),
        temperature=None if rng.random() < 0.7 else float(rng.choice([0.02, 0.5])),
    )


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_random_games_follow_the_theorem(seed: int, known: bool) -> None:
    """Streams, recorded sequences and torch, beside the loops; laws that exclude states are among them."""
    rng, T, tripped = np.random.default_rng([seed, known]), 14, 0
    for _ in range(5):
        rule = some_rule(rng, T if known else None)
        S = rule.n_states
        probs, tokens = some_laws(rng, (4, T), S), rng.integers(S, size=(4, T))
        hurts = (rule.problem.quantal_response(probs, 0.1) @ rule.problem.utility).argmin(axis=-1)
        tokens[:3] = np.where(rng.random((3, T)) < 0.8, hurts[:3], tokens[:3])
        wanted = [told(rule, p, y, keep=True) for p, y in zip(probs, tokens, strict=True)]
        trips = [w.trip for w in wanted]
        assert rule.trip_times(probs, tokens).tolist() == trips
        assert rule.trip_times(torch.tensor(probs), torch.tensor(tokens)).tolist() == trips
        times, levels, suspicions = streamed(rule, probs, tokens)
        assert times.tolist() == trips
        np.testing.assert_allclose(levels, [w.log_total_T for w in wanted], atol=1e-9)
        for n, one in enumerate(wanted):
            for t in range(T):
                action, rate, since = (part[n] for part in suspicions[t])
                W_CxKxJ, k = one.wealth[t], int(np.argmin(abs(rule.rates_K - rate)))
                richest = np.logaddexp.reduce(W_CxKxJ, axis=-1)
                assert rate == rule.rates_K[k]
                assert richest[action, k] >= richest.max() - 1e-9
                assert W_CxKxJ[action, k, since - 1] >= W_CxKxJ[action, k].max() - 1e-9
        tripped += sum(trip <= T for trip in trips)
    assert 20 / 3 <= tripped < 20


def a_walk(rng: np.random.Generator, T: int, wrong: float) -> np.ndarray:
    """Tokens of which a share comes that the model [0.99, 0.01] thinks unlikely, in long stretches."""
    return (rng.random(T) < np.repeat(rng.choice([0.02, wrong], -(-T // 50)), 50)[:T]).astype(np.int64)


@pytest.mark.parametrize("known", [True, False])
def test_long_sequences_cross_blocks_of_time(known: bool) -> None:
    """Wealth goes through many scales, up and down: recordings and streams are the loops at every length."""
    rng, T = np.random.default_rng(2), 700
    rule = lr.rules.ExactTest(MATCHING, T if known else None, delta=1e-12, fallback=lr.PolyaUrn(2))
    tokens = np.stack([a_walk(rng, T, wrong) for wrong in (0.3, 0.6, 0.9, 1.0)])
    probs = np.broadcast_to([0.99, 0.01], (4, T, 2))
    wanted = [told(rule, p, y) for p, y in zip(probs, tokens, strict=True)]
    assert rule.trip_times(probs, tokens).tolist() == [w.trip for w in wanted]
    times, levels, _ = streamed(rule, probs, tokens)
    assert times.tolist() == [w.trip for w in wanted]
    np.testing.assert_allclose(levels, [w.log_total_T for w in wanted], rtol=1e-9, atol=1e-6)
    assert min(w.trip for w in wanted) <= T < max(w.trip for w in wanted)


def test_wealth_beyond_all_floats_is_cut_off_after_the_alarm() -> None:
    """It grows by e^2 a step and would be e^1600: up to 1e300 it is that of the loops, and from there on a number."""
    T = 800
    rule = lr.rules.ExactTest(MATCHING, T, delta=0.01, temperature=1e-3)
    probs, tokens = np.tile([0.999, 0.001], (2, T, 1)), np.ones((2, T), dtype=np.int64)
    tokens[1, 400:] = 0  # the model is right from then on
    wanted = [told(rule, p, y) for p, y in zip(probs, tokens, strict=True)]
    assert wanted[0].log_total_T[-1] > 1500
    times, streams, _ = streamed(rule, probs, tokens)
    assert times.tolist() == rule.trip_times(probs, tokens).tolist() == [w.trip for w in wanted]
    scene = rule.scene(probs, np.arange(1, T + 1))
    recorded = np.log(rule.bets.levels(scene.gains(), scene.law_S, tokens))
    # Recorded it is cut off a block earlier: beyond any threshold, too.
    for levels, surely in ((streams, 1e290), (recorded, 1 / bets.LEAST_DELTA)):
        assert math.log(surely) < levels[0, -1] <= math.log(bets.MOST) + math.log(2 * len(rule.rates_K))
        for n, one in enumerate(wanted):
            whole = int(np.argmax(one.log_total_T > math.log(surely)))
            assert whole > 250
            np.testing.assert_allclose(levels[n, :whole], one.log_total_T[:whole], rtol=1e-9, atol=1e-9)


def test_wealth_below_all_floats_is_not_missed_since_new_capital_joins() -> None:
    """Right for 700 steps, e^-1400 at the top rate, then wrong for as long as it takes."""
    T, delta = 2400, 1e-200
    rule = lr.rules.ExactTest(MATCHING, T, delta=delta, temperature=1e-3)
    assert rule.rates_K.max() == 2.0
    probs, tokens = np.tile([0.999, 0.001], (T, 1)), np.append(np.zeros(700, dtype=np.int64), np.ones(T - 700, int))
    wanted = told(rule, probs[:1100], tokens[:1100])
    assert 900 < wanted.trip < 1100
    assert rule.trip_times(probs, tokens) == wanted.trip
    times, levels, _ = streamed(rule, probs[:1000], tokens[:1000])
    assert times == wanted.trip
    np.testing.assert_allclose(levels, wanted.log_total_T[:1000], rtol=1e-9, atol=1e-9)


def test_the_main_rate_is_the_best_one() -> None:
    """No rate below the top has a smaller [T kappa + L] / lam; the others halve from the top down to it."""
    for T, eta in ((24, None), (1024, None), (1024, 0.01), (10_000, None)):
        rule = lr.rules.ExactTest(MATCHING, T, delta=2 / T, temperature=eta)
        rates = np.geomspace(1e-3, 2, 4001)
        cost = math.log(2 / (0.75 * rule.delta))
        bound = (T * coupled.kappa(MATCHING, rates, rule.temperature) + cost) / rates
        main = rule.rates_K[0]
        assert (T * coupled.kappa(MATCHING, main, rule.temperature) + cost) / main <= bound.min() * (1 + 1e-9)
        others = rule.rates_K[1:]
        np.testing.assert_array_equal(others, 2.0 * 0.5 ** np.arange(len(others)))
        assert others[-1] >= main > others[-1] / 2
    assert lr.rules.ExactTest(MATCHING, None, delta=0.1).rates_K.tolist() == (2.0 * 0.5 ** np.arange(40)).tolist()


def test_no_capital_is_made_or_lost() -> None:
    """What has joined and what waits is 1 at every step, for both horizons."""
    for problem in (MATCHING, RPS):
        for T in (1, 7, None):
            rule = lr.rules.ExactTest(problem, T, delta=0.1)
            prior, joined = rule.bets.prior, 0.0
            for t in range(8 if T is None else T + 1):
                joined += weights(rule, t).sum() * problem.n_actions if t else 0.0
                assert joined + prior.unspent(t) == pytest.approx(1, abs=1e-14)
                if t:
                    np.testing.assert_allclose(prior.weights_K(t), weights(rule, t), rtol=1e-14)
            assert rule.evidence(rule.start())[0] == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("problem", [MATCHING, RPS], ids=["matching", "rps"])
def test_suspicion_tells_a_planted_break(problem: lr.DecisionProblem) -> None:
    """The model is right until step 400 and wrong from then on: which action is better, and since when."""
    rng, T, N, at = np.random.default_rng(3), 600, 40, 400
    S = problem.n_states
    before, after = ([0.8, 0.2], [0.25, 0.75]) if S == 2 else ([0.8, 0.1, 0.1], [0.1, 0.1, 0.8])
    tokens = np.concatenate([rng.choice(S, (N, at), p=before), rng.choice(S, (N, T - at), p=after)], axis=1)
    rule = lr.rules.ExactTest(problem, T, delta=1 / T)
    memory, found = rule.start((N,)), np.full((N, 2), -1)
    for t in range(T):
        memory = rule.update(memory, np.broadcast_to(np.array(before), (N, S)), tokens[:, t])
        now = memory.tripped_at == t + 1
        suspicion = rule.suspicion(memory)
        assert suspicion is not None
        found[now] = np.stack([suspicion.action, suspicion.since], axis=1)[now]
    late = np.asarray(memory.tripped_at) > at
    assert late.sum() >= N - 1
    assert (found[late, 0] == int(problem.best_response(after))).all()
    assert abs(np.median(found[late, 1]) - (at + 1)) <= 6
    assert (abs(found[late, 1] - (at + 1)) <= 40).mean() >= 0.9
