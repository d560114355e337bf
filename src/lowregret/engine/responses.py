"""How a forecast is acted on: the mixed action that answers what each action is worth."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, final

from .. import inputs
from ..arrays import row_maxima, row_sums

TIE = 1e-12  # of utility: actions worth the same to within this are tied


class Response(ABC):
    """The mixed action that answers a forecast; the only place that knows a temperature.

    With one of your own false alarms stay within delta, and no regret is promised: bounds are proved for
    ``BestResponse`` and ``QuantalResponse``.
    """

    @abstractmethod
    def temperature_for(self, rounds: int | None) -> float | None:
        """That of so many steps (None: unknown), by which bets choose their rates; None: it falls with the steps."""

    @abstractmethod
    def plays(self, xp: Any, worth_NxA: Any, best_N: Any, temperature: Any) -> Any:
        """The mixed actions ``[N, A]`` by what each action is worth, ``best_N`` the most.

        ``temperature`` is a number, or one for each stream ``[N, 1]``.
        """


def unit_rows(xp: Any, like_NxA: Any) -> Any:
    """The identity matrix ``[A, A]``: row i is what plays or expects i alone."""
    return _eye(xp, like_NxA.shape[-1], like_NxA.dtype, like_NxA.device)


@cache
def _eye(xp: Any, n: int, dtype: Any, device: Any) -> Any:
    return xp.eye(n, dtype=dtype, device=device)


def best_actions(xp: Any, worth_NxA: Any) -> Any:
    """The best action ``[N]`` by what each is worth: the first of those that are tied."""
    return xp.argmax((worth_NxA >= row_maxima(worth_NxA) - TIE) * 1, axis=-1)


@final
@dataclass(frozen=True)
class BestResponse(Response):
    """The action that is worth most, as most people act; the first of those that are tied."""

    def temperature_for(self, rounds: int | None) -> float | None:
        return 0.0

    def plays(self, xp: Any, worth_NxA: Any, best_N: Any, temperature: Any) -> Any:
        return unit_rows(xp, worth_NxA)[best_N]


@final
@dataclass(frozen=True)
class QuantalResponse(Response):
    """Actions with chances proportional to exp(worth / temperature), as the paper has it.

    Parameters
    ----------
    temperature
        By default 1/sqrt(the test's horizon); where that is unknown it falls with the steps.
    """

    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None:
            inputs.keep(self, temperature=inputs.positive(self.temperature, "temperature"))

    def temperature_for(self, rounds: int | None) -> float | None:
        return 1 / math.sqrt(rounds) if self.temperature is None and rounds is not None else self.temperature

    def plays(self, xp: Any, worth_NxA: Any, best_N: Any, temperature: Any) -> Any:
        chances = xp.exp((worth_NxA - row_maxima(worth_NxA)) / temperature)
        return chances / row_sums(chances)
