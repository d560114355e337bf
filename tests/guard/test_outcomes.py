"""The guard of outcomes: bit for bit after a pause, whole steps or none, bad input by name, streams together."""

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

import lowregret as lr

from ..outcome_cases import BLIND, FORMS, RISES, SHOP, TRADE, at_step, random_forecast, random_outcomes, random_payoff


def falls(payoff: lr.Payoff = TRADE, horizon: int | None = 60, **settings: Any) -> Any:
    """A guard that has switched: rises are forecast, falls come."""
    guard = lr.Guard(payoff, horizon, rule=lr.ExactTest(payoff, horizon, delta=0.2), **settings)
    for _ in range(25):
        guard.advise(RISES)
        guard.observe(-0.9, action=guard.act(seed=1))
    return guard


@pytest.mark.parametrize("form", FORMS)
def test_it_resumes_bit_for_bit(form: str) -> None:
    rng = np.random.default_rng(FORMS.index(form))
    payoff, N, T = random_payoff(rng), 3, 40
    rule = lr.ExactTest(payoff, T, delta=0.7)
    forecast, outcomes = random_forecast(rng, form, payoff, (N, T)), random_outcomes(rng, payoff, (N, T))
    at_stake = payoff.knot_utilities.max(axis=0) - payoff.knot_utilities.mean(axis=0)
    outcomes[0] = payoff.knots[at_stake.argmax()]  # something to find
    first, acted = lr.Guard(payoff, T, rule=rule, batch_shape=(N,)), []
    second = lr.Guard(payoff, T, rule=rule, batch_shape=(N,))
    for t in range(T):
        first.advise(at_step(forecast, t))
        second.advise(at_step(forecast, t))
        if t in (4, 17):  # between advice and outcome
            text = json.dumps(first.state_dict(), allow_nan=False)
            second = lr.Guard(payoff, T, rule=rule, batch_shape=(N,))
            second.load_state_dict(json.loads(text))
        acted.append(first.act(seed=5))
        assert (second.act(seed=5) == acted[-1]).all()
        assert (second.policy() == first.policy()).all()
        for guard in (first, second):
            guard.observe(outcomes[:, t], action=acted[-1])
        if t == 20:
            second = copy.deepcopy(first)
    assert first.state_dict() == second.state_dict()
    assert first.events == second.events
    assert first.switched.any()
    assert first.certificate == second.certificate


class Halved(lr.forecasts.Forecast):
    """A form from elsewhere: all that it says, it says as quantiles."""

    def __init__(self, values: Any) -> None:
        self.said = lr.Quantiles([0.25, 0.75], values)

    batch_shape = property(lambda self: self.said.batch_shape)

    def refuse_misfit(self, payoff: lr.Payoff) -> None:
        self.said.refuse_misfit(payoff)

    def law(self, payoff: lr.Payoff, clock: Any) -> Any:
        return self.said.law(payoff, clock)

    def charged(self, gains: Any, outcome: np.ndarray, clock: Any) -> Any:
        return self.said.charged(gains, outcome, clock)

    def cdf(self, points: np.ndarray) -> np.ndarray:
        return self.said.cdf(points)

    def told(self) -> dict[str, Any]:
        return {"values": self.said.values.tolist()}


def test_a_form_from_elsewhere_resumes() -> None:
    guard = lr.Guard(TRADE, 50)
    for _ in range(20):
        advice = guard.advise(Halved([0.2, 0.8]))
        guard.observe(-0.5)
    assert advice.share < 0.5  # it has switched
    guard.advise(Halved([0.2, 0.8]))
    other = lr.Guard(TRADE, 50)
    other.load_state_dict(json.loads(json.dumps(guard.state_dict())))
    for one in (guard, other):
        one.observe(0.3)
    assert other.state_dict() == guard.state_dict()


