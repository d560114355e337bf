"""Outcomes that are numbers: what quantiles and samples are charged, false alarms, what is promised in the end."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.certificates import every_start
from lowregret.certificates.coupled import evenly, kappa
from lowregret.engine import Inputs, prior_of
from lowregret.engine.step import Gains
from lowregret.evaluate.adversaries import all_sequences
from lowregret.forecasts import Law

from ..outcome_cases import BLIND, SHOP, TRADE, random_forecast, random_outcomes, random_payoff


def charge(forecast: Any, gains: Gains, rate: float, own_NxE: Any = 0.0) -> np.ndarray:
    """What a bet at this rate is charged, ``[N, E]``; ``own``: what it gains at the outcome itself."""
    weights_NxM, gain_NxExM, own = forecast.cells(gains, 0)
    mean_NxE = (weights_NxM[:, None] * np.exp(rate * gain_NxExM)).sum(axis=-1) + own * np.exp(rate * own_NxE)
    found: np.ndarray = np.maximum(mean_NxE, 1.0)
    return found


def alarms(payoff: lr.Payoff, delta: float, forecast: Any, outcomes_NxT: np.ndarray) -> np.ndarray:
    N, T = outcomes_NxT.shape
    engine = lr.Guard(payoff, test=lr.ExactTest(delta, T)).engine
    found: np.ndarray = engine.run(engine.start(N), Inputs(forecast), outcomes_NxT).alarm_NxT.any(axis=1)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_quantiles_are_charged_the_worst_law_that_has_them(seed: int) -> None:
    """At least what any law with these quantiles wins on average, and no more than the worst of them does."""
    rng = np.random.default_rng(seed)
    payoff, rate = random_payoff(rng), rng.uniform(0.2, 2)
    forecast = random_forecast(rng, "quantiles", payoff, (1,))
    over_1xAxA = np.eye(payoff.n_actions)[None] - rng.dirichlet(np.ones(payoff.n_actions))
    ends = np.clip(np.concatenate([[-30.0], forecast.values[0], [30.0]]), *payoff.outcomes)
    masses = np.diff(forecast.levels, prepend=0.0, append=1.0)
    # 4001 places in every bin: a law puts its mass anywhere among them.
    places = ends[:-1, None] + np.linspace(0, 1, 4001) * np.diff(ends)[:, None]
    gains = Gains(payoff, over_1xAxA)
    wins = np.exp(rate * gains.at(places.reshape(1, -1))).reshape(1, -1, *places.shape)
    worst = np.maximum(1, (masses * wins.max(axis=-1)).sum(axis=-1))
    found = charge(forecast, gains, rate)
    assert (found >= worst - 1e-12).all()
    np.testing.assert_allclose(found, worst, rtol=2e-3)


class Twice(lr.Samples):
    """Invalid: all samples to act on, and all of them to judge by."""

    def law(self, payoff: lr.Payoff, clock: Any) -> Law:
        return Law(self.values, np.full(self.values.shape, 1 / self.values.shape[-1]))

    def cells(self, gains: Any, clock: Any) -> tuple[np.ndarray, np.ndarray, float]:
        return np.full(self.values.shape, 1 / self.values.shape[-1]), gains.at(self.values), 0.0


class Average(lr.Samples):
    """Invalid: the plain average over the half that is not acted on."""

    def cells(self, gains: Any, clock: Any) -> tuple[np.ndarray, np.ndarray, float]:
        weights_NxM, gain_NxExM, _ = super().cells(gains, clock)
        return weights_NxM / weights_NxM.sum(axis=-1, keepdims=True), gain_NxExM, 0.0


@pytest.mark.parametrize("chance", [0.1, 0.5])
def test_a_bet_against_samples_wins_at_most_one_on_average_and_the_plain_average_more(chance: float) -> None:
    """One step, all that can be drawn: two samples to act on, two to judge by, the outcome."""
    rows = all_sequences(2, 5)
    odds = np.where(rows == 1, chance, 1 - chance).prod(axis=1)
    values, outcome = 2.0 * rows[:, :4] - 1, 2.0 * rows[:, 4:] - 1
    gains = Gains(TRADE, np.broadcast_to(np.eye(3) - np.eye(3)[1], (len(rows), 3, 3)))  # position 0 is played
    own_NxE, means = gains.at(outcome)[..., 0], {}
    for form in (lr.Samples, Average):
        means[form] = odds @ (np.exp(2.0 * own_NxE) / charge(form(values), gains, 2.0, own_NxE))
    assert (means[lr.Samples] <= 1 + 1e-12).all()
    assert means[Average].max() > 1.05


@pytest.mark.parametrize("seed", range(4))
def test_no_law_with_these_quantiles_alarms_more_often_than_delta(seed: int) -> None:
    """By backward induction over all adaptive laws that put each bin's mass on a knot or a quantile of it."""
    rng, T, delta = np.random.default_rng(seed), 5, 0.5
    payoff = (TRADE, random_payoff(rng), SHOP, TRADE)[seed]
    values = np.sort(random_outcomes(rng, payoff, (T, 2)) * (8 if seed == 2 else 0.3), axis=-1)
    values = np.tile([-0.9, 0.0], (T, 1)) if seed == 0 else np.clip(values, *payoff.outcomes)
    places_T = [np.unique(np.concatenate([payoff.knots, row])) for row in values]
    sequences = np.array(list(itertools.product(*places_T)))
    forecast = lr.Quantiles([0.3, 0.6], np.broadcast_to(values, (len(sequences), T, 2)))
    chance: Any = alarms(payoff, delta, forecast, sequences).astype(float).reshape([len(places) for places in places_T])
    for t in reversed(range(T)):
        ends = [-math.inf, *values[t], math.inf]
        bins = [(places_T[t] >= low) & (places_T[t] <= high) for low, high in itertools.pairwise(ends)]
        chance = sum(mass * chance[..., bin_].max(axis=-1) for mass, bin_ in zip((0.3, 0.3, 0.4), bins, strict=True))
    assert chance <= delta * (1 + 1e-12)
    assert seed or chance > 0.2 * delta, "the worst law comes near"


