"""Algorithm 3: against its transcription, by enumeration, and the numbers it is known to give."""

import json
import math

import numpy as np
import pytest

import lowregret as lr
from lowregret import certificates
from lowregret.engine import Engine
from lowregret.evaluate import adversaries
from lowregret.robust import algorithm_1

from ..conftest import random_markov, random_problem
from ..literal_theorem import chance_of

TESTS = ("exact", "threshold")


def engine_of(test: lr.VRegret) -> Engine:
    return Engine(algorithm_1(None, test))


def alarm_times(test: lr.VRegret, probs_NxTxS: np.ndarray, tokens_NxT: np.ndarray) -> np.ndarray:
    return engine_of(test).alarm_times(probs_NxTxS, tokens_NxT)


def both(p: np.ndarray) -> np.ndarray:
    """A forecast of both states."""
    return np.stack([1 - p, p], axis=-1)


def v_regrets(p_NxT: np.ndarray, y_NxT: np.ndarray, tips_V: np.ndarray) -> np.ndarray:
    """The V-regret at each tip, a sum over the steps so far, ``[N, T, V]``: by its closed form."""
    score = np.cumsum(np.sign(tips_V - p_NxT[..., None]) * (y_NxT[..., None] - tips_V), axis=1)
    return score + np.abs(np.cumsum(y_NxT[..., None] - tips_V, axis=1))


def transcribed(test: lr.VRegret, p_T: np.ndarray, y_T: np.ndarray) -> int:
    """When there is an alarm, written from its definition with a loop over everything; T + 1 for never."""
    impossible = False
    for t in range(1, len(y_T) + 1):
        p, y = p_T[:t], y_T[:t]
        if test.test == "threshold":
            losses = [np.sum(np.sign(v - p) * (y - v)) for v in test.tips]
            constants = [
                min(np.sum(np.sign(v - q) * (y - v)) for q in (0.0, 1.0, v)) if 0 < v < 1 else _best_at_end(v, y)
                for v in test.tips
            ]
            gap = max(loss - best for loss, best in zip(losses, constants, strict=True)) / t
            N = len(test.tips)
            if gap >= math.sqrt(2 * math.log(math.pi**2 * N * t**2 / (3 * test.delta)) / t):
                return t
            continue
        wealth = []
        for v in test.tips:
            for side in (1, -1):
                c = np.sign(v - p) + side
                for rate in test.rates_K:
                    psi = np.log(p * np.exp(rate * c * (1 - v)) + (1 - p) * np.exp(-rate * c * v))
                    wealth.append(math.exp(np.sum(rate * c * (y - v) - psi)))
        impossible = impossible or (p[-1], y[-1]) in ((0.0, 1), (1.0, 0))
        if np.mean(wealth) >= 1 / test.delta or impossible:
            return t
    return len(y_T) + 1


def _best_at_end(v: float, y: np.ndarray) -> float:
    """At a tip of 0 or 1 one of the two sides is a limit of forecasts, not one: the closed form counts it."""
    return -abs(np.sum(y) - len(y) * v)


