"""The every-start theorem as it is written, in loops over steps, comparators, rates and starts: slow, and independent.

Also what is random in the tests that use it: problems, and forecasts for every prefix.
"""

import math
from typing import NamedTuple

import numpy as np

import lowregret as lr
from lowregret.engine import Engine, Inputs, Setting


class ByHand(NamedTuple):
    """One stream, after each of its steps."""

    alarm: int  # T + 1 for never
    log_total_T: np.ndarray  # ln E_t


def weights(setting: Setting, start: int) -> np.ndarray:
    """m(c, k, start) for one comparator, as the notes have it."""
    rates, C, T = len(setting.watch.prior.rates_K), setting.problem.n_actions, setting.test.horizon
    if T is None:
        return np.array([1 / (start * (start + 1) * (k + 1) * (k + 2)) / C for k in range(rates)])
    when = 0.5 * (start == 1) + 0.5 / T
    first = 0.75 if start == 1 else 0.0
    return np.array([(0.25 / rates * when + first * (k == 0)) / C for k in range(rates)])


def by_hand(setting: Setting, probs_TxS: np.ndarray, tokens_T: np.ndarray) -> ByHand:
    """The theorem on one stream, with quantal responses."""
    U, J, T = setting.problem.utility, setting.problem.span, len(tokens_T)
    rates_K, alarm, unspent = setting.watch.prior.rates_K, T + 1, 1.0
    log_W = np.zeros((U.shape[0], len(rates_K), 0))
    totals = []
    for t in range(1, T + 1):
        p, token = np.asarray(probs_TxS[t - 1], dtype=np.float64), int(tokens_T[t - 1])
        p = p / p.sum()
        eta = setting.problem.anytime_temperature(t) if setting.temperature is None else setting.temperature
        x_CxS = U - answer(U, p, eta) @ U
        psi_CxK = np.array([np.log(np.exp(np.outer(rates_K, x_S)) @ p) for x_S in x_CxS])
        chi_CxK = np.maximum(psi_CxK, 0.0)
        fresh_K = weights(setting, t)
        unspent -= fresh_K.sum() * len(x_CxS)
        joined = np.broadcast_to(np.log(fresh_K), log_W.shape[:2])[..., None]
        log_W = np.concatenate([log_W, joined], axis=2)
        log_W = log_W + (x_CxS[:, token, None] * rates_K - chi_CxK)[..., None]
        peak = max(0.0, log_W.max())
        log_E = peak + math.log(np.exp(log_W - peak).sum() + max(unspent, 0.0) * math.exp(-peak))
        if alarm > T and (log_E >= -math.log(setting.test.delta) or p[token] == 0) and J > 0:
            alarm = t
        totals.append(log_E)
    return ByHand(alarm, np.array(totals))


def answer(U: np.ndarray, probs_S: np.ndarray, eta: float) -> np.ndarray:
    """The quantal response."""
    worth = U @ probs_S / eta
    weight = np.exp(worth - worth.max())
    return weight / weight.sum()


def some_game(rng: np.random.Generator, most_actions: int = 4, most_states: int = 3) -> lr.DecisionProblem:
    """Utilities that are uniform, at the corners, lopsided, or with a dominated action among them."""
    A, S = rng.integers(2, most_actions + 1), rng.integers(2, most_states + 1)
    kind = rng.integers(4)
    U = rng.uniform(-1, 1, (A, S)) if kind else rng.choice([-1.0, 0.0, 1.0], (A, S))
    if kind == 2:
        U *= rng.uniform(0.02, 1, S)
    if kind == 3:
        U[-1] = U[0] - rng.uniform(0, 0.3) - (U[0] - U[0].min()) * 0.1
    if np.ptp(U, axis=0).max() < 0.05:
        U[0, 0], U[1, 0] = 1.0, -1.0
    return lr.DecisionProblem(np.clip(U, -1, 1))


def some_forecasts(rng: np.random.Generator, shape: tuple[int, ...], S: int, zeros: bool = True) -> np.ndarray:
    """Forecasts of every kind: sharp, even, near even, and some that exclude a state."""
    laws = rng.dirichlet(np.full(S, 0.5), shape)
    sharp = np.eye(S)[rng.integers(S, size=shape)] * 0.96 + 0.04 / S
    even = np.full(S, 1 / S) + 0.0 * laws
    kind = rng.random(shape)[..., None]
    laws = np.where(kind < 0.5, sharp, np.where(kind < 0.6, even, laws))
    if zeros:
        laws = np.where((kind > 0.97) & (np.arange(S) == 0), 0.0, laws)
    laws = laws + 1e-6 * (laws > 0)
    return laws / laws.sum(-1, keepdims=True)


def by_prefix(tables: list[np.ndarray], tokens_NxT: np.ndarray) -> np.ndarray:
    """Forecasts ``[N, T, S]`` of a base that has one of its own for every prefix: ``tables[t]`` is ``[S**t, S]``."""
    place, laws = np.zeros(len(tokens_NxT), dtype=np.int64), []
    for t, table in enumerate(tables):
        laws.append(table[place])
        place = place * table.shape[1] + tokens_NxT[:, t]
    return np.stack(laws, axis=1)


def chance_of(probs_NxTxS: np.ndarray, tokens_NxT: np.ndarray) -> np.ndarray:
    """How likely the base finds each whole sequence."""
    return np.take_along_axis(probs_NxTxS, tokens_NxT[..., None], -1)[..., 0].prod(axis=-1)


def played(engine: Engine, probs_NxTxS: np.ndarray, tokens_NxT: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The total regret of what is played, after every step ``[N, T]``, and the alarm times; a step at a time."""
    N, T = tokens_NxT.shape
    rows, found = engine.start(N), []
    for t in range(T):
        step = engine.advise(rows, t + 1, Inputs(probs_NxTxS[:, t]))
        rows, _ = engine.observe(rows, t + 1, step, tokens_NxT[:, t])
        found.append(engine.worst_lead(engine.head.open(rows).lead_P))
    alarm_N = engine.head.open(rows).alarm
    return np.stack(found, axis=1), np.where(alarm_N == 0, T + 1, alarm_N)
