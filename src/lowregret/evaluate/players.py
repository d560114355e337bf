"""Players: predictors, responded to quantally or exactly, and policies, which act for themselves (Section 2.2)."""

import math
from dataclasses import dataclass
from typing import Any

from .. import inputs
from ..arrays import Array, first, in_float64, last, mix
from ..policies import Policy, Respond
from ..predictors import Predictor, asked_sequence, same_states, within_window
from ..problems import DecisionProblem, best_of, same_problem
from ..robust import Robust


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
        return self.respond(inputs.probs_of(self.predictor.predict(memory), self.problem.n_states))

    def update(self, memory: Any, token: Array) -> Any:
        return self.predictor.update(memory, token)

    def policy_sequence(self, tokens: Array) -> Array:
        return self.respond(asked_sequence(self.predictor, inputs.sequences_of(tokens, self.problem.n_states)))

    def respond(self, probs: Array) -> Array:
        """One on the best action, the lowest on ties."""
        return last(best_of(mix(self.problem.utility, first(in_float64(probs)))))


def acting(
    player: Any, problem: DecisionProblem, horizon: int, temperature: float | None = None, respond: str = "quantal"
) -> Policy:
    """The player as a policy: a predictor is responded to, at its own temperature if robust and else at 1/sqrt(T)."""
    inputs.choice(respond, "respond", ("quantal", "best"))
    if not hasattr(player, "start") or not (hasattr(player, "policy") or hasattr(player, "predict")):
        raise ValueError(f"player must be a Predictor or a Policy, got {type(player).__name__}")
    within_window(getattr(player, "predictor", player), horizon, "player")
    if hasattr(player, "policy"):
        if temperature is not None or respond == "best":
            raise ValueError(
                f"temperature and respond say how to act on a predictor, and {type(player).__name__} acts for itself"
            )
        same_problem("player acts in another problem", player.problem, problem)
        return player
    if respond == "best":
        return BestRespond(player, problem)
    if temperature is not None or not isinstance(player, Robust):
        return Respond(player, problem, 1 / math.sqrt(horizon) if temperature is None else temperature)
    if player.problem is None:
        return player.respond(problem)
    same_problem("player is robust for another problem", player.problem, problem)
    if player.horizon is not None and player.horizon < horizon:
        raise ValueError(f"player is robust for {player.horizon} steps, horizon is {horizon}")
    return player.respond()
