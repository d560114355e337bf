"""What to do in a step, as ``advise`` answers."""

from functools import cached_property
from typing import Any

import numpy as np

from ..engine import Engine
from ..engine.responses import best_actions
from .state import PendingStep


class Advice:
    """What to do in a step. Arrays have a first axis of streams where the guard has several.

    >>> from lowregret import Guard, matching
    >>> advice = Guard(matching()).advise([0.9, 0.1])
    >>> advice.policy.tolist(), advice.action, advice.trusted, advice.share
    ([1.0, 0.0], 0, True, 1.0)
    """

    def __init__(self, engine: Engine, rows_NxW: np.ndarray, is_alone: bool, pending: PendingStep) -> None:
        self._engine, self._rows, self._alone = engine, rows_NxW, is_alone
        self._waiting, self.step = pending.step, pending.number

    @property
    def policy(self) -> np.ndarray:
        """The mixed action ``[..., A]`` to play, for which the certificate holds."""
        return own(self._waiting.policy_NxA, self._alone)

    @cached_property
    def action(self) -> Any:
        """The position of its likeliest action; the first of those that are tied."""
        return plain(best_actions(np, self._waiting.policy_NxA), self._alone)

    @property
    def forecast(self) -> Any:
        """The forecast that is acted on: the model's, or after an alarm the fallback's where it has one."""
        given, believed, in_force_N = self._waiting.forecast, self._waiting.mixture_NxS, self._waiting.in_force_N
        if not isinstance(given, np.ndarray):
            return given.at((0,)) if self._alone else given
        return own(given if believed is None else np.where(in_force_N[:, None], believed, given), self._alone)

    @cached_property
    def share(self) -> Any:
        """How much of what is played is the model's: all of it until an alarm."""
        return plain(self._engine.share(self._rows), self._alone)

    @cached_property
    def trusted(self) -> Any:
        """Whether the model is played as it is, or has returned after an alarm."""
        head = self._engine.head.open(self._rows)
        return plain(~self._waiting.in_force_N | (head.trusted > 0), self._alone)

    def __repr__(self) -> str:
        if not self._alone:
            return f"Advice(step {self.step})"
        mixed = ", ".join(f"{chance:.3g}" for chance in self.policy)
        return f"Advice(step {self.step}: policy [{mixed}], share of the model {self.share:.3g})"


def own(values_NxK: np.ndarray, alone: bool) -> np.ndarray:
    """A copy, which the caller may change; of a single stream without its axis."""
    return values_NxK[0].copy() if alone else values_NxK.copy()


def plain(values_N: np.ndarray, alone: bool) -> Any:
    """A plain number (or bool) for a single stream."""
    return values_N[0].item() if alone else values_N
