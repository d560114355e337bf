"""What is at stake in one step, where payoffs may change and others than fixed actions are compared with.

Everything here is known before the state: the base model's law, a utility for this step, how much of it counts, what
each reference would play. Batch axes lead; all arrays are in full precision, and nothing is checked.
"""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, constant, namespace, to_numpy
from .decision import DecisionProblem


class Scene(NamedTuple):
    """A step before its state. Comparators are the fixed actions, then the references."""

    probs: Array  # [..., S], the base model's law
    base: Array  # [..., A], the response to it
    utility: Array  # [A, S], or [..., A, S]
    scale: Array | None  # [...], how much of it counts
    references_NxA: Array | None  # [..., N, A]; None: there are none
    laws_NxS: Array | None  # [..., N, S], where they state laws
    context: Array | None  # [...]
    warmth: Any  # the temperature of responses

    def respond(self, law: Array) -> Array:
        """The quantal response ``[..., A]`` to a law ``[..., S]``; a scale leaves it alone."""
        return response_at(self.utility, law, self.warmth)

    def at(self, step: int) -> "Scene":
        """One step of scenes that have an axis of time after one of streams, ``[N, T, ...]``."""
        same = self.utility.ndim == 2
        parts: list[Any] = [None if part is None else part[:, step] for part in self[:-1] if part is not self.utility]
        parts.insert(2, self.utility if same else self.utility[:, step])
        return Scene(*parts, self.warmth if isinstance(self.warmth, float) else self.warmth[step])  # type: ignore[call-arg]

    def gains(self) -> Array:
        """What each comparator gains over the response to the base, in every state: ``[..., A + N, S]``."""
        xp, utility = namespace(self.probs), constant_of(self.utility, self.probs)
        own = (self.base[..., None, :] @ utility)[..., 0, :]
        each = utility - own[..., None, :]
        if self.references_NxA is not None:
            each = xp.concat([each, self.references_NxA @ utility - own[..., None, :]], axis=-2)
        return each if self.scale is None else each * self.scale[..., None, None]

    def paid(self, token: Array) -> Array:
        """What each comparator earns in the state that came: ``[..., A + N]``."""
        earned = self.earned(token)
        if self.references_NxA is None:
            return earned
        theirs = (self.references_NxA @ earned[..., None])[..., 0]
        return namespace(earned).concat([earned, theirs], axis=-1)

    def earned(self, token: Array) -> Array:
        """What each action earns in the state that came, ``[..., A]``."""
        xp, utility = namespace(self.probs), constant_of(self.utility, self.probs)
        shape = tuple(self.probs.shape[:-1])
        if shape == ():
            earned = utility[:, int(token)]
        elif utility.ndim == 2:
            earned = xp.moveaxis(utility, 0, -1)[token]
        else:
            at = xp.broadcast_to(token[..., None, None], (*shape, utility.shape[-2], 1))
            earned = xp.take_along_axis(utility, at, axis=-1)[..., 0]
        return earned if self.scale is None else earned * self.scale[..., None]


def response_at(utility: Array, law: Array, warmth: Any) -> Array:
    """softmax(U law / warmth), ``[..., A]``, for a utility ``[A, S]`` or ``[..., A, S]``."""
    xp, worth = namespace(law), worth_of(utility, law)
    if not isinstance(warmth, float):
        warmth = warmth[..., None]
    worth = worth / warmth
    chances = xp.exp(worth - xp.max(worth, axis=-1, keepdims=True))
    return chances / xp.sum(chances, axis=-1, keepdims=True)


def worth_of(utility: Array, law: Array) -> Array:
    """What each action is worth under a law, ``[..., A]``."""
    utility = constant_of(utility, law)
    return law @ utility.T if utility.ndim == 2 else (utility @ law[..., None])[..., 0]


def constant_of(utility: Array, like: Array) -> Array:
    """The problem's own matrix beside ``like``; one of the step's is there already."""
    return constant(utility, like) if isinstance(utility, np.ndarray) else utility


def widest(problem: DecisionProblem) -> DecisionProblem:
    """A problem with the largest span and contrast that payoffs within the range of this one can have.

    Charges and bounds depend on the number of actions, the span and the contrast alone: what holds of it holds of every
    sequence of payoffs in the range.
    """
    matrix = np.zeros_like(to_numpy(problem.utility))
    if problem.n_actions > 1 and problem._scale:
        matrix[0], matrix[1] = -1.0, 1.0
        matrix[0, 0], matrix[1, 0] = 1.0, -1.0
    wide = DecisionProblem(matrix, problem.actions, problem.states)
    wide._scale, wide._shift = problem._scale, problem._shift
    return wide
