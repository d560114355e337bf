"""Laws that run in the shadow of a base model: urns that forget, alone and by what the base advises, and their mixture.

Each urn forgets a token by a factor of 1 - 1/memory for each one that it sees. One urn of each memory sees every token;
one more for each action sees the tokens that came while the base advised that action, so the mixture can learn that
the model is right, wrong, or right about one thing only. The mixture follows the log loss (a Bayes mixture) and deals
out a fixed share of all weight evenly each step: no law is ever lost for good, the base's least of all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Array, came, constant, device, first, float_type, last, mix, namespace, pick, total
from ..problems import DecisionProblem

_PRIOR = 1.0  # sightings of every state before the first


class ShadowMemory(NamedTuple):
    counts: Array  # [..., R], what is left of the sightings: memories x (all, by advice 0 .. A - 1) x states
    weights: Array  # [..., K], of the base, the urns that see everything, those that see by advice


class View(NamedTuple):
    """What the laws of the shadow are, before the token is known; the short axes first."""

    probs_S: Array  # the base's law
    advised: Array  # the base's best response
    counts_UxS: Array  # of the U = 2 M urns that speak now
    share_UxS: Array  # their laws
    weights_K: Array


def start(
    problem: DecisionProblem, memories: Sequence[float], shape: tuple[int, ...], like: Array | None
) -> ShadowMemory:
    """Empty urns, and the same weight for every law."""
    xp, where, M = namespace(like), device(like), len(memories)
    dtype, cells = float_type(xp, where), M * (1 + problem.n_actions) * problem.n_states
    counts_R = xp.zeros((cells, *shape), dtype=dtype, device=where)
    weights_K = xp.full((1 + 2 * M, *shape), 1 / (1 + 2 * M), dtype=dtype, device=where)
    return ShadowMemory(last(counts_R), last(weights_K))


def view(problem: DecisionProblem, memories: Sequence[float], memory: ShadowMemory, probs_S: Array) -> View:
    """The laws beside the base's, now; ``probs_S`` in float64 and of the streams' full shape."""
    M, A, S = len(memories), problem.n_actions, problem.n_states
    xp = namespace(probs_S)
    counts_R = first(memory.counts)
    counts_CxMxS = xp.reshape(counts_R, (1 + A, M, S, *counts_R.shape[1:]))
    advised = _advised(problem, probs_S)
    counts_UxS = xp.concat([counts_CxMxS[0], pick(counts_CxMxS[1:], advised)])
    seen_U = total(xp.moveaxis(counts_UxS, 1, 0))
    share_UxS = (counts_UxS + _PRIOR) / (seen_U + _PRIOR * S)[:, None]
    return View(probs_S, advised, counts_UxS, share_UxS, first(memory.weights))


def mixture(now: View) -> Array:
    """The mixture's law, ``[S, ...]``."""
    return now.weights_K[0] * now.probs_S + total(now.weights_K[1:, None] * now.share_UxS)


def updated(memory: ShadowMemory, memories: Sequence[float], share: float, now: View, token: Array) -> ShadowMemory:
    """Urns and weights after one more token."""
    xp, M = namespace(token), len(memories)
    _, S, *shape = now.counts_UxS.shape
    counts_R = first(memory.counts)
    counts_CxMxS = xp.reshape(counts_R, (-1, M, S, *shape))
    keep_U = constant(np.tile(1 - 1 / np.asarray(memories), 2), now.probs_S)
    hit_S = xp.astype(came(token, S), now.probs_S.dtype)
    grown_UxS = now.counts_UxS * xp.reshape(keep_U, (2 * M, *(1,) * (1 + len(shape)))) + hit_S
    by_advice = [
        xp.where(now.advised == a, grown_UxS[M:], counts_CxMxS[1 + a]) for a in range(counts_CxMxS.shape[0] - 1)
    ]
    counts_R = xp.reshape(xp.stack([grown_UxS[:M], *by_advice]), counts_R.shape)
    came_U = pick(xp.moveaxis(now.share_UxS, 1, 0), token)
    posterior_K = now.weights_K * xp.concat([pick(now.probs_S, token)[None], came_U])
    weights_K = posterior_K * ((1 - share) / total(posterior_K)) + share / posterior_K.shape[0]
    return ShadowMemory(last(counts_R), last(weights_K))


def _advised(problem: DecisionProblem, probs_S: Array) -> Array:
    """The base's best response; the lowest index on ties."""
    xp = namespace(probs_S)
    if problem.n_actions == 2:  # a comparison, where a search over two rows would take several times as long
        return xp.astype(mix(problem.advantage, probs_S)[0] > 0, xp.int64)
    return xp.argmax(mix(problem.utility, probs_S), axis=0)
