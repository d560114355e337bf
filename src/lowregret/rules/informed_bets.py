"""The bettors of the every-start test where more than fixed actions is bet on: actions by context, and references.

The theorem is that of ``every_start.py``. A context's bettors sit out elsewhere, so they have a clock of their own: new
capital joins them at the j-th step *of their context*, a time that is known before the state. A step reads and writes
the rows of its context and those of the references, whatever the number of contexts.
"""

import math
from typing import Any, NamedTuple

from ..arrays import Array, at_most, constant, in_float64, namespace
from ..certificates.every_start import Prior
from ..memory import row_of, with_row
from ..problems import DecisionProblem
from .every_start import NOTHING, Bets, Suspicion
from .moment import zeros


class Panel(NamedTuple):
    """Some bettors; ``P`` comparators, ``K`` rates."""

    log_wealth: Array  # [..., P, K], ln W
    log_most: Array  # [..., P, K], ln of what the richest start holds of it
    since: Array  # [..., P, K], that start, as a step of the episode


class InformedStatistics(NamedTuple):
    actions: Panel  # [..., C, A, K]
    references: Panel  # [..., N, K]
    seen: Array  # [..., C], steps in each context
    share: Array  # [..., C], what its bettors hold, in units of 1/delta
    impossible: Array  # [...], a token came to which the base gave probability 0


class InformedBets:
    """Who is bet on (A actions in each of C contexts, N references), at which rates, and what joins when."""

    def __init__(
        self, stakes: DecisionProblem, prior: Prior, delta: float, actions: int, contexts: int, references: int
    ) -> None:
        self.stakes, self.prior, self.delta = stakes, prior, delta
        self.A, self.C, self.N = actions, contexts, references
        self.plain = Bets(stakes, prior, delta, 0.0, on_fallback=True)
        self.rates_K = prior.rates_K

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> InformedStatistics:
        def panel(*axes: int) -> Panel:
            none = zeros((*shape, *axes, len(self.rates_K)), xp, where) + NOTHING
            return Panel(none, none, xp.zeros(none.shape, dtype=xp.int64, device=where))

        return InformedStatistics(
            panel(self.C, self.A),
            panel(self.N),
            xp.zeros((*shape, self.C), dtype=xp.int64, device=where),
            zeros((*shape, self.C), xp, where),
            xp.zeros(shape, dtype=xp.bool, device=where),
        )

    def judge(
        self, old: InformedStatistics, step: Array, gain_PxS: Array, probs: Array, token: Array, context: Array | None
    ) -> tuple[InformedStatistics, Array]:
        """The statistics after one more step, the ``step``-th, and whether all wealth together is 1/delta."""
        xp, A = namespace(probs), self.A
        place = xp.zeros_like(step) if context is None else context
        seen = row_of(old.seen, place) + 1
        growth = self._growth(gain_PxS, probs, token)
        actions = self._grown(row_of(old.actions, place), seen, step, growth[..., :A, :])
        references = self._grown(old.references, step, step, growth[..., A:, :])
        seen_C = with_row(old.seen, place, seen)
        share_C = with_row(old.share, place, self._held(actions))
        came = xp.take_along_axis(probs, token[..., None], axis=-1)[..., 0] if token.ndim else probs[int(token)]
        impossible = came == 0
        all_ = xp.sum(share_C, axis=-1) + self._held(references) + self.delta * self.waiting(seen_C, step)
        after = InformedStatistics(
            with_row(old.actions, place, actions), references, seen_C, share_C, old.impossible | impossible
        )
        return after, (all_ >= 1) | impossible

    def waiting(self, seen_C: Array, step: Array) -> Array:
        """The capital that has not joined anyone yet."""
        xp, prior = namespace(seen_C), self.prior
        spent = self.A * xp.sum(1 - prior.unspent(in_float64(seen_C)), axis=-1)
        return 1 - (spent + self.N * (1 - prior.unspent(in_float64(step)))) / prior.comparators

    def log_total(self, statistics: InformedStatistics, step: Array) -> Array:
        """ln E_t."""
        xp, wealth = namespace(statistics.seen), self._all(statistics)[0]
        peak = xp.clip(xp.max(wealth, axis=-1), 0.0, None)
        whole = xp.sum(xp.exp(wealth - peak[..., None]), axis=-1)
        return peak + xp.log(whole + self.waiting(statistics.seen, step) * xp.exp(-peak))

    def suspicion(self, statistics: InformedStatistics) -> Suspicion:
        """What the richest bettor of each stream bets on: actions, context by context, then references."""
        xp, (wealth, since), K = namespace(statistics.seen), self._all(statistics), len(self.rates_K)
        richest = xp.argmax(wealth, axis=-1)
        started = xp.take_along_axis(since, richest[..., None], axis=-1)[..., 0]
        return Suspicion(richest // K, constant(self.rates_K, wealth)[richest % K], started)

    def _all(self, statistics: InformedStatistics) -> tuple[Array, Array]:
        """The logarithm of every bettor's wealth, and since when, in a row."""
        xp, shape = namespace(statistics.seen), tuple(statistics.seen.shape[:-1])
        both = (statistics.actions, statistics.references)
        wealth = [xp.reshape(panel.log_wealth, (*shape, -1)) for panel in both if 0 not in panel.since.shape]
        since = [xp.reshape(panel.since, (*shape, -1)) for panel in both if 0 not in panel.since.shape]
        return xp.concat(wealth, axis=-1), xp.concat(since, axis=-1)

    def _growth(self, gain_PxS: Array, probs: Array, token: Array) -> Array:
        """How much each bettor's log wealth grows in one step, ``[..., P, K]``."""
        xp, rates_K = namespace(probs), constant(self.rates_K, probs)
        law = probs / xp.sum(probs, axis=-1, keepdims=True)
        if token.ndim:
            at = xp.broadcast_to(token[..., None, None], (*gain_PxS.shape[:-1], 1))
            gain_P = xp.take_along_axis(gain_PxS, at, axis=-1)
        else:
            gain_P = gain_PxS[:, int(token)][:, None]
        excess = (law[..., None, None, :] @ xp.expm1(gain_PxS[..., None] * rates_K))[..., 0, :]
        return gain_P * rates_K - xp.log1p(xp.clip(excess, 0.0, None))

    def _grown(self, panel: Panel, clock: Array, step: Array, growth: Array) -> Panel:
        """Some bettors after new capital joined them, at this time on their clock, and the state came."""
        xp = namespace(growth)
        fresh_K = self.plain.joining(clock, like=growth)[..., None, :]
        newer = fresh_K > panel.log_most
        return Panel(
            xp.logaddexp(panel.log_wealth, fresh_K + 0 * panel.log_wealth) + growth,
            xp.where(newer, fresh_K, panel.log_most) + growth,
            xp.where(newer, step[..., None, None], panel.since),
        )

    def _held(self, panel: Panel) -> Array:
        """What they hold together, in units of 1/delta: no more of one counts than that."""
        xp = namespace(panel.since)
        return xp.sum(xp.exp(at_most(panel.log_wealth + math.log(self.delta), 0.0)), axis=(-2, -1))
