"""Algorithm 2 and bounded recall: against a quadratic transcription, by enumeration, and by the laws."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import certificates, checks
from lowregret.certificates.by_counts import worst_case as worst_case_by_counts
from lowregret.evaluate import adversaries
from lowregret.evaluate.distances import exact_sequence_tv
from lowregret.robust.average_restart import theorem_4_2

from ..conftest import random_markov, random_problem

ALTERNATOR = lr.Markov([[0.2, 0.8], [0.8, 0.2]], 1)


def transcribed(safe: lr.AverageRestart, tokens: list[int], alpha: float = 1.0) -> tuple[np.ndarray, np.ndarray, bool]:
    """The average response and the average law before each step, every copy run anew from its first token.

    Written from the algorithm: at step t the copies m = t - D + 1 .. t have seen tokens m .. t-1; m < 1 counts as 1.
    """
    problem, D, eta = safe.problem, safe.extra_window, safe.temperature
    U, S = problem.utility, problem.n_states
    base_TxS = safe.predictor.predict_sequence(np.array(tokens))

    def response(law: np.ndarray) -> np.ndarray:
        scores = U @ law / eta
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()

    def copy(m: int, t: int) -> tuple[np.ndarray, np.ndarray, bool]:
        counts, gap, wealth_AxK, switched = np.ones(S), 0.0, 0.0, False
        for age, s in enumerate(range(m, t), start=1):
            y = tokens[s]
            gain_S = (response(counts / counts.sum()) - response(base_TxS[s])) @ U
            gap += gain_S[y]
            if isinstance(safe.test, lr.ExactTest):
                prior = safe.copy.setting.watch.prior
                rates_K = prior.rates_K
                lead_AxS = U - response(base_TxS[s]) @ U
                gained_AxKxS = np.exp(rates_K[:, None] * lead_AxS[:, None, :])
                odds_AxK = gained_AxKxS[..., y] / np.maximum(1, gained_AxKxS @ base_TxS[s])
                wealth_AxK = (wealth_AxK + prior.weights_K(age)) * odds_AxK
                alarm = wealth_AxK.sum() + prior.unspent(age) >= 1 / safe.test.delta
            else:
                noise = 8 * math.log(safe.horizon) + 8 * (alpha + 1) * math.log(D)
                alarm = gap >= age * eta * math.log(len(U)) + math.sqrt(noise * age)
            switched = switched or alarm
            counts[y] += 1
        law = counts / counts.sum() if switched else base_TxS[t]
        return response(law), law, switched

    responses, laws, any_switched = [], [], False
    for t in range(len(tokens)):
        copies = [copy(max(m, 0), t) for m in range(t - D + 1, t + 1)]
        responses.append(np.mean([c[0] for c in copies], axis=0))
        laws.append(np.mean([c[1] for c in copies], axis=0))
        any_switched |= any(c[2] for c in copies)
    return np.array(responses), np.array(laws), any_switched


def hostile(safe: lr.AverageRestart, horizon: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Mostly what hurts the base model most."""
    memory, tokens = safe.predictor.start(), []
    for _ in range(horizon):
        law = safe.predictor.predict(memory)
        worst = int((safe.problem.quantal_response(law, safe.temperature) @ safe.problem.utility).argmin())
        tokens.append(int(rng.integers(safe.n_states)) if rng.random() < noise else worst)
        memory = safe.predictor.update(memory, tokens[-1])
    return np.array(tokens)


def restarted(
    base: Any, problem: lr.DecisionProblem, L: int, D: int, T: int, delta: float, temperature: float | None = None
) -> lr.AverageRestart:
    """Copies with the exact test, and the urn for good."""
    urn, response = lr.PolyaUrn(problem.n_states), lr.QuantalResponse(temperature)
    return lr.AverageRestart(base, problem, L, D, T, test=lr.ExactTest(delta, D), fallback=urn, response=response)


def a_case(seed: int, actions: int | None = None) -> lr.AverageRestart:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, most_actions=4, most_states=4)
    while actions is not None and problem.n_actions != actions:
        problem = random_problem(rng, most_actions=4, most_states=4)
    L, D, T = int(rng.integers(0, 3)), int(rng.integers(1, 14)), 40
    delta = float(rng.choice([0.05, 0.3, 0.7]))
    return restarted(random_markov(rng, problem.n_states, L), problem, L, D, T, delta)


