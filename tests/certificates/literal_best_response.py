"""The test on what a best response loses, as its theorem is written: loops over one stream, nothing shared."""

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np

import lowregret as lr
from lowregret.certificates.every_start import Prior


class Told(NamedTuple):
    alarm: int  # T + 1 for never
    gain_TxA: np.ndarray  # what each action earned more than the best response


def told(problem: lr.DecisionProblem, prior: Prior, delta: float, laws_TxS: np.ndarray, states_T: np.ndarray) -> Told:
    """Bets on every action against the best response; charged psi+."""
    U, T, alarm, gains = problem.utility, len(states_T), len(states_T) + 1, []
    wealth_AxK, unspent = np.zeros((len(U), len(prior.rates_K))), 1.0
    for t in range(1, T + 1):
        p, state = laws_TxS[t - 1], int(states_T[t - 1])
        b = int(np.argmax(U @ p))
        x_AxS = U - U[b]
        fresh_K = prior.weights_K(t)
        unspent -= len(U) * fresh_K.sum()
        for c in range(len(U)):
            for k, rate in enumerate(prior.rates_K):
                charge = max(math.log(float(p @ np.exp(rate * x_AxS[c]))), 0.0)
                wealth_AxK[c, k] = (wealth_AxK[c, k] + fresh_K[k]) * math.exp(rate * x_AxS[c, state] - charge)
        gains.append(x_AxS[:, state])
        if alarm > T and (wealth_AxK.sum() + unspent >= 1 / delta or p[state] == 0):
            alarm = t
    return Told(alarm, np.array(gains))


def corner_laws(problem: lr.DecisionProblem, b: int) -> list[np.ndarray]:
    """All corners of the laws to which b is a best response: S - 1 of the inequalities hold with equality."""
    U = problem.utility
    S = U.shape[1]
    rows = np.concatenate([np.delete(U, b, axis=0) - U[b], -np.eye(S)])  # each at most 0
    found = []
    for tight in combinations(range(len(rows)), S - 1):
        matrix = np.concatenate([rows[list(tight)], np.ones((1, S))])
        if abs(np.linalg.det(matrix)) < 1e-10:
            continue
        law = np.linalg.solve(matrix, np.append(np.zeros(S - 1), 1.0))
        if (rows @ law <= 1e-12).all():
            found.append(np.clip(law, 0, None) / np.clip(law, 0, None).sum())
    return found
