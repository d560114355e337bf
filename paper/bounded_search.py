"""How close to the bound models with bounded context come (Theorem 4.1): a search over all of them.

The search is for 2N numbers: q_i as in ``impossibility``, and r_i = N mu_i, the initial law. TV is 1 - mean r_i P_i as
long as r_i P_i <= 1 and mean r_i <= 1; these constraints (and a budget for TV) enter as an augmented Lagrangian, whose
exact gradient goes to L-BFGS-B. Whatever it returns is then judged by the closed forms, with the best initial law for
its q_i, so a search that ends badly costs tightness but never truth.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from .impossibility import (
    Bounded,
    best_initial,
    bounded_model,
    expected_regret,
    expected_regret_slope,
    measure_by_enumeration,
    products,
    regret_bound,
    stand,
)

_ROUNDS = 8


class BudgetFound(NamedTuple):
    """One budget for the distance from M0."""

    budget: float
    found: Bounded  # the model with the least expected regret under M1 that was found within the budget
    bound: float  # no model within the budget has less
    worst_regret: float  # what ``found`` regrets on the worst sequence of all


def least_sum(window: int, *, starts: int = 12, seed: int = 0) -> Bounded:
    """The model with the least TV + regret that a search over all of them finds.

    Parameters
    ----------
    starts
        How many places to search from, beside M0 and M1 themselves.

    >>> from paper.impossibility import sum_bound
    >>> found = least_sum(3)
    >>> round(found.tv + found.regret, 4), round(sum_bound(3), 4)
    (0.1748, 0.1748)
    """
    rng = np.random.default_rng(seed)
    found = [_judged(np.ones(2**window)), _judged(np.zeros(2**window))]
    for follow_N in _starts(window, None, starts, rng):
        found.append(_judged(_descend(follow_N, None)))
    return min(found, key=lambda model: model.tv + model.regret)


def trade_off(window: int, budgets: Sequence[float], *, starts: int = 12, seed: int = 0) -> list[BudgetFound]:
    """The least regret under M1 that a search finds within each budget for TV, beside the bound.

    Weights would not show the curve: it bends upwards between M0 and M1, and for contexts of up to 6 no model is known
    whose TV + weight * regret is less than that of one of these two.

    >>> for row in trade_off(2, budgets=(0, 0.2, 0.6, 1)):
    ...     print(f"TV {row.found.tv:.2f}: regret {row.found.regret:+.3f}, no less than {row.bound:+.3f}")
    TV 0.00: regret +0.152, no less than +0.152
    TV 0.20: regret +0.119, no less than +0.070
    TV 0.60: regret -0.019, no less than -0.073
    TV 1.00: regret -0.152, no less than -0.152
    """
    rng = np.random.default_rng(seed)
    found = [_judged(np.ones(2**window)), _judged(np.zeros(2**window))]
    for budget in budgets:
        for follow_N in _starts(window, budget, starts, rng):
            found.append(_furthest(np.ones(2**window), _descend(follow_N, budget), budget))
    rows = []
    for budget in budgets:
        # A model found for a smaller budget may be the best for this one too.
        best = min((model for model in found if model.tv <= budget + 1e-12), key=lambda model: model.regret)
        worst = measure_by_enumeration(bounded_model(best.follow_N, best.initial_N), window).worst_regret
        rows.append(BudgetFound(budget, best, regret_bound(window, budget), worst))
    return rows


def _judged(follow_N: np.ndarray) -> Bounded:
    return stand(follow_N, best_initial(follow_N))


def _furthest(near_N: np.ndarray, far_N: np.ndarray, budget: float) -> Bounded:
    """The last model within the budget on the straight way from a near one, which is, to a far one."""
    model = _judged(far_N)
    if model.tv <= budget:
        return model
    keeps, misses = 0.0, 1.0
    for _ in range(40):
        middle = (keeps + misses) / 2
        within = _judged(near_N + middle * (far_N - near_N)).tv <= budget
        keeps, misses = (middle, misses) if within else (keeps, middle)
    return _judged(near_N + keeps * (far_N - near_N))


def _starts(length: int, budget: float | None, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Where to search from: in turn the best models that follow the cycle on an arc only, and models at random."""
    arcs = [] if budget is None else _arcs(length, budget)
    for i in range(count):
        limit = rng.random() if budget is None else budget
        if i % 2 == 0:
            yield arcs[min(i // 2, len(arcs) - 1)] if arcs else _arcs(length, limit)[0]
        elif i % 4 == 1:
            yield (1 - limit) ** (1 / length) * rng.uniform(0.9, 1.0, 2**length)
        else:
            yield rng.random(2**length) ** rng.choice([0.05, 0.3, 1.0])


def _arcs(length: int, budget: float) -> list[np.ndarray]:
    """Models that follow the cycle on an arc only and just keep the budget, least regret first.

    Contexts near the ends of the arc are in fewer of the windows that are kept, so they may follow less. And since f is
    concave for q > 1/2, one context in L that follows much less is better than all that follow a little less.
    """
    size, arcs = 2**length, []
    least = max(1, math.ceil((1 - budget) * size))
    for kept in range(least, min(size, least + 2 * length) + 1):
        kept_N = np.arange(size) < kept
        share_N = np.mean([np.roll(kept_N, lag) for lag in range(length)], axis=0)
        ways = [(share_N**taper, np.zeros(size)) for taper in (0.25, 0.5, 1.0)]
        ways.append((np.sign(share_N), np.sign(share_N) * (np.arange(size) % length > 0)))
        arcs += [_furthest(near_N, far_N, budget) for near_N, far_N in ways if _judged(near_N).tv <= budget]
    return [arc.follow_N for arc in sorted(arcs, key=lambda arc: arc.regret)]


def _descend(follow_N: np.ndarray, budget: float | None) -> np.ndarray:
    """From this model downhill: regret within the budget, or TV + regret without one."""
    from scipy.optimize import Bounds, minimize

    size = len(follow_N)
    point = np.concatenate([follow_N, size * best_initial(follow_N)])
    box = Bounds(0.0, np.repeat([1.0, np.inf], size))
    held, stiffness = np.zeros(size + 2), 100.0
    for _ in range(_ROUNDS):
        point = minimize(
            _lagrangian,
            point,
            (budget, held, stiffness),
            method="L-BFGS-B",
            jac=True,
            bounds=box,
            options={"maxiter": 100},
        ).x
        kept_N = point[size:] * products(point[:size])
        held = np.maximum(0.0, held + stiffness * _excess(kept_N, point[size:], budget))
        stiffness *= 2
    return point[:size]


def _excess(kept_N: np.ndarray, start_N: np.ndarray, budget: float | None) -> np.ndarray:
    """How far each constraint is exceeded: r_i P_i <= 1, mean r_i <= 1, TV <= budget."""
    over = -1.0 if budget is None else 1 - kept_N.mean() - budget
    return np.concatenate([kept_N - 1, [start_N.mean() - 1, over]])


def _lagrangian(
    point: np.ndarray, budget: float | None, held: np.ndarray, stiffness: float
) -> tuple[float, np.ndarray]:
    """The augmented Lagrangian and its gradient; the N constraints on r_i P_i count with 1/N each."""
    size = len(point) // 2
    follow_N, start_N, length = point[:size], point[size:], size.bit_length() - 1
    places_LxN = _window_places(size)
    window_LxN = follow_N[places_LxN]
    # The product of the others in each window: of those before times of those after.
    before_LxN, after_LxN = np.ones_like(window_LxN), np.ones_like(window_LxN)
    np.cumprod(window_LxN[:-1], axis=0, out=before_LxN[1:])
    np.cumprod(window_LxN[:0:-1], axis=0, out=after_LxN[-2::-1])
    product_N = before_LxN[-1] * window_LxN[-1]
    kept_N = start_N * product_N
    pressed = np.maximum(0.0, _excess(kept_N, start_N, budget) + held / stiffness)
    price = 1.0 if budget is None else 0.0
    value = expected_regret(follow_N, length).mean() + price * (1 - kept_N.mean())
    value += stiffness / 2 * (pressed[:size] @ pressed[:size] / size + pressed[size] ** 2 + pressed[size + 1] ** 2)
    slope_kept_N = (stiffness * (pressed[:size] - pressed[size + 1]) - price) / size
    slope_start_N = slope_kept_N * product_N + stiffness * pressed[size] / size
    slope_follow_N = expected_regret_slope(follow_N, length) / size
    slope_LxN = slope_kept_N * start_N * before_LxN * after_LxN
    slope_follow_N += np.bincount(places_LxN.ravel(), slope_LxN.ravel(), minlength=size)
    return float(value), np.concatenate([slope_follow_N, slope_start_N])


@cache
def _window_places(size: int) -> np.ndarray:
    """Where on the cycle the L contexts from each on are, ``[L, N]``."""
    return (np.arange(size.bit_length() - 1)[:, None] + np.arange(size)) % size