@cache
def told(seed: int) -> tuple[lr.AverageRestart, np.ndarray, tuple[np.ndarray, np.ndarray, bool]]:
    """A case, tokens that hurt it, and what its transcription says."""
    safe = a_case(seed, actions=2 if seed % 2 else None)
    tokens = hostile(safe, 40, 0.3, np.random.default_rng(seed))
    return safe, tokens, transcribed(safe, tokens.tolist())


@pytest.mark.parametrize("seed", range(24))
def test_equals_a_quadratic_transcription(seed: int) -> None:
    safe, tokens, (response_TxA, law_TxS, _) = told(seed)
    np.testing.assert_allclose(safe.policy_sequence(tokens), response_TxA, atol=1e-9)
    if safe.problem.n_actions > 2:
        return
    predicted_TxS = safe.predict_sequence(tokens)
    back = safe.problem.quantal_response(predicted_TxS, safe.temperature)
    np.testing.assert_allclose(back, response_TxA, atol=1e-9)
    # Among the laws with that response it is the exponential tilt of the average of the copies' laws.
    if safe.n_states > 2:
        D = safe.problem.advantage[0]
        differ = np.abs(predicted_TxS - safe.predictor.predict_sequence(tokens)).max(axis=-1) > 0
        for law, mean in zip(predicted_TxS[differ], law_TxS[differ], strict=True):
            tilt = np.log(law / mean)
            slope, shift = np.polyfit(D, tilt, 1)
            inside = law > 1e-6
            np.testing.assert_allclose(tilt[inside], (slope * D + shift)[inside], atol=1e-5)


def test_the_theorems_own_test_equals_its_transcription() -> None:
    problem = lr.DecisionProblem([[1, -1], [-1, 1]])
    sure = lr.Markov([0.999, 0.001], 0)
    safe = lr.AverageRestart(sure, problem, 0, 40, 56, test=theorem_4_2(56, 40, 0.5))
    tokens = np.ones(56, dtype=int)
    tokens[::11] = 0
    response_TxA, _, switched = transcribed(safe, tokens.tolist(), alpha=0.5)
    assert switched  # else this shows nothing
    np.testing.assert_allclose(safe.policy_sequence(tokens), response_TxA, atol=1e-9)


def test_transcriptions_do_switch() -> None:
    """Many of the cases above must be about more than the base model."""
    assert sum(told(seed)[2][2] for seed in range(24)) >= 8


def test_the_base_model_bit_for_bit_while_no_copy_has_switched() -> None:
    safe = restarted(ALTERNATOR, lr.matching(), 1, 32, 300, 1e-4)
    tokens = lr.sample(ALTERNATOR, 300, 20, seed=0)
    base = ALTERNATOR.predict_sequence(tokens)
    memory = safe.start((20,))
    differed = np.zeros(20, dtype=bool)
    for t in range(300):
        same = (safe.predict(memory) == base[:, t]).all(axis=-1)
        quiet = ~safe.switched(memory)
        assert same[quiet].all()
        response = lr.matching().quantal_response(base[:, t], safe.temperature)
        np.testing.assert_allclose(safe.policy(memory)[quiet], response[quiet], atol=1e-15)
        differed |= ~same
        memory = safe.update(memory, tokens[:, t])
    flipped = safe.predict_sequence(np.zeros(40, dtype=int))
    assert not np.array_equal(flipped, ALTERNATOR.predict_sequence(np.zeros(40, dtype=int)))


def test_saturated_responses_are_averaged_in_logarithms() -> None:
    """At this temperature a sigmoid of the lead is 1 to the last bit: its logit would be infinite."""
    problem = lr.DecisionProblem([[1, -1], [-1, 1]])
    safe = restarted(lr.Markov([[0.02, 0.98], [0.98, 0.02]], 1), problem, 1, 8, 100, 0.5, temperature=1e-3)
    laws = safe.predict_sequence(np.zeros(60, dtype=int))
    assert ((laws > 0) & (laws < 1)).all()
    # Five copies say 0 (by about 2 * 5/7 of lead at least) and the base says 1 by 1.92: the lead stays inside.
    assert laws[-1, 0] != laws[0, 0]


