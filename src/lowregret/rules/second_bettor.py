"""The second bettor: something predicts better than the model, and acting on it earned more.

A mixture of laws runs in the shadow of the model from the first step on (``policies/shadow.py``). Its likelihood ratio
is a bet like any other, and needs no charge: the mean of mix(s) / p(s) under p is 1. It has its own part of the
capital, m_t at step t:

    LR_t = (LR_{t-1} + m_t) mix_t(s_t) / p_t(s_t).

A law may predict better and be worth nothing to whoever acts. So what it has counts only while acting on the mixture
has earned more. With d_t what the response to the mixture earned more than that to the model, G its sum since its
lowest point (0 at the start), V the sum of d^2 since then and a the steps since:

    heard:  G > 0  and  G^2 >= V (ln(1 + t / a) + 2).

An alarm sounds where all bettors together reach 1/delta while this one is heard, or where those on actions do alone:
either lies in {E >= 1/delta}, so the chance of a false one is at most delta.
"""

import math
from typing import NamedTuple

import numpy as np

from ..arrays import Array, at_most, in_float64, namespace
from ..certificates.every_start import Prior
from ..files import compiled, is_compiled, to_read
from .bets import MOST
from .contract import zeros
from .kernels import back, worth


class Backed(NamedTuple):
    """What the second bettor has, and how acting on the mixture went."""

    wealth: Array  # [...], LR
    rise: Array  # [...], G
    spread: Array  # [...], V
    age: Array  # [...], a
    missed: Array  # [...], outcomes that never came since then: they count for its date, and for nothing else


def blank(shape: tuple[int, ...], xp: object, where: object) -> Backed:
    none = zeros(shape, xp, where)
    return Backed(none, none, none, none, none)


def after(prior: Prior, old: Backed, step: Array, odds: Array, gained: Array) -> Backed:
    """The same after the ``step``-th step: ``odds``, how much likelier the mixture made what came; what was gained."""
    if type(odds) is np.float64:  # one stream
        staked = float(old.wealth) + prior.second_weight(int(step))
        risen, d = float(old.rise) + float(gained), float(gained)
        now = risen, float(old.spread) + d * d, float(old.age) + 1, float(old.missed)
        parts = now if risen > 0 else (0.0, 0.0, 0.0, 0.0)
        return Backed(*map(np.asarray, (min(staked * float(odds), MOST), *parts)))
    xp = namespace(odds)
    risen = old.rise + gained
    above = in_float64(risen > 0)
    return Backed(
        at_most((old.wealth + prior.second_weight(in_float64(step))) * odds, MOST),
        xp.clip(risen, 0.0, None),
        (old.spread + gained * gained) * above,
        (old.age + 1) * above,
        old.missed * above,
    )


def one_missing(now: Backed) -> Backed:
    """The same after a step whose outcome never comes: it is one of those since the lowest point, if that is past."""
    return now._replace(missed=now.missed + in_float64(now.age > 0))


def level(prior: Prior, now: Backed, step: Array, actions: Array) -> Array:
    """E_t as far as it counts, where the bettors on actions have so much: with this one while it is heard."""
    if type(now.wealth) is np.ndarray and now.wealth.ndim == 0:  # one stream
        wealth, rise, spread, age = (part.item() for part in now[:4])
        counts = rise > 0 and rise**2 >= spread * (math.log(1 + int(step) / max(age, 1.0)) + 2)
        return actions + (wealth + prior.second_unspent(int(step))) if counts else actions
    xp, t = namespace(actions), in_float64(step)
    more = now.wealth + prior.second_unspent(t)
    return xp.where(heard(now, t), actions + more, actions)


def heard(now: Backed, t: Array) -> Array:
    """Whether acting on the mixture has earned more, beyond what luck explains."""
    xp = namespace(now.rise)
    age = xp.clip(now.age, 1.0, None)
    return (now.rise > 0) & (now.rise**2 >= now.spread * (xp.log(1 + t / age) + 2))


def recorded(prior: Prior, odds_NxT: Array, gained_NxT: Array, actions_NxT: Array) -> tuple[Backed, Array]:
    """What it has after recorded sequences, and E as far as it counts at every step of them, ``[N, T]``."""
    xp, T, found = namespace(odds_NxT), odds_NxT.shape[-1], []
    if worth(odds_NxT) or (xp is np and is_compiled(back)):
        step_T, level_NxT = np.arange(1.0, T + 1), np.array(actions_NxT, dtype=np.float64)
        capital = prior.second_weight(step_T), prior.second_unspent(step_T)
        had_5xN = np.zeros((5, len(odds_NxT)))
        compiled(back)(to_read(odds_NxT), to_read(gained_NxT), *capital, had_5xN, level_NxT)
        return Backed._make(had_5xN), level_NxT
    now = Backed(*(odds_NxT[:, 0] * 0 for _ in range(5)))
    for t in range(T):
        step = actions_NxT[:, t] * 0 + (t + 1)
        now = after(prior, now, step, odds_NxT[:, t], gained_NxT[:, t])
        found.append(level(prior, now, step, actions_NxT[:, t]))
    return now, xp.stack(found, axis=-1)


def by_pairs(gain_PxS: Array) -> tuple[Array, Array]:
    """What bets against a best response are charged by their pair of actions: two outcomes, and what these weigh.

    Let a comparator gain between -l and h over the best response. Whatever the law is to which that is best, the mean
    of exp(rate gain) is at most that of the law on -l and h with mean 0 (``certificates/best_response.py``). The stated
    probabilities do not enter: where they are wrong and the action is best all the same, no bet is charged too little.
    ``[P, 2, ...]`` each; nothing is charged to whoever never gains, or never loses.
    """
    xp = namespace(gain_PxS)
    low, high = -xp.min(gain_PxS, axis=1), xp.max(gain_PxS, axis=1)
    both = (low > 0) & (high > 0)
    low, high = (xp.where(both, end, xp.zeros_like(end)) for end in (low, high))
    wide = xp.where(both, low + high, xp.ones_like(low))
    return xp.stack([-low, high], axis=1), xp.stack([high / wide, low / wide], axis=1)
