"""A step before its state: what a model says of it, what is at stake, what others would play; and what is earned."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import (
    Array,
    constant,
    detached,
    first,
    in_float64,
    mix,
    namespace,
    pick,
    total,
)
from .decision import DecisionProblem, with_first


def action_utilities(problem: DecisionProblem, tokens: Array, like: Array) -> Array:
    """What each action earns against each token, ``[A, ...]``, unchecked."""
    xp = namespace(like)
    utility = constant(problem.utility, like)
    if tokens.ndim == 0:
        return utility[:, int(tokens)]
    columns = [xp.reshape(utility[:, s], (-1, *(1,) * tokens.ndim)) for s in range(problem.n_states)]
    earned = pick(columns, tokens)
    return xp.broadcast_to(earned, (problem.n_actions, *tokens.shape)) if problem.n_states == 1 else earned


def leads(problem: DecisionProblem, tokens: Array, chances_A1: Array) -> Array:
    """What each fixed action earns more than the mixed one, ``[A, ...]``, unchecked."""
    earned_A = action_utilities(problem, tokens, chances_A1)
    own = earned_A[0]
    if problem.n_actions > 1:
        own = own + total(chances_A1 * (earned_A[1:] - own))
    return earned_A - own


class Scene(NamedTuple):
    """A step before its state, or every step of recorded sequences; the short axis first, in full precision."""

    problem: DecisionProblem
    law_S: Array  # [S, ...], the base model's law
    base_A: Array  # [A, ...], the response to it
    temperature: Any  # of responses

    def respond(self, law_S: Array) -> Array:
        """The quantal response ``[A, ...]`` to a law."""
        return with_first(self.problem.chances(law_S, self.temperature))

    def gains(self) -> Iterator[Array]:
        """What each action gains over the response to the base in every state, row by row ``[S, ...]``."""
        own_S = mix(self.problem.advantage.T, self.base_A[1:])  # over the first action's
        rows = np.concatenate([np.zeros((1, self.problem.n_states)), self.problem.advantage])
        for row in rows:
            column = namespace(own_S).reshape(constant(row, own_S), (-1, *(1,) * (own_S.ndim - 1)))
            yield column - own_S

    def gains_together(self) -> Array:
        """The same at once, ``[A, S, ...]``."""
        if type(self.law_S) is not np.ndarray or self.law_S.ndim > 1:
            return namespace(self.law_S).stack(list(self.gains()))
        return self.problem.utility - self.base_A @ self.problem.utility  # one stream, one step

    def excluded(self, state: Array) -> Array:
        """Whether the law gave probability 0 to it, ``[...]``."""
        return pick(self.law_S, state) == 0

    def earned(self, state: Array) -> Array:
        """What each action earns in the state that came, ``[A, ...]``."""
        return action_utilities(self.problem, state, self.law_S)

    def at(self, t: int) -> "Scene":
        """One step of recorded sequences, whose last axis is time."""
        temperature = self.temperature if isinstance(self.temperature, float) else self.temperature[..., t]
        return Scene(self.problem, self.law_S[..., t], self.base_A[..., t], temperature)


def scene_of(problem: DecisionProblem, probs: Array, temperature: Any) -> Scene:
    """The scene of a step with the law ``probs`` ``[..., S]``; unchecked."""
    law_S = first(in_float64(detached(probs)))
    if type(law_S) is np.ndarray and law_S.ndim > 1:
        law_S = np.ascontiguousarray(law_S)  # all that follows goes over it a state at a time
    return Scene(problem, law_S, with_first(problem.chances(law_S, temperature)), temperature)


def each_step(scene: Scene, steps: int) -> Iterator[Scene]:
    """The scenes of recorded sequences, whose last axis is time, one step after the other."""
    return map(scene.at, range(steps))
