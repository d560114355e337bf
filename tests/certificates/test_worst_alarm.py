"""The worst step of an alarm, beside every step of one; and certificates, beside every step written out."""

import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates import coupled, every_start, switching
from lowregret.certificates.bounds import worst_alarm
from lowregret.engine import prior_of
from lowregret.policies import AdaHedge, FixedShare
from lowregret.robust import algorithm_1

MATCHING, RPS = lr.matching(), lr.rock_paper_scissors()
ODD = lr.DecisionProblem(np.random.default_rng(1).uniform(-1, 1, (3, 4)))


def never_falling(rng: np.random.Generator, size: int) -> np.ndarray:
    """Of every kind: steps, stretches that are flat, concave, convex, straight."""
    kind = rng.integers(5)
    if kind == 0:
        return np.cumsum(rng.random(size) * (rng.random(size) < 0.05))
    if kind == 1:
        return np.floor(rng.uniform(1, 9) * np.arange(size) ** 0.5)
    if kind == 2:
        return rng.uniform(0.1, 2) * np.arange(size) ** rng.choice([0.3, 0.5, 1.0, 2.0])
    return np.cumsum(rng.random(size)) if kind == 3 else np.full(size, rng.random())


def test_it_is_the_largest_over_all_steps() -> None:
    rng = np.random.default_rng(0)
    for last in [0, 1, 2, 63, 64, 65, 200, 3000] * 20:
        before, after = never_falling(rng, last + 1), never_falling(rng, last + 1)
        passed, lost = worst_alarm(before.__getitem__, after.__getitem__, last)
        sums = before + after[::-1]
        assert passed + lost == sums.max()
        assert ((before == passed) & (after[::-1] == lost)).any()


def test_it_is_never_too_small_where_it_stops_early() -> None:
    flat = np.arange(5001.0)
    for few in (1, 40, 1000):
        assert 5000 <= sum(worst_alarm(flat.__getitem__, flat.__getitem__, 5000, most_blocks=few)) <= 5000 + 5000 / few
    rng = np.random.default_rng(1)
    for _ in range(40):
        before, after = never_falling(rng, 2001), never_falling(rng, 2001)
        found = sum(worst_alarm(before.__getitem__, after.__getitem__, 2000, most_blocks=3))
        assert (before + after[::-1]).max() <= found <= before[-1] + after[-1]


def every_step(s: Any, T: int) -> float:
    return literal(s.problem, prior_of(s), s.class_delta, s.temperature, s.play, T, s.lag)


