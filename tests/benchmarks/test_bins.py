"""Outcomes as states: mass is conserved; what stands for a range, and what that costs."""

import math
from typing import Any

import numpy as np
import pytest
from benchmarks.decisions.bins import Bins

import lowregret as lr

from ..outcome_cases import BLIND, FORMS, SHOP, TRADE, random_forecast, random_outcomes, random_payoff


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_bins_conserve_mass(form: str, seed: int) -> None:
    """Against counts, for many draws; edges on values, mass beyond the edges, ranges of every kind."""
    rng = np.random.default_rng([seed, FORMS.index(form)])
    forecast: Any = random_forecast(rng, form, TRADE, (5,))
    edges = np.sort(rng.normal(0, 2, 5))
    edges[2] = forecast.values[0, 0]
    edges.sort()
    ends = ([-math.inf], [math.inf]) if seed % 2 else ([edges[0] - 1], [edges[-1] + 1])
    bins = Bins(np.concatenate([ends[0], edges, ends[1]]))
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
    levels, values = forecast.levels, forecast.values[n]
    if y < values[0]:
        return 0.0
    for k in range(len(values) - 1):
        if values[k] <= y < values[k + 1]:
            return float(levels[k] + (levels[k + 1] - levels[k]) * (y - values[k]) / (values[k + 1] - values[k]))
    return 1.0


def test_what_stands_for_a_range_is_the_mean_of_what_was_recorded_there() -> None:
    outcomes = [0.0, 4.0, 8.0, 10.0, 33.0]
    bins = Bins([0, 10, 20, 30, math.inf], outcomes)
    assert bins.representatives.tolist() == [5.5, 15.0, 25.0, 33.0]
    assert bins.counts.tolist() == [4, 0, 0, 1]
    assert bins.unseen == ((10.0, 20.0), (20.0, 30.0))
    assert Bins([-math.inf, 3.0, math.inf]).representatives.tolist() == [3.0, 3.0]
    assert Bins([-math.inf, math.inf]).representatives.tolist() == [0.0]
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
    bins = Bins([low, *np.sort(rng.uniform(low, high, 4)), high], outcomes)
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
    bins = Bins([-2.0, 0.0, 2.0], [-1.0, -0.5, 0.1, 0.9])
    known, seen = bins.gap(TRADE), bins.gap(BLIND)
    assert seen.worst <= known.worst
    assert seen.mean == pytest.approx(known.mean)
    with pytest.raises(ValueError, match="gap needs a Payoff with knots"):
        Bins([-2.0, 0.0, 2.0]).gap(BLIND)
    with pytest.raises(ValueError, match="forecast must be Samples"):
        bins.probs([0.5, 0.5])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="payoff must be a Payoff"):
        bins.problem(lr.matching())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edges", "outcomes", "says"),
    [
        ([1.0, 0.0], None, "edges must increase"),
        ([1.0], None, "edges must be a list of at least two"),
        ([0.0, 1.0], [2.0], "outcomes must lie within the edges"),
    ],
)
def test_bad_edges_are_refused_by_name(edges: list[float], outcomes: list[float] | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Bins(edges, outcomes)


def test_edges_that_are_close_are_told_apart() -> None:
    stall = lr.Payoff(lambda order, demand: np.minimum(order, demand), [0.0, 1.0], 0, 1)
    states = Bins([0.0, 1.0, 1.0000001, 2.0], [0.5, 1.5]).problem(stall).states
    assert states == ("0.0 to 1.0", "1.0 to 1.0000001", "1.0000001 to 2.0")
