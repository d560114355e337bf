"""Players for tests of matches: one that reads both histories, one that says anything."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import lowregret as lr
from lowregret.games import Player, Seat


@dataclass(frozen=True)
class Follows:
    """A model with ``begin``: counts of the other's move after each pair of moves, one's own and the other's."""

    def begin(self, problem: lr.DecisionProblem) -> "FollowsReader":
        return FollowsReader(problem)


class FollowsReader:
    def __init__(self, problem: lr.DecisionProblem) -> None:
        self.counts = np.ones((problem.n_actions, problem.n_states, problem.n_states))
        self.last: tuple[int, int] | None = None

    def predict(self) -> np.ndarray:
        counts = self.counts[self.last] if self.last is not None else np.ones(self.counts.shape[-1])
        return counts / counts.sum()

    def observe(self, own: int, other: int) -> None:
        if self.last is not None:
            self.counts[self.last][other] += 1
        self.last = own, other


@dataclass(frozen=True)
class Says(Player):
    """Whatever ``fn(own moves, other's moves)`` gives."""

    fn: Any
    name: str = "says"

    def sit(self, problem: lr.DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> Seat:
        return _Said(self.fn)


class _Said(Seat):
    def __init__(self, fn: Any) -> None:
        self.fn, self.own, self.other = fn, [], []

    def policy(self) -> Any:
        return self.fn(self.own, self.other)

    def observe(self, own: int, other: int) -> None:
        self.own.append(own)
        self.other.append(other)


def after_the_others(own: list[int], other: list[int]) -> np.ndarray:
    """What beats the other's last move: a pure action."""
    return np.eye(3)[(other[-1] + 1) % 3 if other else 0]


def in_turn(own: list[int], other: list[int]) -> np.ndarray:
    """Rock, paper, paper, scissors, and again."""
    return np.eye(3)[(0, 1, 1, 2)[len(own) % 4]]