def literal(problem: Any, prior: Any, delta: float, eta: float | None, fallback: Any, T: int, lag: int = 1) -> float:
    """Statement (iv) with every step of an alarm, and every number of steps that wait, written out."""
    J, H = problem.span, -(-T // lag)
    if eta is None:
        each_K = coupled.kappa(problem, prior.rates_K, problem.anytime_temperature(np.arange(1, H + 1))[:, None])
        sums_HxK = np.concatenate([np.zeros((1, len(prior.rates_K))), np.cumsum(each_K, axis=0)])
    else:
        sums_HxK = np.arange(H + 1.0)[:, None] * coupled.kappa(problem, prior.rates_K, eta)
    if lag > 1 and eta is None:
        sums_HxK = np.stack([hull(column) for column in sums_HxK.T], axis=-1)
    charges_NxK = dealt(sums_HxK, lag)
    n = np.arange(lag * H + 1.0)
    costs_K = lag * prior.log_costs_K(delta)
    before = np.min((charges_NxK + costs_K) / prior.rates_K, axis=1)
    before = np.minimum(n * J, before)
    says = getattr(fallback, "regret_after", None)
    own = None if says is None else says(problem, H, eta)
    after_H = J * np.arange(H + 1.0) if own is None else np.array([float(own(np.array([m]))[0]) for m in range(H + 1)])
    after = dealt(hull(after_H) if lag > 1 else after_H, lag)
    end = lag * H
    alarms = [before[m] + (1 + o) * J + after[end - 1 - o - m] for o in range(min(lag, end)) for m in range(end - o)]
    return float(max(before[-1], max(alarms))) / T


def hull(values: np.ndarray) -> np.ndarray:
    """The least concave sequence that is nowhere below, by all chords."""
    n = np.arange(len(values))
    found = values.copy()
    for i in range(len(values)):
        for j in range(i + 2, len(values)):
            found[i:j] = np.maximum(found[i:j], values[i] + (values[j] - values[i]) * (n[i:j] - i) / (j - i))
    return found


def dealt(values: np.ndarray, lag: int) -> np.ndarray:
    """Dealt out one by one."""
    counts, sums = [0] * lag, []
    for step in range(lag * (len(values) - 1) + 1):
        sums.append(sum(values[c] for c in counts))
        counts[step % lag] = min(counts[step % lag] + 1, len(values) - 1)
    return np.array(sums)


@pytest.mark.parametrize("fallback", [
    None,
    lr.PolyaUrn(2),
    lr.policies.Hedge(MATCHING, 700),
    AdaHedge(MATCHING),
    FixedShare(MATCHING, 700),
    lr.Recovery(safe=lr.PolyaUrn(2)),
    lr.Markov([0.5, 0.5], window=0),
], ids=lambda fallback: type(fallback).__name__)  # fmt: skip
def test_a_certificate_is_that_of_every_alarm(fallback: Any) -> None:
    for T in (1, 2, 30, 700):
        test = lr.ExactTest(1 / max(T, 2), T)
        if isinstance(fallback, lr.policies.Policy):
            setting = lr.Guard(MATCHING, test=test, response=lr.QuantalResponse(), fallback=fallback).setting
        else:
            setting = algorithm_1(MATCHING, test, fallback)
        assert sum(setting.certificate.terms.values()) == pytest.approx(every_step(setting, T), rel=1e-12)


@pytest.mark.parametrize("problem", [RPS, ODD, lr.cost_loss(1, 4)], ids=["rps", "odd", "cost_loss"])
def test_a_certificate_is_that_of_every_alarm_in_other_problems(problem: lr.DecisionProblem) -> None:
    for T, delta in ((50, 0.02), (900, 0.01), (5000, 1e-6)):
        setting = algorithm_1(problem, lr.ExactTest(delta, T))
        assert sum(setting.certificate.terms.values()) == pytest.approx(every_step(setting, T), rel=1e-12)
    setting = algorithm_1(problem, lr.ExactTest(0.01))
    for T in (1, 40, 3000):
        exact = every_step(setting, T)
        assert exact * (1 - 1e-12) <= sum(setting.certificate.at(T).terms.values()) <= exact * (1 + 1e-5)


@pytest.mark.parametrize("problem", [MATCHING, RPS, ODD], ids=["matching", "rps", "odd"])
def test_a_certificate_of_late_outcomes_is_that_of_every_alarm(problem: lr.DecisionProblem) -> None:
    for T, lag in ((1, 2), (7, 3), (120, 2), (300, 5)):
        for response in (lr.BestResponse(), lr.QuantalResponse()):
            guard = lr.Guard(problem, test=lr.ExactTest(0.05, T), response=response, lag=lag)
            assert sum(guard.certificate.terms.values()) == pytest.approx(every_step(guard.setting, T), rel=1e-11)
    guard = lr.Guard(problem, test=lr.ExactTest(0.01), response=lr.QuantalResponse(), lag=3)
    for T in (1, 60, 180):
        exact = every_step(guard.setting, T)
        assert exact * (1 - 1e-11) <= sum(guard.certificate.at(T).terms.values()) <= exact * (1 + 1e-5)


def test_concave_bounds_of_long_runs_are_nowhere_below_and_close() -> None:
    T = 300_000
    steps = np.unique(np.concatenate([np.arange(3000), np.geomspace(1, T, 5000).astype(int), T - np.arange(3000)]))
    for bound in (np.sqrt, lambda n: np.floor(np.sqrt(n)), lambda n: np.minimum(n, 1000.0 + 0.01 * n)):
        found = switching.concave(bound, T)(steps)
        assert (found >= bound(steps)).all()
        assert (found <= bound(steps) * (1 + 1e-3) + 1).all()
        every = switching.concave(bound, T)(np.arange(T + 1))
        assert np.diff(every, 2).max() <= 1e-9
    # What each step is charged falls at first and rises later on, for a rate in between.
    charged = coupled.charges(MATCHING, [1.0, 0.1, 0.01], T, None)
    found = switching.concave_charges(charged, T)
    assert (found(steps) >= charged(steps)).all()
    assert (found(np.array([T])) == charged(np.array([T]))).all()
    rises = np.diff(found(np.arange(T + 1)), axis=0)
    assert np.diff(rises, axis=0).max() <= 1e-10
    assert (np.diff(charged(np.arange(T + 1)), 2, axis=0).max(axis=0) > 1e-12).any()  # so something was mended


def test_what_hedge_and_the_urn_lose_is_the_sum_of_their_rates() -> None:
    T, J = 400, RPS.span
    t = np.arange(1, T + 1.0)
    sums_A = RPS.utility.sum(axis=1)
    spread = float(sums_A.max() - sums_A.min())
    for warmth, rates_T, more in (
        (0.05, 1 / (0.05 * (3 + t - 1)), spread),
        (None, 1 / (RPS.anytime_temperature(t) * (3 + t - 1)), spread),
    ):
        spent = np.concatenate([[0.0], np.cumsum(rates_T[::-1])])
        expected = np.minimum(math.log(3) / rates_T[-1] + J**2 / 8 * spent + more, J * np.arange(T + 1))
        found = lr.PolyaUrn(3).regret_after(RPS, T, warmth)(np.arange(T + 1))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    found = lr.policies.Hedge(RPS, T, 0.1).regret_after(RPS, T, None)(np.arange(T + 1))
    np.testing.assert_allclose(
        found, np.minimum(math.log(3) / 0.1 + J**2 / 8 * 0.1 * np.arange(T + 1), J * np.arange(T + 1))
    )


def test_a_long_certificate_looks_at_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """At sixteen million steps it asks what passes before an alarm, and what is lost after it, at few of them."""
    asked = []
    inside = every_start.before_alarm

    def counted(*given: Any) -> np.ndarray:
        asked.append(np.size(given[-1]))
        return inside(*given)

    monkeypatch.setattr(switching, "before_alarm", counted)
    urn = {"response": lr.QuantalResponse(2.0**-12), "fallback": lr.PolyaUrn(2)}
    for settings in ({}, {"lag": 7}, {"against": lr.Actions(per=50)}, urn):
        asked.clear()
        bound = lr.Guard(MATCHING, test=lr.ExactTest(horizon=1 << 24), **settings).certificate.regret_bound
        assert 0 < bound < 0.05
        assert 50 < sum(asked) < 200_000
