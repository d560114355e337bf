"""Forecasts in any form: a literal loop, false alarms within delta, no certificate broken; naive forms fail."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.certificates import every_start
from lowregret.certificates.coupled import Charges, kappa
from lowregret.forecasts import Charged, Law
from lowregret.guard.episodes import certificate_of
from lowregret.guard.ledger import blank
from lowregret.guard.memory import GuardMemory
from lowregret.guard.steps import advised, observed
from lowregret.problems import Gains

from .. import literal_engine as literal
from ..outcome_cases import BLIND, FORMS, SHOP, TRADE, at_step, random_forecast, random_outcomes, random_payoff


def log_charge(charged: Charged, rate: float) -> np.ndarray:
    """ln max(1, sum_m weights exp(rate gains)), ``[C, ...]``."""
    return np.log(np.maximum(1.0, (charged.weights * np.exp(charged.gains_P * rate)).sum(axis=-1)))


def all_of(n: int, T: int) -> np.ndarray:
    return np.array(list(itertools.product(range(n), repeat=T)))


# What is charged


@pytest.mark.parametrize("seed", range(6))
def test_quantiles_are_charged_the_worst_law_that_has_them(seed: int) -> None:
    """At least what any law with these quantiles wins on average, and no more than the worst of them does."""
    rng = np.random.default_rng(seed)
    payoff, rate = random_payoff(rng), rng.uniform(0.2, 2)
    forecast = random_forecast(rng, "quantiles", payoff, ())
    mixed = rng.dirichlet(np.ones(payoff.n_actions))
    gains = Gains(payoff, mixed)
    charge_C = log_charge(forecast.charged(gains, np.array(0.0), 0), rate)
    ends = np.clip(np.concatenate([[-30.0], forecast.values, [30.0]]), *payoff.outcomes)
    masses = np.diff(forecast.levels, prepend=0.0, append=1.0)
    # 4001 places in every bin: a law puts its mass anywhere among them.
    places = ends[:-1, None] + np.linspace(0, 1, 4001) * np.diff(ends)[:, None]
    wins_C = np.exp(rate * gains.at(places.ravel())).reshape(-1, *places.shape)
    worst_C = np.log(np.maximum(1, (masses * wins_C.max(axis=-1)).sum(axis=-1)))
    assert (charge_C >= worst_C - 1e-12).all()
    np.testing.assert_allclose(charge_C, worst_C, atol=2e-3)


def test_the_bound_in_the_end_is_that_of_every_alarm_to_come() -> None:
    """Before the first step that of the test for states; later over every step at which an alarm could still sound."""
    T, delta, J = 60, 0.05, TRADE.span
    guard = lr.Guard(TRADE, T, rule=lr.ExactTest(TRADE, T, delta=delta, temperature=0.2))
    rule = guard.rule
    after = [rule.in_play.fallback.hedge.total_bound(n) for n in range(T + 1)]
    kappa_K, rates_K = kappa(rule.problem, rule.prior.rates_K, rule.temperature), rule.prior.rates_K
    log_costs_K = [math.log(1 / (m * delta)) for m in rule.prior.weights_K(1)]
    before_T = every_start.before_alarm(Charges(kappa_K), rates_K, np.array(log_costs_K), J, np.arange(T + 1))
    assert guard.certificate.regret_bound * T == pytest.approx(every_start.switching_once(before_T, np.array(after), J))
    for y in np.random.default_rng(0).normal(0, 0.4, 25):
        guard.advise(lr.Quantiles([0.2, 0.5, 0.8], [-0.35, 0.0, 0.35]))
        guard.observe(y)
    paid_CxK = guard._at.ledger.rule.statistics.charges

    def before(steps: int) -> float:
        each = [
            min((paid_CxK[c, k] + (steps - 25) * kappa_K[k] + log_costs_K[k]) / rates_K[k] for k in range(len(rates_K)))
            for c in range(3)
        ]
        return min(max(each), steps * J)

    ends = [before(T)] + [before(tau - 1) + J + after[T - tau] for tau in range(26, T + 1)]
    assert guard.certificate.regret_bound * T == pytest.approx(max(ends))
    assert guard.certificate.regret_bound < J


class Twice(lr.Samples):
    """Invalid: all samples to act on, and all of them to judge by."""

    def law(self, payoff: lr.Payoff, clock: Any) -> Law:
        return Law(self.values, np.full(self.values.shape, 1 / self.values.shape[-1]))

    def charged(self, gains: Gains, outcome: np.ndarray, clock: Any) -> Charged:
        return Charged(gains.at(self.values), np.full(self.values.shape, 1 / self.values.shape[-1]))


class Average(lr.Samples):
    """Invalid: the plain average over the half that is not acted on."""

    def charged(self, gains: Gains, outcome: np.ndarray, clock: Any) -> Charged:
        judged = self._dealt(clock)[..., self.values.shape[-1] // 2 :]
        return Charged(gains.at(judged), np.full(judged.shape, 1 / judged.shape[-1]))


@pytest.mark.parametrize("chance", [0.1, 0.5])
def test_a_bet_against_samples_wins_at_most_one_on_average_and_the_plain_average_more(chance: float) -> None:
    """One step, all that can be drawn: two samples to act on, two to judge by, the outcome."""
    rows = all_of(2, 5)
    odds = np.where(rows == 1, chance, 1 - chance).prod(axis=1)
    values, outcome = 2.0 * rows[:, :4] - 1, 2.0 * rows[:, 4] - 1
    means = {}
    for form in (lr.Samples, Average):
        forecast = form(values)
        mixed_A = np.tile([[0.0], [1.0], [0.0]], len(rows))  # position 0: a bet on +1 wins e^rate or loses it
        gains = Gains(TRADE, mixed_A)
        charge_C = log_charge(forecast.charged(gains, outcome, 0), 2.0)
        wins_C = np.exp(2.0 * gains.at(outcome[..., None])[..., 0] - charge_C)
        means[form] = (odds * wins_C).sum(axis=-1)
    assert (means[lr.Samples] <= 1 + 1e-12).all()
    assert means[Average].max() > 1.05


# (i) False alarms


@pytest.mark.parametrize("seed", range(4))
def test_no_law_with_these_quantiles_alarms_more_often_than_delta(seed: int) -> None:
    """By backward induction over all adaptive laws that put each bin's mass on a knot or a quantile of it."""
    rng, T, delta = np.random.default_rng(seed), 4, 0.5
    payoff = (TRADE, random_payoff(rng), SHOP, TRADE)[seed]
    values = np.sort(random_outcomes(rng, payoff, (T, 2)) * (8 if seed == 2 else 0.3), axis=-1)
    values = np.tile([-0.9, 0.0], (T, 1)) if seed == 0 else np.clip(values, *payoff.outcomes)
    levels = np.array([0.3, 0.6])
    places_T = [np.unique(np.concatenate([payoff.knots, row])) for row in values]
    sequences = np.array(list(itertools.product(*places_T)))
    rule = lr.ExactTest(payoff, T, delta=delta, temperature=0.02)
    forecast = lr.Quantiles(levels, np.broadcast_to(values, (len(sequences), T, 2)))
    chance = (rule.trip_times(forecast, sequences) <= T).astype(float).reshape([len(places) for places in places_T])
    for t in reversed(range(T)):
        ends = [-math.inf, *values[t], math.inf]
        bins = [(places_T[t] >= low) & (places_T[t] <= high) for low, high in itertools.pairwise(ends)]
        chance = sum(mass * chance[..., bin_].max(axis=-1) for mass, bin_ in zip((0.3, 0.3, 0.4), bins, strict=True))
    assert chance <= delta * (1 + 1e-12)
    assert seed or chance > 0.35 * delta, "the worst law comes near"


