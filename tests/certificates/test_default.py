"""What the default promises: certificates of guards against known numbers, and against the theorem as it is written."""

import math
import pickle
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates import RecoveryBound, best_response, every_start, switching
from lowregret.certificates.promises import Switches
from lowregret.engine import prior_of

MATCHING, RPS, SHOP = lr.matching(), lr.rock_paper_scissors(), lr.newsvendor(list(range(10)), 5, 3)


# Known numbers


@pytest.mark.parametrize(("T", "wanted", "model"), [(128, 0.3736, 1.70), (1024, 0.1458, 1.60), (10_000, 0.0515, 1.57)])
def test_the_default_with_a_horizon(T: int, wanted: float, model: float) -> None:
    given = lr.Guard(MATCHING, test=lr.ExactTest(2 / T, T)).certificate
    assert given.regret_bound == pytest.approx(wanted, rel=0.002)
    assert given.against_model * math.sqrt(T) == pytest.approx(model, rel=0.004)
    assert given.sharpen().regret_bound == pytest.approx(given.regret_bound, rel=1e-9)  # matching: nothing to gain
    assert "behind the model itself" in str(given)
    assert f"at most {1 / T:.3g} while the action advised is a best response" in str(given)
    assert given.to_dict()["against_model"] == given.against_model
    assert pickle.loads(pickle.dumps(given)).against_model == given.against_model


def test_the_default_without_a_horizon() -> None:
    given = lr.Guard(MATCHING).certificate
    assert given.at(1024).regret_bound == pytest.approx(0.1467, rel=0.001)
    assert given.at(10_000).regret_bound == pytest.approx(0.0502, rel=0.001)
    assert given.against_model is None  # of no number of steps
    assert given.at(1024).against_model > 0
    with pytest.raises(ValueError, match="at\\(step\\)"):
        given.realised(0.9)


def test_quantal_responses_promise_more_where_there_are_two_actions() -> None:
    """Hedge counts the model, too: a little more than the .090 of Hedge over the actions alone."""
    given = lr.Guard(MATCHING, test=lr.ExactTest(2 / 1024, 1024), response=lr.QuantalResponse()).certificate
    assert given.regret_bound == pytest.approx(0.0936, rel=0.001)


def afresh(problem: lr.DecisionProblem, steps: int, temperature: float | None) -> Any:
    """What AdaHedge over the actions, begun at the alarm, loses in n steps."""
    log = math.log(problem.n_actions)
    return lambda left_N: problem.span * np.minimum(left_N, 1 + np.sqrt(1 + left_N * log)) * (left_N > 0)


def on_a_budget(problem: lr.DecisionProblem, steps: int, temperature: float | None) -> Any:
    """The same behind a mixture."""
    return RecoveryBound(problem.n_actions, steps).after(problem, steps)


def certified(T: int, fallback: Any, temperature: float = 0.0) -> lr.Certificate:
    """All capital on the actions."""
    promise = Switches(
        problem=SHOP,
        tv_bound=2 / T,
        temperature=temperature,
        fallback="AdaHedge",
        regret_after=fallback,
        prior=every_start.joint_prior(SHOP, T, 2 / T, temperature),
        delta=2 / T,
    )
    return promise.certificate(T)


@pytest.mark.parametrize(("T", "once", "back"), [
    (24, 0.835, 0.967),
    (128, 0.380, 0.435),
    (1024, 0.144, 0.163),
    (10_000, 0.0501, 0.0561),
])  # fmt: skip
def test_all_capital_on_the_actions(T: int, once: float, back: float) -> None:
    assert certified(T, afresh).regret_bound == pytest.approx(once, rel=0.01)
    assert certified(T, on_a_budget).regret_bound == pytest.approx(back, rel=0.01)


