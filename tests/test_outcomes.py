"""The test at outcomes: streaming = recorded = a literal loop; charges are what they must be; the guard adds up."""

import math

import numpy as np
import pytest

import lowregret as lr

from .outcome_cases import FORMS, Literal, at_step, random_forecast, random_outcomes, random_payoff


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_streaming_is_recorded_is_a_literal_loop(form: str, seed: int) -> None:
    rng = np.random.default_rng([seed, FORMS.index(form)])
    payoff, N, T = random_payoff(rng), 3, 12
    horizon = None if seed == 2 else T
    rule = lr.OutcomeTest(payoff, horizon, delta=0.4, temperature=None if seed == 2 else rng.uniform(0.05, 0.5))
    forecast, outcomes = random_forecast(rng, form, payoff, (N, T)), random_outcomes(rng, payoff, (N, T))
    if form == "density":
        outcomes = np.clip(outcomes, forecast.grid[0], forecast.grid[-1])
    outcomes[0] = outcomes[0, 0]  # something to find
    guard = lr.Guard(payoff, horizon, rule=rule, batch_shape=(N,))
    literal = [Literal(rule) for _ in range(N)]
    for t in range(T):
        step = at_step(forecast, t)
        guard.advise(step)
        guard.observe(outcomes[:, t])
        for n, one in enumerate(literal):
            before = one.tripped_at
            one.step(_row(step, n), float(outcomes[n, t]), t)
            if not before:
                assert guard.evidence[0][n] == pytest.approx(math.log(one.total), rel=1e-10, abs=1e-10)
                memory = guard._at.ledger.rule
                if not one.tripped_at:
                    np.testing.assert_allclose(memory.paid_CxK[n], one.charges, rtol=1e-9, atol=1e-12)
    times = [one.tripped_at or T + 1 for one in literal]
    assert rule.trip_times(forecast, outcomes).tolist() == times
    assert [event.step for event in guard.events if isinstance(event, lr.Switch)] == sorted(t for t in times if t <= T)


def _row(forecast: object, n: int) -> object:
    if isinstance(forecast, lr.Quantiles):
        return lr.Quantiles(forecast.levels, forecast.values[n])
    if isinstance(forecast, lr.Density):
        return lr.Density(forecast.grid, forecast.weights[n])
    return lr.Samples(forecast.values[n])  # type: ignore[attr-defined]
