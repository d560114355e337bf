"""The paper's tests, and the exact one, against literal transcriptions of what they say."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import Engine, Setting, bets
from lowregret.evaluate.adversaries import all_sequences
from lowregret.robust import Robust, algorithm_1

from ..conftest import random_markov, turned_tokens, turning_game, with_urn
from ..literal_theorem import answer, by_hand, chance_of, some_forecasts, some_game

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()


def alarm_times(setting: Setting, probs_NxTxS: Any, tokens_NxT: Any) -> np.ndarray:
    return Engine(setting).alarm_times(np.asarray(probs_NxTxS, dtype=np.float64), np.asarray(tokens_NxT))


# The paper's own


def literal_algorithm_1(test: lr.RegretGap, problem: lr.DecisionProblem, probs: np.ndarray, tokens: np.ndarray) -> int:
    """The paper's pseudo-code, regrets with their maxima and all."""
    T = test.horizon
    assert T is not None
    U, eta = problem.utility, 1 / math.sqrt(T)
    own, urn = [], []
    for s in range(1, len(tokens) + 1):
        own.append(answer(U, probs[s - 1], eta))
        counts = np.bincount(tokens[: s - 1], minlength=problem.n_states)
        urn.append(answer(U, (1 + counts) / (problem.n_states + s - 1), eta))
        fixed = U[:, tokens[:s]].sum(1)
        regret = max(fixed) / s - sum(pi @ U[:, x] for pi, x in zip(own, tokens[:s], strict=True)) / s
        hedge = max(fixed) / s - sum(pi @ U[:, x] for pi, x in zip(urn, tokens[:s], strict=True)) / s
        constant = problem.contrast**2 / 2 if test.span_aware else 8
        bound = eta * math.log(problem.n_actions) + math.sqrt(constant * (1 + test.alpha) * math.log(T) / s)
        if regret >= hedge + bound:
            return s
    return len(tokens) + 1


@pytest.mark.parametrize("seed", range(12))
def test_regret_gap_is_algorithm_1_as_printed(seed: int) -> None:
    """As literally; and at least a third of the sequences have an alarm, or little would be compared."""
    rng = np.random.default_rng(seed)
    problem, base, state = turning_game(rng, 1.2)
    T = 200
    test = lr.RegretGap(T, alpha=float(rng.choice([0.01, 0.3])), span_aware=bool(seed % 2))
    tokens = turned_tokens(rng, base, state, 8, T)
    probs = base.predict_sequence(tokens)
    expected = np.array([literal_algorithm_1(test, problem, p, x) for p, x in zip(probs, tokens, strict=True)])
    assert 1 / 3 <= (expected <= T).mean() < 1
    assert len(set(expected)) > 2
    np.testing.assert_array_equal(alarm_times(algorithm_1(problem, test), probs, tokens), expected)


@pytest.mark.parametrize("seed", range(8))
def test_regret_rate_is_what_the_experiments_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem, base, state = turning_game(rng, 0.6)
    tokens = turned_tokens(rng, base, state, 12, 60)
    regret = lr.external_regret(problem, lr.policies.Respond(base, problem, 60**-0.5), tokens)
    over = regret > 0.8 / np.sqrt(np.arange(1, 61))
    expected = np.where(over.any(-1), over.argmax(-1) + 1, 61)
    assert (expected <= 60).mean() >= 1 / 3
    safe = lr.robustify(base, problem, test=lr.RegretRate(60, alpha=0.8))
    np.testing.assert_array_equal(safe.alarm_times(tokens), expected)


def test_a_regret_that_only_reaches_the_rate_is_no_alarm() -> None:
    """On 0, 1, 1, 1 a model that is sure of 0 has a lead of 2 after four steps: alpha sqrt(t) itself, and no more."""
    sure = lr.predictors.Scheduled([[1.0, 0.0]])
    safe = lr.robustify(sure, MATCHING, test=lr.RegretRate(4, alpha=1.0), response=lr.QuantalResponse(1e-3))
    assert safe.alarm_times([[0, 1, 1, 1], [1, 1, 1, 1]]).tolist() == [5, 2]
    memory = safe.start()
    for token in (0, 1, 1, 1):
        memory = safe.update(memory, token)
    assert not safe.switched(memory)


