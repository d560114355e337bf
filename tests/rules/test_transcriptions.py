"""Rules against literal transcriptions of what they say."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.rules import kernels

from ..conftest import random_markov, random_problem, turned_tokens, turning_game, with_urn


def response(problem: lr.DecisionProblem, belief: np.ndarray, temperature: float) -> np.ndarray:
    scores = problem.utility @ belief / temperature
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def literal_algorithm_1(rule: lr.rules.RegretGap, probs: np.ndarray, tokens: np.ndarray) -> int:
    """The paper's pseudo-code, regrets with their maxima and all."""
    problem, T = rule.problem, rule.horizon
    eta = 1 / math.sqrt(T)
    own, urn = [], []
    for s in range(1, len(tokens) + 1):
        own.append(response(problem, probs[s - 1], eta))
        counts = np.bincount(tokens[: s - 1], minlength=problem.n_states)
        urn.append(response(problem, (1 + counts) / (problem.n_states + s - 1), eta))
        fixed = problem.utility[:, tokens[:s]].sum(1)
        regret = max(fixed) / s - sum(pi @ problem.utility[:, x] for pi, x in zip(own, tokens[:s], strict=True)) / s
        hedge = max(fixed) / s - sum(pi @ problem.utility[:, x] for pi, x in zip(urn, tokens[:s], strict=True)) / s
        bound = eta * math.log(problem.n_actions) + math.sqrt(rule.variance * (1 + rule.alpha) * math.log(T) / s)
        if regret >= hedge + bound:
            return s
    return len(tokens) + 1


class Unasked(lr.PolyaUrn):
    """A fallback that must not be asked."""

    def laws(self, tokens: Any) -> Any:
        raise AssertionError("the fallback was asked")


def test_a_rule_that_judges_the_base_alone_does_not_ask_the_fallback() -> None:
    rng = np.random.default_rng(0)
    tokens, probs = rng.integers(0, 2, (50, 60)), rng.dirichlet([0.3, 0.3], (50, 60))
    for rule in (lr.rules.RegretRate(lr.matching(), 60, alpha=0.4), lr.rules.VRegret(60, delta=0.3)):
        times = rule.trip_times(probs, tokens)
        assert (times <= 60).any()
        unasked = replace(rule, fallback=Unasked(2))
        assert np.array_equal(unasked.trip_times(probs, tokens), times)
    with pytest.raises(AssertionError, match="was asked"):
        lr.rules.RegretGap(lr.matching(), 60, fallback=Unasked(2)).trip_times(probs, tokens)


@pytest.mark.parametrize("seed", range(12))
def test_regret_gap_is_algorithm_1_as_printed(seed: int) -> None:
    """As literally; and at least a third of the sequences trip, or little would be compared."""
    rng = np.random.default_rng(seed)
    problem, base, state = turning_game(rng, 1.2)
    T = 200
    rule = lr.rules.RegretGap(problem, T, alpha=float(rng.choice([0.01, 0.3])), span_aware=bool(seed % 2))
    tokens = turned_tokens(rng, base, state, 8, T)
    probs = base.predict_sequence(tokens)
    expected = np.array([literal_algorithm_1(rule, p, x) for p, x in zip(probs, tokens, strict=True)])
    assert 1 / 3 <= (expected <= T).mean() < 1
    assert len(set(expected)) > 2
    np.testing.assert_array_equal(rule.trip_times(probs, tokens), expected)


@pytest.mark.parametrize("seed", range(8))
def test_regret_rate_is_what_the_experiments_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem, base, state = turning_game(rng, 0.6)
    rule = lr.rules.RegretRate(problem, 60, alpha=0.8)
    tokens = turned_tokens(rng, base, state, 12, 60)
    probs = base.predict_sequence(tokens)
    regret = lr.external_regret(problem, lr.policies.Respond(base, problem, rule.temperature), tokens)
    over = regret > 0.8 / np.sqrt(np.arange(1, 61))
    expected = np.where(over.any(-1), over.argmax(-1) + 1, 61)
    assert (expected <= 60).mean() >= 1 / 3
    np.testing.assert_array_equal(rule.trip_times(probs, tokens), expected)


