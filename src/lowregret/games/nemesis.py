"""The nemesis: it sees through the other player and answers its mixed action with the best response."""

from dataclasses import dataclass

import numpy as np

from ..problems import DecisionProblem
from .contract import Player, Seat
from .players import named


@dataclass(frozen=True)
class Nemesis(Player):
    """A white-box adversary: each round it is told the other's mixed action and plays a best response to it.

    It does not know the move that will be drawn, and it looks no round ahead. Against a player who states a pure
    action (an OpenSpiel bot draws its own moves before it states them) it knows the move.

    >>> from lowregret import play, rock_paper_scissors
    >>> from lowregret.games import Fixed
    >>> match = play(rock_paper_scissors(), (Fixed([0.5, 0.3, 0.2]), Nemesis()), rounds=10, seed=0)
    >>> match.moves[1].tolist(), round(float(match.expected[0].sum()), 9)
    ([1, 1, 1, 1, 1, 1, 1, 1, 1, 1], -3.0)
    """

    name: str = "nemesis"

    def __post_init__(self) -> None:
        named(self.name, "nemesis")

    def sit(self, problem: DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> "NemesisSeat":
        return NemesisSeat(problem)


class NemesisSeat(Seat):
    """The nemesis in one match."""

    def __init__(self, problem: DecisionProblem) -> None:
        self.problem = problem

    def policy(self) -> np.ndarray:
        """Without a sight of the other: the best response to a uniform one."""
        return self.policy_against(np.full(self.problem.n_states, 1 / self.problem.n_states))

    def policy_against(self, mixed_A: np.ndarray) -> np.ndarray:
        """The best response to the other's mixed action, ties to the lowest index."""
        # The same up to rounding is a tie: a player who is indifferent must not lose by the last digit of his numbers.
        gain_A = self.problem.utility @ mixed_A
        best = int(np.argmax(gain_A >= gain_A.max() - 1e-12))
        pure_A = np.zeros(self.problem.n_actions)
        pure_A[best] = 1.0
        return pure_A

    def observe(self, own: int, other: int) -> None:
        pass
