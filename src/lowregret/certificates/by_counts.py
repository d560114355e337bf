"""The exact worst case of players that depend on the past through counts only (Lemma 2.3's urn, Hedge)."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..abilities import ability
from ..arrays import first, in_float64, last, mix, softmax
from ..problems import DecisionProblem

PolicyOfCounts = Callable[[np.ndarray], np.ndarray]

LARGEST_TABLE = 2**28  # counts over all steps: a byte each, to trace a worst sequence


class Lattice:
    """All counts of up to ``horizon`` tokens of ``n_states`` states, numbered so that those of t tokens come first.

    The counts of every state but 0 are a point; state 0 has what is left of t. Points are ordered by their sum, so
    the ``size(t)`` points that t tokens can reach are the first ones, whatever t is.

    >>> Lattice(3, 2).counts(1).T.tolist()
    [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    """

    def __init__(self, n_states: int, horizon: int) -> None:
        self.n_states, self.horizon = n_states, horizon
        points, sums = np.zeros((0, 1), dtype=np.int64), np.zeros(1, dtype=np.int64)
        for _ in range(n_states - 1):
            room = horizon + 1 - sums
            last_count = np.arange(room.sum()) - np.repeat(np.cumsum(room) - room, room)
            points = np.concatenate([np.repeat(points, room, axis=1), last_count[None]])
            sums = np.repeat(sums, room) + last_count
        order = np.argsort(sums, kind="stable")
        self._counts_SxN = np.concatenate([sums[None, order], points[:, order]])
        self._sums_N = self._counts_SxN[0].copy()

    def size(self, t: int) -> int:
        """How many counts t tokens can have."""
        return math.comb(t + self.n_states - 1, self.n_states - 1)

    def counts(self, t: int) -> np.ndarray:
        """The counts of t tokens, ``[S, size(t)]``; overwritten by the next call."""
        counts_SxN = self._counts_SxN[:, : self.size(t)]
        counts_SxN[0] = t - self._sums_N[: self.size(t)]
        return counts_SxN

    @cached_property
    def _after_SxN(self) -> list[np.ndarray]:
        """For each state, the number of every point with one more of it."""
        digits = (self.horizon + 2) ** np.arange(self.n_states - 1)
        codes_N = digits @ self._counts_SxN[1:]
        order, inner = np.argsort(codes_N), codes_N[: self.size(self.horizon - 1)]
        ahead = [order[np.searchsorted(codes_N, inner + digit, sorter=order)] for digit in digits]
        return [np.arange(len(inner)), *ahead]

    @cached_property
    def _before_SxN(self) -> list[np.ndarray]:
        """For each state, the number of every point with one less of it."""
        before = [np.zeros(self.size(self.horizon), dtype=np.int64) for _ in range(self.n_states)]
        for back, ahead in zip(before, self._after_SxN, strict=True):
            back[ahead] = np.arange(len(ahead))
        return before

    def moved(self, values_N: np.ndarray, state: int, t: int, fill: float) -> np.ndarray:
        """Values at the counts of t tokens, where one more token puts them; ``fill`` where it cannot lead."""
        ahead_N = np.full(self.size(t + 1), fill)
        ahead_N[self._after_SxN[state][: self.size(t)]] = values_N
        return ahead_N

    def before(self, state: int, index: int) -> int:
        """The number of a point before its last token, which was ``state``."""
        return int(self._before_SxN[state][index])


def table_size(n_states: int, horizon: int) -> int:
    """How many counts there are over all steps."""
    return math.comb(horizon + n_states, n_states)


def least(paths_SxN: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The least of several values at every point, and which it was (the first on ties)."""
    value_N, choice_N = paths_SxN[0], np.zeros(len(paths_SxN[0]), dtype=np.uint8)
    for s, path_N in enumerate(paths_SxN[1:], start=1):
        choice_N[path_N < value_N] = s
        value_N = np.minimum(value_N, path_N)
    return value_N, choice_N


def worst_over_counts(
    policy: PolicyOfCounts, problem: DecisionProblem, horizon: int, trace: bool = True
) -> tuple[float, np.ndarray]:
    """The largest average regret over all sequences, and with ``trace`` a sequence that has it.

    The least utility with which counts n can be reached obeys W(n) = min_s W(n - e_s) + U(policy at n - e_s, s).
    """
    S, lattice = problem.n_states, Lattice(problem.n_states, horizon)
    earned_N, choices = np.zeros(1), []
    for t in range(horizon):
        earned_SxN = mix(problem.utility.T, first(policy(last(lattice.counts(t)))))
        earned_N, choice_N = least([lattice.moved(earned_N + earned_SxN[s], s, t, math.inf) for s in range(S)])
        if trace:
            choices.append(choice_N)
    regret_N = mix(problem.utility, lattice.counts(horizon).astype(np.float64)).max(axis=0) - earned_N
    worst = int(regret_N.argmax())
    value, tokens, index = float(regret_N[worst]) / horizon, np.empty(horizon, dtype=np.int64), worst
    for t in range(len(choices) - 1, -1, -1):
        tokens[t] = choices[t][index]
        index = lattice.before(int(tokens[t]), index)
    return value, tokens


def policy_of_counts(player: Any, problem: DecisionProblem, temperature: float | None) -> PolicyOfCounts | None:
    """What a policy plays, or quantal responses to a predictor, after given counts; None if it may depend on more.

    ``temperature=None`` is the schedule for an unknown horizon; a policy has no use for one.
    """
    law_of_counts = None if hasattr(player, "policy") else ability(player, "law_of_counts")
    if law_of_counts is None:
        own: PolicyOfCounts | None = ability(player, "policy_of_counts")
        return own

    def responding(counts: np.ndarray) -> np.ndarray:
        eta = problem.anytime_temperature(counts.sum(axis=-1) + 1) if temperature is None else temperature
        play: np.ndarray = last(softmax(mix(problem.utility, first(in_float64(law_of_counts(counts)))) / eta))
        return play

    return responding


def worst_case(player: Any, problem: DecisionProblem, horizon: int, temperature: float | None) -> float | None:
    """The largest average regret of a player that depends on counts only, unchecked.

    None if it may depend on more, or if the table is too large to fill within a minute or two.
    """
    policy = policy_of_counts(player, problem, temperature)
    if policy is None or table_size(problem.n_states, horizon) > 4 * LARGEST_TABLE:
        return None
    return worst_over_counts(policy, problem, horizon, trace=False)[0]
