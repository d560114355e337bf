"""Late outcomes: the factor a_d, what classes lose together, and the certificate of the notes."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize

import lowregret as lr
from lowregret.certificates import coupled, switching
from lowregret.engine import prior_of

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


def test_the_plain_average_alarms_too_often() -> None:
    """W_1 = 3 with chance 1/3 is seen first; W_2 = 4 with chance 1/4 comes only where W_1 = 0: 7/12 against 1/2."""
    worlds = [(1 / 3, 3.0, 0.0), (1 / 4, 0.0, 4.0), (5 / 12, 0.0, 0.0)]
    assert sum(p * first for p, first, _ in worlds) == sum(p * second for p, _, second in worlds) == pytest.approx(1)
    delta = 1 / 2

    def alarms(level: float) -> float:
        return sum(p for p, first, second in worlds if max((first + 1) / 2, (first + second) / 2) >= level)

    assert alarms(1 / delta) == pytest.approx(7 / 12)
    assert alarms(coupled.late_factor(2) / delta) == 0


def test_what_is_dealt_out_and_made_concave() -> None:
    each = np.array([0.0, 3.0, 4.0])
    assert switching.dealt(each.__getitem__, 2, 2, np.arange(5)).tolist() == [0, 3, 6, 7, 8]
    for seed in range(20):
        values = np.random.default_rng(seed).uniform(0, 1, 12).cumsum()
        found = switching.concave(values.__getitem__, 11)(np.arange(12))
        chords = [
            max(
                values[i] if i == j else values[i] + (values[j] - values[i]) * (n - i) / (j - i)
                for i in range(n + 1)
                for j in range(n, 12)
                if i < j or i == n
            )
            for n in range(12)
        ]
        np.testing.assert_allclose(found, chords, rtol=1e-12)


@pytest.mark.parametrize("response", [lr.BestResponse(), lr.QuantalResponse()])
@pytest.mark.parametrize(("T", "lag"), [(120, 2), (120, 5), (1200, 3)])
def test_the_certificate_is_the_notes_formula_or_sharper(T: int, lag: int, response: lr.engine.Response) -> None:
    """B_d(tau-1) + d J + d F(ceil((T-tau-d+1)/d)) at its worst, where the lag divides the horizon."""
    guard = lr.Guard(MATCHING, test=lr.ExactTest(0.01, T), response=response, lag=lag)
    prior, eta, H = prior_of(guard.setting), guard.setting.temperature, T // lag
    kappa_K = coupled.kappa(MATCHING, prior.rates_K, eta)
    after = guard.setting.play.regret_after(MATCHING, H, eta)(np.arange(H + 1))
    costs_K = prior.log_costs_K(0.01) + math.log(coupled.late_factor(lag))
    totals = [
        min(tau - 1, float(np.min(((tau - 1) * kappa_K + lag * costs_K) / prior.rates_K)))
        + lag
        + lag * after[-(-max(T - tau - lag + 1, 0) // lag)]
        for tau in range(1, T + 1)
    ]
    given = guard.certificate
    assert sum(given.terms.values()) * T == pytest.approx(max(totals), rel=0.03)
    assert given.tv_bound == pytest.approx(0.01, rel=1e-12)
    # To the model, at the earliest alarm; and as actions are drawn.
    earliest = sum(after[H - (r == 0)] for r in range(lag))
    assert earliest * (1 - 1e-12) <= T * given.against_model <= lag * after[H] * 1.01
    most, drawn = math.sqrt(T * math.log(100) / 2) / T, given.realised(0.99)
    extra = sum(drawn.terms.values()) - sum(given.terms.values())
    assert 0 < extra <= most * (1 + 1e-9)
    assert eta == 0 or extra == pytest.approx(most)
