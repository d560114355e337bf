"""V-shaped losses (Appendix C): the tips of a two-state problem, and V-regret.

A forecast p is the chance of state 1, an outcome y is 0 or 1. The V-shaped loss with tip v, sign(v - p) (y - v), asks
only on which side of v the forecast is; what a best response loses is a mixture of such losses.
"""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, astype, beside, count_up, in_float64, namespace, running_sum
from ..problems import DecisionProblem, two_states

_ROUNDING = 1e-15  # an action better than its neighbours by no more than this is not on the envelope


class Tips(NamedTuple):
    """A best response's loss, taken apart: offset[y] + sum_j weights[j] sign(tips[j] - p) (y - tips[j])."""

    tips: np.ndarray  # [N], rising: the forecasts at which the best response changes
    weights: np.ndarray  # [N], positive: half the change of slope; together at most half the problem's contrast
    actions: np.ndarray  # [N + 1], the best response below the first tip, between neighbours, above the last
    offset: np.ndarray  # [2], what does not depend on the forecast, for each outcome


def tips_of(problem: DecisionProblem) -> Tips:
    """Where the best response of a two-state problem changes, and how much depends on it (Lemma C.5 as a finite sum).

    What a forecast is worth is the upper envelope of the lines p -> U(a, 0) + p (U(a, 1) - U(a, 0)); its bends are the
    tips. Actions that are best nowhere vanish, but one that is best at forecast 0 (or 1) alone, in a tie, makes a tip
    there. On a tip the sum is the loss of an even mix of the two neighbours, whichever of them a responder takes.

    >>> from lowregret import cost_loss
    >>> tips_of(cost_loss(cost=1, loss=4)).tips.tolist()  # protect once the chance exceeds cost / loss
    [0.25]
    """
    return envelope(two_states(problem).utility)


def v_regret(p: Array, tokens: Array, tips: Any) -> Array:
    """The V-regret of whole sequences on every tip, ``[..., N]``.

    (1/T) [ sum_t sign(v - p_t) (y_t - v) + abs(n1 - T v) ] with n1 the number of ones. ``p`` are forecasts ``[..., T]``
    of state 1, or of both ``[..., T, 2]``.

    >>> v_regret([0.54, 0.56], [1, 0], tips=[0.5, 0.55, 0.6]).round(6).tolist()
    [0.0, 0.55, 0.0]
    """
    p, tokens = sequences_of(p, tokens)
    xp, T = namespace(p), p.shape[-1]
    n1, tips = xp.sum(tokens, axis=-1), unit_numbers(tips, "tips").tolist()
    scores = [xp.sum(xp.sign(v - p) * (tokens - v), axis=-1) + xp.abs(n1 - T * v) for v in tips]
    return xp.stack(scores, axis=-1) / T if scores else p[..., :0]


class WorstTip(NamedTuple):
    """The largest V-regret over all tips in [0, 1], and the tip at which, or next to which, it is found."""

    tip: Array  # [...]
    regret: Array  # [...]


def worst_tip(p: Array, tokens: Array) -> WorstTip:
    """The supremum of the V-regret over all tips, exactly: no problem's best-response regret exceeds beta/2 times it.

    Between neighbouring forecasts V-regret is convex in the tip: only the two sides of each forecast matter.

    >>> tip, regret = worst_tip([0.54, 0.56], [1, 0])
    >>> round(float(tip), 6), round(float(regret), 6)
    (0.56, 0.56)
    """
    p, tokens = sequences_of(p, tokens)
    xp, T = namespace(p), p.shape[-1]
    order = xp.argsort(p, axis=-1)
    p, ones = xp.take_along_axis(p, order, axis=-1), running_sum(xp.take_along_axis(tokens, order, axis=-1))
    edge = xp.zeros_like(p[..., :1])
    low, high = xp.concat([edge, p], axis=-1), xp.concat([p, edge + 1], axis=-1)
    below, n1 = astype(count_up(p, 0, T + 1), p.dtype), ones[..., -1:]
    lead = 2 * xp.concat([edge, ones], axis=-1) - n1  # ones below the tip minus ones above it
    found = []
    for v in (low, high):
        score = lead - v * (2 * below - T) + xp.abs(n1 - T * v)
        found.append(xp.where(low < high, score, xp.zeros_like(score) - math.inf))
    score, tip = xp.concat(found, axis=-1), xp.concat([low, high], axis=-1)
    at = xp.argmax(score, axis=-1)[..., None]
    tip, score = (xp.take_along_axis(part, at, axis=-1)[..., 0] for part in (tip, score))
    return WorstTip(tip, score / T)


