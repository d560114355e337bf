"""Proper scoring rules for two states (Appendix C), which are decision problems in other clothes.

A forecast p is the chance of state 1, an outcome y is 0 or 1. What a best response loses is a proper scoring rule
(``scoring_rule_of``), and a proper scoring rule is what a best response loses, or nearly (``problem_of``).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, as_array, astype, constant, count_up, namespace, running_sum
from ..problems import DecisionProblem, two_states
from .tips import envelope, sequences_of, unit_numbers

_LOOKED_AT = np.linspace(0.0, 1.0, 257)  # the forecasts at which a claimed rule is tried
_EXACT = 1e-12  # a Bayes risk met as closely as this is met


@dataclass(frozen=True)
class ScoringRule:
    """A bounded proper scoring rule (Definition C.1): no forecast costs less, in expectation, than the truth.

    ``loss(p, y)`` is what forecast p costs when y comes, for arrays too. It is tried on a grid of 257 forecasts, and
    refused if some forecast p beats the truth q. ``name`` is what printed output calls it.

    >>> float(ScoringRule(lambda p, y: (y - p) ** 2).bayes_risk(0.5))
    0.25
    >>> ScoringRule(lambda p, y: abs(y - p), name="absolute")
    Traceback (most recent call last):
    ...
    ValueError: loss must be proper, and absolute is not: if the truth is q = 0.25, p = 0 costs 0.25, q 0.375
    """

    loss: Callable[[Array, Array], Array]
    name: str = "loss"

    def __post_init__(self) -> None:
        q = _LOOKED_AT
        with np.errstate(all="ignore"):
            costs_2xP = np.stack([np.broadcast_to(self.loss(q, y), q.shape) for y in (0, 1)])
        if not np.isfinite(costs_2xP).all():
            y, at = np.argwhere(~np.isfinite(costs_2xP))[0]
            raise ValueError(f"loss must be finite, and {self.name}({q[at]:g}, {y}) is {costs_2xP[y, at]}")
        costs_QxP = np.stack([1 - q, q], axis=1) @ costs_2xP
        lead = costs_QxP - costs_QxP.diagonal()[:, None]
        truth, other = np.unravel_index(int(lead.argmin()), lead.shape)
        if lead[truth, other] < -_EXACT * max(1.0, float(np.abs(costs_2xP).max())):
            costs = costs_QxP[truth, other], costs_QxP[truth, truth]
            raise ValueError(
                f"loss must be proper, and {self.name} is not: if the truth is q = {q[truth]:.4g}, "
                f"p = {q[other]:.4g} costs {costs[0]:.6g}, q {costs[1]:.6g}"
            )

    def bayes_risk(self, p: Array) -> Array:
        """The expected loss of forecasting p when p is the truth; concave in p."""
        return (1 - p) * self.loss(p, 0) + p * self.loss(p, 1)

    def regret(self, p: Array, tokens: Array) -> Array:
        """The average regret of every prefix ``[..., T]`` to the best constant forecast: the share of ones so far.

        ``p`` are forecasts ``[..., T]`` of state 1, or of both ``[..., T, 2]``.

        >>> brier().regret([0.5, 0.5, 0.5], [1, 0, 1]).round(4).tolist()
        [0.25, 0.0, 0.0278]
        """
        p, tokens = sequences_of(p, tokens)
        steps = astype(count_up(p, 1, p.shape[-1] + 1), p.dtype)
        return running_sum(self.loss(p, tokens)) / steps - self.bayes_risk(running_sum(tokens) / steps)


def brier() -> ScoringRule:
    """The squared error (y - p)^2; its Bayes risk is p (1 - p).

    >>> round(brier().loss(0.9, 1), 6)
    0.01
    """
    return ScoringRule(lambda p, y: (y - p) ** 2, "brier")


def spherical() -> ScoringRule:
    """Minus the chance given to what came, over the length of the forecast: -p_y / sqrt(p^2 + (1 - p)^2).

    >>> spherical().loss(1.0, 1)
    -1.0
    """
    return ScoringRule(lambda p, y: -(1 - p + y * (2 * p - 1)) / (p**2 + (1 - p) ** 2) ** 0.5, "spherical")


def log_loss(floor: float) -> ScoringRule:
    """-ln of the chance given to what came, forecasts first moved into [floor, 1 - floor]: bounded, and still proper.

    >>> float(log_loss(0.01).loss(0.0, 1)) == -math.log(0.01)
    True
    """
    floor = inputs.probability(floor, "floor")
    if floor >= 0.5:
        raise ValueError(f"floor must be below 1/2, got {floor!r}")

    def loss(p: Array, y: Array) -> Array:
        xp = namespace(p)
        p = xp.clip(p, floor, 1 - floor)
        return (y - 1) * xp.log1p(-p) - y * xp.log(p)

    return ScoringRule(loss, "log_loss")


def v_shaped(tip: float) -> ScoringRule:
    """Definition C.3: sign(tip - p) (y - tip), 0 at the tip; its Bayes risk is -|p - tip|.

    >>> float(v_shaped(0.25).loss(0.9, 0))  # above the tip, and then it did not come
    0.25
    """
    if not 0 <= tip <= 1:
        raise ValueError(f"tip must lie in [0, 1], got {tip!r}")
    return ScoringRule(lambda p, y: namespace(p).sign(tip - p) * (y - tip), "v_shaped")


def scoring_rule_of(problem: DecisionProblem) -> ScoringRule:
    """Lemma C.2: minus the utility of the best response, whose regret is the best response's, forecast by forecast.

    Ties go as in ``problem.best_response``, to the lowest index: with that the lemma holds on the tips as well.

    >>> from lowregret import matching
    >>> scoring_rule_of(matching()).regret([0.9, 0.9, 0.2], [0, 1, 1]).round(3).tolist()
    [1.0, 0.0, 0.333]
    """
    two_states(problem)

    def loss(p: Array, y: Array) -> Array:
        p = as_array(p)
        action = problem.best_response(namespace(p).stack([1 - p, p], axis=-1))
        in_0, in_1 = (constant(np.ascontiguousarray(column), p)[action] for column in problem.utility.T)
        return -(in_0 + y * (in_1 - in_0))

    return ScoringRule(loss, "best_response")


class Approximation(NamedTuple):
    """A problem whose actions are constant forecasts, in place of a scoring rule."""

    problem: DecisionProblem  # payoffs are minus the rule's losses: problem.in_payoffs(utility) = -loss
    forecasts: np.ndarray  # [A], rising: what each action forecasts
    error: float  # by how much its Bayes risk exceeds the rule's at most, in units of loss


def problem_of(rule: ScoringRule, n_actions: int | None = None, forecasts: Any = None) -> Approximation:
    """Lemma C.2, the converse: a decision problem that stands for a scoring rule, and by how much it misses it.

    Its actions are the ``forecasts`` given, or at most ``n_actions``. If the Bayes risk is piecewise linear, the fewest
    that make it exact are found; it cannot be exact otherwise, and the largest error is made as small as it can be: all
    errors between neighbours are then equal.

    >>> problem_of(brier(), 5).forecasts.round(6).tolist()
    [0.1, 0.3, 0.5, 0.7, 0.9]
    >>> round(problem_of(brier(), forecasts=[0, 0.25, 0.5, 0.75, 1]).error * 4 * 4**2, 6)  # 1 / (4 (n - 1)^2)
    1.0
    >>> problem_of(v_shaped(0.3), 5).problem.n_actions
    2
    """
    if (n_actions is None) == (forecasts is None) or (forecasts is not None and not len(forecasts)):
        raise ValueError("problem_of needs n_actions or forecasts, one of them, and at least one")
    if forecasts is None:
        forecasts_A = _best_forecasts(rule, inputs.whole(n_actions, "n_actions"))
    else:
        forecasts_A = np.unique(unit_numbers(forecasts, "forecasts"))
    payoffs = -np.stack([np.broadcast_to(rule.loss(forecasts_A, y), forecasts_A.shape) for y in (0, 1)], axis=1)
    # The error is convex where one action is best, so it is largest on a tip or at an end.
    ends = np.concatenate([[0.0], envelope(payoffs).tips, [1.0]])
    risk = -np.max(np.stack([1 - ends, ends], axis=1) @ payoffs.T, axis=1)
    error = float(np.max(risk - rule.bayes_risk(ends)))
    short = [f"{forecast:.4g}" for forecast in forecasts_A]
    names = short if len(set(short)) == len(short) else forecasts_A.tolist()  # all different
    return Approximation(DecisionProblem.from_payoffs(payoffs, actions=names), forecasts_A, max(0.0, error))


def _best_forecasts(rule: ScoringRule, n: int) -> np.ndarray:
    """At most n forecasts with the least largest error: the least error for which a greedy cover from 0 needs no more.

    A forecast q costs too much at p by a Bregman divergence, which grows with the distance from p to q: so each
    forecast is as far right as its cell's left end allows, and each cell ends where its forecast has to.
    """

    def excess(p: Array, q: Array) -> Array:
        return (1 - p) * rule.loss(q, 0) + p * rule.loss(q, 1) - rule.bayes_risk(p)

    def cover(error: float) -> tuple[list[float], list[float]] | None:
        ends, chosen = [0.0], list[float]()
        while len(chosen) < n:
            # A step back from where the loss may jump: rounding must not decide on which side the forecast is.
            chosen.append(max(ends[-1], _last(lambda q: excess(ends[-1], q) <= error, ends[-1]) - _EXACT))
            if excess(1.0, chosen[-1]) <= error:
                return chosen, [*ends, 1.0]
            ends.append(_last(lambda p: excess(p, chosen[-1]) <= error, chosen[-1]))
        return None

    high = float(max(excess(0.0, 1.0), excess(1.0, 0.0)))
    low = _EXACT * max(1.0, high)
    if (found := cover(low)) is not None:  # piecewise linear: any forecast inside a piece has its line
        middles: np.ndarray = (np.array(found[1][1:]) + np.array(found[1][:-1])) / 2
        return middles
    best = cover(high)
    while high > low * (1 + 1e-8):
        middle = math.sqrt(low * high)
        if (found := cover(middle)) is None:
            low = middle
        else:
            high, best = middle, found
    assert best is not None
    return np.array(best[0])


def _last(holds: Callable[[np.ndarray], np.ndarray], low: float) -> float:
    """The largest number in [low, 1] up to which a condition holds that holds at ``low``; 64 points at a time."""
    high = 1.0
    for _ in range(7):
        places = np.linspace(low, high, 65)
        failed = np.flatnonzero(~holds(places))
        if not failed.size:
            return high
        low, high = float(places[max(0, failed[0] - 1)]), float(places[failed[0]])
    return low
