"""The test of the paper's experiments (Section 5): an alarm if the model's own regret Regret_t > alpha / sqrt(t)."""

import math
from dataclasses import dataclass
from typing import Any, final

from .. import inputs
from ..arrays import namespace, pick, running_sum
from ..certificates import Certificate
from ..engine.bets import Alarmed, Played
from ..engine.layout import Shapes, Views
from ..engine.step import Outcome, Step
from .quantal_test import QuantalTest, QuantalWatch, earned


@final
@dataclass(frozen=True)
class RegretRate(QuantalTest):
    """An alarm once the model's average regret exceeds alpha / sqrt(t).

    It promises nothing: even in distribution it raises an alarm with a chance that does not vanish.
    """

    horizon: int | None
    alpha: float = 1.5
    delta = 1.0

    def __post_init__(self) -> None:
        inputs.keep(self, horizon=inputs.horizon_or_none(self.horizon), alpha=inputs.positive(self.alpha, "alpha"))

    def watch(self, setting: Any) -> "RateWatch":
        return RateWatch(self, setting)

    def certify(self, setting: Any, steps: int | None) -> Certificate | None:
        return None


class RateWatch(QuantalWatch):
    """``RegretRate`` at work: the level is the average regret less alpha / sqrt(t)."""

    threshold = math.ulp(0.0)  # above 0, not equal to it

    def __init__(self, test: RegretRate, setting: Any) -> None:
        super().__init__(test, setting)
        self.test, self.utility_AxS = test, setting.outcomes.utility_AxS

    def shapes(self) -> Shapes:
        return {"lead_A": (len(self.utility_AxS),)}

    def update(self, memory: Views, step: Step, outcome: Outcome, number_N: Any, alarmed: Alarmed) -> Any:
        memory.lead_A[...] += outcome.paid_NxA - outcome.model_N[:, None]
        return self._level(namespace(memory.lead_A).max(memory.lead_A, axis=-1), step.clock_N + 1)

    def levels(self, played: Played) -> Any:
        """The level after every step of recordings, ``[N, T]``."""
        xp, model_NxT = namespace(played.state_NxT), earned(self.utility_AxS, played.model_NxTxA, played)
        leads = [running_sum(pick([u - model_NxT for u in row], played.state_NxT)) for row in self.utility_AxS]
        return self._level(xp.max(xp.stack(leads), axis=0), played.step_T)

    def _level(self, regret: Any, t: Any) -> Any:
        return regret / t - self.test.alpha / t**0.5
