"""Hedge over experts that are paid: AdaHedge over fixed actions, incumbents or models.

Where payoffs change, or outcomes are numbers, a policy cannot learn from a token what an action earned. This one is
given what each expert was paid, and needs no problem. It is not a ``Policy`` itself: others use it.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, device, first, float_type, last, namespace, softmax, total

LEAST = 1e-300  # a smaller gap is none: the rate that it asks for would be no finite number


class ExpertMemory(NamedTuple):
    lead_N: Array  # [..., N], what each expert was paid so far, below the best of them
    gap: Array  # [...], the mixability gaps so far: by how much mixing fell short of the rate's soft maximum


@dataclass(frozen=True)
class ExpertHedge:
    """Exponential weights over experts that set their own rate, ln N / (mixability gaps so far).

    Until two experts have been paid differently all have the same weight; from then on each gap lowers the rate.

    Parameters
    ----------
    experts
        How many there are.
    span
        The most by which one can be paid more than another in one step; used in the bound only.

    >>> hedge = ExpertHedge(experts=3, span=1.0)
    >>> memory = hedge.start()
    >>> for paid in [[1.0, 0.0, 0.5], [1.0, 0.0, 0.5]]:
    ...     memory = hedge.update(memory, paid)
    >>> hedge.policy(memory).round(3).tolist(), round(hedge.total_bound(100), 2)
    ([0.853, 0.019, 0.128], 11.53)
    """

    experts: int
    span: float

    def __post_init__(self) -> None:
        inputs.keep(self, experts=inputs.whole(self.experts, "experts"), span=inputs.not_negative(self.span, "span"))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> ExpertMemory:
        """The memory before anyone was paid."""
        xp, where, shape = namespace(like), device(like), inputs.batch_shape_of(batch_shape)
        zeros = xp.zeros((*shape, self.experts), dtype=float_type(xp, where), device=where)
        return ExpertMemory(zeros, zeros[..., 0])

    def policy(self, memory: ExpertMemory) -> Array:
        """The weight of each expert, ``[..., N]``."""
        return last(self._weights(first(memory.lead_N), memory.gap))

    def update(self, memory: ExpertMemory, paid: Any) -> ExpertMemory:
        """The memory after a step in which the experts were ``paid`` ``[..., N]``; unchecked."""
        lead_N, gap = first(memory.lead_N), memory.gap
        xp = namespace(gap)
        paid_N = first(np.asarray(paid, dtype=np.float64) if isinstance(paid, (list, tuple)) else paid)
        mixed = total(self._weights(lead_N, gap) * paid_N)
        ahead_N = lead_N + paid_N
        rise = self._soft_max(ahead_N, gap) - self._soft_max(lead_N, gap)
        opened = xp.clip(rise - mixed, 0.0, None)
        return ExpertMemory(last(ahead_N - xp.max(ahead_N, axis=0)), gap + opened)

    def total_bound(self, steps: Any) -> Any:
        """The most by which it is paid less than any one expert, in all over t steps: J (1 + sqrt(1 + t ln N)).

        The regret is at most twice the summed gaps D; D^2 <= t ln N J^2 / 4 + J D (``certificates.ada_hedge``).
        """
        if self.experts == 1:
            return 0.0 * steps
        most = self.span * np.minimum(steps, 1 + np.sqrt(1 + steps * math.log(self.experts)))
        return float(most) if np.ndim(steps) == 0 else most

    def _rate(self, gap: Array) -> Array:
        """ln N / gap, and 1 where there is no gap yet: all have then been paid the same, and any rate will do."""
        xp = namespace(gap)
        return math.log(self.experts) / xp.where(gap > LEAST, gap, xp.ones_like(gap))

    def _weights(self, lead_N: Array, gap: Array) -> Array:
        return softmax(lead_N * self._rate(gap))

    def _soft_max(self, lead_N: Array, gap: Array) -> Array:
        """ln mean_n exp(rate lead_n) / rate; the maximum itself before the first gap, when the rate is infinite."""
        xp = namespace(gap)
        best, rate = xp.max(lead_N, axis=0), self._rate(gap)
        if self.experts == 1:
            return best
        below = xp.log(total(xp.exp((lead_N - best) * rate)) / self.experts) / rate
        return xp.where(gap > LEAST, best + below, best)
