"""The way back where outcomes are numbers: Hedge over the actions, the references and the model, from the alarm on.

There are no states for urns to count, so no mixture of laws: the model returns as one expert among the others, as far
as it earns more. What is lost after an alarm, to each of them, is what Hedge loses. With contexts each has a Hedge of
its own, and C of them lose no more than C F(n / C) in n steps, F being concave.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, first, last
from ..certificates.bounds import Bound
from ..forecasts import NumberScene
from ..memory import row_of, with_row
from ..memory import where as choose
from ..problems import DecisionProblem, Payoff
from .budgets import trust_after, turned
from .experts import ExpertHedge, ExpertMemory


class AmongMemory(NamedTuple):
    step: Array  # [...], outcomes seen
    rows: ExpertMemory  # [..., C, ...], of each context
    seen: Array  # [..., C], steps in each context
    trusted: Array  # [...], whether the model has returned since the alarm, and not gone again
    turned_at: Array  # [...], outcomes seen when that last changed, 0 for never


@dataclass(frozen=True)
class AmongExperts:
    """A ``Recovery`` for outcomes that are numbers, in play; it begins with the alarm. All is unchecked.

    Parameters
    ----------
    stakes
        A ``Payoff`` with the span of all that may come.
    contexts, references
        How many contexts there are, and how many references beside the actions.
    """

    stakes: Payoff
    contexts: int = 1
    references: int = 0

    name = "Hedge over all of them and the model"  # by which a certificate calls it
    acts = True

    @cached_property
    def hedge(self) -> ExpertHedge:
        """Over the actions, the references and the response to the model."""
        return ExpertHedge(self.stakes.n_actions + self.references + 1, self.stakes.span)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> AmongMemory:
        """The memory before the first outcome."""
        shape = inputs.batch_shape_of(batch_shape)
        step, wide = np.zeros(shape, dtype=np.int64), (*shape, self.contexts)
        return AmongMemory(
            step, self.hedge.start(wide), np.zeros(wide, dtype=np.int64), np.zeros(shape, dtype=bool), step
        )

    def policy(self, memory: AmongMemory, scene: NumberScene) -> Array:
        """What it plays, ``[A, ...]``."""
        weights_N = first(self.hedge.policy(self._row(memory.rows, scene)))
        A = len(scene.base_A)
        played_A = weights_N[:A] + weights_N[-1] * scene.base_A
        if scene.plays_NxA is not None:
            played_A = played_A + (weights_N[A:-1, None] * scene.plays_NxA).sum(axis=0)
        return played_A

    def update(self, memory: AmongMemory, scene: NumberScene, outcome: Array, late: Array) -> AmongMemory:
        """The memory after ``outcome``; ``late``: the alarm had sounded before, so what it said was played."""
        step = memory.step + 1
        place = np.zeros_like(step) if scene.context is None else scene.context
        seen = with_row(memory.seen, place, row_of(memory.seen, place) + 1)
        after = memory._replace(step=step, seen=seen)
        if not late.any():
            return after
        paid_P = scene.paid(outcome)
        own = (scene.base_A * paid_P[: len(scene.base_A)]).sum(axis=0)
        old = row_of(memory.rows, place)
        row = choose(late, self.hedge.update(old, last(np.concatenate([paid_P, own[None]]))), old)
        after = after._replace(rows=with_row(memory.rows, place, row))
        found: AmongMemory = trust_after(after, self.share_of_base(after), late, step)
        return found

    def share_of_base(self, memory: AmongMemory) -> Array:
        """The weight of the model, ``[...]``; with contexts, the mean over them, weighted by how often they came."""
        share = self.hedge.policy(memory.rows)[..., -1]
        if self.contexts == 1:
            return share[..., 0]
        often = memory.seen + 1e-9
        return (share * often).sum(axis=-1) / often.sum(axis=-1)

    def turned(self, memory: AmongMemory) -> Array:
        """Which streams ``[...]`` returned to the model with the last outcome (1), or left it again (-1)."""
        return turned(memory, memory.step)

    def regret_after(self, problem: DecisionProblem | Payoff, steps: int, temperature: float | None) -> Bound:
        """The most that is lost after an alarm, by the steps that are left."""
        return lambda n: self.contexts * self.hedge.total_bound(np.asarray(n) / self.contexts)

    def _row(self, rows: ExpertMemory, scene: NumberScene) -> ExpertMemory:
        place = np.zeros(rows.gap.shape[:-1], dtype=np.int64) if scene.context is None else scene.context
        row: ExpertMemory = row_of(rows, place)
        return row