class BlindSpot(NamedTuple):
    """Forecasts and outcomes without V-regret on a grid of tips, and with at least 1/2 at a tip between two of them."""

    p: np.ndarray  # [T]
    tokens: np.ndarray  # [T]
    tip: float


def blind_spot(tips: Any, horizon: int) -> BlindSpot:
    """The counterexample to Lemmas C.6 and C.7, for any finite grid: V-regret 0 on the grid, 1/2 inside a cell.

    In the cell that holds 1/2, forecast alternately a little below its middle, when 1 comes, and a little above, when
    0 comes: wrong each time, but no tip of the grid tells the two forecasts apart.

    >>> p, tokens, tip = blind_spot([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1], horizon=4)
    >>> p.round(6).tolist(), tokens.tolist(), round(tip, 6)
    ([0.54, 0.56, 0.54, 0.56], [1, 0, 1, 0], 0.55)
    """
    horizon = inputs.whole(horizon, "horizon")
    if horizon % 2:
        raise ValueError(f"horizon must be even, got {horizon}")
    grid = np.concatenate([[0.0, 1.0], unit_numbers(tips, "tips")])
    low, high = float(grid[grid <= 0.5].max()), float(grid[grid > 0.5].min())
    pair = low + np.array([0.4, 0.6]) * (high - low)
    return BlindSpot(np.tile(pair, horizon // 2), np.tile([1, 0], horizon // 2), (low + high) / 2)


def envelope(payoffs_Ax2: np.ndarray) -> Tips:
    """The upper envelope over [0, 1] of the lines (1 - p) payoffs[a, 0] + p payoffs[a, 1].

    As points (payoff in 0, payoff in 1), the actions on it are the upper right hull: a monotone chain from the best in
    state 0 to the best in state 1, which ends on the tied ones farthest out.
    """
    in_0, in_1 = payoffs_Ax2[:, 0].tolist(), payoffs_Ax2[:, 1].tolist()
    chain: list[int] = []
    for c in np.lexsort((payoffs_Ax2[:, 1], -payoffs_Ax2[:, 0])).tolist():
        if chain and (in_1[c] < in_1[chain[-1]] or _crossing(in_0, in_1, chain[-1], c)[1] <= _ROUNDING):
            continue  # no better than the last in either state, or the same
        while len(chain) > 1:
            a, b = chain[-2:]
            v = _crossing(in_0, in_1, a, c)[0]
            if (1 - v) * (in_0[b] - in_0[a]) + v * (in_1[b] - in_1[a]) > _ROUNDING:
                break
            chain.pop()
        chain.append(c)
    crossings = [_crossing(in_0, in_1, a, b) for a, b in pairwise(chain)]
    tips, turns = np.array(crossings, dtype=np.float64).reshape(-1, 2).T
    return Tips(tips, turns / 2, np.array(chain), -(payoffs_Ax2[chain[0]] + payoffs_Ax2[chain[-1]]) / 2)


def _crossing(in_0: list[float], in_1: list[float], a: int, b: int) -> tuple[float, float]:
    """Where two lines meet, the first better in state 0 and the second in state 1, and how much their slopes differ."""
    left, right = in_0[a] - in_0[b], in_1[b] - in_1[a]
    turn = left + right
    return (left / turn if turn > 0 else 0.0), turn


def sequences_of(p: Any, tokens: Any) -> tuple[Array, Array]:
    """Forecasts of state 1 and outcomes, ``[..., T]``, checked, both as floats."""
    tokens = inputs.sequences_of(tokens, 2)
    p, shape = inputs.array_of(p, "p"), tuple(tokens.shape)
    if p.ndim == tokens.ndim + 1:
        p = inputs.probs_of(p, 2, "p", shape=shape)[..., 1]
    if tuple(p.shape) != shape:
        raise ValueError(f"p must have the shape of tokens, {shape}, or {(*shape, 2)}, got {tuple(p.shape)}")
    p, xp = in_float64(p), namespace(p)
    if not bool(xp.all((p >= 0) & (p <= 1))):  # a NaN is not
        raise ValueError(f"p must lie in [0, 1], got values from {float(xp.min(p)):.6g} to {float(xp.max(p)):.6g}")
    return p, astype(beside(tokens, p), p.dtype)


def unit_numbers(values: Any, name: str) -> np.ndarray:
    """A list of numbers in [0, 1]."""
    numbers = inputs.numbers_of(values, name, what := "a list of numbers in [0, 1]")
    if numbers.ndim != 1 or not ((numbers >= 0) & (numbers <= 1)).all():
        raise ValueError(f"{name} must be {what}, got {inputs.shown(values)}")
    return numbers
