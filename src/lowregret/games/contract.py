"""Who sits at a table: a player takes a seat for a match, states a mixed action each round, then sees both moves."""

from abc import ABC, abstractmethod

import numpy as np

from ..problems import DecisionProblem


class Seat(ABC):
    """A player in one match. It lives: what it remembers is its own.

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
    """Who can take a seat, at any table that it does not refuse by name."""

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
            For what the player draws itself; its moves are drawn by the match from the mixed actions it states.
        seat
            0 or 1.
        """
