"""The worst case over all sequences (what Lemma 2.3 and Theorem 3.1 bound)."""

import math
from typing import Any

import numpy as np

from ... import inputs
from ...abilities import ability
from ...certificates import by_counts
from ...certificates.by_counts import PolicyOfCounts
from ...policies import Policy, Respond
from ...problems import DecisionProblem
from ..players import BestRespond, acting
from ..regret import external_regret
from ..sources import numbered_sequences
from .search import Worst, key_of, search

_MOST_SEQUENCES = 2**20
_MOST_STREAMS = 2**16  # kept alive at once when equal keys merge
_BLOCK = 2**20  # tokens of sequences that are played together
_AGREE = 1e-9


def exact_worst_case(
    player: Any, problem: DecisionProblem, horizon: int, temperature: float | None = None, respond: str = "quantal"
) -> Worst:
    """The sequence with the largest average regret, and that regret.

    By dynamic programming over counts for players that depend on nothing else (up to 2**28 counts over all steps: a
    horizon of 23,000 with two states, 1,170 with three). By dynamic programming over counts and keys for players that
    have a ``key``, while no more than 2**16 differ. Otherwise by trying all sequences, if there are at most 2**20. The
    parameters are those of ``greedy``.

    >>> from lowregret import PolyaUrn, matching
    >>> worst = exact_worst_case(PolyaUrn(2), matching(), horizon=1024)
    >>> round(worst.regret * 32, 3), worst.exact, worst.found_by
    (1.231, True, 'counts')
    """
    horizon = inputs.whole(horizon, "horizon")
    actor = acting(player, problem, horizon, temperature, respond)
    size = by_counts.table_size(problem.n_states, horizon)
    policy = policy_of_counts(actor)
    if policy is not None and size <= by_counts.LARGEST_TABLE:
        value, tokens = by_counts.worst_over_counts(policy, problem, horizon)
        regret = float(external_regret(problem, actor, tokens)[-1])
        if abs(regret - value) > _AGREE:
            raise ValueError(
                f"what {type(player).__name__} plays after counts (law_of_counts or policy_of_counts) is not what it "
                f"plays step by step: regret {value:.9g} against {regret:.9g} on the worst sequence"
            )
        return Worst(tokens, regret, True, regret, "counts")
    if key_of(actor, actor.start((1,))) is not None:
        by_keys = search(actor, problem, horizon, _MOST_STREAMS, give_up=True)
        if by_keys is not None:
            return Worst(by_keys[0], by_keys[1], True, by_keys[1], "keys")
    if problem.n_states**horizon <= _MOST_SEQUENCES:
        return _worst_of_all(actor, problem, horizon)
    why = "more than counts" if policy is None else f"{size:,} counts, a table that is too large"
    raise ValueError(
        f"player {type(player).__name__} with horizon {horizon} cannot be searched exactly: it depends on {why}, and "
        f"{problem.n_states}**{horizon} sequences are too many to try. Use a shorter horizon, or adversaries.beam"
    )


def _worst_of_all(actor: Policy, problem: DecisionProblem, horizon: int) -> Worst:
    """All sequences, tried one by one."""
    total, block = problem.n_states**horizon, max(1, _BLOCK // horizon)
    tokens, regret = np.zeros(horizon, dtype=np.int64), -math.inf
    for begin in range(0, total, block):
        tokens_NxT = numbered_sequences(problem.n_states, horizon, begin, min(total, begin + block))
        regret_N = external_regret(problem, actor, tokens_NxT)[:, -1]
        at = int(regret_N.argmax())
        if regret_N[at] > regret:
            tokens, regret = tokens_NxT[at], float(regret_N[at])
    return Worst(tokens, regret, True, regret, "exhaustive")


def policy_of_counts(player: Policy) -> PolicyOfCounts | None:
    """What the player plays after given counts ``[..., S]``, if it depends on nothing else; None if it may."""
    if isinstance(player, Respond):
        return by_counts.policy_of_counts(player.predictor, player.problem, player.temperature)
    if not isinstance(player, BestRespond):
        return ability(player, "policy_of_counts")
    law_of_counts = ability(player.predictor, "law_of_counts")
    return None if law_of_counts is None else lambda counts: player.respond(law_of_counts(counts))
