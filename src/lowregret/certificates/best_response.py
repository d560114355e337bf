"""What a bet against a best response is charged at most: kappa where the temperature is 0, for every pair of actions.

Let b be a best response to the forecast p and x(s) = U(c, s) - U(b, s) what action c gains over it, between -l and h.
Then E_p x <= 0, and for a rate lam

    ln E_p exp(lam x)  <=  ln LP,   LP = max_p { sum_s p_s exp(lam x_s) : U(a, p) <= U(b, p) for all a }
                       <=  ln[ (l exp(lam h) + h exp(-lam l)) / (l + h) ]     (0 unless l, h > 0)
                       <=  lam^2 R^2 / 8.

The first is exact and takes a linear programme for each pair; the second drops all of b's rivals but c, and is attained
by a forecast on two states where these are no rivals; the third is Hoeffding's, with R >= l + h the contrast, and needs
nothing but E_p x <= 0. A charge is convex in what is bet on: a mixed action is charged no more than a pure one.

Where outcomes are numbers and payoffs straight between knots, all mass between two knots may as well sit on them: means
stay, and exponentials of straight lines grow. So knots take the place of states.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import frozen
from ..problems import DecisionProblem, Payoff

_ROUND_UP = 1 + 1e-12
_LARGE = 30.0  # from here on e^-z is nothing beside 1


def kappa(problem: DecisionProblem | Payoff, rate: Any) -> Any:
    """The two-point form, for the pair of actions of which most can be charged.

    >>> from lowregret import matching
    >>> round(float(kappa(matching(), 0.1)), 6), round(float(np.log(np.cosh(0.1))), 6)
    (0.004992, 0.004992)
    """
    rate, (low_N, high_N) = np.asarray(rate, dtype=np.float64), _farthest(problem)
    return two_point(rate[..., None], low_N, high_N).max(axis=-1, initial=0.0)


def pair_kappa(problem: DecisionProblem | Payoff, rates_K: Any) -> np.ndarray:
    """The charge of a bet on action c against best response b at each rate, ``[c, b, k]``.

    Bettors that are charged this, whatever the forecast, lose nothing on average under any distribution to which b is a
    best response, be it the stated one or not.

    >>> from lowregret import cost_loss
    >>> pair_kappa(cost_loss(cost=1, loss=4), [0.5]).round(4)[..., 0].tolist()  # waiting; protecting
    [[0.0, 0.078], [0.1074, 0.0]]
    """
    low_AxA, high_AxA = _reaches(problem)
    return two_point(rates_K, low_AxA[..., None], high_AxA[..., None])


def exact_kappa(problem: DecisionProblem | Payoff, rate: Any) -> Any:
    """By the linear programmes, rounded up: only for pairs whose two-point form is above what was found."""
    rates, (low_AxA, high_AxA) = np.asarray(rate, dtype=np.float64), _reaches(problem)
    found = np.zeros(rates.size)
    for k, lam in enumerate(rates.ravel().tolist()):
        bound_AxA = two_point(lam, low_AxA, high_AxA)
        for pair in np.argsort(-bound_AxA, axis=None):
            c, b = divmod(int(pair), len(bound_AxA))
            if bound_AxA[c, b] <= found[k]:
                break
            found[k] = max(found[k], min(bound_AxA[c, b], _programme(problem, c, b, lam)))
    return found.reshape(rates.shape)


def main_rate(problem: DecisionProblem | Payoff, steps: int, log_cost: float) -> float:
    """The rate at which [ t kappa(lam) + c ] / lam is least; kappa is convex, so there is one.

    >>> from lowregret import rock_paper_scissors
    >>> round(main_rate(rock_paper_scissors(), 1024, 7.6), 4), round((8 * 7.6 / 1024) ** 0.5 / 3, 4)
    (0.0841, 0.0812)
    """
    if not len(_farthest(problem)[0]):
        return np.inf  # who is best by the stated forecast is so whatever the outcome
    from scipy.optimize import minimize_scalar

    near = float(np.log(8 * log_cost / steps) / 2 - np.log(problem.contrast))  # by Hoeffding's form

    def bound(log_rate: float) -> float:
        lam = np.exp(log_rate)
        return float((steps * kappa(problem, lam) + log_cost) / lam)

    found = minimize_scalar(bound, bounds=(near - 1, near + 4), method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x))


def two_point(rate: Any, low: Any, high: Any) -> np.ndarray:
    """ln[ (l e^(lam h) + h e^(-lam l)) / (l + h) ], rounded up; these arguments broadcast.

    Of all distributions on [-l, h] with mean at most 0 none has more. 0 where l or h is not positive: who never gains,
    or never loses, gains nothing under a distribution to which the other is best.
    """
    rate, low, high = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (rate, low, high)))
    both = (low > 0) & (high > 0)
    low, high = np.where(both, low, 1.0), np.where(both, high, 1.0)
    up, share = rate * high, low / (low + high)
    small = np.minimum(up, _LARGE)
    near = np.log1p(share * excess(small) + (1 - share) * excess(-np.minimum(rate * low, 1e9)))
    far = up + np.log(share + (1 - share) * np.exp(-rate * (low + high)))
    return np.where(both, np.where(up < _LARGE, near, far), 0.0) * _ROUND_UP


def excess(z: np.ndarray) -> np.ndarray:
    """e^z - 1 - z, also where it is tiny."""
    found: np.ndarray = np.where(np.abs(z) < 1e-3, z * z * (0.5 + z * (1 / 6 + z / 24)), np.expm1(z) - z)
    return found


def _utilities(problem: DecisionProblem | Payoff) -> np.ndarray:
    """What each action earns in each state or at each knot; the widest there are where nothing is known of them."""
    if isinstance(problem, DecisionProblem):
        return problem.utility
    if problem.knots is not None:
        return problem.knot_utilities
    matrix = np.zeros((problem.n_actions, 2))
    matrix[0], matrix[1:] = (1.0, -1.0), (-1.0, 1.0)
    return matrix


@lru_cache(maxsize=64)
def _reaches(problem: DecisionProblem | Payoff) -> tuple[np.ndarray, np.ndarray]:
    """l and h for every pair (c, b), ``[A, A]`` each."""
    utility = _utilities(problem)
    high_AxA = np.array([(row - utility).max(axis=1) for row in utility])
    return frozen(high_AxA.T.copy()), frozen(high_AxA)  # c loses at most what b gains


@lru_cache(maxsize=64)
def _farthest(problem: DecisionProblem | Payoff) -> tuple[np.ndarray, np.ndarray]:
    """The l and h of pairs that no other pair exceeds in both: charges grow with either."""
    low, high = (reach.ravel() for reach in _reaches(problem))
    order = np.lexsort((-low, -high))
    low, high = low[order], high[order]
    farther = low > np.maximum.accumulate(np.append(0.0, low[:-1]))
    keep = farther & (high > 0)
    return frozen(low[keep]), frozen(high[keep])


def _programme(problem: DecisionProblem | Payoff, c: int, b: int, rate: float) -> float:
    """ln LP from above: with any prices y >= 0 of b's rivals, LP <= max_s [ exp(lam x) + y (U(b, s) - U(., s)) ].

    The solver's prices make that the least; where they are off by rounding, it is still a bound.
    """
    from scipy.optimize import linprog

    utility = _utilities(problem)
    x_S, rival_AxS = utility[c] - utility[b], np.delete(utility, b, axis=0) - utility[b]
    unit = max(float(np.abs(rival_AxS).max()), 1e-300)  # the solver's tolerances are absolute
    scale = float(np.expm1(min(rate * x_S.max(), 700.0)))
    if rate * x_S.max() > 700 or scale <= 0:
        return np.inf
    gain_S = np.expm1(rate * x_S) / scale
    found = linprog(
        -gain_S,
        A_ub=rival_AxS / unit,
        b_ub=np.zeros(len(rival_AxS)),
        A_eq=np.ones((1, len(x_S))),
        b_eq=[1.0],
        bounds=(0, None),
        method="highs-ds",
    )
    if found.status == 2:  # b is never a best response: nobody is charged anything
        return 0.0
    if found.status != 0:
        return np.inf
    price_A = np.maximum(-found.ineqlin.marginals, 0.0)
    most = float((gain_S - price_A @ (rival_AxS / unit)).max()) * scale
    return float(np.log1p(max(most, 0.0) * _ROUND_UP + 4e-16))
