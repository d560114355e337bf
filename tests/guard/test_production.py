"""What use in production asks: nothing stops a service, breaks are dated, nothing overflows."""

from typing import Any

import numpy as np
import pytest

import lowregret as lr

from .plays import COIN, DESK, TRADE, WRONG, wrong_for

pytestmark = pytest.mark.usefixtures("form")
YEAR = lr.ExactTest(0.05, 300)


# The horizon, episodes, and outcomes that never came


@pytest.mark.parametrize("lag", [1, 3])
def test_a_horizon_never_stops_a_service(lag: int) -> None:
    """It goes on past it, saved or restarted, and the certificate says what is promised of which steps."""
    guard = lr.Guard(COIN, test=lr.ExactTest(0.05, 30), lag=lag)
    wrong_for(guard, 30)
    at_end, words = guard.certificate, "regret is promised for the first 30, and false alarms stay bounded."
    assert guard.regret <= at_end.regret_bound
    assert "past the horizon" not in str(at_end)
    wrong_for(guard, 70)
    guard.loads(guard.dumps())
    past = guard.certificate
    assert f"70 steps are past the horizon: {words}" in past.statement
    assert (past.tv_bound, past.regret_bound) == (0.05, at_end.regret_bound)
    for _ in range(lag):
        guard.advise(WRONG)
    guard.restart()
    assert "past the horizon" not in str(guard.certificate)
    wrong_for(guard, 10)
    assert [event.episode for event in guard.events if isinstance(event, lr.Alarm)] == [1, 2]


@pytest.mark.parametrize("last", [300, 312])
def test_episodes_are_charged_what_their_lengths_may_cost(last: int) -> None:
    """A bound for full episodes says little of short ones, and nothing of steps past the horizon or without outcome."""
    guard, lengths, lost = lr.Guard(COIN, test=YEAR), [1, 5, last, 300], 0.0
    one = guard.certificate
    for i, length in enumerate(lengths):
        if i:
            guard.restart()
        wrong_for(guard, length)
        lost += length * guard.regret
        if length == 5:
            guard.advise(WRONG)
            guard.skip()
    given = guard.certificate
    charged = sum(min(t, 300) * one.at(min(t, 300)).regret_bound for t in lengths) + (last - 300 + 1) * COIN.span
    assert given.regret_bound == pytest.approx(charged / (sum(lengths) + 1))
    assert lost / sum(lengths) <= given.regret_bound
    assert (given.episodes, given.tv_bound) == (4, pytest.approx(4 * one.tv_bound))


@pytest.mark.parametrize("settings", [{}, {"lag": 3}, {"test": lr.NoTest(300)}, {"against": DESK}], ids=str)
def test_outcomes_that_never_came_may_have_cost_the_span(settings: dict[str, Any]) -> None:
    guard, numbers = lr.Guard(COIN, **{"test": YEAR, **settings}), lr.Guard(TRADE, test=YEAR)
    before, paid = guard.certificate, numbers.certificate.regret_bound
    for _ in range(10):
        guard.advise(WRONG, **({"references": [[0.5, 0.5]]} if "against" in settings else {}))
        guard.skip()
        numbers.advise(lr.Quantiles([0.5], [0.1]))
        numbers.skip()
    after = guard.certificate
    readings = [
        lambda given: given.regret_bound,
        lambda given: given.sharpen().regret_bound,
        lambda given: given.realised(0.9).regret_bound,
        lambda given: given.against_model,
        *([] if "test" in settings else [lambda given: given.interval(1, 300) / 300]),
    ]
    np.testing.assert_allclose([read(after) - read(before) for read in readings], 10 / 300, atol=1e-12)
    assert numbers.certificate.regret_bound == pytest.approx(paid + 10 * TRADE.span / 300)


# Breaks are dated, and nothing overflows


@pytest.mark.parametrize("S", [2, 3])
def test_since_is_within_ten_steps_of_a_clean_break(S: int) -> None:
    """In 90 of 100 or more, where the second bettor runs: a model that is right, and from some step on names others."""
    N, T, rng = 200, 200, np.random.default_rng(0)
    probs, drawn, broke_N = rng.dirichlet(np.full(S, 0.5), (N, T)), rng.random((N, T, 1)), rng.integers(40, 120, N)
    is_broken = np.arange(1, T + 1) >= broke_N[:, None]
    truth = np.where(is_broken[..., None], np.roll(probs, 1, axis=-1), probs)
    states = (truth[..., :-1].cumsum(axis=-1) < drawn).sum(axis=-1)
    guard = lr.Guard(lr.matching(S), streams=N)
    for t in range(T):
        guard.advise(probs[:, t])
        guard.observe(states[:, t])
    alarms = {event.stream: event for event in guard.events if isinstance(event, lr.Alarm)}
    near = [abs(event.since - broke_N[n]) <= 10 for n, event in alarms.items() if event.step >= broke_N[n]]
    assert len(near) > 0.9 * N
    assert np.mean(near) >= 0.9


@pytest.mark.parametrize("chance", [1e-15, 1e-100, 1e-310])
def test_models_that_are_far_too_sure_overflow_nothing(chance: float) -> None:
    """Warnings are errors here."""
    guard = lr.Guard(COIN)
    for _ in range(60):
        guard.advise([1 - chance, chance])
        guard.observe(1)
    assert (guard.events[0].step, guard.events[0].since) == (4, 1)
    assert np.isfinite(guard.engine.of_class(guard._state.rows_NxW, 0).drift).all()


def test_evidence_long_past_a_horizon_is_a_number() -> None:
    """What the bets have left is nothing but rounding."""
    guard = lr.Guard(lr.DecisionProblem([[1, -1], [-1, 1]]), test=lr.ExactTest(1e-9, horizon=20))
    for t, wrong in enumerate((np.random.default_rng(0).random(4000) < 0.1).tolist()):
        guard.advise([[0.9, 0.1], [0.1, 0.9]][t % 2])
        guard.observe((t + wrong) % 2)
    assert -700 < guard.evidence[0] < -100  # and not the logarithm of 0