@pytest.mark.parametrize("chance", [0.5, 0.8])
def test_samples_alarm_no_more_often_than_delta_and_twice_the_same_do(chance: float) -> None:
    """Everything that can be drawn in three steps: three samples and the outcome of each."""
    T, delta = 3, 0.5
    bits = (all_sequences(16, T)[..., None] >> np.arange(4)) & 1
    odds = np.where(bits == 1, chance, 1 - chance).prod(axis=(1, 2))
    values, outcomes = 2.0 * bits[..., :3] - 1, 2.0 * bits[..., 3] - 1
    found = {form: odds @ alarms(TRADE, delta, form(values), outcomes) for form in (lr.Samples, Twice)}
    assert found[lr.Samples] <= delta
    assert found[Twice] > found[lr.Samples]


def test_true_forecasts_of_continuous_laws_alarm_within_delta_and_the_same_samples_twice_do_not() -> None:
    """The interval of a binomial at delta: outside of it with chance 1e-4."""
    rng, N, T, delta = np.random.default_rng(0), 100, 400, 0.01
    scale = 0.2 + rng.random((N, T))
    outcomes, samples = scale * rng.normal(size=(N, T)), scale[..., None] * rng.normal(size=(N, T, 20))
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    forms = lr.Samples(samples), lr.Quantiles(levels, scale[..., None] * stats.norm.ppf(levels)), Twice(samples)
    *true, twice = (alarms(TRADE, delta, form, outcomes).sum() for form in forms)
    assert max(true) <= stats.binom.ppf(1 - 1e-4, N, delta) < twice


def test_the_bound_in_the_end_is_that_of_every_alarm_to_come() -> None:
    """Before the first step that of the test for states; later over every step at which an alarm could still sound."""
    T, delta, J = 60, 0.05, TRADE.span
    guard = lr.Guard(TRADE, test=lr.ExactTest(delta, T), response=lr.QuantalResponse(0.2))
    prior, after = prior_of(guard.setting), guard.setting.play.regret_after(TRADE, T, 0.2)(np.arange(T + 1))
    kappa_K, costs_K = kappa(TRADE, prior.rates_K, 0.2), -np.log(prior.weights_K(1) * delta)
    before_T = every_start.before_alarm(evenly(kappa_K), prior.rates_K, costs_K, J, np.arange(T + 1))
    whole = max(before_T[-1], np.max(before_T[:-1] + J + after[-2::-1]))
    assert guard.certificate.regret_bound * T == pytest.approx(whole)
    paid_AxK: Any = 0.0
    for y in np.random.default_rng(0).normal(0, 0.4, 25):
        forecast = lr.Quantiles([0.2, 0.5, 0.8], [-0.35, 0.0, 0.35])
        gains = Gains(TRADE, (np.eye(3) - guard.advise(forecast).policy)[None])
        paid_AxK += np.log([charge(forecast.at((None,)), gains, rate)[0] for rate in prior.rates_K]).T
        guard.observe(y)

    def before(steps: int) -> float:
        by_charges = (paid_AxK + (steps - 25) * kappa_K + costs_K) / prior.rates_K
        return min(float(by_charges.min(axis=-1).max()), steps * J)

    ends = [before(T)] + [before(tau - 1) + J + after[T - tau] for tau in range(26, T + 1)]
    assert guard.certificate.regret_bound * T == pytest.approx(max(ends))
    assert guard.certificate.regret_bound < J


def test_a_break_is_found_and_what_is_lost_is_within_the_certificate() -> None:
    """Demand falls to a fraction at step 60 of 160, and the forecasts go on; without knots samples still go."""
    rng, T = np.random.default_rng(3), 160
    demand = np.where(np.arange(T) < 60, rng.gamma(6, 5, T), rng.gamma(2, 2, T))
    levels = np.linspace(0.05, 0.95, 19)
    quantiles = lr.Quantiles(levels, stats.gamma.ppf(levels, 6, scale=5))
    for form in (lambda: quantiles, lambda: lr.Samples(rng.gamma(6, 5, 100))):
        guard = lr.Guard(SHOP, test=lr.ExactTest(0.01, T))
        for y in demand:
            guard.advise(form())
            guard.observe(y)
        alarm = guard.events[0]
        assert 60 < alarm.step < 110
        assert alarm.action == 0, "to order nothing is best from then on"
        assert guard.regret <= guard.certificate.regret_bound < 0.45
    blind = lr.Guard(BLIND, test=lr.ExactTest(0.1, 60))
    for y in rng.normal(-0.5, 0.2, 60):
        blind.advise(lr.Samples(rng.normal(0.5, 0.2, 40)))
        blind.observe(y)
    assert blind.switched
    assert blind.share < 0.5
