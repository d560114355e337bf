"""What the way back may cost, and when it is tried again: a budget of regret."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, in_float64, namespace


class Outcome(NamedTuple):
    """What came of one step, short axes first."""

    lead_P: Array  # what each comparator earned more than what was played: the actions, then references
    late: Array  # whether the alarm had sounded before
    step: Array  # of the context, counted from 1


class RegretBudget(NamedTuple):
    """The mixture is left once R_c is b above its lowest point for some comparator, and is back in force at b/2."""

    span: float
    comparators: int
    horizon: float | None  # of a context
    budget: float

    def after(self, account_P: Array, is_safe: Array, came: Outcome) -> tuple[Array, Array]:
        """The account after one more step, and whether safe play is in force from then on."""
        xp = namespace(account_P)
        rise_P = xp.clip(account_P + came.lead_P, 0.0, None) * came.late  # nothing counts before the alarm
        root = in_float64(came.step) ** 0.5 if self.horizon is None else math.sqrt(self.horizon)
        worst, limit = xp.max(rise_P, axis=0), self._a_root * root
        return rise_P, came.late & xp.where(is_safe, worst > limit / 2, worst >= limit)

    def limits(self, steps: int) -> np.ndarray:
        """b at each of the first ``steps`` steps."""
        root_T = np.sqrt(np.arange(1.0, steps + 1)) if self.horizon is None else np.full(steps, math.sqrt(self.horizon))
        return self._a_root * root_T

    @property
    def _a_root(self) -> float:
        """b over the root of the steps: where nothing can be lost, it is never spent."""
        return self.budget * self.span if self.span else math.inf

    def until_spent(self, lead_PxNxT: np.ndarray, times_N: np.ndarray) -> tuple[int, np.ndarray]:
        """How many steps pass before any of N recorded runs has spent it, and the accounts ``[P, N]`` after them.

        ``lead_PxNxT`` is over what the mixture plays, which is all that is played until then; alarms at ``times_N``.
        """
        P, N, T = lead_PxNxT.shape
        steps = np.arange(T)
        ahead = np.cumsum(lead_PxNxT * (steps >= times_N[:, None]), axis=-1)
        rise = ahead - np.minimum(np.minimum.accumulate(ahead, axis=-1), 0.0)
        near = (rise.max(axis=0) >= self.limits(T) * (1 - 1e-9)).any(axis=0)  # rounding decides nothing
        quiet = int(near.argmax()) if near.any() else T
        return quiet, rise[..., quiet - 1] if quiet else np.zeros((P, N))


# When a model that was left has returned, and when it is left again: by its share in what is played after an alarm.


HOME, GONE = 0.5, 0.25  # the share above which it has returned, and below which it is left again


def trust_after(memory: Any, share: Array, late: Array, step: Array) -> Any:
    """The memory with whether the model is trusted after a step: ``late``, after the alarm, by its ``share`` now."""
    trusted = late & ((share > HOME) | (memory.trusted & (share > GONE)))
    turned_at = namespace(share).where(trusted != memory.trusted, step, memory.turned_at)
    return memory._replace(trusted=trusted, turned_at=turned_at)


def turned(memory: Any, step: Array) -> Array:
    """Which streams ``[...]`` returned with the last token (1), and which were left again (-1)."""
    xp = namespace(step)
    just = (memory.turned_at == step) & (step > 0)
    return xp.astype(just & memory.trusted, xp.int64) - xp.astype(just & ~memory.trusted, xp.int64)