@pytest.mark.parametrize("chance", [0.5, 0.8])
def test_samples_alarm_no_more_often_than_delta_and_twice_the_same_do(chance: float) -> None:
    """Everything that can be drawn in three steps: three samples and the outcome of each."""
    T, delta = 3, 0.5
    rows = all_of(16, T)
    bits = (rows[..., None] >> np.arange(4)) & 1
    odds = np.where(bits == 1, chance, 1 - chance).prod(axis=(1, 2))
    values, outcomes = 2.0 * bits[..., :3] - 1, 2.0 * bits[..., 3] - 1
    rule = lr.ExactTest(TRADE, T, delta=delta, temperature=0.02)
    found = {form: odds[rule.trip_times(form(values), outcomes) <= T].sum() for form in (lr.Samples, Twice)}
    assert found[lr.Samples] <= delta
    assert found[Twice] > found[lr.Samples]


def test_true_forecasts_of_continuous_laws_alarm_within_delta_and_the_same_samples_twice_do_not() -> None:
    """The interval of a binomial at delta: outside of it with chance 1e-4."""
    rng, N, T, delta = np.random.default_rng(0), 100, 400, 0.01
    scale = 0.2 + rng.random((N, T))
    outcomes = scale * rng.normal(size=(N, T))
    rule = lr.ExactTest(TRADE, T, delta=delta, temperature=0.01)
    samples = scale[..., None] * rng.normal(size=(N, T, 20))
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    quantiles = lr.Quantiles(levels, scale[..., None] * stats.norm.ppf(levels))
    most = stats.binom.ppf(1 - 1e-4, N, delta)
    assert (rule.trip_times(lr.Samples(samples), outcomes) <= T).sum() <= most
    assert (rule.trip_times(quantiles, outcomes) <= T).sum() <= most
    false = (rule.trip_times(Twice(samples), outcomes) <= T).sum()
    assert false > most, "19% were measured at 1,000 steps"


