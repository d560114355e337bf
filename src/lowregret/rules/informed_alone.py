"""One stream of the informed test that has not tripped, step by step, compiled where that pays (extra: ``fast``)."""

import math
from functools import cache
from typing import Any

import numpy as np

from ..arrays import compiled, compiler_installed, frozen
from ..policies import InformedMemory, InformedRecovering
from ..policies.informed import Row
from .informed_bets import InformedStatistics, Panel
from .informed_kernel import bet, shadow
from .moment import Known, RuleMemory

_STEPS = 64  # of one stream: below, importing and compiling costs more than it saves
_NOBODY, _DOUBLE = Known(), np.dtype(np.float64)


def step_alone(
    rule: Any, memory: RuleMemory, probs: np.ndarray, token: int, known: Known | None
) -> tuple[RuleMemory, np.ndarray] | None:
    """The memory after the token, and what each comparator gained over the response to the base; None: not this way."""
    at, fallback = memory.step.item() + 1, rule.in_play.fallback
    if at <= _STEPS or not isinstance(fallback, InformedRecovering) or not compiler_installed():
        return None
    plays_NxA, laws_NxS, context, utility, scale = known or _NOBODY
    said = plays_NxA if laws_NxS is None else laws_NxS
    if said is None:
        if rule.references:
            return None
        said = probs[None][:0]
    if probs.dtype != _DOUBLE or type(said) is not np.ndarray:
        return None
    # The kernels are compiled once for one kind of arguments: tables that are never written to are read-only.
    utility = rule.problem.utility if utility is None else frozen(utility.view())
    place, bets, old, before = 0 if context is None else int(context), rule.bets, memory.statistics, memory.fallback
    (own, own_most, own_since), (others, most, since), seen, share, was_impossible = old
    own, own_most, own_since, seen, share = own.copy(), own_most.copy(), own_since.copy(), seen.copy(), share.copy()
    others, most, since = others.copy(), most.copy(), since.copy()
    counts, weights, rise, is_safe, safe, visits = before.rows
    counts, weights, visits = counts.copy(), weights.copy(), visits.copy()
    clock = seen.item(place) + 1
    seen[place] = clock
    visits[place] += 1
    lead_P = np.empty(bets.A + bets.N)
    held = compiled(bet)(
        probs, said, laws_NxS is not None, utility, rule.temperature_at(at), 1.0 if scale is None else scale.item(),
        math.log(rule.delta), token, at, bets.rates_K, _joining(bets.prior, clock, at), place,
        own, own_most, own_since, others, most, since, share, lead_P,
    )  # fmt: skip
    speak = fallback.laws > 0 and laws_NxS is not None
    compiled(shadow)(
        probs, said, speak, utility, token, _kept(fallback.memories), fallback.share, place, counts, weights
    )
    step, impossible = np.int64(at), probs.item(token) == 0
    alarm = impossible or (held + rule.delta >= 1 and held + rule.delta * float(bets.waiting(seen, step)) >= 1)
    statistics = InformedStatistics(
        Panel(own, own_most, own_since), Panel(others, most, since), seen, share, was_impossible | impossible
    )
    rows = Row(counts, weights, rise, is_safe, safe, visits)
    after = InformedMemory(rows, step, before.trusted, before.turned_at)
    tripped_at = step if alarm and not rule.pointless else memory.tripped_at
    return RuleMemory(after, step, tripped_at, statistics), rule.widened(lead_P, place)


def _joining(prior: Any, clock: int, step: int) -> np.ndarray:
    """ln m(c, k, .) at this time on a context's clock, and on that of the references, ``[2, K]``."""
    if prior.horizon is not None:
        return _log_weights(prior, min(clock, 2), min(step, 2))
    late = [math.log(6.0) - math.log(n * (n + 1.0)) if n > 1 else 0.0 for n in (clock, step)]
    return frozen(_log_weights(prior, min(clock, 2), min(step, 2)) + np.array(late)[:, None])


@cache
def _log_weights(prior: Any, *starts: int) -> np.ndarray:
    return frozen(np.log(np.stack([prior.weights_K(start) for start in starts])))


@cache
def _kept(memories: tuple[float, ...]) -> np.ndarray:
    """What an urn of each memory keeps of a sighting with each token."""
    return frozen(1 - 1 / np.asarray(memories))
