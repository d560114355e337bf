"""Rules against literal transcriptions of what they say, and the exact test against the theory behind it."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.rules import FirstTest, kernels
from lowregret.rules.first import FirstBets

from ..conftest import random_markov, random_problem, turned_tokens, turning_game


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


def literal_exact_test(rule: lr.ExactTest, probs: np.ndarray, tokens: np.ndarray) -> tuple[int, list[float]]:
    """The martingale by its definition, term by term; also the path of E_t."""
    problem, J = rule.problem, rule.problem.span
    if rule.horizon is not None:
        K = max(1, math.ceil(math.log2(4 / math.sqrt(2 * math.log(1 / rule.delta) / rule.horizon))) + 2)
        weights, rest = [1 / K] * K, 0.0
    else:
        weights = [1 / ((k + 1) * (k + 2)) for k in range(40)]
        rest = 1 - sum(weights)
    rates = [(4 / J) * 2.0**-k for k in range(len(weights))]
    gap, low, psi = 0.0, 0.0, np.zeros(len(rates))
    path, tripped = [], len(tokens) + 1
    for t, token in enumerate(tokens, start=1):
        eta = float(rule.temperature_at(t))
        counts = np.bincount(tokens[: t - 1], minlength=problem.n_states)
        h = response(problem, (1 + counts) / (problem.n_states + t - 1), eta)
        pi = response(problem, probs[t - 1], eta)
        gains = (h - pi) @ problem.utility
        gap += gains[token]
        low = min(low, gap)
        for k, rate in enumerate(rates):
            psi[k] += math.log(sum(p * math.exp(rate * x) for p, x in zip(probs[t - 1], gains, strict=True)))
        path.append(sum(w * math.exp(r * gap - f) for w, r, f in zip(weights, rates, psi, strict=True)) + rest)
        surprise = path[-1] >= 1 / rule.delta and gap - low >= rule.gate * J * math.sqrt(t)
        if tripped > len(tokens) and (surprise or probs[t - 1, token] == 0):
            tripped = t
    return tripped, path


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


@pytest.mark.parametrize("seed", range(16))
def test_exact_test_is_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem, base, state = turning_game(rng, 0.6)
    horizon = None if seed % 4 == 3 else 60
    rule = FirstTest(problem, horizon, delta=0.05, gate=float(rng.choice([0.0, 0.5])))
    tokens = turned_tokens(rng, base, state, 10, 60)
    probs = base.predict_sequence(tokens)
    literal = [literal_exact_test(rule, p, x) for p, x in zip(probs, tokens, strict=True)]
    assert np.mean([time <= 60 for time, _ in literal]) >= 1 / 3
    np.testing.assert_array_equal(rule.trip_times(probs, tokens), [time for time, _ in literal])
    memory = rule.start((10,))
    for t in range(60):
        memory = rule.update(memory, probs[:, t], tokens[:, t])
        statistic, threshold = rule.evidence(memory)
        np.testing.assert_allclose(statistic, np.log([path[t] for _, path in literal]), atol=1e-10)
        np.testing.assert_allclose(threshold, math.log(20))


@pytest.mark.parametrize("horizon", [6, None])
@pytest.mark.parametrize("seed", range(4))
def test_the_statistic_is_a_martingale_from_one(seed: int, horizon: int | None) -> None:
    """Under the base model's own law its mean is exactly 1 at every t: by enumeration of all sequences."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 3, 3)
    base = random_markov(rng, problem.n_states, 1)
    rule = FirstTest(problem, horizon, delta=0.1)
    tokens = np.array(list(itertools.product(range(problem.n_states), repeat=6)))
    probs = base.predict_sequence(tokens)
    chance = np.take_along_axis(probs, tokens[..., None], -1)[..., 0].cumprod(-1)
    memory = rule.start((len(tokens),))
    for t in range(6):
        memory = rule.update(memory, probs[:, t], tokens[:, t])
        repeats = problem.n_states ** (5 - t)  # every prefix stands there so many times
        mean = (np.exp(rule.evidence(memory)[0]) * chance[:, t]).sum() / repeats
        assert mean == pytest.approx(1, abs=1e-12)


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
            for gate in (0.0, 0.5):
                rule = FirstTest(problem, T, delta=delta, gate=gate)
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
        safe = lr.robust.Robust(base, FirstTest(lr.matching(), 12, delta=0.3))
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
    for gate in (0.0, 0.5, 100.0):
        rule = FirstTest(lr.rock_paper_scissors(), 30, gate=gate)
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
        FirstTest(problem, 300),
        FirstTest(problem, 300, gate=0),
        FirstTest(problem, None, delta=0.01),
    ]
    arrays = [rule.trip_times(probs, tokens) for rule in rules]
    monkeypatch.setattr(kernels, "_WORTH", 0)
    for rule, times in zip(rules, arrays, strict=True):
        np.testing.assert_array_equal(rule.trip_times(probs, tokens), times)
    assert all((times <= 300).mean() >= 1 / 3 for times in arrays)


