"""Outcomes as states: mass is conserved; what stands for a range."""

import math
from typing import Any

import numpy as np
import pytest
from benchmarks.decisions.bins import Bins

import lowregret as lr

from ..outcome_cases import FORMS, TRADE, random_forecast


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
    bins = Bins([0, 10, 20, 30, math.inf], [0.0, 4.0, 8.0, 10.0, 33.0])
    assert bins.representatives.tolist() == [5.5, 15.0, 25.0, 33.0]
    assert bins.counts.tolist() == [4, 0, 0, 1]
    assert Bins([-math.inf, 3.0, math.inf]).representatives.tolist() == [3.0, 3.0]
    assert Bins([-math.inf, math.inf]).representatives.tolist() == [0.0]
