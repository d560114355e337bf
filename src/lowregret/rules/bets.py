"""The bets of the exact test: one recurrence of wealth over comparators, rates and starts.

A bettor on comparator c at rate lambda_k wins exp(lambda_k x_c(outcome)) a step, x_c what c gains over the response to
the forecast, and is charged max(1, E[exp(lambda_k x_c)]) by the forecast itself: if that is right, its wealth is a
nonnegative supermartingale. At every step j a little more of the capital, m(c, k, j), joins each bettor:

    W_{c,k,t} = (W_{c,k,t-1} + m(c,k,t)) exp(lambda_k x_{c,t}(outcome)) / max(1, E[exp(lambda_k x_{c,t})]),
    E_t = sum of all W_t + the capital that has not joined yet: P(some E_t >= 1/delta) <= delta, by Ville.

A bettor that joins just before a break is as rich after it as one that had bet from the first step on: breaks are found
however late they come. Charging at least 1 keeps models that are miscalibrated but useful: it can only lower a wealth.

Wealth has two forms that give the same numbers: a step in arrays of any kind, and recorded sequences in arrays.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import (
    Array,
    at_most,
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
from .contract import zeros

_CARRIED = 1e240  # from one block of time to the next: times what a block can make of it, it is a float
MOST = 1e300  # no wealth is kept beyond: an alarm has sounded long before
LEAST_DELTA = 1e-250  # so that it has
_RANGE = 300.0  # how far the logarithm of a product may go within a block: products of two such are floats


class Wealth(NamedTuple):
    """What all bettors have."""

    wealth: Array  # [..., A, K], W
    richest: Array  # [..., A, K], what the richest start holds of it
    since: Array  # [..., A, K], that start, as a step
    seen: Array  # [...], steps so far
    impossible: Array  # [...], an outcome came to which the base gave probability 0


class Offer(NamedTuple):
    """What is bet on in a step; the short axes first."""

    gain_AxS: Array  # what each action gains over the response in each state: [A, S, ...]
    law_S: Array  # what these weigh in the charge, [S, ...]
    state: Array  # [...], the one that came


class Suspicion(NamedTuple):
    """What the richest bettor of a stream bets on, at which rate, and since when it has most of its wealth."""

    action: Array  # [...]
    rate: Array  # [...]
    since: Array  # [...], a step, counted from 1: an estimate of when the model broke; 0 before the first


class Bets:
    """Who is bet on, at which rates, and what joins when."""

    def __init__(self, prior: Prior, span: float, actions: int) -> None:
        self.prior, self.span, self.actions = prior, span, actions
        # From the slowest rate up: those that double the one before need no exponential of their own.
        order = np.argsort(prior.rates_K)
        self.rates_K = prior.rates_K[order]
        self.joins_2xK = np.stack([prior.weights_K(1)[order], prior.weights_K(2)[order]])  # at start 1, and later
        self.falls = prior.horizon is None  # later capital falls as 1 / (j (j + 1)), of which start 2 has a sixth
        # In Python's own numbers, for graphs that are traced:
        self._rates, self._joins = self.rates_K.tolist(), self.joins_2xK.tolist()
        self._doubles = [False, *(self.rates_K[1:] == 2 * self.rates_K[:-1]).tolist()]

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> Wealth:
        none = zeros((*shape, self.actions, len(self.rates_K)), xp, where)
        since, seen = (xp.zeros(kind, dtype=xp.int64, device=where) for kind in (none.shape, shape))
        return Wealth(none, none, since, seen, xp.zeros(shape, dtype=xp.bool, device=where))

    # A step

    def after(self, old: Wealth, step: Array, offer: Offer, excluded: Array) -> tuple[Wealth, Array]:
        """What they have after the outcome of the ``step``-th step, each and all together."""
        xp, factor = namespace(offer.law_S), self._factors(offer)
        fresh_K = self.joining(step, like=factor)[..., None, :]
        newer = fresh_K > old.richest
        now = Wealth(
            at_most((old.wealth + fresh_K) * factor, MOST),
            at_most(xp.where(newer, fresh_K, old.richest) * factor, MOST),
            xp.where(newer, step[..., None, None], old.since),
            old.seen + 1,
            old.impossible | excluded,
        )
        return now, self.together(now)

    def _factors(self, offer: Offer) -> Array:
        """What multiplies each bettor's wealth, ``[..., A, K]``."""
        xp, gain_AxS = namespace(offer.law_S), offer.gain_AxS
        came_A = pick(xp.moveaxis(gain_AxS, 1, 0), offer.state)
        rates_K = xp.reshape(constant(self.rates_K, came_A), (-1, *(1,) * (came_A.ndim - 1)))
        each = [offer.law_S[s] * xp.expm1(gain_AxS[:, s][:, None] * rates_K) for s in range(gain_AxS.shape[1])]
        factor = xp.exp(came_A[:, None] * rates_K) / (1 + xp.clip(total(each), 0.0, None))  # [A, K, ...]
        return xp.moveaxis(factor, (0, 1), (-2, -1)) if came_A.ndim > 1 else factor

    # Recorded sequences

    def levels(self, gains: Iterable[Array], law_S: Array, states: Array) -> Array:
        """E after every step of recorded sequences that begin with their first, ``[N, T]``; no wealth beyond ``MOST``.

        ``gains`` has what each action gains in every state ``[S, N, T]``, one after the other.
        """
        step_T = in_float64(count_up(states, 1, states.shape[1] + 1))
        level_NxT = step_T * in_float64(states) * 0
        for gain_SxNxT in gains:
            for k, factor_NxT in enumerate(self._recorded_factors(gain_SxNxT, law_S, pick(gain_SxNxT, states))):
                level_NxT = level_NxT + self._recorded_wealth(k, factor_NxT, step_T)
        return level_NxT + self.prior.unspent(step_T)

    def _recorded_factors(self, gain_S: Array, law_S: Array, came: Array) -> Iterator[Array]:
        """What multiplies wealth, from the slowest rate up: where one doubles, u = exp(rate gain) - 1 is u (u + 2)."""
        xp, excess_S, won = namespace(came), gain_S, came
        for rate, doubles in zip(self._rates, self._doubles, strict=True):
            excess_S = excess_S * (excess_S + 2.0) if doubles else xp.expm1(gain_S * rate)
            won = won * (won + 2.0) if doubles else xp.expm1(came * rate)
            yield (1 + won) / (1 + xp.clip(total(law_S * excess_S), 0.0, None))

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
        """m(c, k, clock) ``[..., K]`` for one action."""
        xp = namespace(like)
        first_K, later_K = constant(self.joins_2xK[0], like), constant(self.joins_2xK[1], like)
        if self.falls:
            j = in_float64(clock)[..., None]
            later_K = later_K * (6.0 / (j * (j + 1)))
        return xp.where((clock == 1)[..., None], first_K, later_K)

    def together(self, now: Wealth) -> Array:
        """E_t: what they have and what has not joined yet."""
        return namespace(now.wealth).sum(now.wealth, axis=(-2, -1)) + self.prior.unspent(in_float64(now.seen))

    def suspicion(self, now: Wealth) -> Suspicion:
        """What the richest bettor of each stream bets on."""
        xp, (*shape, A, K) = namespace(now.wealth), now.wealth.shape
        wealth, since = (xp.reshape(a, (*shape, A * K)) for a in (now.wealth, now.since))
        richest = xp.argmax(wealth, axis=-1)
        started = xp.take_along_axis(since, richest[..., None], axis=-1)[..., 0]
        return Suspicion(richest // K, constant(self.rates_K, wealth)[richest % K], started)
