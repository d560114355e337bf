"""Recalibration: a map from the model's laws to better ones, fitted to the last outcomes; then the best response.

What those do who trust a model's order of things and not its numbers. Neither gives an alarm or promises anything.
"""

from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from ..cells import Scene, best_response
from . import Entry

LEAST = 1e-6  # no smaller probability has a logarithm
RIDGE = 1.0  # towards the model's own law, as much as an outcome or so


class Recalibrated:
    """Laws and states of the last ``window`` outcomes; after every so many, a new fit to them."""

    alarmed = None

    def __init__(self, scene: Scene, window: int = 250, every: int = 25) -> None:
        self.problem, self.window, self.every, self.seen = scene.problem, window, every, 0
        self.laws_RxWxS = np.empty((scene.R, window, scene.problem.n_states))
        self.states_RxW = np.empty((scene.R, window), dtype=int)

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        return best_response(self.problem, laws_RxS if self.seen < self.every else self.mapped(laws_RxS))

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        at = self.seen % self.window
        self.laws_RxWxS[:, at], self.states_RxW[:, at] = laws_RxS, states_R
        self.seen += 1
        if self.seen % self.every == 0:
            W = min(self.seen, self.window)
            self.fit(self.laws_RxWxS[:, :W], self.states_RxW[:, :W])

    def fit(self, laws_RxWxS: np.ndarray, states_RxW: np.ndarray) -> None:
        raise NotImplementedError

    def mapped(self, laws_RxS: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class Logistic(Recalibrated):
    """p'_s ~ exp(a ln p_s + b_s): Platt's for many states; without ``biases``, a temperature alone. By Newton's steps.

    The maximum of the likelihood, less RIDGE/2 times the squares of a - 1 and b.
    """

    def __init__(self, scene: Scene, biases: bool = True, **settings: int) -> None:
        super().__init__(scene, **settings)
        self.own_D = np.eye(1 + biases * scene.problem.n_states)[0]  # a = 1, and no biases
        self.fitted_RxD = np.tile(self.own_D, (scene.R, 1))

    def mapped(self, laws_RxS: np.ndarray) -> np.ndarray:
        return _laws(self.fitted_RxD, _logs(laws_RxS)[:, None])[:, 0]

    def fit(self, laws_RxWxS: np.ndarray, states_RxW: np.ndarray) -> None:
        logs_RxWxS, S = _logs(laws_RxWxS), laws_RxWxS.shape[2]
        hit_RxWxS = states_RxW[:, :, None] == np.arange(S)
        theta_RxD = np.tile(self.own_D, (len(laws_RxWxS), 1))
        moving_R = np.ones(len(theta_RxD), dtype=bool)
        for _ in range(50):
            step_RxD = self._newton(theta_RxD, logs_RxWxS, hit_RxWxS)
            moving_R = moving_R & (np.abs(step_RxD).max(axis=1) > 1e-8)
            if not moving_R.any():
                break
            now_R, size_R = self._cost(theta_RxD, logs_RxWxS, hit_RxWxS), moving_R * 1.0
            for _ in range(20):  # halve where a step would cost more
                next_RxD = theta_RxD - size_R[:, None] * step_RxD
                worse_R = self._cost(next_RxD, logs_RxWxS, hit_RxWxS) > now_R + 1e-9
                if not worse_R.any():
                    break
                size_R = np.where(worse_R, size_R / 2, size_R)
            theta_RxD = next_RxD
        self.fitted_RxD = theta_RxD

    def _cost(self, theta_RxD: np.ndarray, logs_RxWxS: np.ndarray, hit_RxWxS: np.ndarray) -> np.ndarray:
        unlikely_R = -np.log(np.maximum(_laws(theta_RxD, logs_RxWxS), 1e-300)).sum(axis=(1, 2), where=hit_RxWxS)
        return unlikely_R + RIDGE / 2 * ((theta_RxD - self.own_D) ** 2).sum(axis=1)

    def _newton(self, theta_RxD: np.ndarray, logs_RxWxS: np.ndarray, hit_RxWxS: np.ndarray) -> np.ndarray:
        """Gradient over Hessian, of a and the biases."""
        law_RxWxS, D = _laws(theta_RxD, logs_RxWxS), theta_RxD.shape[1]
        off_RxWxS = law_RxWxS - hit_RxWxS
        from_mean_RxWxS = logs_RxWxS - (law_RxWxS * logs_RxWxS).sum(axis=2, keepdims=True)
        grad_RxD, hess_RxDxD = RIDGE * (theta_RxD - self.own_D), np.tile(RIDGE * np.eye(D), (len(theta_RxD), 1, 1))
        grad_RxD[:, 0] += (off_RxWxS * logs_RxWxS).sum(axis=(1, 2))
        hess_RxDxD[:, 0, 0] += (law_RxWxS * from_mean_RxWxS**2).sum(axis=(1, 2))
        if D > 1:
            cross_RxS = (law_RxWxS * from_mean_RxWxS).sum(axis=1)
            grad_RxD[:, 1:] += off_RxWxS.sum(axis=1)
            hess_RxDxD[:, 0, 1:] += cross_RxS
            hess_RxDxD[:, 1:, 0] += cross_RxS
            hess_RxDxD[:, 1:, 1:] += np.eye(D - 1) * law_RxWxS.sum(axis=1)[:, None]
            hess_RxDxD[:, 1:, 1:] -= law_RxWxS.swapaxes(1, 2) @ law_RxWxS
        return np.linalg.solve(hess_RxDxD, grad_RxD[:, :, None])[:, :, 0]


def _logs(laws: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(laws, LEAST))


def _laws(theta_RxD: np.ndarray, logs_RxWxS: np.ndarray) -> np.ndarray:
    score_RxWxS = theta_RxD[:, :1, None] * logs_RxWxS + (theta_RxD[:, None, 1:] if theta_RxD.shape[1] > 1 else 0.0)
    grown_RxWxS = np.exp(score_RxWxS - score_RxWxS.max(axis=2, keepdims=True))
    return grown_RxWxS / grown_RxWxS.sum(axis=2, keepdims=True)


class Isotonic(Recalibrated):
    """For each state a rising function of its probability, by least squares; what they say is made to sum to one."""

    def fit(self, laws_RxWxS: np.ndarray, states_RxW: np.ndarray) -> None:
        S = laws_RxWxS.shape[2]
        self.curves_RxS = [
            [_curve(laws_WxS[:, s], states_W == s) for s in range(S)]
            for laws_WxS, states_W in zip(laws_RxWxS, states_RxW, strict=True)
        ]

    def mapped(self, laws_RxS: np.ndarray) -> np.ndarray:
        said_RxS = np.array(
            [
                [np.interp(p, *curve) for p, curve in zip(law_S, curves_S, strict=True)]
                for law_S, curves_S in zip(laws_RxS.tolist(), self.curves_RxS, strict=True)
            ]
        )
        mass_Rx1 = said_RxS.sum(axis=1, keepdims=True)
        return np.where(mass_Rx1 > 0, said_RxS / np.where(mass_Rx1 > 0, mass_Rx1, 1), laws_RxS)


def _curve(probs_W: np.ndarray, hit_W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where it has knots, and what it is there; between them it is linear, and level beyond."""
    knots_K, which_W, often_K = np.unique(probs_W, return_inverse=True, return_counts=True)
    rate_K = np.bincount(which_W, weights=hit_W, minlength=len(knots_K)) / often_K
    return knots_K, isotonic_regression(rate_K, weights=often_K).x


WINDOWS: tuple[dict[str, Any], ...] = ({}, {"window": 100}, {"window": 500})

ENTRANTS = {
    "logistic recalibration": Entry(Logistic, (*WINDOWS, {"biases": False})),
    "isotonic recalibration": Entry(Isotonic, WINDOWS),
}
