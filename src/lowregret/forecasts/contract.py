"""What every form of a forecast can do: it can be acted on, and it says what a bet against it costs.

A bettor on action c at rate lam wins exp(lam x_c(outcome)), x_c what c gains over what is played. It is charged the
logarithm of a weighted sum of such exponentials (at least 0), which the form chooses so that the mean of
exp(lam x - charge) is at most 1 under every distribution that it can stand for:

* quantiles: the largest gain within each bin, so for every distribution that has these quantiles;
* samples: half of them and the outcome, which are exchangeable if they are drawn from the outcome's distribution.
"""

from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .. import inputs
from ..problems import Gains, Payoff


class Law(NamedTuple):
    """A discrete distribution to act on: weights ``[..., n]``, with sum one, on outcomes ``[..., n]``."""

    points: np.ndarray
    weights: np.ndarray


class Forecast(ABC):
    """A forecast of an outcome that is a number, in one of several forms; ``[...]`` are streams, or streams and time.

    ``clock``, whole numbers that broadcast to ``[...]``, is the step it is for: samples are dealt by it.
    """

    @property
    @abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """``[...]``: one forecast for each of these."""

    @abstractmethod
    def refuse_misfit(self, payoff: Payoff) -> None:
        """Refuse a payoff that needs more than this form of forecast says."""

    @abstractmethod
    def law(self, payoff: Payoff, clock: Any) -> Law:
        """What to act on."""

    @abstractmethod
    def cells(self, gains: Gains, clock: Any) -> tuple[np.ndarray, np.ndarray, float]:
        """What the bets are charged by: cells with weights ``[N, M]``, and what comparators gain in them ``[N, E, M]``.

        Third, what the outcome itself weighs among them: that of samples does.
        """

    def to_dict(self) -> dict[str, Any]:
        """The arguments it was made of, by name, as JSON values."""
        return {name: part.tolist() for name, part in self._parts().items()}

    def at(self, index: Any) -> Self:
        """Some of these forecasts: ``index`` goes along the axes of ``[...]``."""
        return replace(self, **{name: part[index] for name, part in self._parts().items() if name not in self.shared})  # type: ignore[type-var]

    @property
    def shared(self) -> tuple[str, ...]:
        """Which of its parts are shared by all of ``[...]``."""
        return ()

    @property
    def form(self) -> tuple[Any, ...]:
        """What forecasts must have in common to stand side by side: the form, the shared parts, the widths."""
        parts = self._parts().items()
        return type(self), *(part.tobytes() if name in self.shared else part.shape[-1] for name, part in parts)

    def _parts(self) -> dict[str, np.ndarray]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]


def numbers(values: Any, name: str, least: int) -> np.ndarray:
    """Finite numbers ``[..., n]`` with at least ``least`` along the last axis."""
    array = inputs.numbers_of(values, name, "an array of numbers with rows of one length")
    if array.ndim == 0 or array.shape[-1] < least:
        raise ValueError(f"{name} must have a last axis of at least {least} numbers, got shape {array.shape}")
    if not (finite := np.isfinite(array)).all():
        raise inputs.misplaced(f"{name} must be finite numbers, got {array[~finite][0]}%s", ~finite)
    return array


def needs_knots(payoff: Payoff, form: str) -> None:
    """Refuse a payoff without knots: nothing is known of it between the points where it was evaluated."""
    if payoff.knots is None:
        raise ValueError(
            f"{form} needs a Payoff that says where payoffs bend, to know the most a bet can win within a range: "
            "Payoff(..., knots=[...]); Samples does without"
        )
