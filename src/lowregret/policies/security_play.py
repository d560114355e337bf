"""Maximin play: the mixed action that earns the value of the game whatever comes, found by linear programming."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, astype, constant, device, float_type, namespace
from ..certificates.bounds import Bound
from ..problems import DecisionProblem, a_problem, solved
from .contract import Policy


class MaximinMemory(NamedTuple):
    zeros: Array  # [...], in the kind and precision of what is played


@dataclass(frozen=True)
class SecurityPlay(Policy):
    """Always the same mixed action: the one that earns most in its worst state. A guarantee of payoff, not of regret.

    As ``Guard(problem, horizon, fallback=SecurityPlay(problem))`` it is played from the alarm on, for good; as
    ``Recovery(safe=SecurityPlay(problem))`` while what is lost to the value of the game is above a budget. Certificates
    then have a ``payoff_bound``. (``SecurityLaw`` is a law whose quantal response comes close to this.)

    >>> from lowregret import DecisionProblem
    >>> play = SecurityPlay(DecisionProblem([[1, -1], [-1, 0.5]]))
    >>> round(play.value, 4), play.mixed_A.round(4).tolist()
    (-0.1429, [0.4286, 0.5714])
    """

    problem: DecisionProblem

    def __post_init__(self) -> None:
        solved(a_problem(self.problem))

    @property
    def mixed_A(self) -> np.ndarray:
        """What it plays."""
        return solved(self.problem).mixed_A

    @property
    def value(self) -> float:
        """What it earns at least in every state, in utility; ``gap`` says how far from the value of the game."""
        return solved(self.problem).value

    @property
    def law_S(self) -> np.ndarray:
        """Nature's side: the law against which no action earns more than ``value + gap``."""
        return solved(self.problem).law_S

    @property
    def gap(self) -> float:
        """No play whatever can promise more than ``value + gap``: rounding, as a rule."""
        return solved(self.problem).gap

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> MaximinMemory:
        xp, where, shape = namespace(like), device(like), inputs.batch_shape_of(batch_shape)
        return MaximinMemory(xp.zeros(shape, dtype=float_type(xp, where), device=where))

    def policy(self, memory: MaximinMemory) -> Array:
        return self._play(memory.zeros)

    def update(self, memory: MaximinMemory, token: Array) -> MaximinMemory:
        inputs.tokens_of(token, self.problem.n_states, "token", shape=tuple(memory.zeros.shape), like=memory.zeros)
        return memory

    def policy_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.problem.n_states)
        xp = namespace(tokens)
        return self._play(xp.zeros(tokens.shape, dtype=float_type(xp, device(tokens)), device=device(tokens)))

    def policy_of_counts(self, counts: Array) -> Array:
        """The same after any counts of each state, ``[..., S] -> [..., A]``."""
        return self._play(counts[..., 0] * 0.0)

    def payoff_guarantee(self, temperature: float | None = None) -> float:
        """The value: it responds to no law, so no temperature matters."""
        return self.value

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float | None:
        """What it loses at most to a fixed action, a step: nature may stay in one state for ever."""
        return float((problem.utility - self.mixed_A @ problem.utility).max()) if problem == self.problem else None

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Bound | None:
        """What it loses at most after an alarm, by the steps that are left."""
        worst = self.regret_bound(problem, steps, temperature)
        return None if worst is None else partial(np.multiply, worst)

    def _play(self, zeros: Array) -> Array:
        return zeros[..., None] + astype(constant(self.mixed_A, zeros), zeros.dtype)
