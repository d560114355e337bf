"""Late outcomes: the factor a_d, what classes lose together, and the certificate of the notes."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize

import lowregret as lr
from lowregret.certificates import coupled

MATCHING = lr.matching()


@pytest.mark.parametrize("lag", [2, 3, 5, 10, 20, 50])
def test_the_factor_is_that_of_harmonic_means(lag: int) -> None:
    """1/E is a p-value: by what a harmonic mean of d of them must be multiplied is known in another closed form."""
    root = 0.0
    if lag > 2:  # y^2 = d ((y+1) ln(y+1) - y), and a = (y+d)^2 / ((y+1) d)
        root = optimize.brentq(lambda y: y * y - lag * ((y + 1) * math.log1p(y) - y), 1e-3, 1e3 * lag)
    assert coupled.late_factor(lag) == pytest.approx((root + lag) ** 2 / ((root + 1) * lag), rel=1e-7)


@pytest.mark.parametrize(("lag", "points"), [(2, 40), (3, 16)])
def test_no_dependence_between_classes_beats_the_factor(lag: int, points: int) -> None:
    """The worst joint law of M_1 .. M_d with P(M_r >= x) <= 1/x, by linear programming over a grid."""
    level = 10.0  # the average that must be reached
    grid = np.append(1.0, np.linspace(0.3 * level, lag * level, points - 1))
    cells = np.array(list(itertools.product(range(points), repeat=lag)))
    reached = grid[cells].mean(axis=1) >= level * (1 - 1e-12)
    rows = [(cells[:, r] >= i).astype(float) for r in range(lag) for i in range(1, points)]
    limits = [1 / grid[i] for _ in range(lag) for i in range(1, points)]
    found = optimize.linprog(-1.0 * reached, A_ub=np.array(rows), b_ub=limits, A_eq=np.ones((1, len(cells))), b_eq=[1])
    assert 0.9 * coupled.late_factor(lag) < -found.fun * level <= coupled.late_factor(lag) * (1 + 1e-9)


@pytest.mark.parametrize("response", [lr.BestResponse(), lr.QuantalResponse()])
@pytest.mark.parametrize(("T", "lag"), [(120, 2), (120, 5), (1200, 3)])
def test_what_is_promised_to_the_model_and_as_actions_are_drawn(T: int, lag: int, response: lr.engine.Response) -> None:
    """To the model at the earliest alarm; the bound itself is written out in test_worst_alarm.py."""
    guard = lr.Guard(MATCHING, test=lr.ExactTest(0.01, T), response=response, lag=lag)
    eta, H, given = guard.setting.temperature, T // lag, guard.certificate
    assert given.tv_bound == pytest.approx(0.01, rel=1e-12)
    after = guard.setting.play.regret_after(MATCHING, H, eta)(np.arange(H + 1))
    earliest = sum(after[H - (r == 0)] for r in range(lag))
    assert earliest * (1 - 1e-12) <= T * given.against_model <= lag * after[H] * 1.01
    most, drawn = math.sqrt(T * math.log(100) / 2) / T, given.realised(0.99)
    extra = sum(drawn.terms.values()) - sum(given.terms.values())
    assert 0 < extra <= most * (1 + 1e-9)
    assert eta == 0 or extra == pytest.approx(most)