# (ii) Certificates


def advanced(rule: lr.ExactTest, ledger: Any, forecast: Any, outcomes: np.ndarray, t: int) -> Any:
    at = GuardMemory(ledger, any_tripped=True, advised=t)
    at, _ = advised(rule, outcomes.shape, at, forecast, None, t + 1)
    return observed(rule, outcomes.shape, at, outcomes, None, None, None)[0].ledger


def like_one(forecast: Any, n: int) -> Any:
    """The same forecast for n streams."""
    if isinstance(forecast, lr.Quantiles):
        return lr.Quantiles(forecast.levels, np.broadcast_to(forecast.values, (n, *forecast.values.shape)))
    return lr.Samples(np.broadcast_to(forecast.values, (n, *forecast.values.shape)))


def refuse_broken(rule: lr.ExactTest, ledger: Any) -> float:
    """Statement (ii) of every stream, and what comes after an alarm; how much of the bound was used."""
    memory, J = ledger.rule, rule.problem.span
    lead, late = ledger.lead_A.max(axis=-1), memory.tripped_at > 0
    costs_K = rule.prior.log_costs_K(rule.delta)
    before = ((memory.statistics.charges + costs_K) / rule.prior.rates_K).min(axis=-1).max(axis=-1)
    after = np.array(
        [rule.in_play.fallback.hedge.total_bound(int(n)) for n in np.where(late, memory.step - memory.tripped_at, 0)]
    )
    assert (lead <= np.where(late, before + J + after, before) + 1e-9).all()
    assert (np.where(late, lead - ledger.at_alarm - after, -1) <= 1e-9).all()
    return float(np.max(lead / np.where(late, before + J + after, before)))


@pytest.mark.parametrize("form", FORMS)
def test_no_sequence_breaks_the_certificate(form: str) -> None:
    """All sequences of six steps, among the outcomes at which a gain can be largest."""
    rng, T = np.random.default_rng(FORMS.index(form)), 6
    payoff = random_payoff(rng)
    rule = lr.ExactTest(payoff, T, delta=0.6, temperature=0.1)
    places = payoff.knots[:4]
    rows = places[all_of(len(places), T)]
    ledger = blank(rule, (len(rows),))
    used = 0.0
    for t in range(T):
        forecast = random_forecast(rng, form, payoff, ())
        ledger = advanced(rule, ledger, like_one(forecast, len(rows)), rows[:, t], t)
        used = max(used, refuse_broken(rule, ledger))
        now, worst = certificate_of(rule, ledger), ledger.lead_A.max(axis=-1).max()
        assert now.bound_so_far * (t + 1) >= worst - 1e-9
        assert now.regret_so_far * (t + 1) == pytest.approx(worst)
    assert now.regret_bound * T >= worst - 1e-9
    assert (ledger.rule.tripped_at > 0).any()
    assert used > 0.2


