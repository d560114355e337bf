"""Who sits across the table: a predictor of your next move, a guard around it, and the games that are played."""

import math
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...guard import Guard
from ...predictors import OpponentModel
from ...problems import DecisionProblem, Positions, rock_paper_scissors
from ...rules import ExactTest


class Game(NamedTuple):
    """A game that a person can play here: its title, the machine's problem, and the rule in words."""

    title: str
    problem: DecisionProblem
    rule: str


def pennies() -> DecisionProblem:
    """Matching pennies for the player who wants them alike: +1 where they are, -1 where they differ."""
    names = ["heads", "tails"]
    return DecisionProblem([[1, -1], [-1, 1]], actions=names, states=names)


GAMES = {
    "rock-paper-scissors": Game(
        "Rock, paper, scissors", rock_paper_scissors(), "Rock beats scissors, scissors beat paper, paper beats rock."
    ),
    "matching-pennies": Game(
        "Matching pennies", pennies(), "You win when the coins differ; the machine wins when they are alike."
    ),
}


def model() -> OpponentModel:
    """The predictor that plays; only this line says which."""
    return OpponentModel()


def guard_for(problem: DecisionProblem, rounds: int) -> Guard:
    """The guard around it, which falls back on ``Recovery``: the predictor can come back."""
    return Guard(problem, rounds, rule=ExactTest(problem, rounds))


def warm(plays: str, rounds: int) -> None:
    """Compile what is compiled once on a machine, before the first round rather than in the middle of a game."""
    problem = GAMES[plays].problem
    guard, law_S = guard_for(problem, rounds), np.full(problem.n_states, 1 / problem.n_states)
    for _ in range(min(rounds, 70)):
        guard.advise(law_S)
        guard.observe(Positions(0))


@lru_cache(maxsize=8)
def promised(plays: str, rounds: int) -> dict[str, Any]:
    """What the guard promises of an episode, in points: ``[t, the most that it may be behind by after t rounds]``.

    After each of the first rounds, then a tenth apart, and after the last: what is promised never falls in between.
    """
    certificate = guard_for(GAMES[plays].problem, rounds).certificate
    apart = np.geomspace(1, rounds, 1 + math.ceil(math.log(rounds) / math.log(1.1)))
    times = np.unique(np.append(apart.round(), np.arange(1, min(rounds, 40)))).astype(int)
    behind = []
    for t in times.tolist():
        with suppress(ValueError):  # some certificates are about the whole only
            behind.append([t, t * certificate.at(t).regret_bound])
    return {"behind": behind, "theorem": certificate.theorem, "false_switch": certificate.tv_bound}