def some_forecasts(rng: np.random.Generator, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts, some of them on tips and at the ends, and outcomes that follow them or not."""
    p = np.where(rng.random(horizon) < 0.3, rng.integers(0, 9, horizon) / 8, rng.random(horizon))
    p = np.where(rng.random(horizon) < 0.2, 0.5, p)
    truth = p if rng.random() < 0.3 else rng.random()
    return p, (rng.random(horizon) < truth).astype(int)


@pytest.mark.parametrize("test", TESTS)
def test_alarms_as_its_transcription(test: str) -> None:
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(30):
        tips = np.unique(np.concatenate([rng.integers(0, 9, 3) / 8, rng.random(2)]))
        if rng.random() < 0.3:
            tips = np.array([0.5])
        made = lr.VRegret(40, delta=float(rng.choice([0.3, 0.8])), tips=tips, test=test)
        p, y = some_forecasts(rng, 40)
        if test == "threshold" and rng.random() < 0.5:  # it needs more than outcomes that are merely different
            p, y = p / 4, (rng.random(40) < 0.98).astype(int)
        found = int(alarm_times(made, both(p)[None], y[None])[0])
        assert found == transcribed(made, p, y)
        alarms += found <= 40
    assert alarms >= 5


def test_evidence_is_a_martingale_that_starts_at_one() -> None:
    """E[E_t] = 1 under the base model, by enumeration of all sequences."""
    rng, T, tokens = np.random.default_rng(1), 9, adversaries.all_sequences(2, 9)
    for _ in range(4):
        base = random_markov(rng, 2, 1)
        safe = lr.robustify(base, None, test=lr.VRegret(T, delta=0.1, tips=[0, 0.1, 0.5, 0.7, 1]))
        weight, memory = chance_of(base.predict_sequence(tokens), tokens), safe.start((len(tokens),))
        for t in range(T):
            memory = safe.update(memory, tokens[:, t])
            evidence, needed = safe.evidence(memory)
            assert weight @ np.exp(evidence - needed) == pytest.approx(0.1, abs=1e-9)


@pytest.mark.parametrize("test", TESTS)
def test_v_regret_before_an_alarm_is_below_its_bound(test: str) -> None:
    """No alarm, so no V-regret above what the certificate is made of: at every step, and not by far."""
    rng, T = np.random.default_rng(5), 200
    made = lr.VRegret(T, delta=0.1, tips=np.arange(21) / 20, test=test)
    p = 0.5 + rng.uniform(-0.1, 0.1, (400, T))
    y = (rng.random((400, T)) < np.clip(p + rng.normal(0, 0.3, (400, 1)), 0, 1)).astype(int)
    calm_NxT = np.arange(1, T + 1) < alarm_times(made, both(p), y)[:, None]
    worst_T = np.where(calm_NxT, v_regrets(p, y, made.tips).max(axis=-1), 0.0).max(axis=0)
    given = algorithm_1(None, made).certificate
    most_T = np.array([t * given.at(t).terms["test"] / (given.problem.contrast / 2) for t in range(1, T + 1)])
    assert (worst_T <= most_T + 1e-12).all()
    assert (worst_T / most_T).max() > (0.95 if test == "threshold" else 0.5)


@pytest.mark.parametrize("seed", range(6))
def test_no_short_sequence_breaks_the_certificate(seed: int) -> None:
    """All sequences of 11 tokens, several problems and temperatures for one and the same forecast."""
    rng = np.random.default_rng(seed)
    T, base = 11, random_markov(rng, 2, 1)
    tokens = adversaries.all_sequences(2, T)
    for test in TESTS:
        safe = lr.robustify(base, None, test=lr.VRegret(T, delta=0.9, tips=np.arange(21) / 20, test=test))
        probs = safe.predict_sequence(tokens)
        for _ in range(6):
            problem, warmth = random_problem(rng, most_states=2), float(rng.choice([0.02, 0.1, T**-0.5, 1.0]))
            given = safe.certificate.for_problem(problem, warmth)
            policy = safe.respond(problem, warmth).respond_to(probs, np.arange(1, T + 1))
            regret_NxT = lr.external_regret(problem, policy, tokens)
            bounds_T = [sum(given.at(t).terms.values()) for t in range(1, T + 1)]
            assert (regret_NxT.max(axis=0) <= np.array(bounds_T) + 1e-9).all()


def test_a_grid_can_miss_what_lies_between_its_tips() -> None:
    """Forecasts that alternate around .55, each below what comes: nothing at the tips 0, .1, .., much at .55."""
    n = 400
    p, y = np.tile([0.54, 0.56], n // 2)[None], np.tile([1, 0], n // 2)[None]  # high after low
    assert v_regrets(p, y, np.arange(11) / 10)[0, -1].max() <= 1e-9
    assert v_regrets(p, y, np.array([0.55]))[0, -1, 0] == pytest.approx(0.55 * n)
    for test in TESTS:
        assert alarm_times(lr.VRegret(n, tips=np.arange(11) / 10, test=test), both(p), y) == n + 1
        assert alarm_times(lr.VRegret(n, tips=[0.55], test=test), both(p), y) < n


# Robust predictors and certificates


def test_the_certificate_is_the_corrected_theorem() -> None:
    T, problem, warmth = 400, lr.cost_loss(1, 4), 0.07
    for test in TESTS:
        made = lr.VRegret(T, delta=0.01, tips=[0.55, 0.6, 0.7, 0.9], test=test)  # the widest gap is at an end
        if test == "exact":
            cost = math.log(2 * 4 * len(made.rates_K) / 0.01)
            most = min(rate * T / 2 + cost / rate for rate in 4.0 * 0.5 ** np.arange(len(made.rates_K)))
        else:
            most = T * math.sqrt(2 * math.log(math.pi**2 * 4 * T**2 / (3 * 0.01)) / T)
        beta = float(np.ptp(problem.utility[:, 1] - problem.utility[:, 0]))
        own = beta / 2 * most / T + warmth * math.log(2) + problem.span / T
        own += certificates.smooth_cover_error(beta, 0.55, warmth) + certificates.lemma_2_3(problem, T, warmth)
        given = algorithm_1(None, made).certificate.for_problem(problem, warmth)
        assert sum(given.terms.values()) == pytest.approx(own)


def test_robustify_without_a_problem() -> None:
    model, T = lr.Markov([[0.9, 0.1], [0.1, 0.9]], 1), 400
    safe = lr.robustify(model, None, T)
    assert isinstance(safe.setting.test, lr.VRegret)
    alternating = np.arange(T) % 2
    assert int(safe.alarm_times(alternating)) < 40
    given = safe.certificate
    problem = lr.cost_loss(1, 4)
    policy = safe.respond(problem)
    assert policy.temperature == pytest.approx(T**-0.5)
    regret = lr.external_regret(problem, policy, alternating)[-1]
    assert regret <= given.for_problem(problem).regret_bound
    assert given.for_problem(problem, 0.2).regret_bound > given.for_problem(problem).regret_bound
    assert given.tv_bound == 1 / T
    assert "for_problem" in str(given)
    assert json.loads(given.to_json())["tv_bound"] == 1 / T
    # Its own number is for the problem with most at stake.
    others = [lr.matching(), problem, *(random_problem(np.random.default_rng(s), 2, 2) for s in range(40))]
    assert given.regret_bound >= max(given.for_problem(other).regret_bound for other in others)


def test_certificates_for_a_problem_can_be_asked_at_any_step_and_sharpened() -> None:
    made, problem = lr.VRegret(1000, test="threshold", tips=np.arange(257) / 256), lr.matching()
    given = algorithm_1(None, made).certificate
    assert given.at(10).for_problem(problem) == given.for_problem(problem).at(10)
    assert given.at(10).for_problem(problem, 0.3) == given.for_problem(problem, 0.3).at(10)
    sharp = given.sharpen().for_problem(problem)
    assert sharp.regret_bound == given.for_problem(problem).sharpen().regret_bound
    assert sharp.regret_bound < given.for_problem(problem).regret_bound


def test_bad_input_by_name() -> None:
    three, given = lr.PolyaUrn(3), algorithm_1(None, lr.VRegret(10)).certificate
    for build, message in (
        (lambda: lr.VRegret(None), "horizon must be a whole number >= 1, got None"),
        (lambda: lr.VRegret(10, tips=[0.5, 1.2]), "tips must be a list of numbers in \\[0, 1\\], got"),
        (lambda: algorithm_1(None, lr.VRegret(10), three), "PolyaUrn predicts 3 states"),
        (lambda: algorithm_1(None, lr.VRegret(10), lr.Recovery()), "fallback must be a PolyaUrn over two states"),
        (lambda: lr.robustify(lr.PolyaUrn(2), lr.matching(), test=lr.VRegret(10)), "problem must be None"),
        (lambda: lr.robustify(lr.PolyaUrn(2), None, test=lr.ExactTest(0.1, 10)), "problem must be a DecisionProblem"),
        (lambda: lr.robustify(lr.PolyaUrn(2), None, 10).respond(), "respond needs a problem"),
        (lambda: given.for_problem(lr.rock_paper_scissors()), "problem must have two states"),
        (lambda: lr.robustify(lr.PolyaUrn(2), lr.matching(), 10).respond(lr.cost_loss(1, 4)), "the setting's own"),
    ):
        with pytest.raises(ValueError, match=message):
            build()