@pytest.mark.parametrize("form", FORMS)
def test_a_beam_of_sequences_does_not_break_it(form: str) -> None:
    """The widest regrets are kept, at every step: forty steps against forecasts of a trend that is not there."""
    rng, T, width = np.random.default_rng(7), 40, 24
    rule = lr.ExactTest(TRADE, T, delta=0.05)
    forecasts = {
        "samples": lambda: lr.Samples(np.clip(rng.normal(0.1, 0.5, 12), -2, 2)),
        "quantiles": lambda: lr.Quantiles([0.25, 0.5, 0.75], np.array([-0.4, 0.1, 0.5]) + rng.normal(0, 0.1)),
    }
    ledger, ends = blank(rule, (1,)), np.array([-1.0, -0.3, 0.4, 1.0])
    for t in range(T):
        forecast, n = forecasts[form](), len(ledger.episode)
        wide = lr.take(ledger, np.repeat(np.arange(n), len(ends)))
        wide = advanced(rule, wide, like_one(forecast, n * len(ends)), np.tile(ends, n), t)
        refuse_broken(rule, wide)
        ledger = lr.take(wide, np.argsort(-wide.lead_A.max(axis=-1), kind="stable")[:width])
    assert certificate_of(rule, ledger).regret_bound * T >= ledger.lead_A.max()
    assert (ledger.rule.tripped_at > 0).any()


def test_a_break_is_found_and_what_is_lost_is_within_the_certificate() -> None:
    """Demand falls to a fraction at step 60 of 160, and the forecasts go on: quantiles and samples alike."""
    rng, T = np.random.default_rng(3), 160
    demand = np.where(np.arange(T) < 60, rng.gamma(6, 5, T), rng.gamma(2, 2, T))
    levels = np.linspace(0.05, 0.95, 19)
    quantiles = lr.Quantiles(levels, stats.gamma.ppf(levels, 6, scale=5))
    forms = {"quantiles": lambda: quantiles, "samples": lambda: lr.Samples(rng.gamma(6, 5, 100))}
    for name, form in forms.items():
        guard = lr.Guard(SHOP, T, rule=lr.ExactTest(SHOP, T, delta=0.01))
        for y in demand:
            guard.advise(form())
            guard.observe(y)
        switch = guard.events[0]
        assert 60 < switch.step < 110, (name, switch)
        assert switch.action == 0, "to order nothing is best from then on"
        assert guard.certificate.regret_bound >= guard.regret
        assert guard.certificate.regret_bound < 0.45


def test_without_knots_samples_still_go() -> None:
    rng, T = np.random.default_rng(0), 60
    outcomes = rng.normal(-0.5, 0.2, T)
    guard = lr.Guard(BLIND, T, rule=lr.ExactTest(BLIND, T, delta=0.1))
    for y in outcomes:
        guard.advise(lr.Samples(rng.normal(0.5, 0.2, 40)))
        guard.observe(y)
    assert guard.switched
    assert guard.share < 0.5


# Streaming is recorded is a literal loop


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_streaming_is_recorded_is_a_literal_loop(form: str, seed: int) -> None:
    rng, N, T = np.random.default_rng([seed, FORMS.index(form)]), 3, 24
    horizon, times = None if seed == 2 else T, np.full(N, T + 1)
    while not 1 / 3 <= (times <= T).mean() < 1:  # where nothing trips, little is compared
        payoff = random_payoff(rng)
        rule = lr.ExactTest(payoff, horizon, delta=0.4, temperature=None if seed == 2 else rng.uniform(0.05, 0.5))
        forecast, outcomes = random_forecast(rng, form, payoff, (N, T)), random_outcomes(rng, payoff, (N, T))
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

    return literal.Told(forecast, None, 0, utility, tuple(payoff.knots), 1.0, outcome)


def _row(forecast: object, n: int) -> object:
    if isinstance(forecast, lr.Quantiles):
        return lr.Quantiles(forecast.levels, forecast.values[n])
    return lr.Samples(forecast.values[n])  # type: ignore[attr-defined]