def test_actions_as_they_are_drawn() -> None:
    """A best response draws nothing before the alarm; a quantal response at every step."""
    T, made, warm = 1024, certified(1024, afresh), certified(1024, afresh, 1 / 32)
    drawn = made.realised(1 - 2 / T)
    assert drawn.regret_bound == pytest.approx(0.190, rel=0.01)
    assert drawn.at(T).regret_bound == drawn.regret_bound
    assert warm.realised(1 - 2 / T).regret_bound == pytest.approx(0.205, rel=0.01)
    luck = SHOP.span * math.sqrt(math.log(100) / (2 * T))
    assert warm.realised(0.99).regret_bound == pytest.approx(warm.regret_bound + luck)
    assert made.sharpen().realised(0.99).regret_bound <= made.realised(0.99).regret_bound < made.regret_bound + luck
    with pytest.raises(ValueError, match="confidence"):
        made.realised(1.0)
    with pytest.raises(ValueError, match="speaks of mixed actions only"):
        drawn.realised(0.9)


# As it is written


@pytest.mark.parametrize(("horizon", "steps"), [(60, 60), (None, 60), (300, 300), (None, 300)])
@pytest.mark.parametrize("tests", [True, False])
def test_the_default_is_its_formula(horizon: int | None, steps: int, tests: bool) -> None:
    """max{ B(T), max_tau B(tau - 1) + J + max_e ... }, each as it is written; without a test the last alone."""
    for problem, delta in ((MATCHING, 0.3), (RPS, 0.05), (lr.cost_loss(1, 4), 0.9)):
        J, K = problem.span, problem.n_actions + 1

        def F(n: int, J: float = J, K: int = K) -> float:
            return min(n * J, J * (1 + math.sqrt(1 + n * math.log(K)))) if n > 0 else 0.0

        def after(tau: int, J: float = J, F: Any = F) -> float:
            if horizon is None:
                entries = range(tau, steps + 1)
                lost = max(min((e - tau) * J, J * math.sqrt(max(e - 1, 0)) / 2 + J) + F(steps - e) for e in entries)
            else:
                lost = J * math.sqrt(horizon) / 2 + J + F(steps - tau - math.ceil(math.sqrt(horizon) / 2))
            return min((steps - tau) * J, lost)

        guard = lr.Guard(problem, test=lr.ExactTest(delta, horizon) if tests else lr.NoTest(horizon))
        found, most, model = guard.certificate.at(steps), after(0), after(0)
        if tests:
            prior = prior_of(guard.setting)
            kappa_K, log_costs_K = best_response.kappa(problem, prior.rates_K), -np.log(prior.weights_K(1) * delta)
            B = [min(t * J, *((t * kappa_K + log_costs_K) / prior.rates_K)) if t else 0.0 for t in range(steps + 1)]
            most = max(B[steps], *(B[tau - 1] + J + after(tau) for tau in range(1, steps + 1)))
            model = max(after(tau) for tau in range(1, steps + 1))
        assert sum(found.terms.values()) * steps == pytest.approx(most, rel=1e-12)
        assert found.against_model * steps == pytest.approx(min(model, steps * J), rel=1e-12)


@pytest.mark.parametrize("horizon", [1, 7, 40, None])
def test_all_capital_is_spent_or_unspent(horizon: int | None) -> None:
    for share, opening in ((1.0, 0.0), (0.5, 0.5), (0.7, 0.3)):
        prior = every_start.joint_prior(RPS, horizon, 0.05, 0.0, share=share, opening=opening)
        joined, second = 0.0, 0.0
        for t in range(1, (horizon or 40) + 1):
            joined, second = joined + 3 * prior.weights_K(t).sum(), second + prior.second_weight(t)
            assert joined + prior.unspent(t) == pytest.approx(share, abs=1e-14)
            assert second <= (1 - share) * (1 + 1e-14)
        assert prior.unspent(0) == share
        assert -1e-14 <= prior.unspent(horizon or 2_000) <= (1e-14 if horizon else 0.03)
        assert prior.rates_K.max() <= 2 / RPS.span + 1e-15
        assert second == pytest.approx((1 - share) * (1 if horizon else 1 - (1 - prior.main_weight) / 41))
    first_K = prior_of(lr.Guard(RPS, test=lr.ExactTest(0.05, horizon)).setting).weights_K(1)
    assert first_K.sum() * 3 == pytest.approx(0.5 * 0.75 * 40 / 41) or first_K[0] * 3 > 0.5 * 0.75


