"""One stream of the informed test that has not tripped, step by step, compiled where that pays (extra: ``fast``)."""

import math
from functools import cache
from typing import Any

import numpy as np

from ..arrays import compiled, compiler_installed, frozen
from ..policies import InformedRecovering
from .informed_bets import InformedStatistics, Panel
from .informed_kernel import bet, shadow
from .moment import Known, RuleMemory

_STEPS = 64  # of one stream: below, importing and compiling costs more than it saves
_NOBODY = Known()


def step_alone(
    rule: Any, memory: RuleMemory, probs: np.ndarray, token: int, known: Known | None
) -> tuple[RuleMemory, np.ndarray] | None:
    """The memory after the token, and what each comparator gained over the response to the base; None: not this way."""
    at, fallback = memory.step.item() + 1, rule.in_play.fallback
    if at <= _STEPS or not isinstance(fallback, InformedRecovering) or not compiler_installed():
        return None
    plays_NxA, laws_NxS, context, utility, scale = known or _NOBODY
    said = plays_NxA if laws_NxS is None else laws_NxS
    if said is None and rule.references:
        return None
    said = probs[None][:0] if said is None else said
    if probs.dtype != np.float64 or type(said) is not np.ndarray:
        return None
    utility = rule.problem.utility if utility is None else utility
    place, bets, old = 0 if context is None else int(context), rule.bets, memory.statistics
    own, others = (Panel(*(leaf.copy() for leaf in panel)) for panel in (old.actions, old.references))
    seen, share = old.seen.copy(), old.share.copy()
    seen[place] += 1
    lead_P = np.empty(bets.A + bets.N)
    numbers = np.array((rule.temperature_at(at), 1.0 if scale is None else float(scale), math.log(rule.delta)))
    fresh_2xK = np.stack((_joining(rule, int(seen[place])), _joining(rule, at)))
    mine, theirs = compiled(bet)(
        probs, said, laws_NxS is not None, utility, numbers, np.array((token, at)), bets.rates_K, fresh_2xK,
        own[0][place], own[1][place], own[2][place], *others, lead_P,
    )  # fmt: skip
    share[place] = mine
    step, impossible = np.int64(at), probs.item(token) == 0
    held = float(share.sum()) + theirs
    alarm = impossible or (held + rule.delta >= 1 and held + rule.delta * float(bets.waiting(seen, step)) >= 1)
    statistics = InformedStatistics(own, others, seen, share, old.impossible | impossible)
    tripped_at = step if alarm and not rule.pointless else memory.tripped_at
    before = memory.fallback
    counts, weights, visits = before.rows.counts.copy(), before.rows.weights.copy(), before.rows.seen.copy()
    speak = bool(fallback.laws) and laws_NxS is not None
    kept = _kept(fallback.memories)
    compiled(shadow)(probs, said, speak, utility, token, kept, fallback.share, counts[place], weights[place])
    visits[place] += 1
    rows = before.rows._replace(counts=counts, weights=weights, seen=visits)
    after = before._replace(rows=rows, step=step)
    return RuleMemory(after, step, tripped_at, statistics), rule.widened(lead_P, place)


def _joining(rule: Any, clock: int) -> np.ndarray:
    """ln m(c, k, clock)."""
    prior = rule.bets.prior
    if prior.horizon is not None:
        return _log_weights(prior, min(clock, 2))
    later = _log_weights(prior, min(clock, 2))
    return later if clock < 2 else later + math.log(6.0) - math.log(clock * (clock + 1.0))


@cache
def _log_weights(prior: Any, start: int) -> np.ndarray:
    return frozen(np.log(prior.weights_K(start)))


@cache
def _kept(memories: tuple[float, ...]) -> np.ndarray:
    """What an urn of each memory keeps of a sighting with each token."""
    return frozen(1 - 1 / np.asarray(memories))
