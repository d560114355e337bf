"""How a forecast is acted on: the mixed action that answers what each action is worth."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, final

from .. import inputs

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


@cache
def unit_rows(xp: Any, n: int, dtype: Any) -> Any:
    """The identity matrix: row i is what plays or expects i alone."""
    return xp.eye(n, dtype=dtype)


def best_actions(xp: Any, worth_NxA: Any) -> Any:
    """The best action ``[N]`` by what each is worth: the first of those that are tied."""
    return xp.argmax((worth_NxA >= xp.max(worth_NxA, axis=-1, keepdims=True) - TIE) * 1, axis=-1)


@final
@dataclass(frozen=True)
class BestResponse(Response):
    """The action that is worth most, as most people act; the first of those that are tied."""

    def temperature_for(self, rounds: int | None) -> float | None:
        return 0.0

    def plays(self, xp: Any, worth_NxA: Any, best_N: Any, temperature: Any) -> Any:
        return unit_rows(xp, worth_NxA.shape[1], worth_NxA.dtype)[best_N]


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
        scores = (worth_NxA - xp.max(worth_NxA, axis=-1, keepdims=True)) / temperature
        chances = xp.exp(scores)
        return chances / xp.sum(chances, axis=-1, keepdims=True)
