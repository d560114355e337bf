"""What no rule that switches once can go below, for two actions: the certificates' lower limit, by dynamic programmes.

A base model says p_t; its quantal response is played until an alarm that sounds with chance at most delta under the
base itself, and anything after it. Let l be action 1's lead, n the steps left and g_n(l) = E (l + S_n)^+ what minimax
play then still owes (to action 0). With a regret of at most r T in mind, the slack

    z = r T - (regret to action 0 so far) - g_n(l)

must never be negative: then stopping now keeps the promise, else nothing does. Cost(t, l, z) is the least chance of an
alarm that keeps it so: min{ 1, sum_s p(s) Cost(t+1, l + D(s), z_s) }, or 1 where some z_s < 0, and 0 at the end. A step
moves the slack by z_s = z + (q - q*) D(s), with q the response's chance of action 1 and q* minimax play's. The least r
with Cost <= delta at the start is the limit: for one law throughout ("iid"), or for a base that adapts ("adaptive").
Stopping is not randomised here.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .. import inputs
from ..problems import DecisionProblem, a_problem


def limit(
    problem: DecisionProblem,
    horizon: int,
    delta: float,
    base: str = "iid",
    temperature: float | None = None,
    resolution: int | None = None,
) -> float:
    """The average regret below which no rule that switches once, falsely with chance delta, can keep all sequences.

    Every base that is tried proves a limit, and not all are tried: the true one may be higher by a percent or two.

    Parameters
    ----------
    base
        "iid": base models with one law throughout, at O(T^2) a law. "adaptive": laws that depend on the past, which
        makes the limit higher, at about O(T^2.5).
    temperature
        1/sqrt(horizon) by default.
    resolution
        For "adaptive": how many chances of action 1 the base may choose from; the time grows with its square.

    >>> from lowregret import matching
    >>> round(limit(matching(), 24, delta=2 / 24), 3), round(limit(matching(), 24, delta=2 / 24, base="adaptive"), 3)
    (0.218, 0.26)
    """
    if a_problem(problem).n_actions != 2:
        raise ValueError(f"problem must have two actions for its limit to be computed, got {problem}")
    horizon, delta = inputs.whole(horizon, "horizon"), inputs.probability(delta, "delta")
    warmth = 1 / math.sqrt(horizon) if temperature is None else inputs.positive(temperature, "temperature")
    low, high = float(problem.advantage[0].min()), float(problem.advantage[0].max())
    if not low < 0 < high:
        raise ValueError(f"problem must have actions that are each better in some state for a limit, got {problem}")
    inputs.choice(base, "base", ("iid", "adaptive"))
    if base == "iid":
        if resolution is not None:
            raise ValueError(f'resolution goes with base="adaptive", got {inputs.shown(resolution)} with base="iid"')
        return _one_law(low, high, horizon, delta, warmth)
    if resolution is None:
        resolution = 64 if horizon <= 64 else 32 if horizon <= 256 else 8
    return _any_law(low, high, horizon, delta, warmth, inputs.whole(resolution, "resolution", 2))


def owed(low: float, high: float, horizon: int) -> list[np.ndarray]:
    """g by step t = 0 .. T and by how many of the t states were the one that suits action 1 most."""
    up = np.arange(horizon + 1)
    table = [np.maximum(up * high + (horizon - up) * low, 0.0)]
    chance = -low / (high - low)
    for _ in range(horizon):
        table.append(chance * table[-1][1:] + (1 - chance) * table[-1][:-1])
    return table[::-1]


def _one_law(low: float, high: float, horizon: int, delta: float, warmth: float) -> float:
    """The largest limit over laws on the two extreme states: many where that is cheap, else finer near the best."""
    owed_T = owed(low, high, horizon)
    least = float(owed_T[0][0])
    best, best_mean, rounds = least, 0.0, 1 if horizon <= 256 else 3
    spread, count = 3.0, 241 if horizon <= 256 else 13
    for _ in range(rounds):
        # Laws by the mean lead they give action 1, in units of temperature: the response depends on that.
        mean_P = warmth * (best_mean + np.linspace(-spread, spread, count))
        law_P = np.clip((mean_P - low) / (high - low), 1e-3, 1 - 1e-3)
        law_P = law_P[_cost(law_P, low, high, best, warmth, owed_T) > delta]
        # Steps that double while some law is still above, then halve; laws that are not drop out.
        floor, step, falling = best, 0.02 * best if best == least else 1e-3 * best, False
        while len(law_P) and step > 1e-4 * best:
            above = _cost(law_P, low, high, floor + step, warmth, owed_T) > delta
            if above.any():
                floor, law_P = floor + step, law_P[above]
            falling = falling or not above.any()
            step *= 0.5 if falling else 2
        if len(law_P):
            best, best_mean = floor, float(law_P[0] * high + (1 - law_P[0]) * low) / warmth
        spread, count = spread * 3 / (count - 1), 13
    return best / horizon


def _cost(law_P: np.ndarray, low: float, high: float, total: float, warmth: float, owed_T: list) -> np.ndarray:
    """The least chance of an alarm to keep the regret at ``total``, for each chance of action 1's best state."""
    p_Px1 = law_P[:, None]
    q_Px1 = 1 / (1 + np.exp(-(p_Px1 * high + (1 - p_Px1) * low) / warmth))
    cost_PxN = np.zeros((len(law_P), len(owed_T)))
    for t in range(len(owed_T) - 1, -1, -1):
        if t < len(owed_T) - 1:
            cost_PxN = p_Px1 * cost_PxN[:, 1:] + (1 - p_Px1) * cost_PxN[:, :-1]
            np.minimum(cost_PxN, 1.0, out=cost_PxN)  # stopping now
        up = np.arange(t + 1)
        short = q_Px1 * (up * high + (t - up) * low) < owed_T[t] - total
        np.copyto(cost_PxN, np.inf, where=short)
    return cost_PxN[:, 0]