@pytest.mark.parametrize("seed", range(8))
def test_it_looks_back_no_further_than_it_says(seed: int) -> None:
    safe = a_case(seed)
    checks.check_window(safe, safe.window + safe.extra_window - 1, tolerance=1e-9)


def looks(lag: int) -> lr.FromFunction:
    return lr.FromFunction(lambda h: [0.3, 0.7] if len(h) >= lag and h[-lag] else [0.7, 0.3], n_states=2)


def test_checks_find_a_context_longer_than_it_says() -> None:
    checks.check_window(looks(2), 2)
    with pytest.raises(checks.LawBroken, match="FromFunction looks back further than 1 tokens: after the same 1"):
        checks.check_window(looks(2), 1)
    beyond = looks(100)
    checks.check_window(beyond, 1)  # it does not say how far it looks
    with pytest.raises(checks.LawBroken, match="FromFunction"):
        checks.check_window(beyond, 1, reach=150)
    honest = looks(100)
    vars(honest).update(looks_back=100)
    with pytest.raises(checks.LawBroken, match="FromFunction"):
        checks.check_window(honest, 1)
    # Where only a monotonous past raises an alarm, half of the pasts are monotonous.
    streak = lr.FromFunction(lambda h: [0.9, 0.1] if len(h) >= 9 and not any(h[-9:]) else [0.5, 0.5], n_states=2)
    flat = lr.predictors.Scheduled([[0.5, 0.5]])
    ending = lr.robustify(lr.predictors.Scheduled([[0.99, 0.01]]), lr.matching(), 30)  # no more than 30 tokens are seen
    for player, window in ((streak, 8), (ending, 2), (lr.policies.Hedge(lr.matching(), 5), 2)):
        with pytest.raises(checks.LawBroken, match=type(player).__name__):
            checks.check_window(player, window)
    checks.check_window(lr.robustify(flat, lr.matching(), test=lr.RegretGap(10)), 9)
    with pytest.raises(checks.LawBroken, match="Scheduled"):  # the step counts as well
        checks.check_window(lr.predictors.Scheduled([[0.5, 0.5], [0.4, 0.6]]), 0)
    for base in (looks(2), beyond):  # Algorithm 2 cannot know what a function looks at
        with pytest.raises(checks.LawBroken, match=r"base model's context is what it says.*further than 1 tokens"):
            checks.check_predictor(lr.AverageRestart(base, lr.matching(), 1, 3, 150))
    kept = checks.check_predictor(lr.AverageRestart(looks(2), lr.matching(), 2, 3, 50))
    assert "the base model's context is what it says" in kept


