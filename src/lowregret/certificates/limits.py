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

Where the base is answered by its best response (temperature 0), q is 0 or 1, and the law may be any that leaves the
other action no better. Cost is linear in it: the worst law is a tie, or all but certain of the state that suits q.
"""

import math
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from .. import inputs
from ..problems import DecisionProblem, a_problem

Owed = list[np.ndarray]  # g by step, and by how many of its states were the one that suits action 1 most


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
        1/sqrt(horizon) by default; 0: best responses.
    resolution
        For "adaptive": how many chances of action 1 the base may choose from; the time grows with its square.

    >>> from lowregret import matching
    >>> round(limit(matching(), 24, delta=2 / 24), 3), round(limit(matching(), 24, delta=2 / 24, base="adaptive"), 3)
    (0.218, 0.26)
    """
    if a_problem(problem).n_actions != 2:
        raise ValueError(f"problem must have two actions for its limit to be computed, got {problem}")
    horizon, delta = inputs.whole(horizon, "horizon"), inputs.probability(delta, "delta")
    eta = 1 / math.sqrt(horizon) if temperature is None else inputs.not_negative(temperature, "temperature")
    low, high = float(problem.advantage[0].min()), float(problem.advantage[0].max())
    if not low < 0 < high:
        raise ValueError(f"problem must have actions that are each better in some state for a limit, got {problem}")
    inputs.choice(base, "base", ("iid", "adaptive"))
    if base == "iid":
        if resolution is not None:
            raise ValueError(f'resolution goes with base="adaptive", got {inputs.shown(resolution)} with base="iid"')
        return _one_law(low, high, horizon, delta, eta)
    if (cells := _in_cells(low, high)) is None:
        raise ValueError(
            f"problem must have advantages in a ratio of whole numbers up to 16 for an adaptive limit, got {high:.6g} "
            f'and {low:.6g}; base="iid" takes any'
        )
    if eta == 0:
        if resolution is not None:
            raise ValueError(f"resolution is for temperatures above 0, got {inputs.shown(resolution)} at 0")
        return _at_ties(low, high, cells, horizon, delta)
    if resolution is None:
        resolution = 64 if horizon <= 64 else 32 if horizon <= 256 else 8
    return _any_law(low, high, cells, horizon, delta, eta, inputs.whole(resolution, "resolution", 2))


def owed(low: float, high: float, horizon: int) -> Owed:
    """g by step t = 0 .. T and by how many of the t states were the one that suits action 1 most."""
    up = np.arange(horizon + 1)
    table = [np.maximum(up * high + (horizon - up) * low, 0.0)]
    chance = -low / (high - low)
    for _ in range(horizon):
        table.append(chance * table[-1][1:] + (1 - chance) * table[-1][:-1])
    return table[::-1]


def _one_law(low: float, high: float, horizon: int, delta: float, temperature: float) -> float:
    """The largest limit over laws on the two extreme states: many where that is cheap, else finer near the best."""
    owed_T = owed(low, high, horizon)
    least = float(owed_T[0][0])
    best, best_mean, rounds = least, 0.0, 1 if horizon <= 256 else 3
    spread, count = 3.0, 241 if horizon <= 256 else 13
    unit = temperature or (high - low) / (2 * math.sqrt(horizon))
    for _ in range(rounds):
        # Laws by the mean lead they give action 1, in units of temperature: the response depends on that.
        mean_P = unit * (best_mean + np.linspace(-spread, spread, count))
        law_P = np.clip((mean_P - low) / (high - low), 1e-3, 1 - 1e-3)
        plays_P = _plays(law_P * high + (1 - law_P) * low, temperature)
        if temperature == 0:  # a tie may be broken either way: laws as near to it as one likes are
            tie = -low / (high - low)
            law_P, plays_P = np.append(law_P, [tie, tie]), np.append(plays_P, [0.0, 1.0])
        above = _cost(law_P, plays_P, low, high, best, owed_T) > delta
        law_P, plays_P = law_P[above], plays_P[above]
        # Steps that double while some law is still above, then halve; laws that are not drop out.
        floor, step, falling = best, 0.02 * best if best == least else 1e-3 * best, False
        while len(law_P) and step > 1e-4 * best:
            above = _cost(law_P, plays_P, low, high, floor + step, owed_T) > delta
            if above.any():
                floor, law_P, plays_P = floor + step, law_P[above], plays_P[above]
            falling = falling or not above.any()
            step *= 0.5 if falling else 2
        if len(law_P):
            best, best_mean = floor, float(law_P[0] * high + (1 - law_P[0]) * low) / unit
        spread, count = spread * 3 / (count - 1), 13
    return best / horizon


