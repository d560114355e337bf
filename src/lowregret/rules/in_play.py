"""What a rule falls back on, in play (Algorithm 1): predictors, policies, and those that are told of the base."""

from typing import Any, NamedTuple

from ..abilities import ability
from ..arrays import Array, last
from ..policies import Policy, Recovering


class InPlay(NamedTuple):
    """A fallback made for the rule's problem and horizon, and how it is to be asked; unchecked."""

    fallback: Any
    follows: bool  # it must be told what the base model says, and enters no evidence
    acts: bool  # it gives mixed actions [..., A], and no laws [..., S]

    def answer(self, memory: Any, probs: Array) -> Array:
        """What it says now, of a step of which the base model says ``probs``."""
        fallback = self.fallback
        if self.follows:
            return (fallback.policy_beside if self.acts else fallback.law_beside)(memory, probs)
        return (fallback.policy if self.acts else fallback.predict)(memory)

    def after(self, memory: Any, probs_S: Array, token: Array, late: Array) -> Any:
        """Its memory after one more token; ``late``: what it said was played."""
        if self.follows:
            return self.fallback.update_beside(memory, last(probs_S), token, late)
        return self.fallback.update(memory, token)

    def answers(self, tokens: Array) -> Array:
        """What it says at every step of recorded sequences, where it goes by the tokens alone."""
        if self.acts:
            return self.fallback.policy_sequence(tokens)
        return ability(self.fallback, "laws", self.fallback.predict_sequence)(tokens)


def in_play(fallback: Any, problem: Any, horizon: int | None, temperature: float | None) -> InPlay:
    """The fallback itself, or what that recipe makes for this problem and horizon."""
    made_for = ability(fallback, "made_for")
    made = fallback if made_for is None else made_for(problem, horizon, temperature)
    if isinstance(made, Recovering):
        return InPlay(made, True, made.acts)
    return InPlay(made, False, not hasattr(made, "predict") and isinstance(made, Policy))
