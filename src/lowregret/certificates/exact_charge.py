"""The least charge that covers every base model: sup over laws of ln E exp(lam x), certified by branch and bound.

For a comparator a let D_b(s) = U(a, s) - U(b, s). A law p with E_p D = m is answered by pi_b = pi_a exp(-m_b / eta);
the gain of a over the response is x(s) = sum_b pi_b D_b(s). The search is over pi, not over p, which pi follows ever
more steeply as the temperature falls. In a box of chances pi_b,

    E exp(lam x) = 1 + lam E x + E f(lam x),     f(z) = e^z - 1 - z,

where E x = eta (ln pi_a + entropy of pi) is concave in pi, so below its tangents, and E f is at most
max_s [ f(s) - y.D(s) ] + max_m y.m for every y, by duality.
"""

import math
from functools import lru_cache
from itertools import combinations, islice, permutations
from typing import Any

import numpy as np

from ..problems import DecisionProblem
from . import best_response
from .best_response import excess
from .coupled import kappa, main_rate

_MOST_BASES = 512
_ROUND_UP = 1 + 1e-10
_RIM = 1e-14  # boxes that leave the comparator less than this are not searched: they are bounded once, together


def exact_kappa(
    problem: DecisionProblem, rate: Any, temperature: float, tolerance: float = 0.01, most: int = 100_000
) -> Any:
    """max{0, sup_p max_a ln E_p exp(lam (U(a) - U(pi)))} from above, to ``tolerance`` unless ``most`` boxes run out.

    It is never above ``kappa``, and holds in every case: fewer boxes only leave it larger. At a temperature of 0 by
    linear programmes (``best_response.exact_kappa``).

    >>> from lowregret import rock_paper_scissors
    >>> game = rock_paper_scissors()
    >>> round(float(exact_kappa(game, 0.101, 1 / 32)), 4), round(float(kappa(game, 0.101, 1 / 32)), 4)
    (0.0035, 0.0056)
    """
    if temperature == 0:
        return best_response.exact_kappa(problem, rate)
    rates = np.asarray(rate, dtype=np.float64)
    ceiling = kappa(problem, rates, temperature)
    found = [supremum(problem, float(lam), temperature, tolerance, most)[1] for lam in rates.ravel()]
    return np.minimum(ceiling, np.array(found).reshape(rates.shape))


def exact_main_rate(problem: DecisionProblem, steps: int, temperature: float, log_cost: float) -> float:
    """The rate at which [ t kappa(lam) + c ] / lam is least with the exact kappa: up to a third above ``main_rate``."""
    near = main_rate(problem, steps, temperature, log_cost)
    if not math.isfinite(near) or temperature == 0:
        return near
    from scipy.optimize import minimize_scalar

    def bound(log_rate: float) -> float:  # what was found will do here: any rate is allowed, this one is only good
        rate = math.exp(log_rate)
        return (steps * supremum(problem, rate, temperature, 0.03, 20_000)[0] + log_cost) / rate

    centre = math.log(near)
    found = minimize_scalar(bound, bounds=(centre - 0.2, centre + 0.8), method="bounded", options={"xatol": 0.04})
    return math.exp(found.x)


@lru_cache(maxsize=256)
def quick_main_rate(problem: DecisionProblem, steps: int, temperature: float, log_cost: float) -> float:
    """``exact_main_rate`` roughly, where that is quick: in games of three actions and states; else ``main_rate``.

    Any rate is allowed: a rough search is good enough to choose one.
    """
    near = main_rate(problem, steps, temperature, log_cost)
    if problem.utility.shape != (3, 3) or not math.isfinite(near) or temperature == 0:
        return near
    rates = near * np.linspace(1, 1.6, 13)
    bounds = [(steps * supremum(problem, float(lam), temperature, 0.1, 100)[0] + log_cost) / lam for lam in rates]
    return float(rates[int(np.argmin(bounds))])


@lru_cache(maxsize=256)
def supremum(
    problem: DecisionProblem, rate: float, temperature: float, tolerance: float, most: int
) -> tuple[float, float]:
    """The largest charge found, and a bound on all others."""
    utility, best, bound = problem.utility, 0.0, 0.0
    if len(utility) == 1 or rate == 0:
        return best, bound
    seen: set[bytes] = set()
    for action in range(len(utility)):
        gain_BxS = utility[action] - np.delete(utility, action, axis=0)
        form = _form(gain_BxS)
        if form in seen:
            continue
        seen.add(form)
        best, above = _Search(_corners(gain_BxS), rate, temperature).run(best, tolerance, most)
        bound = max(bound, above)
    return best, bound * _ROUND_UP


def _form(gain_BxS: np.ndarray) -> bytes:
    """What does not change when other actions or states change their names; searched once for all that share it."""
    if len(gain_BxS) > 4:
        return gain_BxS.tobytes()
    orders = (gain_BxS[list(rows)] for rows in permutations(range(len(gain_BxS))))
    return min((rows[:, np.lexsort(rows)] + 0.0).tobytes() for rows in orders)