def _plays(mean_P: np.ndarray, temperature: float) -> np.ndarray:
    """The response's chance of action 1, by the mean lead of it."""
    return 1 / (1 + np.exp(-mean_P / temperature)) if temperature else (mean_P > 0) * 1.0


def _cost(law_P: np.ndarray, plays_P: np.ndarray, low: float, high: float, total: float, owed_T: Owed) -> np.ndarray:
    """The least chance of an alarm to keep the regret at ``total``, for each chance of action 1's best state."""
    p_Px1, q_Px1 = law_P[:, None], plays_P[:, None]
    cost_PxN = np.zeros((len(law_P), len(owed_T)))
    for t in range(len(owed_T) - 1, -1, -1):
        if t < len(owed_T) - 1:
            cost_PxN = p_Px1 * cost_PxN[:, 1:] + (1 - p_Px1) * cost_PxN[:, :-1]
            np.minimum(cost_PxN, 1.0, out=cost_PxN)  # stopping now
        up = np.arange(t + 1)
        short = q_Px1 * (up * high + (t - up) * low) < owed_T[t] - total
        np.copyto(cost_PxN, np.inf, where=short)
    return cost_PxN[:, 0]


def _any_law(
    low: float, high: float, in_cells: tuple[int, int], horizon: int, delta: float, temperature: float, resolution: int
) -> float:
    """The limit for bases that adapt, among those that move the slack along a grid: no rounding, so each is a proof.

    With max D : -min D = a : b, both whole, a response that is k / resolution surer than minimax play moves the slack
    by k a grid cells one way and k b the other. Leads beyond four deviations, and slack beyond the grid, count as safe.
    """
    a, b = in_cells
    cell = high / a / resolution
    owed_T = owed(low, high, horizon)
    reach = 0.4 * (high - low) * math.sqrt(horizon * math.log(1 / delta)) + high - low
    while True:
        cost_Z = _adaptive_cost(a, b, resolution, math.ceil(reach / cell), low, high, horizon, temperature, owed_T)
        safe = cost_Z * (1 - 8 * horizon * 2.0**-24) <= delta  # single precision
        if safe.any():
            break
        reach *= 2
    cells = int(np.argmax(safe))
    return (float(owed_T[0][0]) + max(cells - 1, 0) * cell) / horizon


def _adaptive_cost(
    a: int, b: int, resolution: int, cells: int, low: float, high: float, horizon: int, temperature: float, owed_T: Owed
) -> np.ndarray:
    """Cost at the start, by slack in grid cells, ``[Z]``; a base's laws are all those that stay on the grid."""
    window = partial(_window, low, high, horizon)
    begin, end = window(horizon)
    cost_ZxN = np.zeros((cells, end - begin), dtype=np.float32)
    for t in range(horizon - 1, -1, -1):
        first, stop = window(t)
        fall_ZxN, rise_ZxN = _one_more(cost_ZxN, begin, end, first, stop)
        safe_N = np.diff(owed_T[t + 1])[first:stop] / (high - low)  # q*
        cost_ZxN = np.zeros((cells, stop - first), dtype=np.float32)
        for k in range(-resolution, resolution + 1):
            q_N = safe_N + k / resolution
            with np.errstate(divide="ignore", invalid="ignore"):
                p_N = (temperature * (np.log(q_N) - np.log1p(-q_N)) - low) / (high - low)
            columns = np.flatnonzero((p_N > 0) & (p_N < 1))  # laws that exist: q* grows along n, so they are in a row
            if len(columns):
                part = slice(int(columns[0]), int(columns[-1]) + 1)
                _raise_to(
                    cost_ZxN[:, part], rise_ZxN[:, part], fall_ZxN[:, part], p_N[part].astype(np.float32), k * a, -k * b
                )
        np.minimum(cost_ZxN, 1.0, out=cost_ZxN)
        begin, end = first, stop
    return cost_ZxN[:, -begin].astype(np.float64)


def _window(low: float, high: float, horizon: int, t: int) -> tuple[int, int]:
    """Which counts of the state that suits action 1 are looked at after t steps: from, and up to."""
    half = math.ceil(4 * math.sqrt(-low * high * horizon) / (high - low)) + 1
    centre = -low / (high - low)
    return max(0, math.floor(t * centre) - half), min(t, math.ceil(t * centre) + half) + 1


