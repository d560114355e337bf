"""The way back where more is known before the state: incumbents, contexts, payoffs that change.

As in ``recovering.py``, with more laws and more comparators. In the shadow run the base's law, urns that forget, urns
that forget by what the base advises, and the laws of the references; the response to their mixture is played on a
budget, and safe play is Hedge over the fixed actions and the references, told what each was paid. A step of a context
reads and writes that context's row alone: every context has urns, weights, a budget and safe play of its own.

Let R_c(t) be what comparator c (an action, or a reference) has earned more than what was played, in one context since
the alarm. The proof of ``recovering.py`` speaks of increments of at most J and of safe play whose regret to every c is
at most F(n) whatever comes. Both hold for references, and for payoffs within a range whose span is J: so in a context
of n steps after the alarm **R_c(n) <= b + J + F(n)**, F(n) = J (1 + sqrt(1 + n ln(A + N))). Contexts add up: the sum of
C such bounds, each concave in its own n, is largest where all are equally long.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, astype, constant, device, float_type, in_float64, namespace
from ..memory import row_of, with_row
from ..memory import where as choose
from ..problems import DecisionProblem, Scene, worth_of
from .experts import ExpertHedge, ExpertMemory
from .trust import trust_after, turned

_PRIOR = 1.0  # sightings of every state before the first
_TIE = 1e-12  # worths closer than this are the same: the lowest index is advised


class Row(NamedTuple):
    """What is remembered of a context; in the memory all have an axis of contexts after those of streams."""

    counts: Array  # [..., 1 + A, M, S], what is left of the sightings: all, and by advice
    weights: Array  # [..., L], of the base, the urns that see everything, those by advice, the references
    rise: Array  # [..., P], R_c above its lowest point
    is_safe: Array  # [...], whether the budget is spent
    safe: ExpertMemory
    seen: Array  # [...], steps in this context


class InformedMemory(NamedTuple):
    rows: Row  # [..., C, ...]
    step: Array  # [...]
    trusted: Array  # [...], whether the base has returned since the alarm, and not gone again
    turned_at: Array  # [...], tokens seen when that last changed, 0 for never


@dataclass(frozen=True)
class InformedRecovering:
    """A ``Recovery`` for one rule that is told more than the base's law; all is unchecked.

    ``stakes`` is a problem with the span of what may come; ``laws`` says how many references state laws.
    """

    problem: DecisionProblem
    stakes: DecisionProblem
    horizon: int | None
    contexts: int
    references: int
    laws: int
    memories: tuple[float, ...]
    share: float
    budget: float

    name = "Recovery"  # by which a certificate calls it
    acts = True  # its safe play is no response to a law

    @cached_property
    def hedge(self) -> ExpertHedge:
        """Safe play: over the actions, then the references."""
        return ExpertHedge(self.problem.n_actions + self.references, self.stakes.span)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> InformedMemory:
        xp, where, M = namespace(like), device(like), len(self.memories)
        (A, S), shape = self.problem.utility.shape, (*batch_shape, self.contexts)
        dtype, L = float_type(xp, where), 1 + 2 * M + self.laws
        count = xp.zeros(shape, dtype=xp.int64, device=where)
        row = Row(
            xp.zeros((*shape, 1 + A, M, S), dtype=dtype, device=where),
            xp.full((*shape, L), 1 / L, dtype=dtype, device=where),
            xp.zeros((*shape, self.hedge.experts), dtype=dtype, device=where),
            xp.zeros(shape, dtype=xp.bool, device=where),
            self.hedge.start(shape, like=like),
            count,
        )
        step = xp.zeros(batch_shape, dtype=xp.int64, device=where)
        return InformedMemory(row, step, xp.zeros(batch_shape, dtype=xp.bool, device=where), step)

    def policy_in(self, memory: InformedMemory, scene: Scene) -> Array:
        """What it plays in a step of which this is known, ``[..., A]``."""
        row = self._row(memory, scene)
        return self._play(row, scene, self._view(row, scene)[1])

    def update_in(self, memory: InformedMemory, scene: Scene, token: Array, late: Array) -> InformedMemory:
        """The memory after ``token``; ``late``: the alarm had sounded before, so what it says was played."""
        xp, old = namespace(memory.step), self._row(memory, scene)
        laws, mixture, advised = self._view(old, scene)
        row = self._after(old, laws, mixture, advised, token)
        if bool(late.any()):
            played, paid = self._play(old, scene, mixture), scene.paid(token)
            own = xp.sum(played * paid[..., : self.problem.n_actions], axis=-1)
            rise = xp.clip(old.rise + paid - own[..., None], 0.0, None) * late[..., None]
            worst, limit = xp.max(rise, axis=-1), self._limit(row.seen)
            is_safe = late & xp.where(old.is_safe, worst > limit / 2, worst >= limit)
            row = row._replace(rise=rise, is_safe=is_safe, safe=self._safe_after(old, is_safe, paid))
        rows = with_row(memory.rows, self._place(memory, scene), row)
        after = memory._replace(rows=rows, step=memory.step + 1)
        if not bool(late.any()):
            return after
        return trust_after(after, self.share_of_base(after), late, after.step)

    def share_of_base(self, memory: InformedMemory) -> Array:
        """How much of what it plays is the base's, ``[...]``: the mean over the contexts, by how often they came."""
        xp, rows = namespace(memory.step), memory.rows
        share = xp.where(rows.is_safe, xp.zeros_like(rows.weights[..., 0]), rows.weights[..., 0])
        often = in_float64(rows.seen) + 1e-9
        return xp.sum(share * often, axis=-1) / xp.sum(often, axis=-1)

    def turned(self, memory: InformedMemory) -> Array:
        """Which streams ``[...]`` returned to the base with the last token (1), or left it again (-1)."""
        return turned(memory, memory.step)

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Any:
        """What is lost at most after an alarm to any comparator, over all contexts, by the steps that are left."""
        J, C = self.stakes.span, self.contexts
        budget = self.budget * math.sqrt((self.horizon or steps) * C)
        # Of one context: the budget takes so many steps to spend, in which safe play is not. The sum stays concave.
        spending = math.ceil(budget) if C == 1 else 0
        own = budget * J + C * J
        return lambda left_N: np.minimum(left_N * J, own + self._safe(np.maximum(left_N - spending, 0.0), C))

    # Inside

    def _safe(self, n: np.ndarray, C: int) -> np.ndarray:
        """C F(n / C): what safe play loses at most in C contexts of n steps together."""
        if self.hedge.experts == 1:
            return 0.0 * n
        J = self.stakes.span
        return np.minimum(n * J, J * (C + np.sqrt(C**2 + n * C * math.log(self.hedge.experts))))

    def _limit(self, seen: Array) -> Any:
        """b: budget J sqrt(T / C), by the steps of the context where the horizon is unknown."""
        root = in_float64(seen) ** 0.5 if self.horizon is None else math.sqrt(self.horizon / self.contexts)
        return self.budget * self.stakes.span * root

    def _place(self, memory: InformedMemory, scene: Scene) -> Array:
        return namespace(memory.step).zeros_like(memory.step) if scene.context is None else scene.context

    def _row(self, memory: InformedMemory, scene: Scene) -> Row:
        return row_of(memory.rows, self._place(memory, scene))

    def _view(self, row: Row, scene: Scene) -> tuple[Array, Array, Array]:
        """The laws ``[..., L, S]`` that speak, their mixture ``[..., S]``, and which action the base advises."""
        xp, probs = namespace(row.weights), scene.probs
        worth = worth_of(scene.utility, probs)
        best = worth >= xp.max(worth, axis=-1, keepdims=True) - _TIE
        advised = xp.argmax(astype(best, xp.int64), axis=-1)
        counts = xp.concat([row.counts[..., 0, :, :], row_of(row.counts[..., 1:, :, :], advised)], axis=-2)
        urns = (counts + _PRIOR) / (xp.sum(counts, axis=-1, keepdims=True) + _PRIOR * probs.shape[-1])
        laws = xp.concat([probs[..., None, :], urns], axis=-2)
        if self.laws and scene.laws_NxS is not None:
            laws = xp.concat([laws, scene.laws_NxS], axis=-2)
        weights = row.weights[..., : laws.shape[-2]]
        mixture = (weights[..., None, :] @ laws)[..., 0, :]
        if weights.shape[-1] < row.weights.shape[-1]:  # some say nothing this time
            mixture = mixture / xp.sum(weights, axis=-1, keepdims=True)
        return laws, mixture, advised

    def _after(self, row: Row, laws: Array, mixture: Array, advised: Array, token: Array) -> Row:
        """Urns and weights after the token."""
        xp, S, L = namespace(row.weights), laws.shape[-1], row.weights.shape[-1]
        hit = astype(token[..., None] == xp.arange(S, device=device(token)), laws.dtype)  # [..., S]
        keep = constant(1 - 1 / np.asarray(self.memories), laws)[:, None]
        every = row.counts[..., 0, :, :] * keep + hit[..., None, :]
        theirs = row_of(row.counts[..., 1:, :, :], advised) * keep + hit[..., None, :]
        by_advice = with_row(row.counts[..., 1:, :, :], advised, theirs)
        counts = xp.concat([every[..., None, :, :], by_advice], axis=-3)
        came = (laws @ hit[..., None])[..., 0]
        if came.shape[-1] < L:  # whoever said nothing stands for what all others say
            silent = (mixture[..., None, :] @ hit[..., None])[..., 0]
            came = xp.concat([came, xp.broadcast_to(silent, (*came.shape[:-1], L - came.shape[-1]))], axis=-1)
        posterior = row.weights * came
        weights = posterior * ((1 - self.share) / xp.sum(posterior, axis=-1, keepdims=True)) + self.share / L
        return row._replace(counts=counts, weights=weights, seen=row.seen + 1)

    def _play(self, row: Row, scene: Scene, mixture: Array) -> Array:
        xp, mixed = namespace(mixture), scene.respond(mixture)
        if not bool(row.is_safe.any()):
            return mixed
        weights, A = self.hedge.policy(row.safe), self.problem.n_actions
        safe = weights[..., :A]
        if scene.references_NxA is not None:
            safe = safe + (weights[..., None, A:] @ scene.references_NxA)[..., 0, :]
        return xp.where(row.is_safe[..., None], safe, mixed)

    def _safe_after(self, old: Row, is_safe: Array, paid: Array) -> ExpertMemory:
        """Safe play goes on where it was in force and stays so; elsewhere it begins afresh."""
        fresh = self.hedge.start(tuple(is_safe.shape), like=old.rise)
        if not bool(old.is_safe.any()):
            return fresh
        return choose(old.is_safe & is_safe, self.hedge.update(old.safe, paid), fresh)
