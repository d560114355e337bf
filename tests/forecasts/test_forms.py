"""Samples, quantiles, densities and bins: mass is conserved; what stands for a range, and what that costs."""

import inspect
import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr

from ..outcome_cases import BLIND, FORMS, ORDERS, SHOP, TRADE, random_forecast, random_outcomes, random_payoff


def test_every_form_has_an_example() -> None:
    rng = np.random.default_rng(0)
    shown = {type(random_forecast(rng, form, SHOP, ())) for form in FORMS}
    public = [getattr(lr.forecasts, name) for name in lr.forecasts.__all__]
    forms = {kind for kind in public if inspect.isclass(kind) and lr.forecasts.Forecast in kind.__mro__[1:]}
    assert forms == shown, "add an example of each to random_forecast and FORMS"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_bins_conserve_mass(form: str, seed: int) -> None:
    """Against counts, for many draws; edges on values, mass beyond the edges, ranges of every kind."""
    rng = np.random.default_rng([seed, FORMS.index(form)])
    forecast: Any = random_forecast(rng, form, TRADE, (5,))
    edges = np.sort(rng.normal(0, 2, 5))
    if form != "density":
        edges[2] = forecast.values[0, 0]
        edges.sort()
    ends = ([-math.inf], [math.inf]) if seed % 2 else ([edges[0] - 1], [edges[-1] + 1])
    bins = lr.forecasts.Bins(np.concatenate([ends[0], edges, ends[1]]))
    probs = bins.probs(forecast)
    assert probs.shape == (5, 6)
    assert (probs >= 0).all()
    np.testing.assert_allclose(probs.sum(axis=-1), 1, rtol=1e-14)
    for n in range(5):
        below = np.array([literal_cdf(forecast, n, edge) for edge in edges])
        np.testing.assert_allclose(probs[n], np.diff(below, prepend=0.0, append=1.0), atol=1e-12)


def literal_cdf(forecast: Any, n: int, y: float) -> float:
    if isinstance(forecast, lr.Samples):
        return float(np.mean([value <= y for value in forecast.values[n]]))
    if isinstance(forecast, lr.Quantiles):
        levels, values = forecast.levels, forecast.values[n]
        if y < values[0]:
            return 0.0
        for k in range(len(values) - 1):
            if values[k] <= y < values[k + 1]:
                return float(levels[k] + (levels[k + 1] - levels[k]) * (y - values[k]) / (values[k + 1] - values[k]))
        return 1.0
    grid, weights = forecast.grid, forecast.weights[n]
    fine = np.union1d(grid, np.clip(y, grid[0], grid[-1]))
    heights = np.interp(fine, grid, weights)
    mass = np.diff(fine) * (heights[1:] + heights[:-1]) / 2
    return float(mass[fine[1:] <= y].sum() / mass.sum())


def test_what_stands_for_a_range_is_the_mean_of_what_was_recorded_there() -> None:
    outcomes = [0.0, 4.0, 8.0, 10.0, 33.0]
    bins = lr.forecasts.Bins([0, 10, 20, 30, math.inf], outcomes)
    assert bins.representatives.tolist() == [5.5, 15.0, 25.0, 33.0]
    assert bins.counts.tolist() == [4, 0, 0, 1]
    assert bins.unseen == ((10.0, 20.0), (20.0, 30.0))
    assert lr.forecasts.Bins([-math.inf, 3.0, math.inf]).representatives.tolist() == [3.0, 3.0]
    assert lr.forecasts.Bins([-math.inf, math.inf]).representatives.tolist() == [0.0]
    problem = bins.problem(SHOP)
    assert problem.in_payoffs(problem.utility) == pytest.approx(
        np.array([SHOP.payoffs(r) for r in bins.representatives]).T
    )
    assert problem.states[1] == "10 to 20"
    assert problem.actions[2] == "20.0"