HORIZON, OLD = lr.ExactTest(horizon=100), lr.References("old")


@pytest.mark.parametrize(("settings", "runs"), [
    ({}, True),
    ({"fallback": lr.Recovery(budget=1.0)}, True),
    ({"against": lr.Actions() + OLD}, True),
    ({"against": lr.Actions(per=2), "test": HORIZON}, True),
    ({"response": lr.QuantalResponse(0.1)}, False),
    ({"fallback": lr.policies.AdaHedge(MATCHING)}, False),
    ({"against": OLD, "fallback": lr.UseReference("old")}, False),
    ({"test": lr.NoTest()}, False),
])  # fmt: skip
def test_the_second_bettor_runs_wherever_there_can_be_one(settings: dict[str, Any], runs: bool) -> None:
    """Best responses to states, and a fallback that mixes forecasts."""
    assert lr.Guard(MATCHING, **settings).setting.has_second_bettor == runs


def test_sharpened_best_responses_are_charged_by_the_programmes() -> None:
    """Where payoffs change nothing is exact: others than these may come."""
    problem = lr.DecisionProblem([[1, 0, 0.2], [0, 1, 0.4], [0.4, 0.4, 0.9]])
    guard = lr.Guard(problem, test=lr.ExactTest(0.05, 300), lag=2)
    prior, given = prior_of(guard.setting), guard.certificate
    before = switching.before(problem, prior, guard.setting.class_delta, 0.0, 1, 2, True, 300)(np.arange(301))
    charges = best_response.exact_kappa(problem, prior.rates_K)
    log_costs_K = 2 * -np.log(prior.weights_K(1) * guard.setting.class_delta)
    assert before[200] == pytest.approx(min((200 * charges + log_costs_K) / prior.rates_K))
    assert sum(given.sharpen().terms.values()) < sum(given.terms.values())
    changing = lr.Guard(problem.changing(-1, 1), test=lr.ExactTest(0.05, 300)).certificate
    assert changing.sharpen() == changing


def test_what_contexts_may_lose_is_largest_where_they_are_equal() -> None:
    """Sums of a context's own bounds, over every way to share out the steps, beside the certificate's."""
    T, guard = 40, lr.Guard(MATCHING, test=lr.ExactTest(0.2, 40), against=lr.Actions(per=2))
    made = MATCHING, prior_of(guard.setting), 0.2, 0.0
    one, both = (switching.before(*made, C, 1, False, T)(np.arange(T + 1)) for C in (1, 2))
    after = guard.setting.play.regret_after(MATCHING, T, 0.0)(np.arange(T + 1))
    limit = 0.5 * math.sqrt(T / 2)
    own = [min(n, limit + 2 + math.sqrt(1 + n * math.log(3))) for n in range(T + 1)]
    for total in range(T + 1):
        assert max(one[n] + one[total - n] for n in range(total + 1)) <= both[total] + 1e-12
        assert max(own[n] + own[total - n] for n in range(total + 1)) <= after[total] + 1e-12


def test_without_a_horizon_recovery_over_an_urn_has_a_bound_and_over_others_none() -> None:
    """Quantal responses on a schedule: the bound of an urn begun late is known up to a prior of 2."""
    for safe, known in ((None, True), (lr.PolyaUrn(2), True), (lr.PolyaUrn(2, 3.0), False)):
        setting = lr.robust.algorithm_1(MATCHING, lr.ExactTest(0.05), lr.Recovery(safe=safe))
        assert setting.certificate.at(100_000).regret_bound == pytest.approx(0.0157 if known else 1.0, rel=0.01)


def test_only_who_is_compared_with_alone_is_fallen_back_on_for_nothing() -> None:
    """A reference loses nothing to itself; what it loses to actions, or to another, is not known."""
    for against, known in ((lr.References("a"), True), (lr.Actions() + lr.References("a"), False)):
        test = lr.ExactTest(1 / 2000, 2000)
        given = lr.Guard(MATCHING, test=test, against=against, fallback=lr.UseReference("a")).certificate
        assert (given.regret_bound < 0.15) if known else (given.regret_bound == MATCHING.span)
