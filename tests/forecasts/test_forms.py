"""Samples and quantiles: every form has an example, and samples are dealt; what is at stake."""

import inspect
import math

import numpy as np
import pytest

import lowregret as lr

from ..outcome_cases import BLIND, FORMS, ORDERS, SHOP, random_forecast


def test_every_form_has_an_example() -> None:
    rng = np.random.default_rng(0)
    shown = {type(random_forecast(rng, form, SHOP, ())) for form in FORMS}
    public = [getattr(lr.forecasts, name) for name in lr.forecasts.__all__]
    forms = {kind for kind in public if inspect.isclass(kind) and lr.forecasts.Forecast in kind.__mro__[1:]}
    assert forms == shown, "add an example of each to random_forecast and FORMS"


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
