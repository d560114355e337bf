"""A step before its state: what a model says of it, what is at stake, what others would play; and what is earned."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from ..arrays import (
    Array,
    astype,
    constant,
    detached,
    first,
    in_float64,
    mix,
    namespace,
    pick,
    softmax,
    to_numpy,
    total,
)
from .decision import DecisionProblem, best_of, with_first


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


class _Timed(Protocol):
    """A scene of recorded sequences."""

    def at(self, t: int) -> Self: ...


AtSteps = TypeVar("AtSteps", bound=_Timed)


# Everything here is known before the state: the base model's law, a utility for this step, how much of it counts, what
# each reference would play. All arrays have the short axis first and are in full precision; nothing is checked.


class Known(NamedTuple):
    """What is known at a step beside the base model's law, batch axes first; None: nothing special.

    An action of another context sits out. A reference speaks at every step.
    """

    laws_NxS: Any = None  # [..., N, S], the references' laws; of numbers, their forecasts
    context: Array | None = None  # [...], in which of the contexts the step is
    utility: Any = None  # [..., A, S], what is at stake in this step, in place of the problem's own; or a Payoff
    scale: Array | None = None  # [...], in (0, 1]: how much of it


NOTHING_MORE = Known()
# Of a Scene, with axes of time:
_TIMED = ("law_S", "base_A", "utility", "scale", "plays_NxA", "laws_NxS", "context")


class Scene(NamedTuple):
    """A step before its state, or every step of recorded sequences. Comparators are the actions, then references."""

    problem: DecisionProblem
    law_S: Array  # [S, ...], the base model's law
    base_A: Array  # [A, ...], the response to it
    temperature: Any  # of responses
    utility: Array | None = None  # [A, S, ...], where it is not the problem's own
    scale: Array | None = None  # [...], how much of it counts
    plays_NxA: Array | None = None  # [N, A, ...]; None: there are no references
    laws_NxS: Array | None = None  # [N, S, ...], their laws
    context: Array | None = None  # [...]

    def worth(self, law_S: Array) -> Array:
        """What each action is worth under a law, ``[A, ...]``; a scale leaves their order alone."""
        return _worth(self.problem, self.utility, law_S)

    def respond(self, law_S: Array) -> Array:
        """The quantal response ``[A, ...]`` to a law."""
        return _response(self.problem, self.utility, law_S, self.temperature)

    def gains(self, actions: bool = True) -> Iterator[Array]:
        """What each comparator gains over the response to the base in every state, row by row ``[S, ...]``."""
        if self.utility is None:
            own_S = mix(self.problem.advantage.T, self.base_A[1:])  # over the first action's
            rows = np.concatenate([np.zeros((1, self.problem.n_states)), self.problem.advantage])
            each: Any = (_column(row, own_S) for row in rows)
        else:
            own_S = total(self.base_A[:, None] * self.utility)
            each = iter(self.utility)
        if actions:
            for row_S in each:
                yield self._scaled(row_S - own_S)
        for plays_A in () if self.plays_NxA is None else self.plays_NxA:
            if self.utility is None:
                yield self._scaled(mix(self.problem.advantage.T, plays_A[1:]) - own_S)
            else:
                yield self._scaled(total(plays_A[:, None] * self.utility) - own_S)

    def gains_together(self, actions: bool = True) -> Array:
        """The same at once, ``[P, S, ...]``."""
        if type(self.law_S) is not np.ndarray or self.law_S.ndim > 1 or self.plays_NxA is not None:
            return namespace(self.law_S).stack(list(self.gains(actions)))
        utility = self.problem.utility if self.utility is None else self.utility  # one stream, one step
        return self._scaled(utility - self.base_A @ utility)

    def priced(self, state: Array, actions: bool = True) -> tuple[Array, Array, None]:
        """What each comparator gains in every state, the weights of these in a charge, and what it gained."""
        return self.gains_together(actions), self.law_S / total(self.law_S), None

    def against(self, law_S: Array, state: Array) -> tuple[Array, Array]:
        """How much likelier another law made the state, and what the response to it earned more, ``[...]`` each."""
        if type(law_S) is np.ndarray and law_S.ndim == 1:  # one stream, one step
            p, s = self.law_S.tolist(), int(state)
            gained = float((self.respond(law_S) - self.base_A) @ self.earned(state))
            return np.float64(law_S.item(s) * sum(p) / (p[s] or 1.0)), np.float64(gained)
        xp, own = namespace(law_S), pick(self.law_S, state) / total(self.law_S)
        odds = pick(law_S, state) / xp.where(own > 0, own, xp.ones_like(own))
        return odds, total((self.respond(law_S) - self.base_A) * self.earned(state))

    def excluded(self, state: Array) -> Array:
        """Whether the law gave probability 0 to it, ``[...]``."""
        return pick(self.law_S, state) == 0

    def best_response(self) -> Array:
        """The best response to the law, ``[A, ...]``."""
        return _response(self.problem, self.utility, self.law_S, 0.0)

    def earned(self, state: Array) -> Array:
        """What each action earns in the state that came, ``[A, ...]``."""
        if self.utility is None:
            return self._scaled(action_utilities(self.problem, state, self.law_S))
        xp = namespace(self.utility)
        return self._scaled(pick(xp.moveaxis(self.utility, 1, 0), state))

    def paid(self, state: Array) -> Array:
        """What each comparator earns in it, ``[A + N, ...]``."""
        earned_A = self.earned(state)
        if self.plays_NxA is None:
            return earned_A
        xp = namespace(earned_A)
        return xp.concat([earned_A, xp.stack([total(plays_A * earned_A) for plays_A in self.plays_NxA])])

    def at(self, t: int) -> "Scene":
        """One step of recorded sequences, whose last axis is time."""
        now: dict[str, Any] = {name: getattr(self, name) for name in _TIMED}
        now = {name: None if part is None else part[..., t] for name, part in now.items()}
        temperature = self.temperature if isinstance(self.temperature, float) else self.temperature[..., t]
        return self._replace(temperature=temperature, **now)

    def _scaled(self, values: Array) -> Array:
        return values if self.scale is None else values * self.scale


def scene_of(
    problem: DecisionProblem, probs: Array, known: Known | None, temperature: Any, references: int = 0
) -> Scene:
    """The scene of a step with the law ``probs`` ``[..., S]`` and all else that is ``known``.

    Laws of references become quantal responses; silent references play as the base.
    """
    law_S = first(in_float64(detached(probs)))
    if type(law_S) is np.ndarray and law_S.ndim > 1:
        law_S = np.ascontiguousarray(law_S)  # all that follows goes over it a state at a time
    if known is None and not references:
        return Scene(problem, law_S, _response(problem, None, law_S, temperature), temperature)
    laws, context, utility, scale = known or NOTHING_MORE
    xp = namespace(law_S)
    if utility is not None:
        utility = xp.moveaxis(astype(utility, law_S.dtype), (-2, -1), (0, 1))
    base_A = _response(problem, utility, law_S, temperature)
    laws_NxS = plays_NxA = None
    if laws is not None:
        laws_NxS = xp.moveaxis(in_float64(detached(laws)), (-2, -1), (0, 1))
    if references and laws_NxS is not None:
        plays_NxA = xp.stack([_response(problem, utility, law, temperature) for law in laws_NxS])
    elif references:  # they sit out
        plays_NxA = xp.broadcast_to(base_A, (references, *base_A.shape))
    return Scene(problem, law_S, base_A, temperature, utility, scale, plays_NxA, laws_NxS, context)


def _worth(problem: DecisionProblem, utility: Array | None, law_S: Array) -> Array:
    return mix(problem.utility, law_S) if utility is None else total(namespace(law_S).moveaxis(utility * law_S, 1, 0))


def _response(problem: DecisionProblem, utility: Array | None, law_S: Array, temperature: Any) -> Array:
    if utility is None:
        return with_first(problem.chances(law_S, temperature))
    worth_A = _worth(problem, utility, law_S)
    return best_of(worth_A) if isinstance(temperature, float) and temperature == 0 else softmax(worth_A / temperature)


def _column(values: np.ndarray, like: Array) -> Array:
    return namespace(like).reshape(constant(values, like), (-1, *(1,) * (like.ndim - 1)))


def each_step(scene: AtSteps, steps: int) -> Iterator[AtSteps]:
    """The scenes of recorded sequences, whose last axis is time, one step after the other."""
    return map(scene.at, range(steps))


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