@pytest.mark.parametrize("seed", range(10))
def test_no_short_sequence_breaks_the_certificate(seed: int) -> None:
    """All sequences, at every prefix, with copies that do switch; T = 11 for two states, by the closed forms."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, most_actions=4, most_states=2 if seed < 5 else 3)
    T = {2: 11, 3: 6}[problem.n_states]
    D = min(int(rng.integers(2, 8)), T - 1)
    base = random_markov(rng, problem.n_states, 1)
    for safe in (
        lr.AverageRestart(base, problem, 1, D, T),
        restarted(base, problem, 1, D, T, 0.9),
        restarted(base, problem, 1, D, T, 0.4, temperature=0.05),
    ):
        regret_NxT = lr.external_regret(problem, safe, adversaries.all_sequences(problem.n_states, T))
        bounds_T = np.array([sum(safe.certificate.at(t).terms.values()) for t in range(1, T + 1)])
        assert (regret_NxT.max(axis=0) <= bounds_T + 1e-9).all()
        sharp = safe.certificate.sharpen()
        assert sharp.regret_bound <= safe.certificate.regret_bound
        if isinstance(safe.test, lr.RegretGap):
            exact = worst_case_by_counts(lr.PolyaUrn(problem.n_states), problem, D, safe.temperature)
            assert sharp.terms["fallback"] == pytest.approx((T + D - 1) / T * exact)
        assert (regret_NxT.max(axis=0) <= [sum(sharp.at(t).terms.values()) for t in range(1, T + 1)]).all()


def test_no_beam_breaks_the_certificate() -> None:
    for D, T in ((48, 120), (80, 120)):
        safe = restarted(ALTERNATOR, lr.matching(), 1, D, T, 0.5)
        found = adversaries.beam(safe, lr.matching(), T, width=12)
        ones = lr.external_regret(lr.matching(), safe, np.ones(T, dtype=int))[-1]
        assert 0 < max(found.regret, ones) <= safe.certificate.sharpen().regret_bound < 1


@pytest.mark.parametrize("seed", range(6))
def test_tv_by_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, most_actions=2, most_states=2)
    base, D, T = random_markov(rng, 2, 1), int(rng.integers(3, 8)), 11
    delta = 0.5 / (T - 1)
    safe = restarted(base, problem, 1, D, T, delta)
    assert safe.certificate.tv_bound == pytest.approx(0.5)
    assert exact_sequence_tv(base, safe, T) <= 0.5
    loose = restarted(base, problem, 1, D, T, 0.9)
    assert loose.certificate.tv_bound == 1


def test_certificate_of_the_theorem() -> None:
    """As corrected; that the printed one is false is shown in paper/statements/section_4_restart.py."""
    T, D, alpha = 10_000, 1024, 1.0
    safe = lr.AverageRestart(ALTERNATOR, lr.matching(), 1, D, T)
    given = safe.certificate
    noise = math.sqrt((8 * math.log(T) + 8 * (alpha + 1) * math.log(D)) / D)
    one_copy = certificates.lemma_2_3(lr.matching(), D, D**-0.5) + math.log(2) / math.sqrt(D) + noise + 1 / D
    assert given.regret_bound == pytest.approx((T + D - 1) / T * one_copy)
    assert given.tv_bound == pytest.approx(1 / D, rel=2 / T)


def test_a_test_without_a_regret_guarantee() -> None:
    rate = lr.AverageRestart(ALTERNATOR, lr.matching(), 1, 16, 100, test=lr.RegretRate(16)).certificate
    assert (rate.regret_bound, rate.tv_bound) == (1.0, 1.0)


def test_nested_contexts_add_up() -> None:
    inner = lr.AverageRestart(ALTERNATOR, lr.matching(), 1, 4, 50)
    assert inner.looks_back == 4
    with pytest.raises(ValueError, match="window must be 4 or more, as far as AverageRestart looks back"):
        lr.AverageRestart(inner, lr.matching(), 1, 8, 50)


def test_one_copy_is_the_base_model() -> None:
    safe = lr.AverageRestart(ALTERNATOR, lr.matching(), 1, 1, 50)
    tokens = np.zeros(50, dtype=int)
    assert np.array_equal(safe.predict_sequence(tokens), ALTERNATOR.predict_sequence(tokens))
    assert safe.certificate.regret_bound == 1


def test_float32_and_torch_keep_their_kind() -> None:
    torch = pytest.importorskip("torch")
    safe = a_case(1, actions=2)
    tokens = torch.zeros((3, 12), dtype=torch.int64)
    assert safe.predict_sequence(tokens).dtype == torch.float64
    half = lr.FromFunction(lambda h: torch.tensor([0.9, 0.1], dtype=torch.float32), n_states=2)
    safe = restarted(half, lr.matching(), 0, 4, 40, 0.9)
    memory = safe.start((), like=tokens)
    for _ in range(5):
        memory = safe.update(memory, 1)
    assert bool(safe.switched(memory))
    assert safe.predict(memory).dtype == safe.policy(memory).dtype == torch.float32


# RestartHedge


@pytest.mark.parametrize("averaged", [True, False])
def test_restart_hedge_equals_its_transcription(averaged: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        problem, D = random_problem(rng), int(rng.integers(1, 9))
        player = lr.policies.RestartHedge(problem, D, averaged)
        tokens = rng.integers(problem.n_states, size=25)

        def hedge(seen: np.ndarray, problem: lr.DecisionProblem = problem, D: int = D) -> np.ndarray:
            scores = problem.utility[:, seen].sum(axis=1) / math.sqrt(D)
            weights = np.exp(scores - scores.max())
            return weights / weights.sum()

        for t, played in enumerate(player.policy_sequence(tokens)):
            starts = [max(0, t - age) for age in range(D)] if averaged else [t - t % D]
            np.testing.assert_allclose(played, np.mean([hedge(tokens[m:t]) for m in starts], axis=0), atol=1e-12)


@pytest.mark.parametrize("averaged", [True, False])
def test_restart_hedge_obeys_its_bound_and_its_window(averaged: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        problem, D = random_problem(rng, most_states=2), int(rng.integers(1, 8))
        player = lr.policies.RestartHedge(problem, D, averaged)
        regret_NxT = lr.external_regret(problem, player, adversaries.all_sequences(problem.n_states, 12))
        bounds_T = [player.regret_bound(problem, t, None) for t in range(1, 13)]
        assert (regret_NxT.max(axis=0) <= bounds_T).all()
        if averaged:
            checks.check_window(player, D - 1)
    player = lr.policies.RestartHedge(lr.matching(), 16, averaged)
    found = adversaries.beam(player, lr.matching(), 96, width=64)
    assert 0.1 < found.regret <= player.regret_bound(lr.matching(), 96, None)


# window_needed


def test_context_needed_is_the_least() -> None:
    rng = np.random.default_rng(2)
    tried = 0
    for _ in range(2):
        problem = random_problem(rng)
        tv, T = float(rng.choice([0.001, 0.05, 0.9])), int(rng.integers(40, 80))
        bounds = []
        for extra in range(1, T + 1):
            given = lr.robust.algorithm_1(problem, lr.ExactTest(tv / T, extra)).certificate
            bounds.append(min(problem.span, (T + extra - 1) / T * sum(given.terms.values())))
        lowest = min(bounds)
        for regret in (lowest, lowest * (1 + 1e-6), lowest * 1.01, float(rng.uniform(lowest, problem.span))):
            least = 1 + int(np.argmax(np.array(bounds) <= regret))
            assert lr.robust.window_needed(problem, regret, tv, T) == least
            tried += least > 1
        if lowest < problem.span:
            with pytest.raises(ValueError, match="certified"):
                lr.robust.window_needed(problem, lowest * (1 - 1e-6), tv, T)
    assert tried >= 3
    assert lr.robust.window_needed(lr.matching(), 1.0, 0.01, 100) == 1  # nobody loses more than the span
    with pytest.raises(ValueError, match="certified"):
        lr.robust.window_needed(lr.matching(), 0.5, 0.01, 300, window=290)
    extra = lr.robust.window_needed(lr.matching(), 0.5, 0.01, 10_000)
    test = lr.ExactTest(0.01 / 10_000, extra)
    given = lr.AverageRestart(ALTERNATOR, lr.matching(), 1, extra, 10_000, test=test).certificate
    assert given.regret_bound <= 0.5
    assert given.tv_bound == pytest.approx(0.01, rel=2e-4)


def test_bad_input_by_name() -> None:
    def build(**changed: object) -> lr.AverageRestart:
        given = dict(predictor=ALTERNATOR, problem=lr.matching(), window=1, extra_window=8, horizon=100)
        return lr.AverageRestart(**(given | changed))  # type: ignore[arg-type]

    rps, history = lr.rock_paper_scissors(), lr.FromFunction(lambda h: [0.5, 0.5], n_states=2)
    for changed, message in (
        ({"window": 93}, r"window \+ extra_window must be at most the horizon 100, got 93 \+ 8"),
        ({"window": 0}, "window must be 1 or more, as far as Markov looks back"),
        ({"problem": rps}, "predictor and problem must have the same states"),
        ({"test": lr.VRegret(8)}, "problem must be None"),
        ({"test": lr.ExactTest(0.1, 100)}, "test must have the copies' horizon, extra_window = 8, got 100"),
        ({"fallback": lr.policies.AdaHedge(lr.matching())}, "fallback AdaHedge is a policy"),
        ({"fallback": history}, "fallback FromFunction keeps a memory that grows with the past"),
    ):
        with pytest.raises(ValueError, match=message):
            build(**changed)
    many = lr.AverageRestart(lr.Markov(np.full(3, 1 / 3), 0), rps, 0, 8, 100)
    with pytest.raises(ValueError, match="predict needs a problem with at most two actions, this one has 3"):
        many.predict(many.start())
    short = build(horizon=9)
    memory = short.start()
    for _ in range(9):
        memory = short.update(memory, 0)
    with pytest.raises(ValueError, match="the horizon of 9 steps is over"):
        short.update(memory, 0)
    for form in (short.predict_sequence, short.policy_sequence):
        with pytest.raises(ValueError, match="tokens are longer than the horizon: 10 steps, 9"):
            form([0] * 10)
