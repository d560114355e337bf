"""How long an assumed break goes unheard: against the theorem's loops, known delays, closed forms and promises."""

import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import prior_of
from lowregret.guard import Delay, delay

from ..literal_theorem import by_hand

MATCHING = lr.matching()


def made(
    problem: lr.DecisionProblem, horizon: int | None, delta: float | None = None, temperature: float | None = None
) -> lr.Guard:
    """A guard by quantal response, as the paper has it."""
    test = lr.ExactTest(1 / (horizon or 1) if delta is None else delta, horizon)
    return lr.Guard(problem, test=test, response=lr.QuantalResponse(temperature))


def test_delays_are_those_of_the_theorem_in_loops() -> None:
    """The same draws through the literal loops give the same delays, early alarms and misses."""
    guard, law, truth, since = made(MATCHING, 60, delta=0.8), np.array([0.45, 0.55]), np.array([0.6, 0.4]), 21
    found = delay(guard, forecast=law, truth=truth, since=since, runs=200, seed=3)
    rng = np.random.default_rng(3)
    before, after = rng.choice(2, (200, 20), p=law), rng.choice(2, (200, 40), p=truth)
    times = np.array([
        by_hand(guard.setting, np.tile(law, (60, 1)), states).alarm
        for states in np.concatenate([before, after], axis=1)
    ])  # fmt: skip
    late = np.sort(np.where(times > 60, np.inf, times - 20.0)[times >= since])
    assert found.too_early == np.mean(times < since) > np.mean(times < since - 3)
    assert found.detected == np.mean(np.isfinite(late)) < 1
    assert found.median == late[math.ceil(len(late) * 0.5) - 1]
    assert found.ninetieth == late[math.ceil(len(late) * 0.9) - 1]


@pytest.mark.needs("numba")  # millions of steps: minutes in arrays
@pytest.mark.parametrize(("says", "median"), [(0.6, 202), (0.8, 25)])
def test_known_delays_of_late_breaks(says: float, median: float) -> None:
    """Half way through 5,000 steps, at delta = 1/T: .6 becomes .4 (202 by the notes), .8 becomes .2."""
    found = delay(made(MATCHING, 5000), edge=2 * says - 1, runs=300)
    np.testing.assert_allclose(np.sort(found.forecast_S), [1 - says, says])
    np.testing.assert_allclose(found.truth_S, found.forecast_S[::-1])
    assert found.edge == pytest.approx(2 * says - 1, rel=1e-3)
    assert found.median == pytest.approx(median, rel=0.15)
    assert found.median < found.ninetieth
    assert found.detected == 1


def about(guard: lr.Guard, found: Delay) -> float:
    """As in Wald's identity: what bets on the action and at the rate for which that is least need, over their growth.

    Those that join at the break grow by g = rate * gain - charge per step, if it is as assumed; with those that join
    after it they are worth m + m' / (e^g - 1) at the break.
    """
    played_A = guard.problem.quantal_response(found.forecast_S, guard.setting.temperature_at(np.array([found.since])))
    gain_AxS, prior = guard.problem.utility - played_A @ guard.problem.utility, prior_of(guard.setting)
    charge_AxK = np.log(np.exp(prior.rates_K[:, None] * gain_AxS[:, None]) @ found.forecast_S)
    growth_AxK = prior.rates_K * (gain_AxS @ found.truth_S)[:, None] - np.maximum(charge_AxK, 0.0)
    grows = growth_AxK > 0
    growth_AxK = np.where(grows, growth_AxK, 1.0)
    stake_AxK = prior.weights_K(found.since) + prior.weights_K(found.since + 1) / np.expm1(growth_AxK)
    return float(np.where(grows, -np.log(stake_AxK * guard.test.delta) / growth_AxK, np.inf).min())


@pytest.mark.needs("numba")
@pytest.mark.parametrize("problem", [MATCHING, lr.cost_loss(1, 4), lr.newsvendor([0, 10, 20], 5, 3)])
@pytest.mark.parametrize("since", [1, 301])
def test_the_closed_form_is_near_what_is_simulated(problem: lr.DecisionProblem, since: int) -> None:
    most, guard = problem.regret_in_payoffs(problem.span), made(problem, 1000, delta=0.05)
    for part in (0.1, 0.2):
        found = delay(guard, edge=part * most, since=since, runs=200)
        assert 0.55 * about(guard, found) < found.median < about(guard, found)


def test_small_edges_are_never_heard_and_lose_no_more_than_the_least() -> None:
    guard = made(MATCHING, 300, delta=0.01)
    found = delay(guard, edge=0.02, since=101, runs=200)
    assert found.edge < found.least_edge
    assert (found.detected < 0.1, found.median) == (True, math.inf)


def test_an_edge_is_in_payoffs_and_a_horizon_may_be_unknown() -> None:
    dollars = lr.DecisionProblem.from_payoffs([[100, 0], [0, 100]])
    one = delay(made(dollars, 200), edge=40, runs=50)
    two = delay(made(dollars, 200), forecast=one.forecast_S, truth=one.truth_S, runs=50)
    assert one.edge == pytest.approx(40, rel=0.01)
    assert (one.median, one.ninetieth, one.since) == (two.median, two.ninetieth, 101)
    given = made(dollars, 200).certificate
    assert one.certificate == pytest.approx(given.regret_bound_in_payoffs)
    assert one.least_edge == pytest.approx(dollars.regret_in_payoffs(given.interval(101, 200)) / 100)
    unknown = delay(made(dollars, None, delta=0.05), edge=40, steps=400, runs=50)
    assert unknown.detected > 0.9


@pytest.mark.parametrize(("horizon", "given", "says"), [
    (100, {}, "give an edge, or a forecast and a truth"),
    (100, {"forecast": [0.5, 0.5]}, "give an edge, or a forecast and a truth"),
    (100, {"edge": 0.1, "forecast": [0.5, 0.5], "truth": [0.5, 0.5]}, "give an edge, or a forecast and a truth"),
    (100, {"edge": 1.5}, "edge must be one that two actions"),
    (100, {"forecast": [0.5, 0.6], "truth": [0.5, 0.5]}, "forecast"),
    (None, {"edge": 0.1}, "steps must be a whole number"),
    (100, {"edge": 0.1, "steps": 101}, "steps must be a whole number from 1 to 100"),
    (100, {"edge": 0.1, "since": 101}, "since"),
])  # fmt: skip
def test_what_cannot_be_planned_is_refused(horizon: int | None, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        delay(made(MATCHING, horizon, delta=0.05), **given)