@pytest.mark.parametrize("seed", range(20))
def test_the_chance_of_a_false_switch_by_enumeration(seed: int) -> None:
    """TV <= delta, exactly and for every threshold: the law of the base model over all sequences."""
    rng = np.random.default_rng(seed)
    most = 0.0
    while most < 0.01:  # a game in which nothing ever switches shows nothing
        problem = random_problem(rng, 3, 3)
        base = random_markov(rng, problem.n_states, 1)
        T = 11 if problem.n_states == 2 else 7
        tokens = np.array(list(itertools.product(range(problem.n_states), repeat=T)))
        probs = base.predict_sequence(tokens)
        chance = np.take_along_axis(probs, tokens[..., None], -1)[..., 0].prod(-1)
        for delta in (0.02, 0.1, 0.3, 0.6):
            rule = with_urn(problem, T, delta)
            false = chance[rule.trip_times(probs, tokens) <= T].sum()
            assert false <= delta
            most = max(most, false)
    for settings in ({"span_aware": True}, {"sharp": True}):
        gap = lr.rules.RegretGap(problem, T, alpha=0.1, **settings)
        assert chance[gap.trip_times(probs, tokens) < T].sum() <= gap.certificate.tv_bound


def test_the_robust_distribution_is_within_the_certificate() -> None:
    """The TV distance itself, by enumeration, against P(switch) and the bound."""
    rng = np.random.default_rng(0)
    tokens = np.array(list(itertools.product(range(2), repeat=12)))
    seen = []
    for _ in range(20):
        base = random_markov(rng, 2, 1)
        safe = lr.robust.Robust(base, with_urn(lr.matching(), 12, 0.3))
        law = [
            np.take_along_axis(p.predict_sequence(tokens), tokens[..., None], -1)[..., 0].prod(-1) for p in (base, safe)
        ]
        tv = abs(law[0] - law[1]).sum() / 2
        assert law[1].sum() == pytest.approx(1)
        assert tv <= law[0][safe.trip_times(tokens) < 12].sum() + 1e-12 <= 0.3
        seen.append(tv)
    assert max(seen) > 0.001, "nothing ever switched: the test shows nothing"


def test_a_trip_changes_the_next_prediction_first() -> None:
    base = lr.predictors.Scheduled([[0.9, 0.1]])
    safe = lr.robustify(base, lr.matching(), 50, fallback=lr.PolyaUrn(2))
    tokens = np.ones((1, 50), dtype=int)
    s = int(safe.trip_times(tokens)[0])
    assert 0 < s < 50
    probs = safe.predict_sequence(tokens)[0]
    np.testing.assert_array_equal(probs[:s], base.predict_sequence(tokens)[0, :s])
    # The fallback has seen everything from the first step on.
    np.testing.assert_array_equal(probs[s:], lr.PolyaUrn(2).predict_sequence(tokens)[0, s:])


def test_the_base_comes_back_bit_for_bit_in_its_own_precision() -> None:
    import torch

    rng = np.random.default_rng(0)
    for dtype in (torch.float32, torch.float64):
        probs = torch.as_tensor(rng.dirichlet([1, 1, 1], 9), dtype=dtype)
        base = lr.FromFunction(lambda h, p=probs: p[len(h)], 3)
        safe = lr.robustify(base, lr.rock_paper_scissors(), 1000)
        out = safe.predict_sequence(torch.zeros(9, dtype=torch.int64))
        assert out.dtype == dtype
        assert torch.equal(out, probs)