@pytest.mark.parametrize("seed", range(6))
def test_the_gap_is_what_a_step_can_lose_more(seed: int) -> None:
    """Against a fine grid of outcomes; and regret at outcomes is at most regret at representatives plus the gap."""
    rng = np.random.default_rng(seed)
    payoff, T = random_payoff(rng), 60
    outcomes = random_outcomes(rng, payoff, (T,))
    low, high = max(payoff.outcomes[0], -12.0), min(payoff.outcomes[1], 12.0)
    bins = lr.forecasts.Bins([low, *np.sort(rng.uniform(low, high, 4)), high], outcomes)
    gap, stand = bins.gap(payoff), payoff.payoffs(bins.representatives)
    fine = np.linspace(low, high, 20_001)
    more = payoff.payoffs(fine) - stand[:, bins.states(fine)]
    apart = more.max(axis=0) - more.min(axis=0)
    assert gap.worst == gap.by_state.max() >= apart.max() - 1e-12
    assert gap.worst == pytest.approx(apart.max(), abs=0.05)
    assert gap.mean is not None
    assert gap.mean <= gap.worst + 1e-12
    played = rng.dirichlet(np.ones(payoff.n_actions), T).T
    true, binned = payoff.payoffs(outcomes), stand[:, bins.states(outcomes)]
    regrets = [(paid - (played * paid).sum(axis=0)).mean(axis=1).max() for paid in (true, binned)]
    assert regrets[0] <= regrets[1] + gap.mean + 1e-12


def test_without_knots_the_gap_is_measured_on_what_was_recorded() -> None:
    bins = lr.forecasts.Bins([-2.0, 0.0, 2.0], [-1.0, -0.5, 0.1, 0.9])
    known, seen = bins.gap(TRADE), bins.gap(BLIND)
    assert seen.worst <= known.worst
    assert seen.mean == pytest.approx(known.mean)
    with pytest.raises(ValueError, match="gap needs a Payoff with knots"):
        lr.forecasts.Bins([-2.0, 0.0, 2.0]).gap(BLIND)
    with pytest.raises(ValueError, match="forecast must be Samples"):
        bins.probs([0.5, 0.5])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="payoff must be a Payoff"):
        bins.problem(lr.matching())  # type: ignore[arg-type]


def test_a_payoff_knows_what_is_at_stake() -> None:
    """The span and the contrast of piecewise straight payoffs, against a fine grid."""
    fine = SHOP.utilities(np.linspace(0, 60, 60_001))
    assert SHOP.span == pytest.approx((fine.max(axis=0) - fine.min(axis=0)).max()) == pytest.approx(1.2)
    apart = fine[:, None] - fine
    assert SHOP.contrast == pytest.approx((apart.max(axis=-1) - apart.min(axis=-1)).max())
    assert SHOP.in_payoffs(SHOP.utilities(np.array(12.0))).tolist() == pytest.approx([0.0, 20.0, 0.0, -30.0])
    assert SHOP.knots.tolist() == list(ORDERS)
    assert BLIND.span == 2
    assert BLIND.contrast == 4
    assert SHOP.n_actions == 4
    assert "4 actions" in repr(SHOP)
    scalar = lr.Payoff(lambda a, y: float(a), [0.0, 1.0], 0, 1)  # what does not depend on the outcome
    assert scalar.payoffs([1.0, 2.0]).tolist() == [[0.0, 0.0], [1.0, 1.0]]
    with pytest.raises(ValueError, match=r"fn must return payoffs of the outcomes' shape \(2,\)"):
        lr.Payoff(lambda a, y: [1.0, 2.0, 3.0], [0], 0, 5).payoffs([1.0, 2.0])


def test_samples_are_dealt_anew_each_step_whatever_their_order() -> None:
    """Every sample is acted on about as often as it is judged by, sorted or not."""
    values = np.arange(6.0)
    acted = np.zeros(6)
    for clock in range(2000):
        law = lr.Samples(values).law(BLIND, clock)
        assert len(law.points) == 3
        acted[law.points.astype(int)] += 1
    assert np.abs(acted / 2000 - 0.5).max() < 4.5 * 0.5 / math.sqrt(2000)  # beyond with chance 1e-4 for six
