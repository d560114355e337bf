"""The bets of the exact test: one recurrence of wealth over comparators, rates and starts.

A bettor on comparator c at rate lambda_k wins exp(lambda_k x_c(outcome)) a step, x_c what c gains over the response to
the forecast, and is charged max(1, E[exp(lambda_k x_c)]) by the forecast itself: if that is right, its wealth is a
nonnegative supermartingale. At every step j a little more of the capital, m(c, k, j), joins each bettor:

    W_{c,k,t} = (W_{c,k,t-1} + m(c,k,t)) exp(lambda_k x_{c,t}(outcome)) / max(1, E[exp(lambda_k x_{c,t})]),
    E_t = sum of all W_t + the capital that has not joined yet: P(some E_t >= 1/delta) <= delta, by Ville.

A bettor that joins just before a break is as rich after it as one that had bet from the first step on: breaks are found
however late they come. Charging at least 1 keeps models that are miscalibrated but useful: it can only lower a wealth.

Comparators are rows: the actions, once for each context, then the references. A context's bettors sit out elsewhere, so
they have a clock of their own: new capital joins them at the j-th step *of their context*, a time that is known before
the outcome. Wealth has three forms that give the same numbers: a step in arrays of any kind, recorded sequences in
arrays, and one compiled loop for both (extra: ``fast``).
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import (
    Array,
    at_most,
    compiler_installed,
    constant,
    count_up,
    in_float64,
    namespace,
    pick,
    running_product,
    running_sum,
    total,
)
from ..certificates.every_start import Prior
from ..files import compiled, is_compiled, to_read
from ..memory import row_of, with_row
from .contract import zeros
from .kernels import bet

_CARRIED = 1e240  # from one block of time to the next: times what a block can make of it, it is a float
MOST = 1e300  # no wealth is kept beyond: an alarm has sounded long before
LEAST_DELTA = 1e-250  # so that it has
_STEPS = 64  # of a stream: before, importing and compiling costs more than it saves
_BETTORS = 1 << 15  # of a fleet or of recorded sequences, likewise
_NOWHERE = np.zeros((1, 1), dtype=np.int64)  # the context of steps where there is one
_NONE = np.zeros(0)
_FEW = 1 << 8  # exponentials
_PIECE = 1 << 15  # steps of recorded sequences
_RANGE = 300.0  # how far the logarithm of a product may go within a block: products of two such are floats


class Wealth(NamedTuple):
    """What all bettors have; rows are the actions, context by context, then the references."""

    wealth: Array  # [..., P, K], W
    richest: Array  # [..., P, K], what the richest start holds of it
    since: Array  # [..., P, K], that start, as a step of the episode
    seen: Array  # [..., C], steps in each context
    impossible: Array  # [...], an outcome came to which the base gave probability 0
    charges: Array  # [..., P, K], what each was charged, in logarithms; [..., 0, 0] where nobody counts
    backed: Any = ()  # the second bettor, where there is one (``second_bettor.py``)


class Offer(NamedTuple):
    """What is bet on in a step, or in every step of recorded sequences; the short axes first."""

    gain_PxM: Array  # what each comparator gains over the response at each of M outcomes: [P, M, ...]
    weights_M: Array  # what these weigh in the charge, [M, ...]; or by comparator, [P, M, ...]
    came_P: Array | None  # what each gained, [P, ...]; None: at the outcome that ``state`` names
    state: Array | None = None  # [...]

    def came(self) -> Array:
        """What each comparator gained, ``[P, ...]``."""
        if self.came_P is not None:
            return self.came_P
        assert self.state is not None
        if self.state.ndim == 0 and type(self.gain_PxM) is np.ndarray:
            return self.gain_PxM[:, int(self.state)]
        return pick(namespace(self.gain_PxM).moveaxis(self.gain_PxM, 1, 0), self.state)


class Suspicion(NamedTuple):
    """What the richest bettor of a stream bets on, at which rate, and since when it has most of its wealth."""

    comparator: Array  # [...], its row; -1: it bets on another law
    rate: Array  # [...]
    since: Array  # [...], a step, counted from 1: an estimate of when the model broke; 0 before the first
    gain: Array  # [...], what acting on that law has earned more since then, a step


class Bets:
    """Who is bet on (``actions`` in each of so many contexts, ``references``), at which rates, and what joins when."""

    def __init__(
        self,
        prior: Prior,
        delta: float,
        span: float,
        actions: int,
        contexts: int = 1,
        references: int = 0,
        counts_charges: bool = False,
    ) -> None:
        self.prior, self.delta, self.span = prior, delta, span
        self.actions, self.contexts, self.references = actions, contexts, references
        self.counts_charges = counts_charges
        # From the slowest rate up: those that double the one before need no exponential of their own.
        order = np.argsort(prior.rates_K)
        self.rates_K = prior.rates_K[order]
        doubles_K = np.append(False, self.rates_K[1:] == 2 * self.rates_K[:-1])
        self.rates_G = self.rates_K[~doubles_K]  # with which they begin
        self.ladder_K = np.where(doubles_K, -1, np.cumsum(~doubles_K) - 1)  # with which head a rate begins
        self.joins_2xK = np.stack([prior.weights_K(1)[order], prior.weights_K(2)[order]])  # at start 1, and later
        self.falls = prior.horizon is None  # later capital falls as 1 / (j (j + 1)), of which start 2 has a sixth
        # In Python's own numbers, for graphs that are traced:
        self._rates, self._ladder, self._joins = self.rates_K.tolist(), self.ladder_K.tolist(), self.joins_2xK.tolist()

    @property
    def rows(self) -> int:
        return self.contexts * self.actions + self.references

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> Wealth:
        none = zeros((*shape, self.rows, len(self.rates_K)), xp, where)
        since = xp.zeros(none.shape, dtype=xp.int64, device=where)
        seen = xp.zeros((*shape, self.contexts), dtype=xp.int64, device=where)
        charges = none if self.counts_charges else zeros((*shape, 0, 0), xp, where)
        return Wealth(none, none, since, seen, xp.zeros(shape, dtype=xp.bool, device=where), charges)

    # A step

    def after(
        self, old: Wealth, step: Array, offer: Offer, excluded: Array, context: Array | None = None
    ) -> tuple[Wealth, Array]:
        """What they have after the outcome of the ``step``-th step, each and all together."""
        if self._worth_compiling(old, step, offer):
            now, level = self._compiled(old, step, offer, context)
        else:
            now, level = self._in_arrays(old, step, offer, context)
        charges = old.charges + self._charged(offer, context) if self.counts_charges else old.charges
        return Wealth(*now[:4], old.impossible | excluded, charges, old.backed), level

    def _in_arrays(self, old: Wealth, step: Array, offer: Offer, context: Array | None) -> tuple[Wealth, Array]:
        xp, A, several = namespace(offer.weights_M), self.actions, self.contexts > 1
        place = xp.zeros_like(step) if context is None else context
        seen = row_of(old.seen, place) + 1 if several else old.seen[..., 0] + 1
        factor = self._factors(offer)
        parts, others = self._split(old[:3], place if several else None)
        mine = self._grown(parts, seen, step, factor[..., :A, :])
        theirs = self._grown(others, step, step, factor[..., A:, :]) if self.references else others
        seen_C = with_row(old.seen, place, seen) if several else seen[..., None]
        wealth, richest, since = self._joined(old[:3], place if several else None, mine, theirs)
        now = Wealth(wealth, richest, since, seen_C, old.impossible, old.charges)
        return now, xp.sum(now.wealth, axis=(-2, -1)) + self.waiting(seen_C, step)

    def _factors(self, offer: Offer) -> Array:
        """What multiplies each bettor's wealth, ``[..., P, K]``."""
        xp, came_P = namespace(offer.weights_M), offer.came()
        rates_K = xp.reshape(constant(self.rates_K, came_P), (-1, *(1,) * (came_P.ndim - 1)))
        factor = xp.exp(came_P[:, None] * rates_K) / (1 + self._excess(offer, rates_K))  # [P, K, ...]
        return xp.moveaxis(factor, (0, 1), (-2, -1)) if came_P.ndim > 1 else factor

    def _excess(self, offer: Offer, rates_K: Array) -> Array:
        """By how much the mean of what a bet wins is above 1, if it is: ``[P, K, ...]``."""
        xp = namespace(offer.weights_M)
        gain_PxM, weights, M = offer.gain_PxM, offer.weights_M, offer.gain_PxM.shape[1]
        own = weights.ndim == gain_PxM.ndim  # by comparator
        each = [
            (weights[:, m][:, None] if own else weights[m]) * xp.expm1(gain_PxM[:, m][:, None] * rates_K)
            for m in range(M)
        ]
        return xp.clip(total(each), 0.0, None)

    def _charged(self, offer: Offer, context: Array | None) -> np.ndarray:
        """ln of what each bettor is charged, ``[..., P, K]``: nothing in the contexts that a step is not in."""
        rates_K = self.prior.rates_K.reshape(-1, *(1,) * (offer.weights_M.ndim - 1))
        charges: np.ndarray = np.moveaxis(np.log1p(self._excess(offer, rates_K)), (0, 1), (-2, -1))
        if self.contexts == 1:
            return charges
        assert context is not None
        *shape, _, K = charges.shape
        wide = np.zeros((*shape, self.contexts, self.actions, K))
        wide = with_row(wide, np.asarray(context), charges[..., : self.actions, :])
        wide = wide.reshape(*shape, self.contexts * self.actions, K)
        return np.concatenate([wide, charges[..., self.actions :, :]], axis=-2)

    def _grown(self, old: tuple[Array, Array, Array], clock: Array, step: Array, factor: Array) -> tuple[Array, ...]:
        """Some bettors after new capital joined them, at this time on their clock, and the outcome came."""
        xp, (wealth, richest, since) = namespace(factor), old
        fresh_K = self.joining(clock, like=factor)[..., None, :]
        newer = fresh_K > richest
        return (
            at_most((wealth + fresh_K) * factor, MOST),
            at_most(xp.where(newer, fresh_K, richest) * factor, MOST),
            xp.where(newer, step[..., None, None], since),
        )

    def _split(self, parts: Any, place: Array | None) -> tuple[Any, Any]:
        """The rows of the actions in the context that each stream is in, and those of the references."""
        at = self.contexts * self.actions
        if place is None:
            return [part[..., :at, :] for part in parts], [part[..., at:, :] for part in parts]
        return [row_of(self._by_context(part), place) for part in parts], [part[..., at:, :] for part in parts]

    def _joined(self, old: Any, place: Array | None, mine: Any, theirs: Any) -> list[Array]:
        found = []
        for part, own, others in zip(old, mine, theirs, strict=True):
            if place is not None:
                wide = with_row(self._by_context(part), place, own)
                *shape, C, A, K = wide.shape
                own = namespace(wide).reshape(wide, (*shape, C * A, K))
            found.append(namespace(own).concat([own, others], axis=-2) if self.references else own)
        return found

    def _by_context(self, part: Array) -> Array:
        *shape, _, K = part.shape
        C, A = self.contexts, self.actions
        return namespace(part).reshape(part[..., : C * A, :], (*shape, C, A, K))

    # Compiled

    def _worth_compiling(self, old: Wealth, step: Array, offer: Offer) -> bool:
        if type(old.wealth) is not np.ndarray or not compiler_installed():
            return False
        if old.wealth.ndim == 2:
            return step.item() > _STEPS or is_compiled(bet)
        return (old.wealth.size >= _BETTORS or is_compiled(bet)) and offer.gain_PxM.shape[2:] == step.shape

    def _compiled(self, old: Wealth, step: Array, offer: Offer, context: Array | None) -> tuple[Wealth, np.ndarray]:
        shape = old.seen.shape[:-1]
        now = Wealth(old[0].copy(), old[1].copy(), old[2].copy(), old[3].copy(), old.impossible, old.charges)
        N = math.prod(shape)
        if shape == ():
            state, level_NxT = [now[0][None], now[1][None], now[2][None], now[3][None]], np.zeros((1, 1))
            gain_PxM, weights_M, came_P, came = offer
            alone = Offer(
                gain_PxM[:, :, None, None],
                weights_M[..., None, None],
                None if came_P is None else came_P[:, None, None],
                None if came is None else np.array([[came]]),
            )
            place = _NOWHERE if context is None else np.array([[context]])
            self._run(state, np.array([step]), alone, place, level_NxT)
            return now, level_NxT[0, 0] + self.waiting(now.seen, step)
        state = [part.reshape(N, *part.shape[len(shape) :]) for part in now[:4]]

        def flat(part: Any) -> Any:
            return None if part is None else part.reshape(*part.shape[: part.ndim - len(shape)], N, 1)

        level_NxT, place = np.zeros((N, 1)), _NOWHERE if context is None else flat(context)
        self._run(state, step.reshape(N), Offer(*map(flat, offer)), place, level_NxT)
        return now, level_NxT.reshape(shape) + self.waiting(now.seen, step)

    def _run(
        self, state: Any, step_N: np.ndarray, offer: Offer, context_NxT: np.ndarray, level_NxT: np.ndarray
    ) -> None:
        """Add to ``level_NxT`` what the bettors on these rows have after every step.

        The state (wealth, richest, since, seen) is written over; ``step_N``: which step is the first.
        """
        gain_PxM, weights_M, came_P, states_NxT = offer
        if came_P is not None:
            gain_PxM = np.concatenate([gain_PxM, came_P[:, None]], axis=1)
        gain, rates_G = gain_PxM[:, None], self.rates_G
        if gain.size > _FEW:  # arrays of exponentials are quicker than one at a time
            gain, rates_G = gain * rates_G[:, None, None, None], _NONE
            np.expm1(gain, out=gain)
        compiled(bet)(
            to_read(gain),
            to_read(weights_M if weights_M.ndim == gain_PxM.ndim else weights_M[None]),
            _NOWHERE if states_NxT is None else to_read(states_NxT, np.int64),
            step_N,
            to_read(context_NxT, np.int64),
            rates_G,
            self.ladder_K,
            self.joins_2xK,
            self.falls,
            self.actions,
            *state,
            level_NxT,
        )

    # Recorded sequences

    def levels(self, rows: Iterable[tuple[Array, Array, Array | None]], states: Array) -> Array:
        """E after every step of recorded sequences that begin with their first, ``[N, T]``; no wealth beyond ``MOST``.

        For one context. ``rows`` has what each comparator gains at each of the M outcomes ``[M, N, T]``, what these
        weigh, and what it gained ``[N, T]`` (None: at that of ``states``), one comparator after the other.
        """
        N, T = states.shape
        step_T = in_float64(count_up(states, 1, T + 1))
        level_NxT = step_T * in_float64(states) * 0
        if self._worth_compiling_all(level_NxT):
            level_NxT, step_N = np.zeros((N, T)), np.ones(N, dtype=np.int64)
            length = max(1, _PIECE // max(N, 1))  # of a piece of time: what is made of it stays close at hand
            for gain_MxNxT, weights_M, came_NxT in rows:
                state = np.zeros((N, 1, len(self.rates_K))), None, None, np.zeros((N, 1), dtype=np.int64)
                for begin in range(0, T, length):
                    at = ..., slice(begin, begin + length)
                    came = None if came_NxT is None else came_NxT[at][None]
                    piece = Offer(gain_MxNxT[at][None], weights_M[at], came, states[at] if came is None else None)
                    more_NxT = np.zeros(states[at].shape)
                    self._run(state, step_N + begin, piece, _NOWHERE, more_NxT)
                    level_NxT[at] += more_NxT
            return level_NxT + self.prior.unspent(step_T)
        for gain_MxNxT, weights_M, came_NxT in rows:
            came_NxT = pick(gain_MxNxT, states) if came_NxT is None else came_NxT
            for k, factor_NxT in enumerate(self._recorded_factors(gain_MxNxT, weights_M, came_NxT)):
                level_NxT = level_NxT + self._recorded_wealth(k, factor_NxT, step_T)
        return level_NxT + self.prior.unspent(step_T)

    def run(self, offer: Offer) -> Wealth:
        """What they have after recorded sequences that begin with their first step; one context, compiled."""
        N, T = offer.weights_M.shape[-2:]
        now = Wealth(*(part.copy() for part in self.blank((N,), np, None)[:6]))
        self._run(now[:4], np.ones(N, dtype=np.int64), offer, _NOWHERE, np.zeros((N, T)))
        return now

    def _worth_compiling_all(self, level_NxT: Array) -> bool:
        if type(level_NxT) is not np.ndarray or not compiler_installed():
            return False
        return level_NxT.size * len(self.rates_K) >= _BETTORS or is_compiled(bet)

    def _recorded_factors(self, gain_M: Array, weights_M: Array, came: Array) -> Iterator[Array]:
        """What multiplies wealth, from the slowest rate up: where one doubles, u = exp(rate gain) - 1 is u (u + 2)."""
        xp, excess_M, won = namespace(came), gain_M, came
        for rate, head in zip(self._rates, self._ladder, strict=True):
            excess_M = excess_M * (excess_M + 2.0) if head < 0 else xp.expm1(gain_M * rate)
            won = won * (won + 2.0) if head < 0 else xp.expm1(came * rate)
            yield (1 + won) / (1 + xp.clip(total(weights_M * excess_M), 0.0, None))

    def _recorded_wealth(self, k: int, factor_NxT: Array, step_T: Array) -> Array:
        """One bettor's wealth at every step: within a block of time a product times a cumulative sum."""
        xp, T, rate = namespace(factor_NxT), factor_NxT.shape[-1], self._rates[k]
        # A step multiplies wealth by e^(rate span) at most, and divides it by e^(2 rate span) at most.
        length = max(1, int(_RANGE / (2 * rate * self.span))) if self.span else T
        later = step_T * 0 + self._joins[1][k] if not self.falls else self._joins[1][k] * 6 / (step_T * (step_T + 1))
        fresh_T = xp.where(step_T == 1, step_T * 0 + self._joins[0][k], later)
        found, wealth = [], factor_NxT[..., :1] * 0
        for begin in range(0, T, length):
            part = factor_NxT[..., begin : begin + length]
            product = running_product(part)
            joined = running_sum(fresh_T[begin : begin + length] * part / product)
            found.append(at_most(product * (wealth + joined), MOST))
            wealth = at_most(found[-1][..., -1:], _CARRIED)
        return found[0] if len(found) == 1 else xp.concat(found, axis=-1)

    # What can be read

    def joining(self, clock: Array, like: Array) -> Array:
        """m(c, k, clock) ``[..., K]`` for one comparator."""
        xp = namespace(like)
        first_K, later_K = constant(self.joins_2xK[0], like), constant(self.joins_2xK[1], like)
        later = later_K
        if self.falls:
            j = in_float64(clock)[..., None]
            later = later_K * (6.0 / (j * (j + 1)))
        return xp.where((clock == 1)[..., None], first_K, later)

    def waiting(self, seen_C: Array, step: Array) -> Array:
        """The capital that has not joined anyone yet."""
        xp, prior, A, N = namespace(seen_C), self.prior, self.actions, self.references
        if self.contexts == 1 and not N:
            return prior.unspent(in_float64(seen_C[..., 0]) if seen_C.ndim > 1 or xp is not np else float(seen_C[0]))
        spent = A * xp.sum(prior.share - prior.unspent(in_float64(seen_C)), axis=-1)
        return prior.share - (spent + N * (prior.share - prior.unspent(in_float64(step)))) / prior.comparators

    def together(self, now: Wealth, step: Array) -> Array:
        """E_t: what they have and what has not joined yet."""
        return namespace(now.wealth).sum(now.wealth, axis=(-2, -1)) + self.waiting(now.seen, step)

    def suspicion(self, now: Wealth) -> Suspicion:
        """What the richest bettor of each stream bets on."""
        xp, (*shape, P, K) = namespace(now.wealth), now.wealth.shape
        wealth, since = (xp.reshape(a, (*shape, P * K)) for a in (now.wealth, now.since))
        richest = xp.argmax(wealth, axis=-1)
        started = xp.take_along_axis(since, richest[..., None], axis=-1)[..., 0]
        rate = constant(self.rates_K, wealth)[richest % K]
        return Suspicion(richest // K, rate, started, rate * 0)