def test_slow_rates_keep_their_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an unknown horizon the slowest rate is 4 / 2^39: squared up carelessly it would drift into false alarms."""
    base, T = lr.predictors.Scheduled([[0.5 - 4e-7, 0.5 + 4e-7]]), 400_000
    rule = FirstTest(
        lr.matching(), None, delta=0.1, gate=0, temperature=0.05, fallback=lr.predictors.Scheduled([[0.5, 0.5]])
    )
    tokens = (np.random.default_rng(0).random((2, T)) < 0.5 + 4e-7).astype(int)  # the base's own law
    probs = base.predict_sequence(tokens)
    for least in (1 << 60, 0) if kernels.compiler_installed() else (1 << 60,):
        monkeypatch.setattr(kernels, "_WORTH", least)
        assert (rule.trip_times(probs, tokens) == T + 1).all()


class OneBold(FirstBets):
    """Only the highest rate: no gentler one can raise the alarm in its place."""

    @property
    def rates_K(self) -> np.ndarray:  # type: ignore[override]
        return np.array([4.0])


class OneBoldRate(FirstTest):
    @property
    def bets(self) -> FirstBets:  # type: ignore[override]
        return OneBold(self.problem, self.horizon, self.delta, self.gate)


def test_wealth_that_sank_below_the_smallest_number_can_rise_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log wealth is kept as such: a model that was right for long can still be caught."""
    T = 1600
    likely = np.arange(T) % 2  # the model changes its mind every step, the urn stays undecided
    base = lr.predictors.Scheduled(np.where(np.eye(2)[likely] == 1, 0.7, 0.3))
    tokens = np.where(np.arange(T) < 300, likely, 1 - likely)[None]
    rule = OneBoldRate(lr.matching(), T)
    probs = np.ascontiguousarray(base.predict_sequence(tokens))
    memory, lowest = rule.start(), 0.0
    while not rule.tripped(memory):
        t = int(memory.step)
        memory = rule.update(memory, probs[0, t], tokens[0, t])
        lowest = min(lowest, float(memory.statistics.log_wealth_K[0]))
    assert lowest < -745, "exp of it is 0 in double precision"
    assert 1000 < memory.tripped_at < T
    assert rule.trip_times(probs, tokens)[0] == memory.tripped_at
    if kernels.compiler_installed():
        monkeypatch.setattr(kernels, "_WORTH", 0)
        assert rule.trip_times(probs, tokens)[0] == memory.tripped_at


def test_blocks_do_not_show() -> None:
    """Many rows are done in blocks: the same as one by one."""
    problem, base = lr.matching(), lr.predictors.Scheduled([[0.7, 0.3]])
    rng = np.random.default_rng(0)
    tokens = (rng.random((700, 300)) < rng.choice([0.3, 0.99], (700, 1))).astype(int)
    probs = base.predict_sequence(tokens)
    for rule in (
        lr.rules.RegretGap(problem, 300, 0.01, True),
        lr.rules.RegretRate(problem, 300),
        FirstTest(problem, 300),
    ):
        whole = rule.trip_times(probs.reshape(7, 100, 300, 2), tokens.reshape(7, 100, 300))
        assert whole.shape == (7, 100)
        assert 1 / 3 <= (whole <= 300).mean() < 1
        single = [int(rule.trip_times(probs[i], tokens[i])) for i in range(0, 700, 13)]
        np.testing.assert_array_equal(whole.reshape(-1)[::13], single)
    assert FirstTest(problem, 300).trip_times(probs[:0], tokens[:0]).shape == (0,)


def test_median_switch_times_of_the_notes() -> None:
    """All ones against Ber(1/3) at T = 10^5: a deterministic sequence, so the times are exact."""
    T = 100_000
    base = lr.predictors.Scheduled([[2 / 3, 1 / 3]])
    tokens = np.ones((1, 400), dtype=int)
    probs = base.predict_sequence(tokens)
    assert lr.rules.RegretGap(lr.matching(), T).trip_times(probs, tokens).tolist() == [187]
    assert FirstTest(lr.matching(), T, delta=2 / T, gate=0).trip_times(probs, tokens).tolist() == [12]


def test_a_regret_that_only_reaches_the_rate_is_no_trip() -> None:
    """On 0, 1, 1, 1 a model that is sure of 0 has a lead of 2 after four steps: alpha sqrt(t) itself, and no more."""
    rule, sure = lr.rules.RegretRate(lr.matching(), 4, alpha=1.0, temperature=1e-3), np.tile([1.0, 0.0], (4, 1))
    assert rule.trip_times(sure, [0, 1, 1, 1]) == 5
    assert rule.trip_times(sure, [1, 1, 1, 1]) == 2
    memory = rule.start()
    for token in (0, 1, 1, 1):
        memory = rule.update(memory, sure[0], token)
    assert not rule.tripped(memory)