def test_a_stream_in_a_batch_is_the_stream_alone() -> None:
    rng, T = np.random.default_rng(0), 40
    outcomes = rng.normal(-0.4, 0.3, (3, T))
    values = np.sort(rng.normal(0.3, 0.3, (3, T, 3)), axis=-1)
    levels, rule = [0.2, 0.5, 0.8], lr.ExactTest(TRADE, T, delta=0.2)
    together = lr.Guard(TRADE, T, rule=rule, batch_shape=(3,))
    for t in range(T):
        together.advise(lr.Quantiles(levels, values[:, t]))
        together.observe(outcomes[:, t])
    for n in range(3):
        alone = lr.Guard(TRADE, T, rule=rule)
        for t in range(T):
            alone.advise(lr.Quantiles(levels, values[n, t]))
            alone.observe(outcomes[n, t])
        assert alone.regret == pytest.approx(together.regret[n], rel=1e-12)
        assert [e.step for e in alone.events] == [e.step for e in together.events if e.stream == n]
        assert alone.share == pytest.approx(together.share[n], rel=1e-10)


@pytest.mark.parametrize("shape", [(0,), (2, 3)])
def test_batches_of_any_shape(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    values = np.sort(rng.normal(0, 1, (*shape, 4)), axis=-1)
    for forecast in (lr.Samples(values), lr.Quantiles([0.2, 0.4, 0.6, 0.8], values)):
        guard = lr.Guard(TRADE, 10, batch_shape=shape)
        guard.advise(forecast)
        guard.observe(np.zeros(shape), action=guard.act(seed=0))
        for found in (guard.regret, guard.realised_regret, guard.share, guard.switched, guard.evidence[0]):
            assert found.shape == shape
        assert guard.certificate.regret_bound <= TRADE.span
        again = lr.Guard(TRADE, 10, batch_shape=shape)
        again.load_state_dict(guard.state_dict())
        assert again.state_dict() == guard.state_dict()


def test_it_switches_tells_and_returns() -> None:
    told: list[Any] = []
    guard = falls(horizon=400, on_event=told.append)
    switch = guard.events[0]
    assert told == [switch]
    assert guard.switched
    assert str(switch).startswith("switched after")
    assert switch.action == 0
    assert switch.since == 1
    assert not switch.excluded
    assert guard.share < 0.01
    drops = lr.Quantiles([0.1, 0.5, 0.9], [-0.8, -0.3, -0.1])
    for t in range(200):  # the model is right again, and better than any one action
        guard.advise((RISES, drops)[t % 2])
        guard.observe((0.9, -0.9)[t % 2])
    back = guard.events[-1]
    assert isinstance(back, lr.Return)
    assert back.share > 0.5
    assert guard.share > 0.5
    assert told == guard.events


def test_samples_and_quantiles_exclude_nothing() -> None:
    for forecast in (lr.Samples([0.1, 0.2, 0.3]), RISES):
        guard = lr.Guard(TRADE, 100)
        guard.advise(forecast)
        guard.observe(-3.0)
        assert not guard.switched


def test_episodes_add_up() -> None:
    guard = falls()
    lost = guard.regret * 25
    one = guard.certificate
    guard.restart()
    assert guard.episodes == 2
    assert not guard.switched
    assert guard.share == 1
    two = guard.certificate
    assert two.tv_bound == 2 * one.tv_bound
    assert two.episodes == 2
    fresh = lr.Guard(TRADE, 60, rule=guard.rule).certificate
    assert two.regret_bound == pytest.approx((lost + 60 * fresh.regret_bound) / 85)
    batch = lr.Guard(TRADE, 60, batch_shape=(2,))
    batch.advise(lr.Quantiles([0.5], [[0.1], [0.2]]))
    batch.observe([0.3, 0.4])
    batch.restart([1])
    assert batch.episodes.tolist() == [1, 2]
    assert batch._at.ledger.rule.step.tolist() == [1, 0]


def test_what_has_been_paid_is_told() -> None:
    guard = lr.Guard(TRADE, 200, rule=lr.ExactTest(TRADE, 200, delta=0.05))
    first = guard.certificate
    assert first.steps == 0
    assert first.bound_so_far == 0
    assert first.regret_bound <= TRADE.span
    for y in np.random.default_rng(0).normal(0, 0.5, 50):
        guard.advise(lr.Quantiles([0.25, 0.5, 0.75], [-0.3, 0.0, 0.3]))
        guard.observe(y)
    now = guard.certificate
    assert now.regret_bound > first.regret_bound, "quantiles are charged more than a law"
    assert now.bound_so_far >= now.regret_so_far == guard.regret
    assert now.if_stopped == pytest.approx(
        (50 * guard.regret + guard.rule.in_play.fallback.hedge.total_bound(150)) / 200
    )
    assert "50 of 200 steps" in str(now)
    assert json.loads(now.to_json())["regret_bound"] == now.regret_bound
    assert now.regret_bound_in_payoffs == now.regret_bound, "moves of -1 to 1 are utilities"


def test_a_guard_pickles() -> None:
    guard = falls()
    again = pickle.loads(pickle.dumps(guard))
    assert again.state_dict() == guard.state_dict()
    assert again.certificate == guard.certificate
    assert again.problem == TRADE
    assert hash(again.problem) == hash(TRADE)
    assert not again.problem.knots.flags.writeable


def test_an_unknown_horizon_goes_on() -> None:
    rule = lr.ExactTest(SHOP, None, delta=0.05)
    guard = lr.Guard(SHOP, None, rule=rule)
    for t in range(30):
        guard.advise(lr.Samples(np.random.default_rng(t).gamma(4, 5, 20)))
        guard.observe(2.0)
    assert guard.certificate.horizon is None
    assert guard.certificate.regret_bound >= guard.regret


BAD: dict[str, Any] = {
    "cross": (lambda: lr.Quantiles([0.1, 0.5], [3.0, 2.0]), "values must not cross"),
    "levels fall": (lambda: lr.Quantiles([0.5, 0.1], [1.0, 2.0]), "levels must increase"),
    "levels repeat": (lambda: lr.Quantiles([0.5, 0.5], [1.0, 2.0]), "levels must increase"),
    "level 0": (lambda: lr.Quantiles([0.0, 0.5], [1.0, 2.0]), "levels must lie strictly between"),
    "level 1": (lambda: lr.Quantiles([0.5, 1.0], [1.0, 2.0]), "levels must lie strictly between"),
    "too many values": (lambda: lr.Quantiles([0.5], [1.0, 2.0]), "values must have one for each of the 1 levels"),
    "quantile NaN": (lambda: lr.Quantiles([0.5], [math.nan]), "values must be finite numbers, got NaN"),
    "NaN samples": (lambda: lr.Samples([1.0, math.nan, 2.0]), "values must be finite numbers, got NaN"),
    "one sample": (lambda: lr.Samples([1.0]), "values must have a last axis of at least 2"),
    "infinite sample": (lambda: lr.Samples([1.0, math.inf]), "values must be finite"),
    "no function": (lambda: lr.Payoff(3, [0], 0, 1), "fn must be a function"),  # type: ignore[arg-type]
    "no actions": (lambda: lr.Payoff(abs, [], 0, 1), "actions must be a list"),  # type: ignore[arg-type]
    "low": (lambda: lr.Payoff(abs, [0], 1, 1), "low must be below high"),  # type: ignore[arg-type]
    "bends": (
        lambda: lr.Payoff(lambda a, y: a * y**2, [1.0], 0, 1, knots=[0, 1], outcomes=(0, 1)),
        "knots must be all",
    ),
    "no end": (lambda: lr.Payoff(lambda a, y: a * y, [1.0], 0, 1, knots=[0, 1]), "outcomes must have a least value"),
    "range": (lambda: lr.Payoff(abs, [0], 0, 1, outcomes=(1, 0)), "outcomes must be a pair"),  # type: ignore[arg-type]
    "delta": (lambda: lr.ExactTest(TRADE, None), "horizon=None .* needs an explicit delta"),
    "another rule": (lambda: lr.Guard(TRADE, 10, rule=lr.ExactTest(TRADE, 11)), "rule was made for another"),
    "a rule of states": (
        lambda: lr.Guard(TRADE, 10, rule=lr.ExactTest(lr.matching(), 10)),
        "rule was made for another problem",
    ),
    "fallback": (
        lambda: lr.Guard(TRADE, 10, temperature=0.3, fallback=lr.PolyaUrn(2)),
        "fallback must be a Recovery without a safe",
    ),
    "a law answered by its best response": (lambda: lr.Guard(TRADE, 10, fallback=lr.PolyaUrn(2)), "is a law"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name(name: str) -> None:
    make, says = BAD[name]
    with pytest.raises(ValueError, match=says):
        make()


def test_bad_steps_change_nothing() -> None:
    """Forecasts, outcomes and actions that do not fit, and a payoff that breaks its word."""

    def liar(a: float, y: np.ndarray) -> np.ndarray:
        return np.where(y > 5, 7.0, a * np.clip(y, -1, 1))

    payoff = lr.Payoff(liar, [0.0, 1.0], -1, 1)
    guard = lr.Guard(payoff, 10)
    guard.advise(lr.Samples([0.1, 0.2]))
    guard.observe(0.3)
    guard.advise(lr.Samples([0.1, 0.4]))
    before = guard.state_dict()
    wrong: list[tuple[Any, str]] = [
        (lambda: guard.advise([0.5, 0.5]), "forecast must be Samples or Quantiles, got list"),
        (lambda: guard.advise(RISES), "Quantiles needs a Payoff that says where payoffs bend"),
        (lambda: guard.advise(lr.Samples([[0.1, 0.2]])), r"forecast must be for streams of shape \(\), got \(1,\)"),
        (lambda: guard.advise(lr.Samples([0.1, 6.0])), "fn must return payoffs from low = -1 to high = 1, got 7"),
        (
            lambda: guard.observe(6.0),
            "fn must return payoffs from low = -1 to high = 1, got 7 for 0.0 of the actions, at outcome 6",
        ),
        (lambda: guard.observe(math.nan), "outcome must be finite"),
        (lambda: guard.observe([0.1, 0.2]), r"outcome must have shape \(\)"),
        (lambda: guard.observe("up"), "outcome must be a number"),
        (lambda: guard.observe(0.1, action=2), r"action must lie in 0\.\.1"),
        (lambda: guard.load_state_dict({**before, "clock": -1}), "clock must be a whole number"),
        (lambda: guard.load_state_dict({**before, "ledger": []}), "state_dict does not fit"),
        (lambda: lr.Guard(TRADE, 10).load_state_dict(before), "differs in: actions"),
        (
            lambda: guard.load_state_dict({**before, "waiting": [[2, {"form": "Guess"}, None]]}),
            "a forecast was expected",
        ),
    ]
    for call, says in wrong:
        with pytest.raises(ValueError, match=says):
            call()
        assert guard.state_dict() == before
    bent = lr.Payoff(lambda a, y: a * np.where(np.abs(y - 0.2) < 0.01, 0.5, 0.0), [0.0, 1.0], -1, 1, knots=[0, 1])
    hidden = lr.Guard(bent, 10)  # a bend so narrow that only an outcome finds it
    hidden.advise(lr.Quantiles([0.5], [0.3]))
    before = hidden.state_dict()
    with pytest.raises(ValueError, match=r"bends: at outcome 0\.2 that of 1\.0"):
        hidden.observe(0.2)
    assert hidden.state_dict() == before
    negative = lr.Guard(SHOP, 10)
    with pytest.raises(ValueError, match=r"values of Quantiles must lie in the payoff's outcomes, 0 to inf"):
        negative.advise(lr.Quantiles([0.5], [-1.0]))
    negative.advise(lr.Quantiles([0.5], [1.0]))
    with pytest.raises(ValueError, match="outcome must lie in the payoff's outcomes"):
        negative.observe(-1.0)
    with pytest.raises(ValueError, match=r"outcomes, 0 to inf, got -1 to 3 at index \(0,\): clip them"):
        SHOP.outcomes_of([-1.0, 3.0])
    other = lr.Payoff(lambda a, y: 0.5 * a * np.clip(y, -1, 1), (-1.0, 0.0, 1.0), -1, 1, knots=(-1, 1))
    with pytest.raises(ValueError, match="fn"):
        lr.Guard(other, 60, rule=lr.ExactTest(other, 60, delta=0.2)).load_state_dict(falls().state_dict())


def test_settings_are_a_guards_own() -> None:
    assert isinstance(lr.Guard(TRADE, 10, lag=1, references=(), contexts=None), lr.Guard)
    assert isinstance(lr.Guard(problem=TRADE, horizon=10), lr.Guard)
    assert isinstance(lr.Guard(lr.matching(), 10), lr.Guard)
    with pytest.raises(TypeError, match="bogus"):
        lr.Guard(TRADE, 10, bogus=1)  # type: ignore[call-arg]


def test_the_horizon_is_kept_and_advice_comes_first() -> None:
    guard = lr.Guard(BLIND, 2)
    with pytest.raises(ValueError, match=r"advise\(forecast\) must come before this"):
        guard.observe(0.1)
    with pytest.raises(ValueError, match="advise"):
        guard.policy()
    for _ in range(2):
        guard.advise(lr.Samples([0.1, 0.2]))
        guard.observe(0.1)
    with pytest.raises(ValueError, match="horizon of 2"):
        guard.advise(lr.Samples([0.1, 0.2]))
    guard.restart()
    guard.advise(lr.Samples([0.1, 0.2]))
    assert guard.policy().sum() == pytest.approx(1)
    assert math.isnan(guard.realised_regret)


def test_of_an_unknown_horizon_nothing_is_said_of_the_end() -> None:
    payoff = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    guard = lr.Guard(payoff, None, rule=lr.ExactTest(payoff, None, delta=0.1))
    guard.advise(lr.Quantiles([0.5], [0.5]))
    guard.observe(-0.9)
    told = str(guard.certificate)
    assert "a step in the end" not in told
    assert "a step over the steps so far" in told
    assert "a step in the end" in str(lr.Guard(payoff, 20).certificate)


def test_an_outcome_that_never_came_costs_the_span() -> None:
    guard = lr.Guard(SHOP, 20)
    with pytest.raises(ValueError, match="no step waits for its outcome"):
        guard.skip()
    before = guard.certificate.regret_bound
    guard.advise(lr.Samples([3.0, 9.0]))
    guard.skip()
    assert guard.steps == 1
    assert guard.certificate.regret_bound == pytest.approx(min(SHOP.span, before + SHOP.span / 20))


@pytest.mark.parametrize("who", ["the model", "a reference"])
def test_payoffs_of_a_step_that_its_forecast_cannot_be_judged_by_are_refused_before_it(who: str) -> None:
    bent = lr.Payoff(lambda buy, move: buy * np.sin(9 * move), TRADE.actions, -1, 1)  # nobody says where it bends
    guard = lr.Guard(TRADE, 60, payoffs="change", references=["old"])
    drawn = lr.Samples(np.linspace(-1, 1, 8))
    said = (RISES, drawn) if who == "the model" else (drawn, RISES)
    with pytest.raises(ValueError, match="bend"):
        guard.advise(said[0], references=[said[1]], payoffs=bent)
    guard.advise(drawn, references=[drawn], payoffs=bent)
    guard.observe(0.5)
    assert guard.steps == 1