class Unasked(lr.PolyaUrn):
    """A fallback that must not be asked."""

    def predict_sequence(self, tokens: Any) -> Any:
        raise AssertionError("the fallback was asked")


def test_a_test_of_the_model_alone_does_not_ask_the_fallback() -> None:
    rng = np.random.default_rng(0)
    tokens, probs = rng.integers(0, 2, (50, 60)), rng.dirichlet([0.3, 0.3], (50, 60))
    for problem, test in ((MATCHING, lr.RegretRate(60, alpha=0.4)), (None, lr.VRegret(60, delta=0.3))):
        times = alarm_times(algorithm_1(problem, test), probs, tokens)
        assert (times <= 60).any()
        assert np.array_equal(alarm_times(algorithm_1(problem, test, Unasked(2)), probs, tokens), times)
    with pytest.raises(AssertionError, match="was asked"):
        alarm_times(algorithm_1(MATCHING, lr.RegretGap(60), Unasked(2)), probs, tokens)


# The exact test: the every-start theorem in loops


def streamed(setting: Setting, probs: np.ndarray, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Alarm times, and ln E_t after every step ``[N, T]``."""
    engine = Engine(setting)
    trace = engine.run(engine.start(len(tokens)), lr.engine.Inputs(probs), tokens)
    times = np.where(trace.alarm_NxT.any(-1), trace.alarm_NxT.argmax(-1), tokens.shape[1]) + 1
    return times, trace.evidence_NxT


def recorded(setting: Setting, probs: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """ln E_t, by running sums."""
    return np.log(setting.watch.levels(Engine(setting).played_at_once(probs, tokens)))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_random_games_follow_the_theorem(seed: int, known: bool) -> None:
    """Streams and recordings beside the loops; forecasts that exclude states are among them."""
    rng, T, alarms = np.random.default_rng([seed, known]), 14, 0
    for _ in range(5):
        problem = some_game(rng)
        test = lr.ExactTest(float(rng.choice([0.9, 0.5, 0.2])), T if known else None)
        eta = None if rng.random() < 0.7 else float(rng.choice([0.02, 0.5]))
        S = problem.n_states
        setting = algorithm_1(problem, test, lr.PolyaUrn(S), lr.QuantalResponse(eta))
        probs, tokens = some_forecasts(rng, (4, T), S), rng.integers(S, size=(4, T))
        hurts = (problem.quantal_response(probs, 0.1) @ problem.utility).argmin(axis=-1)
        tokens[:3] = np.where(rng.random((3, T)) < 0.8, hurts[:3], tokens[:3])
        wanted = [by_hand(setting, p, y) for p, y in zip(probs, tokens, strict=True)]
        expected = [w.alarm for w in wanted]
        assert alarm_times(setting, probs, tokens).tolist() == expected
        times, levels = streamed(setting, probs, tokens)
        assert times.tolist() == expected
        finite = np.isfinite(levels)
        np.testing.assert_allclose(levels[finite], np.array([w.log_total_T for w in wanted])[finite], atol=1e-9)
        alarms += sum(time <= T for time in expected)
    assert 20 / 3 <= alarms < 20


@pytest.mark.parametrize("known", [True, False])
def test_long_sequences_cross_blocks_of_time(known: bool) -> None:
    """Wealth goes through many scales, up and down: recordings and streams are the loops at every length."""
    rng, T = np.random.default_rng(2), 500
    setting = with_urn(MATCHING, T if known else None, 1e-12)
    often_NxT = np.repeat(rng.choice([0.02, 1.0], (4, T // 50)), 50, axis=1) * np.array([[0.3], [0.6], [0.9], [1.0]])
    tokens = (rng.random((4, T)) < often_NxT).astype(int)
    probs = np.broadcast_to([0.99, 0.01], (4, T, 2))
    wanted = [by_hand(setting, p, y) for p, y in zip(probs, tokens, strict=True)]
    assert alarm_times(setting, probs, tokens).tolist() == [w.alarm for w in wanted]
    times, levels = streamed(setting, probs, tokens)
    assert times.tolist() == [w.alarm for w in wanted]
    for found in (levels, recorded(setting, probs, tokens)):
        np.testing.assert_allclose(found, [w.log_total_T for w in wanted], rtol=1e-9, atol=1e-6)
    assert min(w.alarm for w in wanted) <= T < max(w.alarm for w in wanted)


def test_wealth_beyond_all_floats_is_cut_off_after_the_alarm() -> None:
    """It grows by e^2 a step and would be e^1000: up to 1e300 it is that of the loops, and from there on a number."""
    T = 500
    setting = with_urn(MATCHING, T, 0.01, temperature=1e-3)
    probs, tokens = np.tile([0.999, 0.001], (2, T, 1)), np.ones((2, T), dtype=np.int64)
    tokens[1, 400:] = 0  # the model is right from then on
    wanted = [by_hand(setting, p, y) for p, y in zip(probs, tokens, strict=True)]
    assert wanted[0].log_total_T[-1] > 900
    times, streams = streamed(setting, probs, tokens)
    assert times.tolist() == alarm_times(setting, probs, tokens).tolist() == [w.alarm for w in wanted]
    # Recorded it is cut off a block earlier: beyond any threshold, too.
    for levels, surely in ((streams, 1e290), (recorded(setting, probs, tokens), 1 / bets.LEAST_DELTA)):
        assert math.log(surely) < levels[0, -1] <= math.log(bets.MOST) + math.log(2 * len(setting.watch.prior.rates_K))
        for n, one in enumerate(wanted):
            whole = int(np.argmax(one.log_total_T > math.log(surely)))
            assert whole > 250
            np.testing.assert_allclose(levels[n, :whole], one.log_total_T[:whole], rtol=1e-9, atol=1e-9)


def test_wealth_below_all_floats_is_not_missed_since_new_capital_joins() -> None:
    """Right for 500 steps, e^-1000 at the top rate, then wrong for as long as it takes."""
    T = 800
    setting = with_urn(MATCHING, T, 1e-100, temperature=1e-3)
    probs, tokens = np.tile([0.999, 0.001], (1, T, 1)), np.append(np.zeros(500, int), np.ones(T - 500, int))[None]
    wanted = by_hand(setting, probs[0], tokens[0])
    assert 600 < wanted.alarm < T
    assert alarm_times(setting, probs, tokens).tolist() == [wanted.alarm]
    times, levels = streamed(setting, probs, tokens)
    assert times.tolist() == [wanted.alarm]
    np.testing.assert_allclose(levels[0], wanted.log_total_T, rtol=1e-9, atol=1e-9)


ODD: dict[str, lr.DecisionProblem] = {
    "one action": lr.DecisionProblem([[0.3, 0.5]]),
    "one state": lr.DecisionProblem([[0.3], [0.5]]),
    "equal actions": lr.DecisionProblem([[1, 0], [1, 0]]),
    "dominated": lr.DecisionProblem([[1, 0.5], [0, 0], [0.2, 0.4]]),
    "payoffs of 1e-9": lr.DecisionProblem(np.eye(2) * 1e-9),
}


@pytest.mark.parametrize("horizon", [1, 2, 30, None])
@pytest.mark.parametrize("name", ODD)
def test_odd_problems(name: str, horizon: int | None) -> None:
    """On every shape of batch, beside the theorem."""
    problem, T, rng = ODD[name], horizon or 12, np.random.default_rng(0)
    S = problem.n_states
    safe = lr.robustify(lr.Markov(rng.dirichlet(np.ones(S), S), 1), problem, test=lr.ExactTest(0.2, horizon))
    certificate = safe.certificate.at(T)
    assert 0 <= certificate.regret_bound <= problem.span
    assert safe.certificate.sharpen().at(T).regret_bound <= certificate.regret_bound
    for shape in ((), (0,), (2, 3)):
        tokens, memory = rng.integers(S, size=(*shape, T)), safe.start(shape)
        times = safe.alarm_times(tokens)
        for t in range(T):
            assert safe.evidence(memory)[0].shape == shape
            memory = safe.update(memory, tokens[..., t])
        assert np.array_equal(safe.switched(memory), times <= T)
        if shape == ():
            assert times == by_hand(safe.setting, safe.base.predict_sequence(tokens), tokens).alarm


@pytest.mark.parametrize(
    ("delta", "temperature"),
    [(1e-250, None), (1 - 1e-12, None), (0.1, 1e-6), (0.1, 1e3)],
)
def test_deltas_and_temperatures_at_the_ends(delta: float, temperature: float | None) -> None:
    T = 420
    setting = with_urn(MATCHING, T, delta, temperature=temperature)
    probs, tokens = np.tile([0.999, 0.001], (2, T, 1)), np.stack([np.ones(T, int), np.zeros(T, int)])
    expected = [by_hand(setting, p, y).alarm for p, y in zip(probs, tokens, strict=True)]
    assert expected[0] <= T
    assert alarm_times(setting, probs, tokens).tolist() == streamed(setting, probs, tokens)[0].tolist() == expected
    assert 0 < setting.certificate.sharpen().regret_bound <= setting.certificate.regret_bound <= 1


# What is predicted


def test_the_robust_distribution_is_within_the_certificate() -> None:
    """The TV distance itself, by enumeration, against P(alarm) and the bound."""
    rng, tokens, seen = np.random.default_rng(0), all_sequences(2, 12), []
    for _ in range(20):
        base = random_markov(rng, 2, 1)
        safe = Robust(base, with_urn(MATCHING, 12, 0.3), MATCHING)
        own, robust = (chance_of(p.predict_sequence(tokens), tokens) for p in (base, safe))
        tv = abs(own - robust).sum() / 2
        assert robust.sum() == pytest.approx(1)
        assert tv <= own[safe.alarm_times(tokens) < 12].sum() + 1e-12 <= 0.3
        seen.append(tv)
    assert max(seen) > 0.001, "there never was an alarm: the test shows nothing"


def test_an_alarm_changes_the_next_prediction_first() -> None:
    base = lr.predictors.Scheduled([[0.9, 0.1]])
    safe = lr.robustify(base, MATCHING, 50, fallback=lr.PolyaUrn(2))
    tokens = np.ones((1, 50), dtype=int)
    s = int(safe.alarm_times(tokens)[0])
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
        out = lr.robustify(base, RPS, 1000).predict_sequence(torch.zeros(9, dtype=torch.int64))
        assert out.dtype == dtype
        assert torch.equal(out, probs)


@pytest.mark.parametrize("shape", [(), (2, 3), (0,)], ids=str)
def test_an_impossible_token_is_an_alarm_at_once(shape: tuple[int, ...]) -> None:
    safe = lr.robustify(lr.predictors.Scheduled([[0.5, 0.5], [1.0, 0.0]]), MATCHING, 30)
    tokens, memory = np.broadcast_to([1, 0, 0, 1, 0], (*shape, 5)), safe.start(shape)
    assert (safe.alarm_times(tokens) == 4).all()
    for t in range(5):
        assert (safe.switched(memory) == (t >= 4)).all()
        if t == 4:
            assert (safe.evidence(memory)[0] == math.inf).all()
        memory = safe.update(memory, tokens[..., t])


def test_blocks_do_not_show() -> None:
    """Many rows are done in blocks: the same as one by one."""
    rng = np.random.default_rng(0)
    tokens = (rng.random((700, 300)) < rng.choice([0.3, 0.99], (700, 1))).astype(int)
    base = lr.predictors.Scheduled([[0.7, 0.3]])
    safe = lr.robustify(base, MATCHING, test=lr.ExactTest(1 / 300, 300), fallback=lr.PolyaUrn(2))
    for test in (lr.RegretGap(300, 0.01, span_aware=True), lr.RegretRate(300), safe.setting.test):
        each = replace(safe, setting=algorithm_1(MATCHING, test, lr.PolyaUrn(2)))
        whole = each.alarm_times(tokens.reshape(7, 100, 300))
        assert whole.shape == (7, 100)
        assert 1 / 3 <= (whole <= 300).mean() < 1
        single = [int(each.alarm_times(tokens[i])) for i in range(0, 700, 13)]
        np.testing.assert_array_equal(whole.reshape(-1)[::13], single)
    assert safe.alarm_times(tokens[:0]).shape == (0,)
