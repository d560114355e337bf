"""What a rule falls back on, in play (Algorithm 1): predictors, policies, and those that are told of the base."""

from typing import Any, NamedTuple

from ..abilities import ability
from ..arrays import Array
from ..policies import PlaysReference, Policy, Recovering
from ..predictors import asked_sequence, said_by, vouched
from ..problems import DecisionProblem


class InPlay(NamedTuple):
    """A fallback made for the rule's problem and horizon, and how it is asked; someone else's answers are checked."""

    fallback: Any
    follows: bool  # it must be told what the base model says, and enters no evidence
    acts: bool  # it gives mixed actions [..., A], and no laws [..., S]
    width: int  # how many numbers it gives: states, or actions
    own: bool  # it is one of this package's, which need no check

    def answer(self, memory: Any, shape: tuple[int, ...]) -> Array:
        """What it says now to streams of this shape, where it goes by the states alone."""
        said = (self.fallback.policy if self.acts else self.fallback.predict)(memory)
        return said if self.own else said_by(self.fallback, said, self.width, shape)

    def answers(self, tokens: Array) -> Array:
        """What it says at every step of recorded sequences, where it goes by the tokens alone."""
        if not self.acts:
            return asked_sequence(self.fallback, tokens)
        said = self.fallback.policy_sequence(tokens)
        return said if self.own else said_by(self.fallback, said, self.width, tuple(tokens.shape))


def in_play(
    fallback: Any, problem: DecisionProblem | None, n_states: int, horizon: int | None, temperature: float | None
) -> InPlay:
    """The fallback itself, or what that recipe makes for this problem and horizon."""
    made_for = ability(fallback, "made_for")
    made = fallback if made_for is None else made_for(problem, horizon, temperature)
    follows = isinstance(made, (Recovering, PlaysReference))
    acts = made.acts if follows else not hasattr(made, "predict") and isinstance(made, Policy)
    width = problem.n_actions if acts and problem is not None else n_states
    return InPlay(made, follows, acts, width, vouched(made))
