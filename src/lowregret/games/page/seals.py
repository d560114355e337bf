"""Commit and reveal: the machine seals its move before yours is sent, and opens the seal after it."""

import hashlib
import json
import secrets
from random import SystemRandom
from typing import NamedTuple

import numpy as np

from ...predictors import draw
from ...problems import DecisionProblem

_DICE = SystemRandom()  # nobody who knows the moves before can tell the next


class Seal(NamedTuple):
    """What the machine has decided for a round, as a text whose digest is shown before the move and itself after."""

    text: str
    mixed_A: np.ndarray
    own: int

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def sealed(problem: DecisionProblem, game: str, number: int, mixed_A: np.ndarray) -> Seal:
    """A move drawn from the mixed action, with it in one text; the nonce keeps the text from being guessed.

    >>> from lowregret import rock_paper_scissors
    >>> seal = sealed(rock_paper_scissors(), "one", 1, np.array([0.0, 1.0, 0.0]))
    >>> opened(rock_paper_scissors(), "one", 1, seal.text).own == seal.own == 1
    True
    """
    own = int(draw(mixed_A, np.asarray(_DICE.random())))
    said = {
        "game": game,
        "round": number,
        "move": problem.actions[own],
        "mixed": mixed_A.tolist(),
        "nonce": secrets.token_hex(16),
    }
    return Seal(json.dumps(said, separators=(",", ":")), mixed_A, own)


def opened(problem: DecisionProblem, game: str, number: int, text: str) -> Seal:
    """The seal with this text, which must be for this round."""
    said = json.loads(text)
    if (said["game"], said["round"]) != (game, number):
        raise ValueError(f"a seal of game {said['game']}, round {said['round']} stands in game {game}, round {number}")
    return Seal(text, np.array(said["mixed"], dtype=np.float64), problem.actions.index(said["move"]))
