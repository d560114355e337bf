"""Adversaries that look for bad sequences (Lemma 2.2's, and wider): lower bounds on the worst case."""

import math
from typing import Any, NamedTuple

import numpy as np

from ... import inputs
from ...abilities import ability
from ...arrays import Array, device, namespace, to_numpy
from ...memory import take
from ...policies import Policy, Respond
from ...predictors import said_by, vouched
from ...problems import DecisionProblem
from ...robust import Robust
from ..players import BestRespond, acting

_TIE = 1e-12  # utilities closer than this are equal but for rounding


class Worst(NamedTuple):
    """What an adversary found: ``tokens``, the average ``regret`` they inflict, and how much more there can be.

    ``exact``: no sequence is worse. ``upper``: no sequence has more regret than this (None: not known).
    ``found_by``: "greedy", "beam", "counts" or "keys" (dynamic programming over counts, or over counts and keys), or
    "exhaustive".
    """

    tokens: np.ndarray
    regret: Any
    exact: bool
    upper: float | None
    found_by: str


def greedy(
    player: Any, problem: DecisionProblem, horizon: int, temperature: float | None = None, respond: str = "quantal"
) -> Worst:
    """At every step the state in which the player earns least, the lowest index on ties.

    Parameters
    ----------
    player
        A predictor, or a policy.
    temperature
        Of the response to a predictor; the test's for a ``Robust``, else 1/sqrt(horizon), unless given.
    respond
        "quantal", or "best" for exact best responses: the adversary of Lemma 2.2.

    >>> from lowregret import PolyaUrn, matching
    >>> found = greedy(PolyaUrn(2), matching(), horizon=8, respond="best")
    >>> found.tokens.tolist(), found.regret
    ([1, 0, 1, 0, 1, 0, 1, 0], 0.5)
    """
    horizon = inputs.whole(horizon, "horizon")
    actor = acting(player, problem, horizon, temperature, respond)
    memory, lead_A, tokens = actor.start((1,)), np.zeros(problem.n_actions), np.zeros(horizon, dtype=np.int64)
    for t in range(horizon):
        policy_1xA, like = played(actor, memory)
        earned_S = policy_1xA[0] @ problem.utility
        tokens[t] = s = int((earned_S <= earned_S.min() + _TIE).argmax())
        lead_A += problem.utility[:, s] - earned_S[s]
        if t + 1 < horizon:
            memory = updated(actor, memory, tokens[t : t + 1], like)
    return Worst(tokens, float(lead_A.max()) / horizon, False, None, "greedy")


def beam(
    player: Any,
    problem: DecisionProblem,
    horizon: int,
    temperature: float | None = None,
    respond: str = "quantal",
    width: int = 256,
) -> Worst:
    """The worst sequence that a beam of ``width`` pasts leads to; exact if the beam never had to let one go.

    Pasts are ranked by regret so far, softened by what the steps that are left can still change. Those with the same
    counts that now act the same are a family: the beam takes the best of every family, then the second best, and so
    on, so that it holds players in every mood. Of equals it prefers the past in which counting states would have
    earned least: that is where a player that watches itself sees least reason to change.

    Parameters
    ----------
    player, temperature, respond
        As for ``greedy``.
    width
        How many pasts are kept.

    >>> from lowregret import matching
    >>> from lowregret.policies import Hedge
    >>> found = beam(Hedge(matching(), 16), matching(), 16)
    >>> round(found.regret * 4, 3), found.exact
    (0.739, True)
    """
    horizon = inputs.whole(horizon, "horizon")
    actor = acting(player, problem, horizon, temperature, respond)
    found = search(actor, problem, horizon, inputs.whole(width, "width"))
    assert found is not None
    tokens, regret, whole = found
    return Worst(tokens, regret, whole, regret if whole else None, "beam")


