"""FirstTest for two actions and two states with one layer fewer: its bets are priced by ReLUs, on the safe side.

With z the logit of state 1, g(s) the gain in state s and D = g(1) - g(0), a step costs the bettor at rate lam

    psi(lam) - lam g(token) = softplus(z + lam D) - softplus(z) - lam D [token = 1].

The first softplus is replaced by chords above it, the second by tangents below it (``above``, ``below``), so that the
wealth built is never larger than the wealth that is a martingale: the alarm comes with the rule's or later, and TV <=
delta stays. Later by little: ln E falls short by at most ``shortfall`` a step.
"""

from typing import NamedTuple

import numpy as np

from ..rules import FirstTest
from . import gadgets
from .exact import rates_in_units, scale, slack_of, verdict, verdict_columns, verdict_sizes
from .layers import Perceptron
from .parts import Parts, Sharpness, Stage, answer_sizes, utility_in_units
from .residual import Residual

# ln(1 + exp(x)) from above and from below, as sums of ReLUs that only add: for the exact test's wealth.


class Broken(NamedTuple):
    """A convex broken line: ``level + sum of rise * relu(x - kink)``, every rise positive, so nothing cancels."""

    level: float
    kink_F: np.ndarray
    rise_F: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.level + np.maximum(x[..., None] - self.kink_F, 0) @ self.rise_F


def above(n: int) -> Broken:
    """Chords of softplus between ``n`` points, constant before them and of slope one after.

    A chord of length h lies above a convex f by at most h^2 max f'' / 8. The points are spread evenly in
    2 atan(exp(x/2)), whose derivative is sqrt(f''): each chord then costs about (pi / (n + 1))^2 / 8, either end twice
    that.

    >>> x = np.linspace(-40, 40, 4001)
    >>> error = above(256)(x) - np.logaddexp(0, x)
    >>> bool(error.min() >= 0), float(error.max().round(6))
    (True, 3.7e-05)
    """
    point_F = _points(np.arange(1, n + 1) / (n + 1))
    value_F = np.logaddexp(0, point_F)
    slopes = np.concatenate([[0.0], np.diff(value_F) / np.diff(point_F), [1.0]])
    return Broken(float(value_F[0]), point_F, np.diff(slopes))


def below(n: int) -> Broken:
    """The largest of ``n - 1`` tangents of softplus, of zero and of x: ``n`` kinks, each where two neighbours meet.

    Between touching points h apart a tangent is at most h^2 max f'' / 8 below f, to first order: as in ``above``.

    >>> x = np.linspace(-40, 40, 4001)
    >>> error = np.logaddexp(0, x) - below(256)(x)
    >>> bool(error.min() >= -1e-12), float(error.max().round(6))
    (True, 1.9e-05)
    """
    point_F = _points(np.arange(1, n) / n)
    slope_F = 1 / (1 + np.exp(-point_F))
    # The tangent at x is slope * (. - x) + softplus(x); its level at 0 is the entropy of its slope.
    level_F = np.logaddexp(0, point_F) - slope_F * point_F
    slope_F = np.concatenate([[0.0], slope_F, [1.0]])
    level_F = np.concatenate([[0.0], level_F, [0.0]])
    rise_F = np.diff(slope_F)
    return Broken(0.0, -np.diff(level_F) / rise_F, rise_F)


def _points(shares: np.ndarray) -> np.ndarray:
    return 2 * np.log(np.tan(np.pi / 2 * shares))


KNOTS = 256


def shortfall(knots: int = KNOTS) -> float:
    """How much less ln E grows in a step than it should, at most: both softplus errors, found on a fine grid.

    >>> f"{shortfall():.1e}"
    '5.6e-05'
    """
    x = np.linspace(-40, 40, 80_001)
    exact = np.logaddexp(0, x)
    return float((above(knots)(x) - exact).max() + (exact - below(knots)(x)).max())


def shallow_parts(rule: FirstTest, sharpness: Sharpness) -> Parts:
    """Respond, fetch and price in one layer; then as the exact form."""
    problem, temperature, rates_K, K = rule.problem, rule.temperature, rates_in_units(rule), len(rule.rates_K)
    if (problem.n_actions, problem.n_states) != (2, 2):
        raise ValueError(
            "shallow is for a FirstTest with two actions and two states only: its problem has "
            f"{problem.n_actions} and {problem.n_states}"
        )
    assert temperature is not None
    utility_AxS = utility_in_units(problem)
    advantage_S = utility_AxS[1] - utility_AxS[0]

    def stages(x: Residual) -> list[Stage]:
        ahead = x["urn answer"] - x["base answer"]  # by how much the urn's response plays action 1 more
        edge = (advantage_S[1] - advantage_S[0]) * ahead  # D
        fetches = [
            *(
                gadgets.fetch_sigmoid(x, law, problem.advantage[0], temperature, f"{law} answer")
                for law in ("base", "urn")
            ),
            gadgets.fetch(x, x["logits"] - x["logits"].mean(axis=0), "odds"),
        ]
        gains = [
            gadgets.of_token(x, advantage_S[:, None] * ahead, "gain"),
            gadgets.of_token(x, np.concatenate([0 * edge, edge]), "edge"),
            wagers(x, edge, rates_K),
            gadgets.excluded(x, x["odds"], "excluded"),
        ]
        level = above(KNOTS).level
        won_KxD = rates_K[:, None] * x["edge"] + x["wagered"] - level * x["is_token"]
        return [
            Stage(fetches, gains),
            Stage([gadgets.running_sum(x, np.concatenate([won_KxD, x["gain"]]), "sums")], []),
            *verdict(x, rule, scale(rule) * x["sums"][:K], sharpness),
        ]

    sizes = {**answer_sizes(rule, ["base", "urn"]), "odds": 2, "gain": 1, "edge": 1, "excluded": 1, "wagered": K}
    late = slack_of(rule, sharpness) + shortfall() * scale(rule) / 2
    return Parts({**sizes, **verdict_sizes(rule)}, verdict_columns(rule), {}, K, stages, late)


def wagers(x: Residual, edge: np.ndarray, rates_K: np.ndarray) -> Perceptron:
    """softplus(z) from below minus softplus(z + lam D) from above, less its level, for every rate; 0 on registers.

    The errors of both add up to ``shortfall``, on the safe side. Registers pay SHUT in every unit: as their
    z + lam D is less than that (|z| <= -ln LEAST, |lam D| <= 8), no unit opens there.
    """
    upper, lower, K = above(KNOTS), below(KNOTS), len(rates_K)
    odds = x["odds"][1:] - x["odds"][:1]
    shut = gadgets.SHUT * x["register"].sum(axis=0)
    inner, outer = [], np.zeros((K, (K + 1) * KNOTS))
    for k, rate in enumerate(rates_K):
        inner.append(odds + rate * edge - upper.kink_F[:, None] * x["one"] - shut)
        outer[k, k * KNOTS : (k + 1) * KNOTS] = -upper.rise_F
    inner.append(odds - lower.kink_F[:, None] * x["one"] - shut)
    outer[:, K * KNOTS :] = lower.rise_F
    return Perceptron("wagers", np.concatenate(inner), outer, x.at("wagered"))