def _any_law(low: float, high: float, horizon: int, delta: float, warmth: float, resolution: int) -> float:
    """The limit for bases that adapt, among those that move the slack along a grid: no rounding, so each is a proof.

    With max D : -min D = a : b, both whole, a response that is k / resolution surer than minimax play moves the slack
    by k a grid cells one way and k b the other. Leads beyond four deviations, and slack beyond the grid, count as safe.
    """
    ratio = Fraction(high / -low).limit_denominator(16)
    a, b = ratio.numerator, ratio.denominator
    if max(a, b) > 16 or abs(high * b + low * a) > 1e-9 * high * b:
        raise ValueError(
            f"problem must have advantages in a ratio of whole numbers up to 16 for an adaptive limit, got {high:.6g} "
            f'and {low:.6g}; base="iid" takes any'
        )
    cell = high / a / resolution
    owed_T = owed(low, high, horizon)
    reach = 0.4 * (high - low) * math.sqrt(horizon * math.log(1 / delta)) + high - low
    while True:
        cost_Z = _adaptive_cost(a, b, resolution, math.ceil(reach / cell), low, high, horizon, warmth, owed_T)
        safe = cost_Z * (1 - 8 * horizon * 2.0**-24) <= delta  # single precision
        if safe.any():
            break
        reach *= 2
    cells = int(np.argmax(safe))
    return (float(owed_T[0][0]) + max(cells - 1, 0) * cell) / horizon


def _adaptive_cost(
    a: int, b: int, resolution: int, cells: int, low: float, high: float, horizon: int, warmth: float, owed_T: list
) -> np.ndarray:
    """Cost at the start, by slack in grid cells, ``[Z]``; a base's laws are all those that stay on the grid."""
    half = math.ceil(4 * math.sqrt(-low * high * horizon) / (high - low)) + 1
    centre = -low / (high - low)

    def window(t: int) -> tuple[int, int]:
        """Which counts of the state that suits action 1 are looked at: from, and up to."""
        return max(0, math.floor(t * centre) - half), min(t, math.ceil(t * centre) + half) + 1

    begin, end = window(horizon)
    cost_ZxN = np.zeros((cells, end - begin), dtype=np.float32)
    for t in range(horizon - 1, -1, -1):
        first, stop = window(t)
        # The costs after one more state of either kind; what is outside the window costs nothing.
        wide_ZxN = np.zeros((cells, stop - first + 1), dtype=np.float32)
        left, right = max(first, begin), min(stop + 1, end)
        wide_ZxN[:, left - first : right - first] = cost_ZxN[:, left - begin : right - begin]
        fall_ZxN, rise_ZxN = wide_ZxN[:, :-1], wide_ZxN[:, 1:]
        safe_N = np.diff(owed_T[t + 1])[first:stop] / (high - low)  # q*
        cost_ZxN = np.zeros((cells, stop - first), dtype=np.float32)
        for k in range(-resolution, resolution + 1):
            q_N = safe_N + k / resolution
            with np.errstate(divide="ignore", invalid="ignore"):
                p_N = (warmth * (np.log(q_N) - np.log1p(-q_N)) - low) / (high - low)
            columns = np.flatnonzero((p_N > 0) & (p_N < 1))  # laws that exist: q* grows along n, so they are in a row
            if len(columns):
                part = slice(int(columns[0]), int(columns[-1]) + 1)
                _raise_to(
                    cost_ZxN[:, part], rise_ZxN[:, part], fall_ZxN[:, part], p_N[part].astype(np.float32), k * a, -k * b
                )
        np.minimum(cost_ZxN, 1.0, out=cost_ZxN)
        begin, end = first, stop
    return cost_ZxN[:, -begin].astype(np.float64)


def _raise_to(
    cost_ZxN: np.ndarray, rise_ZxN: np.ndarray, fall_ZxN: np.ndarray, p_N: np.ndarray, up: int, down: int
) -> None:
    """cost = max(cost, p rise[z + up] + (1-p) fall[z + down]); 1 where either slack is negative, 0 above the grid."""
    Z = len(cost_ZxN)
    forced = min(Z, max(-up, -down, 0))
    cost_ZxN[:forced] = 1.0
    both = max(forced, Z - max(up, down, 0))  # from here on one of the two is above the grid
    if both > forced:
        cost_ZxN[forced:both] = np.maximum(
            cost_ZxN[forced:both],
            p_N * rise_ZxN[forced + up : both + up] + (1 - p_N) * fall_ZxN[forced + down : both + down],
        )
    if up > 0:
        cost_ZxN[both:] = np.maximum(cost_ZxN[both:], (1 - p_N) * fall_ZxN[both + down : Z + down])
    elif down > 0:
        cost_ZxN[both:] = np.maximum(cost_ZxN[both:], p_N * rise_ZxN[both + up : Z + up])


@lru_cache(maxsize=64)
def cached(problem: DecisionProblem, horizon: int, delta: float, temperature: float) -> float:
    """``limit`` for base models with one law throughout, computed once."""
    return limit(problem, horizon, delta, temperature=temperature)
