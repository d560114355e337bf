"""The test at outcomes: streaming = recorded = a literal loop; charges are what they must be; the guard adds up."""

import math

import numpy as np
import pytest

import lowregret as lr

from .. import literal_engine as literal
from ..outcome_cases import FORMS, at_step, random_forecast, random_outcomes, random_payoff


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_streaming_is_recorded_is_a_literal_loop(form: str, seed: int) -> None:
    rng, N, T = np.random.default_rng([seed, FORMS.index(form)]), 3, 24
    horizon, times = None if seed == 2 else T, np.full(N, T + 1)
    while not 1 / 3 <= (times <= T).mean() < 1:  # where nothing trips, little is compared
        payoff = random_payoff(rng)
        rule = lr.ExactTest(payoff, horizon, delta=0.4, temperature=None if seed == 2 else rng.uniform(0.05, 0.5))
        forecast, outcomes = random_forecast(rng, form, payoff, (N, T)), random_outcomes(rng, payoff, (N, T))
        if form == "density":
            outcomes = np.clip(outcomes, forecast.grid[0], forecast.grid[-1])
        outcomes[:2] = outcomes[:2, :1]  # something to find
        times = rule.trip_times(forecast, outcomes)
    guard = lr.Guard(payoff, horizon, rule=rule, batch_shape=(N,))
    by_hand = [literal.Stream(literal.settings_of(rule)) for _ in range(N)]
    for t in range(T):
        step = at_step(forecast, t)
        guard.advise(step)
        guard.observe(outcomes[:, t])
        for n, one in enumerate(by_hand):
            before, (own,) = one.alarm, one.classes
            one.advise(t + 1, _told(payoff, _row(step, n), float(outcomes[n, t])))
            one.observe(t + 1)
            if not before:
                assert guard.evidence[0][n] == pytest.approx(math.log(own.total()), rel=1e-10, abs=1e-10)
                memory = guard._at.ledger.rule
                charges = [own.charges[who] for who in one.s.whom]
                np.testing.assert_allclose(memory.statistics.charges[n], charges, rtol=1e-9, atol=1e-12)
    told = [one.alarm or T + 1 for one in by_hand]
    assert times.tolist() == told
    assert [event.step for event in guard.events if isinstance(event, lr.Switch)] == sorted(t for t in told if t <= T)


def _told(payoff: lr.Payoff, forecast: object, outcome: float) -> literal.Told:
    middle, half = (payoff.low + payoff.high) / 2, (payoff.high - payoff.low) / 2

    def utility(at: np.ndarray) -> np.ndarray:
        return np.array([(payoff.fn(action, at) - middle) / half for action in payoff.actions])

    return literal.Told(forecast, None, False, 0, utility, tuple(payoff.knots), 1.0, outcome)


def _row(forecast: object, n: int) -> object:
    if isinstance(forecast, lr.Quantiles):
        return lr.Quantiles(forecast.levels, forecast.values[n])
    if isinstance(forecast, lr.Density):
        return lr.Density(forecast.grid, forecast.weights[n])
    return lr.Samples(forecast.values[n])  # type: ignore[attr-defined]
