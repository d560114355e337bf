"""Whom an adversary plays against (Section 2.2): any predictor or policy as one that acts, and what was found."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ... import inputs
from ...abilities import ability
from ...arrays import Array, device, first, in_float64, last, mix, namespace, to_numpy
from ...certificates import by_counts
from ...certificates.by_counts import PolicyOfCounts
from ...policies import Policy, Respond
from ...predictors import Predictor, asked_sequence, said_by, same_states, vouched, within_window
from ...problems import DecisionProblem, a_problem, best_of, same_problem
from ...robust import Robust


class Worst(NamedTuple):
    """What an adversary found: ``tokens``, the average ``regret`` they inflict, and how much more there can be.

    ``exact``: no sequence is worse. ``upper``: no sequence has more regret than this (None: not known).
    ``found_by``: "greedy", "beam", "counts" or "keys" (dynamic programming over counts, or over counts and keys),
    "two-sided" (the dynamic programme for Algorithm 1), or "exhaustive".
    """

    tokens: np.ndarray
    regret: Any
    exact: bool
    upper: float | None
    found_by: str


@dataclass(frozen=True)
class BestRespond(Policy):
    """The exact best response to a predictor, as a mixed action: what Lemma 2.2 is about.

    >>> from lowregret import PolyaUrn, matching
    >>> BestRespond(PolyaUrn(2), matching()).policy_sequence([1, 1]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    predictor: Predictor
    problem: DecisionProblem

    def __post_init__(self) -> None:
        same_states(self.predictor, self.problem)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> Any:
        return self.predictor.start(batch_shape, like=like)

    def policy(self, memory: Any) -> Array:
        law = self.predictor.predict(memory)
        if not vouched(self.predictor):
            law = said_by(self.predictor, law, self.problem.n_states, np.shape(law)[:-1])
        return self.respond(law)

    def update(self, memory: Any, token: Array) -> Any:
        return self.predictor.update(memory, token)

    def policy_sequence(self, tokens: Array) -> Array:
        return self.respond(asked_sequence(self.predictor, inputs.sequences_of(tokens, self.problem.n_states)))

    def respond(self, probs: Array) -> Array:
        """One on the best action, the lowest on ties."""
        return last(best_of(mix(self.problem.utility, first(in_float64(probs)))))


def acting(
    player: Any, problem: DecisionProblem, horizon: int, temperature: float | None, respond: str
) -> tuple[Policy, int]:
    """The player as a policy, and the horizon: predictors are responded to, quantally or exactly."""
    a_problem(problem)
    horizon = inputs.whole(horizon, "horizon")
    inputs.choice(respond, "respond", ("quantal", "best"))
    if not hasattr(player, "start") or not (hasattr(player, "policy") or hasattr(player, "predict")):
        raise ValueError(f"player must be a predictor or a policy, got {type(player).__name__}")
    within_window(getattr(player, "predictor", player), horizon, "player")
    if hasattr(player, "policy"):
        if temperature is not None or respond == "best":
            raise ValueError(
                f"temperature and respond say how to act on a predictor, and {type(player).__name__} acts for itself"
            )
        same_problem("player was made for another problem", player.problem, problem)
        return player, horizon
    if respond == "best":
        if temperature is not None:
            raise ValueError('temperature goes with respond="quantal": exact best responses have none')
        return BestRespond(player, problem), horizon
    if temperature is None and isinstance(player, Robust) and player.problem is None:
        return player.respond(problem), horizon
    if temperature is None:
        temperature = player.temperature if isinstance(player, Robust) else 1 / math.sqrt(horizon)
    return Respond(player, problem, temperature), horizon


def policy_of_counts(player: Policy) -> PolicyOfCounts | None:
    """What the player plays after given counts ``[..., S]``, if it depends on nothing else; None if it may."""
    if isinstance(player, Respond):
        return by_counts.policy_of_counts(player.predictor, player.problem, player.temperature)
    if not isinstance(player, BestRespond):
        return ability(player, "policy_of_counts")
    law_of_counts = ability(player.predictor, "law_of_counts")
    return None if law_of_counts is None else lambda counts: player.respond(law_of_counts(counts))


def key_of(player: Any, memory: Any) -> np.ndarray | None:
    """What beside the counts decides how each stream will act, ``[N, k]``; None if the player does not say."""
    if isinstance(player, Respond):
        return key_of(player.predictor, memory.predictor)
    if isinstance(player, BestRespond):
        return key_of(player.predictor, memory)
    if ability(player, "law_of_counts") or ability(player, "policy_of_counts"):
        return np.zeros((), dtype=np.int64)[None, None]  # nothing does
    if isinstance(player, Robust):
        if not ability(player.setting.fallback, "law_of_counts"):
            return None
        tripped, after = to_numpy(player.switched(memory)), np.zeros((1, 1), dtype=np.int64)
        # Streams that have not switched differ in their evidence: each is alike to itself only.
        own = np.where(tripped, 0, np.arange(1, len(tripped) + 1))[:, None]
        return np.concatenate([own, np.broadcast_to(after, (len(own), after.shape[-1]))], axis=-1)
    own_key = ability(player, "key")
    if own_key is None:
        return None
    key = to_numpy(own_key(memory))
    return key[:, None] if key.ndim == 1 else key


def played(player: Policy, memory: Any) -> tuple[np.ndarray, Array]:
    """The mixed action of every stream, ``[N, A]``, for the adversary's books, and as the player gave it."""
    given = player.policy(memory)
    if not vouched(player):
        given = said_by(player, given, player.problem.n_actions, (*given.shape[:-1],))
    return to_numpy(given).astype(np.float64, copy=False), given


def told(player: Policy, memory: Any, tokens_N: np.ndarray, like: Array) -> Any:
    """The player's memory after it has seen one more token a stream; ``like`` is what it played."""
    xp = namespace(like)
    return player.update(memory, tokens_N if xp is np else xp.asarray(tokens_N, device=device(like)))
