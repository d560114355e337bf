"""What robustness costs where the model is right, and what it removes where not: against all sequences."""

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.evaluate.adversaries import all_sequences
from paper import frontier

COIN = lr.matching()
T = 40
MODEL = lr.evaluate.sources.paper_sources(T)["b"]
SHORT = 10
GAME = lr.DecisionProblem([[1.0, -0.5], [-0.75, 0.5], [0.0, 0.25]])
LEANING = lr.Markov([[0.7, 0.3], [0.4, 0.6]], 1)


def one_way(base: lr.Predictor, horizon: int, delta: float, problem: lr.DecisionProblem = COIN) -> lr.robust.Robust:
    """What the frontier is made of: the exact test, then the urn for good."""
    return lr.robustify(base, problem, test=lr.ExactTest(delta, horizon), fallback=lr.PolyaUrn(problem.n_states))


def exactly_given_up(base: lr.Predictor, safe: lr.robust.Robust, problem: lr.DecisionProblem, horizon: int) -> float:
    """Realised utilities over all sequences, each with its probability."""
    tokens = all_sequences(2, horizon)
    laws = base.predict_sequence(tokens)
    chance = np.take_along_axis(laws, tokens[..., None], -1)[..., 0].prod(-1)
    earned = []
    for player in (base, safe):
        play = lr.policies.Respond(player, problem, safe.temperature).policy_sequence(tokens)
        earned.append((play * problem.utility.T[tokens]).sum(-1).mean(-1))
    return float(chance @ (earned[0] - earned[1]))


@pytest.mark.parametrize("delta", [0.5, 0.2])
def test_utility_given_up_against_all_sequences(delta: float) -> None:
    safe = one_way(LEANING, SHORT, delta, problem=GAME)
    exact = exactly_given_up(LEANING, safe, GAME, SHORT)
    held = 0
    for seed in range(20):
        [row] = frontier.price_of_robustness(LEANING, GAME, SHORT, 200, seed, deltas=[delta]).rows
        held += row.given_up.low <= exact <= row.given_up.high
    assert held >= stats.binom.ppf(1e-4, 20, 0.93)
    [row] = frontier.price_of_robustness(LEANING, GAME, SHORT, 20_000, 0, deltas=[delta]).rows
    assert row.given_up.value == pytest.approx(exact, abs=0.15 * abs(exact))
    tokens = lr.sample(LEANING, SHORT, 20_000, 0)
    assert row.switched == np.mean(safe.alarm_times(tokens) < SHORT)


def test_the_frontier_keeps_the_theorems() -> None:
    found = frontier.price_of_robustness(MODEL, COIN, T, 400, 0)
    assert [row.delta for row in found.rows] == [0.5, 0.1, 0.02, 0.004]
    for row in found.rows:
        assert stats.binom.cdf(row.switched * 400 - 1, 400, row.delta) < 1 - 1e-6  # not more often than delta
        assert row.given_up.low <= row.delta * COIN.span
        safe = one_way(MODEL, T, row.delta)
        assert row.certificate == safe.certificate.regret_bound
        assert row.regret <= row.certificate
        assert row.removed == pytest.approx(found.base_regret - row.regret)
    rows = found.rows  # a smaller delta switches less and certifies less
    assert all(a.switched >= b.switched and a.certificate <= b.certificate for a, b in pairwise(rows))
    assert rows[0].given_up.value > rows[-1].given_up.value


def test_regret_found_is_the_largest_of_the_hostile_sequences() -> None:
    zeros, ones = np.zeros(T, dtype=int), np.ones(T, dtype=int)
    nasty = np.tile([1, 0], T // 2)
    asked = []

    def adversary(player: Any, problem: Any, horizon: int, temperature: float) -> Any:
        asked.append((player, horizon, temperature))
        return SimpleNamespace(tokens=nasty)

    found = frontier.price_of_robustness(MODEL, COIN, T, 5, 0, deltas=[0.1], adversary=adversary)
    safe = one_way(MODEL, T, 0.1)
    players: list[lr.Predictor] = [MODEL, safe]
    most = [
        lr.external_regret(COIN, lr.policies.Respond(p, COIN, T**-0.5), np.stack([zeros, ones, nasty]))[:, -1].max()
        for p in players
    ]
    assert (found.base_regret, found.rows[0].regret) == pytest.approx(most)
    assert [(h, t) for _, h, t in asked] == [(T, T**-0.5)] * 2


def test_a_switch_that_was_not_seen_may_still_come() -> None:
    """No switch in 50 sequences: up to 7% may switch, and each may cost the span."""
    [row] = frontier.price_of_robustness(LEANING, GAME, SHORT, 50, 0, deltas=[1e-6]).rows
    assert (row.switched, row.given_up.value) == (0, 0)
    unseen = 1 - 0.025 ** (1 / 50)
    assert row.given_up.high == pytest.approx(GAME.span * unseen, rel=0.02)
    assert row.given_up.low == pytest.approx(-lr.certificates.quantal_loss(3) / math.sqrt(SHORT) * unseen, rel=0.02)