def search(
    actor: Policy, problem: DecisionProblem, horizon: int, width: int, give_up: bool = False
) -> tuple[np.ndarray, float, bool] | None:
    """The tokens and regret a beam finds, and whether it kept all pasts; None if it may not let any go and must."""
    S = problem.n_states
    memory, whole, trail = actor.start((1,)), True, []
    lead_NxA, counts_NxS, counting_N = np.zeros((1, problem.n_actions)), np.zeros((1, S), dtype=np.int64), np.zeros(1)
    policy_NxA, like = played(actor, memory)
    for t in range(horizon):
        N = len(lead_NxA)
        parent_M, token_M = np.repeat(np.arange(N), S), np.tile(np.arange(S), N)
        earned_M = (policy_NxA @ problem.utility).reshape(-1)
        urn_A = problem.respond((counts_NxS.T + 1.0) / (t + S), 1 / math.sqrt(horizon))
        counting_N = counting_N[parent_M] + (urn_A.T @ problem.utility).reshape(-1)
        lead_NxA = lead_NxA[parent_M] + problem.utility.T[token_M] - earned_M[:, None]
        counts_NxS = counts_NxS[parent_M] + (token_M[:, None] == np.arange(S))
        if t + 1 == horizon:
            trail.append((parent_M, token_M))
            break
        memory = updated(actor, take(memory, parent_M), token_M, like)
        policy_NxA, like = played(actor, memory)
        score_N = _prospect(lead_NxA, problem.span * math.sqrt(horizon - t - 1))
        keep = np.argsort(-score_N, kind="stable")
        key_NxK = key_of(actor, memory)
        if key_NxK is not None:
            alike = np.concatenate([counts_NxS, np.broadcast_to(key_NxK, (len(keep), key_NxK.shape[-1]))], axis=-1)
            keep = keep[_place_among_equals(alike[keep]) == 0]
        if len(keep) > width:
            if give_up:
                return None
            whole = False
            keep = keep[np.lexsort((counting_N[keep].round(9), -score_N[keep].round(9)))]
            mood = (policy_NxA[keep] * 1e6).round().astype(np.int64)
            place = _place_among_equals(np.concatenate([counts_NxS[keep], mood], axis=-1))
            keep = keep[np.argsort(place, kind="stable")][:width]
        trail.append((parent_M[keep], token_M[keep]))
        memory, like, policy_NxA = take(memory, keep), take(like, keep), policy_NxA[keep]
        lead_NxA, counts_NxS, counting_N = lead_NxA[keep], counts_NxS[keep], counting_N[keep]
    regret_N = lead_NxA.max(axis=-1) / horizon
    return _retrace(trail, int(regret_N.argmax())), float(regret_N.max()), whole


def _prospect(lead_NxA: np.ndarray, reach: float) -> np.ndarray:
    """The regret so far, as a soft maximum over actions: with many steps left, every action may yet be the best."""
    top_N = lead_NxA.max(axis=-1)
    if reach == 0:
        return top_N
    soft = 2 * reach  # less, and a narrow beam settles too early on the action to regret; more, and it never does
    return top_N + soft * np.log(np.exp((lead_NxA - top_N[:, None]) / soft).sum(axis=-1))


def _place_among_equals(rows_NxK: np.ndarray) -> np.ndarray:
    """For each row, how many equal rows come before it."""
    order = np.lexsort(rows_NxK.T[::-1])  # stable
    ranked = rows_NxK[order]
    new = np.concatenate([[True], (ranked[1:] != ranked[:-1]).any(axis=-1)])
    at = np.arange(len(order))
    place = np.empty_like(at)
    place[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    return place


def _retrace(trail: list[tuple[np.ndarray, np.ndarray]], index: int) -> np.ndarray:
    """The tokens that led to the stream with this index."""
    tokens = np.empty(len(trail), dtype=np.int64)
    for t in range(len(trail) - 1, -1, -1):
        parents, states = trail[t]
        tokens[t], index = states[index], int(parents[index])
    return tokens


def key_of(player: Any, memory: Any) -> np.ndarray | None:
    """What beside the counts decides how each stream will act, ``[N, k]``; None if the player does not say."""
    if isinstance(player, Respond):
        return key_of(player.predictor, memory.predictor)
    if isinstance(player, BestRespond):
        return key_of(player.predictor, memory)
    if ability(player, "law_of_counts") or ability(player, "policy_of_counts"):
        return np.zeros((), dtype=np.int64)[None, None]  # nothing does
    if isinstance(player, Robust):
        if not ability(player.setting.fallback, "law_of_counts"):
            return None
        switched_N = to_numpy(player.switched(memory))
        # Streams that have not switched differ in their evidence: each is alike to itself only.
        return np.where(switched_N, 0, np.arange(1, len(switched_N) + 1))[:, None]
    own_key = ability(player, "key")
    if own_key is None:
        return None
    key = to_numpy(own_key(memory))
    return key[:, None] if key.ndim == 1 else key


def played(player: Policy, memory: Any) -> tuple[np.ndarray, Array]:
    """The mixed action of every stream, ``[N, A]``, for the adversary's books, and as the player gave it."""
    given = player.policy(memory)
    if not vouched(player):
        given = said_by(player, given, player.problem.n_actions, (*given.shape[:-1],))
    return to_numpy(given).astype(np.float64, copy=False), given


def updated(player: Policy, memory: Any, tokens_N: np.ndarray, like: Array) -> Any:
    """The player's memory after it has seen one more token a stream; ``like`` is what it played."""
    xp = namespace(like)
    return player.update(memory, tokens_N if xp is np else xp.asarray(tokens_N, device=device(like)))