def _corners(gain_BxS: np.ndarray) -> np.ndarray:
    """The states that span all others: exp is convex, so the supremum sits on corners of the hull of the D(s)."""
    if len(gain_BxS) == 1:
        return gain_BxS[:, [int(gain_BxS[0].argmin()), int(gain_BxS[0].argmax())]]
    from scipy.spatial import ConvexHull, QhullError

    if gain_BxS.shape[1] <= len(gain_BxS) + 1:
        return gain_BxS
    try:
        return gain_BxS[:, ConvexHull(gain_BxS.T).vertices]
    except QhullError:  # flat: all states are kept
        return gain_BxS


class _Search:
    """Branch and bound for one comparator, over boxes ``[N, B]`` of the chances of the B = A - 1 other actions."""

    def __init__(self, gain_BxS: np.ndarray, rate: float, temperature: float) -> None:
        self.gain_BxS, self.rate, self.temperature = gain_BxS, rate, temperature
        B, S = gain_BxS.shape
        self.least_B, self.most_B = gain_BxS.min(axis=1), gain_BxS.max(axis=1)
        # Laws on B + 1 states that span: each gives a plane through f at its states, and a law with a given mean.
        bases = []
        for states in islice(combinations(range(S), B + 1), _MOST_BASES):  # any set of planes gives a bound
            matrix = np.concatenate([np.ones((1, B + 1)), gain_BxS[:, states]])
            if abs(np.linalg.det(matrix)) > 1e-9:
                bases.append((states, np.linalg.inv(matrix)))
        self.states_QxA = np.array([states for states, _ in bases], dtype=np.int64).reshape(len(bases), B + 1)
        self.inverse_QxAxA = np.array([inverse for _, inverse in bases]).reshape(len(bases), B + 1, B + 1)

    def run(self, best: float, tolerance: float, most: int) -> tuple[float, float]:
        """The largest value found, at least ``best``, and a bound from above."""
        B = len(self.gain_BxS)
        low_NxB, high_NxB = np.zeros((1, B)), np.ones((1, B))
        closed, boxes = self._rim(), 0
        while len(low_NxB):
            boxes += len(low_NxB)
            centre_NxB = self._centre(low_NxB, high_NxB)
            best = max(best, self._value(centre_NxB))
            bound_N, weight_NxB, loss_NxB = self._bound(low_NxB, high_NxB, centre_NxB)
            wide_N = np.any(high_NxB - low_NxB > 4e-16 * high_NxB, axis=1)  # others cannot be split
            open_N = (bound_N > best * (1 + tolerance) + 1e-15) & wide_N
            closed = max(closed, float(np.max(bound_N[~open_N], initial=0.0)))
            if boxes > most:
                return best, max(closed, float(np.max(bound_N)))
            low_NxB, high_NxB = self._split(low_NxB[open_N], high_NxB[open_N], weight_NxB[open_N], loss_NxB[open_N])
        return best, closed

    def _rim(self) -> float:
        """A bound where the comparator's chance is below ``_RIM``: its mean gain is then far below zero."""
        mean = self.temperature * (np.log(2 * _RIM) + np.log(1 + len(self.gain_BxS)))
        f = excess(self.rate * np.array([self.gain_BxS.min(), self.gain_BxS.max(), 0.0])).max()
        return float(np.log1p(max(0.0, self.rate * mean + f)))

    @staticmethod
    def _centre(low_NxB: np.ndarray, high_NxB: np.ndarray) -> np.ndarray:
        """A point of each box that leaves something for the comparator itself."""
        room, width = 1 - low_NxB.sum(axis=1), (high_NxB - low_NxB).sum(axis=1)
        centre_NxB: np.ndarray = low_NxB + (0.5 * np.minimum(1, room / width))[:, None] * (high_NxB - low_NxB)
        return centre_NxB

    def _value(self, chance_NxB: np.ndarray) -> float:
        """The largest ln E exp(lam x) at these points, over laws on B + 1 states."""
        own_N = 1 - chance_NxB.sum(axis=1)
        mean_NxB = self.temperature * (np.log(own_N)[:, None] - np.log(chance_NxB))
        wanted_NxA = np.concatenate([np.ones((len(own_N), 1)), mean_NxB], axis=1)
        law_NxQxA = np.einsum("qij,nj->nqi", self.inverse_QxAxA, wanted_NxA)
        growth_NxS = np.exp(self.rate * (chance_NxB @ self.gain_BxS))
        value_NxQ = np.sum(law_NxQxA * growth_NxS[:, self.states_QxA], axis=-1)
        return float(np.log(np.max(value_NxQ[np.all(law_NxQxA >= 0, axis=-1)], initial=1.0)))

    def _bound(
        self, low_NxB: np.ndarray, high_NxB: np.ndarray, centre_NxB: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """No law answered within the box has more; also the dual weights y, and what a unit of each width costs."""
        lam, eta, D = self.rate, self.temperature, self.gain_BxS
        n, own_N = np.arange(len(low_NxB)), 1 - centre_NxB.sum(axis=1)
        with np.errstate(divide="ignore"):
            least_NxB = eta * (np.log(np.maximum(0, 1 - high_NxB.sum(axis=1)))[:, None] - np.log(high_NxB))
            most_NxB = eta * (np.log(1 - low_NxB.sum(axis=1))[:, None] - np.log(low_NxB))
        possible_N = np.all((least_NxB <= self.most_B) & (most_NxB >= self.least_B), axis=1)
        least_NxB = np.clip(least_NxB, self.least_B, self.most_B)
        most_NxB = np.clip(most_NxB, self.least_B, self.most_B)
        slope_NxB = np.log(own_N / centre_NxB.T).T - 1 / own_N[:, None]
        mean_N = np.log(own_N) * (1 - own_N) - np.sum(centre_NxB * np.log(centre_NxB), axis=1)
        mean_N += np.sum(np.maximum(slope_NxB * (low_NxB - centre_NxB), slope_NxB * (high_NxB - centre_NxB)), axis=1)
        up, down = np.maximum(D, 0), np.minimum(D, 0)
        f_NxS = np.maximum(
            excess(lam * (low_NxB @ up + high_NxB @ down)), excess(lam * (high_NxB @ up + low_NxB @ down))
        )
        x_NxS = centre_NxB @ D
        at_NxS = excess(lam * x_NxS)
        # Candidates for y: the planes of the bases, and the chord along pi itself, which exists in every case.
        y_NxQxB = np.einsum("nqi,qij->nqj", at_NxS[:, self.states_QxA], self.inverse_QxAxA)[:, :, 1:]
        worst, top = x_NxS.argmin(axis=1), x_NxS.argmax(axis=1)
        chord_N = (at_NxS[n, top] - at_NxS[n, worst]) / np.maximum(x_NxS[n, top] - x_NxS[n, worst], 1e-300)
        y_NxQxB = np.concatenate([y_NxQxB, (chord_N[:, None] * centre_NxB)[:, None]], axis=1)
        dual_NxQ = np.max(f_NxS[:, None] - y_NxQxB @ D, axis=-1)
        dual_NxQ += np.sum(np.maximum(y_NxQxB * least_NxB[:, None], y_NxQxB * most_NxB[:, None]), axis=-1)
        chosen = dual_NxQ.argmin(axis=1)
        growth_N = np.maximum(lam * eta * mean_N + dual_NxQ[n, chosen], 0.0)
        weight_NxB = np.abs(y_NxQxB[n, chosen])
        loss_NxB = lam * eta * np.abs(slope_NxB) + (lam * np.abs(D).max(axis=1)) ** 2
        return np.where(possible_N, np.log1p(growth_N), 0.0), weight_NxB, loss_NxB

    def _split(
        self, low_NxB: np.ndarray, high_NxB: np.ndarray, weight_NxB: np.ndarray, loss_NxB: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Each box in two, where its bound is loosest: on the scale of logarithms if that is what spreads the means."""
        n, B = np.arange(len(low_NxB)), low_NxB.shape[1]
        width_NxB, range_B = high_NxB - low_NxB, self.most_B - self.least_B
        with np.errstate(divide="ignore"):
            own_N = np.log(1 - low_NxB.sum(axis=1)) - np.log(np.maximum(0, 1 - high_NxB.sum(axis=1)))
            spread_NxB = weight_NxB * np.minimum(self.temperature * (np.log(high_NxB) - np.log(low_NxB)), range_B)
        shared_N = np.sum(weight_NxB * np.minimum(self.temperature * own_N[:, None], range_B), axis=1)
        linear_NxB = width_NxB * (loss_NxB + (shared_N / width_NxB.sum(axis=1))[:, None])
        where = np.concatenate([spread_NxB, linear_NxB], axis=1).argmax(axis=1)
        axis = where % B
        low, high = low_NxB[n, axis], high_NxB[n, axis]
        cut = np.where(where < B, np.sqrt(np.maximum(low, 1e-12 * high) * high), (low + high) / 2)
        left_NxB, right_NxB = high_NxB.copy(), low_NxB.copy()
        left_NxB[n, axis], right_NxB[n, axis] = cut, cut
        low_NxB, high_NxB = np.concatenate([low_NxB, right_NxB]), np.concatenate([left_NxB, high_NxB])
        inside_N = low_NxB.sum(axis=1) < 1 - _RIM
        return low_NxB[inside_N], high_NxB[inside_N]
