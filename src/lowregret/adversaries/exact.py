"""The worst case over all sequences (what Lemma 2.3 and Theorem 3.1 bound): exact, or bounded from above."""

import math
from typing import Any

import numpy as np

from .. import inputs
from ..certificates import by_counts
from ..policies import Policy
from ..problems import DecisionProblem
from ..regret import external_regret
from . import two_sided
from .players import Worst, acting, key_of, policy_of_counts
from .search import beam, search

_MOST_SEQUENCES = 2**20
_MOST_BITS = 24  # 2**24 sequences of 24 bits each are 3 GiB
_MOST_STREAMS = 2**16  # kept alive at once when equal keys merge
_BLOCK = 2**20  # tokens of sequences that are played together
_AGREE = 1e-9


def exact_worst_case(
    player: Any, problem: DecisionProblem, horizon: int, temperature: float | None = None, respond: str = "quantal"
) -> Worst:
    """The sequence with the largest average regret, and that regret; for Algorithm 1 a bound on it from above.

    By dynamic programming over counts for players that depend on nothing else (up to 2**28 counts over all steps:
    a horizon of 23,000 with two states, 1,170 with three, 280 with four). By the two-sided dynamic programme for
    ``Robust`` predictors with a ``RegretGap`` rule whose base and fallback depend on counts only: ``exact`` is then
    True only if the sequence found attains the bound ``upper``. By dynamic programming over counts and keys for players
    that have a ``key``, while no more than 2**16 differ. Otherwise by trying all sequences, if there are at most 2**20.

    Parameters
    ----------
    player, temperature, respond
        As for ``greedy``.

    >>> from lowregret import PolyaUrn, matching
    >>> worst = exact_worst_case(PolyaUrn(2), matching(), horizon=1024)
    >>> round(worst.regret * 32, 3), worst.exact, worst.found_by
    (1.231, True, 'counts')
    """
    actor, horizon = acting(player, problem, horizon, temperature, respond)
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
        return _exact(tokens, regret, "counts")
    robust, upper = two_sided.watched_by_gap(actor), math.inf
    if robust is not None and size <= two_sided.LARGEST_TABLE:
        upper, tokens, regret = two_sided.worst_two_sided(actor, robust, horizon)
        if regret >= upper - _AGREE:
            return _exact(tokens, regret, "two-sided")
    if key_of(actor, actor.start((1,))) is not None:
        found = search(actor, problem, horizon, _MOST_STREAMS, give_up=True)
        if found is not None:
            return _exact(found[0], found[1], "keys")
    if problem.n_states**horizon <= _MOST_SEQUENCES:
        return _exact(*_worst_of_all(actor, problem, horizon), "exhaustive")
    if upper < math.inf:
        other = beam(player, problem, horizon, temperature, respond)
        if other.regret > regret:
            tokens, regret = other.tokens, other.regret
        attained = regret >= upper - _AGREE
        return _exact(tokens, regret, "two-sided") if attained else Worst(tokens, regret, False, upper, "two-sided")
    why = "it has no law_of_counts (or policy_of_counts) and no key under which enough pasts are alike"
    if policy is not None or robust is not None:
        why = f"a table of {size:,} counts is too large (at most {by_counts.LARGEST_TABLE:,}, for Algorithm 1 "
        why += f"{two_sided.LARGEST_TABLE:,})"
    raise ValueError(
        f"player {type(player).__name__} with horizon {horizon} cannot be searched exactly, since {why} and "
        f"{problem.n_states}**{horizon} sequences are too many to try: use a shorter horizon, or adversaries.beam"
    )


def worst_case_by_counts(
    player: Any, problem: DecisionProblem, horizon: int, temperature: float | None
) -> float | None:
    """The largest average regret of a policy, or of quantal responses to a predictor, that depend on counts only.

    None if it may depend on more, or if the table is too large to fill within a minute or two.

    >>> from lowregret import PolyaUrn, matching
    >>> round(worst_case_by_counts(PolyaUrn(2), matching(), 64, 1 / 8) * 8, 3)
    0.934
    """
    _, horizon = acting(player, problem, horizon, None if hasattr(player, "policy") else temperature, "quantal")
    temperature = None if temperature is None else inputs.positive(temperature, "temperature")
    return by_counts.worst_case(player, problem, horizon, temperature)


def _exact(tokens: np.ndarray, regret: float, found_by: str) -> Worst:
    return Worst(tokens, regret, True, regret, found_by)


def _worst_of_all(actor: Policy, problem: DecisionProblem, horizon: int) -> tuple[np.ndarray, float]:
    """The worst of all sequences, tried one and all."""
    total, block = problem.n_states**horizon, max(1, _BLOCK // horizon)
    worst: tuple[np.ndarray, float] | None = None
    for begin in range(0, total, block):
        tokens_NxT = _sequences(problem.n_states, horizon, begin, min(total, begin + block))
        regret_N = external_regret(problem, actor, tokens_NxT)[:, -1]
        at = int(regret_N.argmax())
        if worst is None or regret_N[at] > worst[1]:
            worst = tokens_NxT[at], float(regret_N[at])
    assert worst is not None
    return worst


def all_sequences(n_states: int, horizon: int) -> np.ndarray:
    """Every sequence of the given length, ``[S**T, T]``, in order: for exhaustive search when T is small.

    >>> all_sequences(2, 2).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    n_states, horizon = inputs.whole(n_states, "n_states"), inputs.whole(horizon, "horizon")
    if horizon * math.log2(n_states) > _MOST_BITS:
        raise ValueError(
            f"horizon and n_states must leave at most 2**{_MOST_BITS} sequences, got {n_states}**{horizon} of them"
        )
    return _sequences(n_states, horizon, 0, n_states**horizon)


def _sequences(n_states: int, horizon: int, begin: int, end: int) -> np.ndarray:
    """The sequences with numbers ``begin .. end - 1``: their digits."""
    return np.arange(begin, end)[:, None] // n_states ** np.arange(horizon - 1, -1, -1) % n_states