def test_an_impossible_token_is_an_alarm_at_once() -> None:
    base = lr.predictors.Scheduled([[1.0, 0.0, 0.0]])
    rule = lr.rules.ExactTest(lr.rock_paper_scissors(), 30)
    tokens = np.array([[0, 0, 0, 2, 0]])
    assert rule.trip_times(base.predict_sequence(tokens), tokens).tolist() == [4]
    memory = rule.start()
    for token in tokens[0]:
        memory = rule.update(memory, [1.0, 0.0, 0.0], int(token))
    assert memory.tripped_at == 4
    assert rule.evidence(memory)[0] == math.inf


@pytest.mark.parametrize("seed", range(6))
def test_the_compiled_recurrences_give_the_same_trip_times(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    rng = np.random.default_rng(seed)
    problem, base, state = turning_game(rng, 1.0) if seed else (lr.matching(), lr.Markov([0.95, 0.05], 0), 1)
    tokens = turned_tokens(rng, base, state, 24, 300)
    tokens[-1, 5:] = 0  # long runs, which drive the wealth far down before they turn it
    tokens[-2, :200] = base.predict_sequence(tokens[-2])[:200].argmax(-1)
    probs = base.predict_sequence(tokens).copy()
    probs[-3, 40] = np.eye(problem.n_states)[(tokens[-3, 40] + 1) % problem.n_states]
    rules = [
        lr.rules.RegretGap(problem, 300, 0.1, True),
        with_urn(problem, 300),
        with_urn(problem, None, 0.01),
    ]
    arrays = [rule.trip_times(probs, tokens) for rule in rules]
    monkeypatch.setattr(kernels, "_WORTH", 0)
    for rule, times in zip(rules, arrays, strict=True):
        np.testing.assert_array_equal(rule.trip_times(probs, tokens), times)
    assert all((times <= 300).mean() >= 1 / 3 for times in arrays)


def test_blocks_do_not_show() -> None:
    """Many rows are done in blocks: the same as one by one."""
    problem, base = lr.matching(), lr.predictors.Scheduled([[0.7, 0.3]])
    rng = np.random.default_rng(0)
    tokens = (rng.random((700, 300)) < rng.choice([0.3, 0.99], (700, 1))).astype(int)
    probs = base.predict_sequence(tokens)
    for rule in (
        lr.rules.RegretGap(problem, 300, 0.01, True),
        lr.rules.RegretRate(problem, 300),
        with_urn(problem, 300),
    ):
        whole = rule.trip_times(probs.reshape(7, 100, 300, 2), tokens.reshape(7, 100, 300))
        assert whole.shape == (7, 100)
        assert 1 / 3 <= (whole <= 300).mean() < 1
        single = [int(rule.trip_times(probs[i], tokens[i])) for i in range(0, 700, 13)]
        np.testing.assert_array_equal(whole.reshape(-1)[::13], single)
    assert with_urn(problem, 300).trip_times(probs[:0], tokens[:0]).shape == (0,)


def test_median_switch_times_of_the_notes() -> None:
    """All ones against Ber(1/3) at T = 10^5: a deterministic sequence, so the times are exact."""
    T = 100_000
    base = lr.predictors.Scheduled([[2 / 3, 1 / 3]])
    tokens = np.ones((1, 400), dtype=int)
    probs = base.predict_sequence(tokens)
    assert lr.rules.RegretGap(lr.matching(), T).trip_times(probs, tokens).tolist() == [187]


def test_a_regret_that_only_reaches_the_rate_is_no_trip() -> None:
    """On 0, 1, 1, 1 a model that is sure of 0 has a lead of 2 after four steps: alpha sqrt(t) itself, and no more."""
    rule, sure = lr.rules.RegretRate(lr.matching(), 4, alpha=1.0, temperature=1e-3), np.tile([1.0, 0.0], (4, 1))
    assert rule.trip_times(sure, [0, 1, 1, 1]) == 5
    assert rule.trip_times(sure, [1, 1, 1, 1]) == 2
    memory = rule.start()
    for token in (0, 1, 1, 1):
        memory = rule.update(memory, sure[0], token)
    assert not rule.tripped(memory)
