"""Who sits at a table: a player takes a seat for a match, states a mixed action each round, then sees both moves."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .. import inputs
from ..problems import DecisionProblem, a_problem

# Both sides of a table: what is at stake for the row player and for the column player.


Sides = tuple[DecisionProblem, DecisionProblem]


def sides_of(problem: Any) -> Sides:
    """The row player's problem and the column player's: zero-sum, unless a pair of them is given.

    >>> from lowregret import DecisionProblem
    >>> row, column = sides_of(DecisionProblem.from_payoffs([[3, 0, 1], [2, 4, 5]], actions=["up", "down"]))
    >>> column.in_payoffs(column.utility).round(9).tolist(), column.states
    ([[-3.0, -2.0], [0.0, -4.0], [-1.0, -5.0]], ('up', 'down'))
    """
    if not isinstance(problem, (tuple, list)):
        return a_problem(problem), opposite(problem)
    if len(problem) != 2:
        raise ValueError(f"problem must be one problem or a pair of them, row and column, got {len(problem)} of them")
    row, column = (a_problem(side) for side in problem)
    if (row.n_states, row.n_actions) != (column.n_actions, column.n_states):
        raise ValueError(
            "problem: the actions of each side are the states of the other's problem, got "
            f"{row.n_actions} actions x {row.n_states} states for the row and "
            f"{column.n_actions} actions x {column.n_states} states for the column"
        )
    return row, column


def opposite(problem: DecisionProblem) -> DecisionProblem:
    """What is at stake for the other side of a zero-sum game: minus the payoffs, transposed, in the same units."""
    payoffs_AxS = inputs.numbers_of(problem.in_payoffs(problem.utility), "payoffs", "numbers")
    low = min(float(problem.in_payoffs(-1.0)), payoffs_AxS.min())
    high = max(float(problem.in_payoffs(1.0)), payoffs_AxS.max())
    return DecisionProblem.from_payoffs(
        -payoffs_AxS.T, actions=problem.states, states=problem.actions, low=-high, high=-low
    )


class Seat(ABC):
    """A player in one match, with its own memory.

    A seat may have more, which a match asks for by name: ``policy_against(mixed_A) -> [A]``, what it plays once it has
    been told the other's mixed action; ``guard``, the ``Guard`` it acts by, whose events and certificate are kept.
    """

    @abstractmethod
    def policy(self) -> np.ndarray:
        """The mixed action ``[A]`` of the round to come. Asking twice changes nothing."""

    @abstractmethod
    def observe(self, own: int, other: int) -> None:
        """What both did in the round."""


class Player(ABC):
    """A player: it can take a seat in any game that it does not refuse."""

    name: str

    @abstractmethod
    def sit(self, problem: DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> Seat:
        """Take a seat for one match.

        Parameters
        ----------
        problem
            What is at stake for this player: its own actions against the other's, which are the states.
        rounds
            How many there will be.
        rng
            For the player's own draws; its moves are drawn by the match from the mixed actions it states.
        seat
            0 or 1.
        """