def _one_more(cost_ZxN: np.ndarray, begin: int, end: int, first: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """The costs after one more state of either kind; what is outside the window costs nothing."""
    wide_ZxN = np.zeros((len(cost_ZxN), stop - first + 1), dtype=cost_ZxN.dtype)
    left, right = max(first, begin), min(stop + 1, end)
    wide_ZxN[:, left - first : right - first] = cost_ZxN[:, left - begin : right - begin]
    return wide_ZxN[:, :-1], wide_ZxN[:, 1:]


def _in_cells(low: float, high: float) -> tuple[int, int] | None:
    """max D and -min D as whole numbers, where they have a common measure."""
    ratio = Fraction(high / -low).limit_denominator(16)
    a, b = ratio.numerator, ratio.denominator
    return None if max(a, b) > 16 or abs(high * b + low * a) > 1e-9 * high * b else (a, b)


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


def _at_ties(low: float, high: float, in_cells: tuple[int, int], horizon: int, delta: float) -> float:
    """The limit for bases that adapt and are answered by their best response.

    What is played earned a whole number of cells more than action 0, so the slack is w - g, with w a whole number of
    cells too, but for an offset: one pass has the costs of all totals with the same offset, and finds the cell of the
    least that can be kept; halving the offset finds where in it.
    """
    owed_T = owed(low, high, horizon)
    cell = high / in_cells[0]
    reach = 0.4 * (high - low) * math.sqrt(horizon * math.log(1 / delta)) + high - low
    while not (safe := _cost_at_ties(low, high, in_cells, horizon, owed_T, reach, 0.0) <= delta).any():
        reach *= 2
    least = int(np.argmax(safe)) - 1  # whole cells, that cannot be kept; -1: none
    below, above = 0.0, 1.0
    while least >= 0 and above - below > 1 / 64:
        middle = (below + above) / 2
        kept = _cost_at_ties(low, high, in_cells, horizon, owed_T, reach, middle * cell)[least] <= delta
        below, above = (below, middle) if kept else (middle, above)
    return max(float(owed_T[0][0]), (least + below) * cell) / horizon


def _cost_at_ties(
    low: float, high: float, in_cells: tuple[int, int], horizon: int, owed_T: Owed, reach: float, offset: float
) -> np.ndarray:
    """The least chance of an alarm that keeps the regret at w = offset + whole cells, ``[W]``."""
    a, b = in_cells
    window, tie, cell = partial(_window, low, high, horizon), -low / (high - low), high / a
    begin, end = window(horizon)
    # No slack above the reach is looked at: it costs nothing.
    farthest = max(float(owed_T[t][window(t)[1] - 1]) for t in range(horizon + 1)) + reach
    w_W = offset + cell * np.arange(math.ceil(farthest / cell) + 1)
    cost_WxN = np.zeros((len(w_W), 0))
    for t in range(horizon, -1, -1):
        first, stop = window(t)
        slack_WxN = w_W[:, None] - owed_T[t][first:stop]
        if t == horizon:
            cost_WxN = np.zeros_like(slack_WxN)
        else:
            fall_WxN, rise_WxN = _one_more(cost_WxN, begin, end, first, stop)
            stays_WxN = _worst_law(rise_WxN, fall_WxN, tie)
            lost_WxN, won_WxN = np.full_like(fall_WxN, np.inf), np.zeros_like(rise_WxN)
            lost_WxN[b:], won_WxN[:-a] = fall_WxN[:-b], rise_WxN[a:]
            cost_WxN = np.minimum(np.maximum(stays_WxN, _worst_law(lost_WxN, won_WxN, 1 - tie)), 1.0)
        cost_WxN[slack_WxN < -1e-9] = np.inf
        begin, end = first, stop
    return cost_WxN[:, 0]


def _worst_law(bad: np.ndarray, good: np.ndarray, chance: float) -> np.ndarray:
    """The most over laws that give the state that is bad for what is played at most this chance, and not none."""
    return np.where(np.isinf(bad), np.inf, np.maximum(chance * bad + (1 - chance) * good, good))


@lru_cache(maxsize=64)
def cached(problem: DecisionProblem, horizon: int, delta: float, temperature: float) -> float:
    """``limit``, computed once: of best responses to any base where that is exact, else to one law throughout."""
    advantage = problem.advantage[0]
    if temperature == 0 and horizon <= 1024 and _in_cells(float(advantage.min()), float(advantage.max())):
        return limit(problem, horizon, delta, "adaptive", temperature)
    return limit(problem, horizon, delta, temperature=temperature)
