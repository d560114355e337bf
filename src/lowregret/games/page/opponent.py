"""Who sits across the table: a predictor of your next move, a guard around it, and the games that are played."""

from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...guard import Guard
from ...problems import DecisionProblem, rock_paper_scissors

HALF_LIFE = 60  # rounds after which a habit counts half


class Reader(Protocol):
    """A predictor in one match: the law of the other's next move, from both histories."""

    def predict(self) -> np.ndarray: ...

    def observe(self, own: int, other: int) -> None: ...


class Model(Protocol):
    """A predictor that can begin a match."""

    def begin(self, problem: DecisionProblem) -> Reader: ...


class Habits:
    """What you did after the last rounds of both, for every number of them up to ``depth``, each trusted as it did."""

    def __init__(self, depth: int = 4) -> None:
        self.depth = depth

    def begin(self, problem: DecisionProblem) -> "_Habits":
        return _Habits(problem.n_states, self.depth)


class _Habits:
    def __init__(self, n_states: int, depth: int) -> None:
        self.n_states, self.rounds, self.past = n_states, 0, [(-1, -1)] * depth
        self.counts: dict[Any, np.ndarray] = {}  # by how many rounds of whom, and what was done in them
        self.keys = self._contexts()
        self.log_weights_N = np.zeros(len(self.keys))

    def _contexts(self) -> list[Any]:
        both = [("both", *self.past[:k]) for k in range(len(self.past) + 1)]
        return both + [("yours", *(other for _, other in self.past[:k])) for k in range(1, len(self.past) + 1)]

    def _laws(self) -> np.ndarray:
        none_S = np.zeros(self.n_states)
        counts_NxS = 0.2 + np.stack([self.counts.get(key, none_S) for key in self.keys])
        return counts_NxS / counts_NxS.sum(-1, keepdims=True)

    def predict(self) -> np.ndarray:
        weights_N = np.exp(self.log_weights_N - self.log_weights_N.max())
        law_S = weights_N @ self._laws()
        return 0.98 * law_S / law_S.sum() + 0.02 / self.n_states

    def observe(self, own: int, other: int) -> None:
        self.log_weights_N = 0.9 * self.log_weights_N + np.log(self._laws()[:, other])
        for key in self.keys:
            self.counts[key] = 0.5 ** (1 / HALF_LIFE) * self.counts.get(key, 0.0) + np.eye(self.n_states)[other]
        self.past = [(own, other), *self.past[:-1]]
        self.keys = self._contexts()


class Game(NamedTuple):
    """A game that a person can play here: its title, the machine's problem, what the machine's aim is."""

    title: str
    problem: DecisionProblem
    rule: str


def pennies() -> DecisionProblem:
    """Matching pennies for the one who wants them alike: +1 where they are, -1 where they differ."""
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


def model() -> Model:
    """The predictor that plays. The one line that says which."""
    return Habits()


def guard_for(problem: DecisionProblem, rounds: int) -> Guard:
    """The guard around it, which falls back on ``Recovery``: the predictor can come back."""
    return Guard(problem, rounds)


def warm(plays: str, rounds: int) -> None:
    """Let what is compiled once on a machine be compiled before the first round rather than in the middle of a game."""
    problem = GAMES[plays].problem
    guard, law_S = guard_for(problem, rounds), np.full(problem.n_states, 1 / problem.n_states)
    for _ in range(min(rounds, 70)):
        guard.advise(law_S)
        guard.observe(0)


@lru_cache(maxsize=8)
def promised(plays: str, rounds: int) -> dict[str, Any]:
    """What the guard promises of an episode, in points: ``[t, the most that it may be behind by after t rounds]``.

    At some fifty numbers of rounds, the last among them.
    """
    certificate = guard_for(GAMES[plays].problem, rounds).certificate
    times = np.unique(np.append(np.linspace(1, rounds, 40).round(), np.arange(1, min(rounds, 12)))).astype(int)
    behind = []
    for t in times.tolist():
        with suppress(ValueError):  # some speak of the whole only
            behind.append([t, t * certificate.at(t).regret_bound])
    return {"behind": behind, "theorem": certificate.theorem, "false_switch": certificate.tv_bound}
