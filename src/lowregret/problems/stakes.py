"""What decision problems and payoffs share: utilities in [-1, 1] beside payoffs in units of one's own."""

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, in_float64
from .names import Names


class Stakes(ABC):
    """What actions may earn, whatever the outcomes are."""

    actions: Sequence[Any]
    _scale: float  # a payoff is a utility times this,
    _shift: float  # plus this
    _ahead = 1  # steps by which the temperature is ahead

    @property
    @abstractmethod
    def table(self) -> np.ndarray | None:
        """Utilities ``[A, ...]`` of which all others are mixtures; None: they may be any in [-1, 1]."""

    @property
    def n_actions(self) -> int:
        return len(self.actions)

    @cached_property
    def action_names(self) -> Names:
        """Which action a name means; actions that are neither texts nor numbers go by their positions."""
        named = (
            each if isinstance(each, (str, numbers.Real)) else f"action {i}" for i, each in enumerate(self.actions)
        )
        return Names(named, "actions")

    @cached_property
    def span(self) -> float:
        """The most one step can matter, in utility: over outcomes, the best minus the worst action's."""
        return 2.0 if self.table is None else float((self.table.max(axis=0) - self.table.min(axis=0)).max())

    @cached_property
    def contrast(self) -> float:
        """Over pairs of actions, the range of the difference of their utilities; at most twice the span."""
        return 4.0 if self.table is None else _contrast(self.table)

    def in_payoffs(self, utility: Array) -> Array:
        """A utility in the units the problem was made from."""
        return inputs.amount(utility, "utility") * self._scale + self._shift

    def regret_in_payoffs(self, regret: Array) -> Array:
        """A regret, or any difference of utilities, in the units the problem was made from."""
        return inputs.amount(regret, "regret") * self._scale

    def anytime_temperature(self, step: Any) -> Any:
        """The temperature at ``step`` (from 1) for an unknown horizon: c / sqrt(step + S - 1), S = 2 for numbers."""
        c = self.span / (2 * math.sqrt(math.log(self.n_actions))) if self.n_actions > 1 and self.span > 0 else 1.0
        if not isinstance(step, (int, float)):
            step = in_float64(step)
        return c / (step + self._ahead) ** 0.5


def scaled(payoffs: np.ndarray, scale: float, shift: float) -> np.ndarray:
    """Payoffs as utilities; 0 where nothing is at stake."""
    return np.clip((payoffs - shift) / scale, -1, 1) if scale else np.zeros_like(payoffs)


def _contrast(utility: np.ndarray) -> float:
    """max over a, b of max_s (U_a - U_b) + max_s (U_b - U_a), one row at a time, in no more memory than the matrix.

    It is the same for the transpose, so the loop goes over the shorter side. No row can reach more than it does against
    the best and the worst of every column: rows are tried in the order of that bound, and those that cannot beat what
    was found are skipped.
    """
    rows = utility if utility.shape[0] <= utility.shape[1] else np.ascontiguousarray(utility.T)
    low, high = rows.min(axis=0), rows.max(axis=0)
    reach = (rows - low).max(axis=1) + (high - rows).max(axis=1)
    most = 0.0
    for a in np.argsort(-reach, kind="stable"):
        if reach[a] <= most:
            break
        apart = rows[a] - rows
        most = max(most, float((apart.max(axis=1) - apart.min(axis=1)).max()))
    return most
