"""Laws that run in the shadow of a base model: urns that forget, alone and by what the base advises, and their mixture.

Each urn forgets a token by a factor of 1 - 1/memory for each one that it sees. One urn of each memory sees every token;
one more for each action sees the tokens that came while the base advised that action, so the mixture can learn that
the model is right, wrong, or right about one thing only. The mixture follows the log loss (a Bayes mixture) and deals
out a fixed share of all weight evenly each step: no law is ever lost for good, the base's least of all.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import (
    Array,
    came,
    compiler_installed,
    constant,
    detached,
    device,
    first,
    float_type,
    frozen,
    in_float64,
    last,
    mix,
    namespace,
    pick,
    total,
)
from ..files import compiled
from ..problems import DecisionProblem
from .shadow_kernel import TIE, step_all

_PRIOR = 1.0  # sightings of every state before the first
_BLOCK = 1 << 12  # streams at a time: what they need then stays in the second-level cache
_STEPS = 64  # of one stream, and
_WORTH = 1 << 11  # streams: below, importing and compiling costs more than it saves


class ShadowMemory(NamedTuple):
    counts: Array  # [..., R], what is left of the sightings: (all, by advice 0 .. A - 1) x memories x states
    weights: Array  # [..., K], of the base, the urns that see everything, those that see by advice


class Shadow(NamedTuple):
    """Which laws run beside the base's, and how their weights move."""

    problem: DecisionProblem
    memories: tuple[float, ...]
    share: float

    def start(self, shape: tuple[int, ...], like: Array | None) -> ShadowMemory:
        """Empty urns, and the same weight for every law."""
        xp, where, M = namespace(like), device(like), len(self.memories)
        dtype, cells = float_type(xp, where), M * (1 + self.problem.n_actions) * self.problem.n_states
        counts_R = xp.zeros((cells, *shape), dtype=dtype, device=where)
        weights_K = xp.full((1 + 2 * M, *shape), 1 / (1 + 2 * M), dtype=dtype, device=where)
        return ShadowMemory(last(counts_R), last(weights_K))

    def law(self, memory: ShadowMemory, probs_S: Array) -> Array:
        """The mixture's law ``[S, ...]``; ``probs_S`` in float64 and of the streams' full shape."""
        if type(probs_S) is np.ndarray and probs_S.ndim == 1:
            return self._alone(memory.counts, memory.weights, probs_S, 0)[2]
        return _mixture(self._view(first(memory.counts), first(memory.weights), probs_S))

    def advance(self, memory: ShadowMemory, probs_S: Array, token: Array, seen: Any = 0) -> tuple[ShadowMemory, Array]:
        """Urns and weights after one more token than were ``seen``, and the mixture's law before it."""
        if type(memory.counts) is np.ndarray and memory.counts.ndim == 1:
            counts_R, weights_K, law_S = self.step_alone(memory.counts, memory.weights, probs_S, int(token), int(seen))
            return ShadowMemory(counts_R, weights_K), law_S
        counts_R, weights_K = first(memory.counts), first(memory.weights)
        if type(counts_R) is np.ndarray and token.size >= _WORTH:
            counts_R, weights_K, law_S = self._in_parts(counts_R, weights_K, probs_S, token)
        else:
            counts_R, weights_K, law_S = self._step(counts_R, weights_K, probs_S, token)
        return ShadowMemory(last(counts_R), last(weights_K)), law_S

    def recorded(self, probs_NxTxS: Array, tokens_NxT: Array) -> Array:
        """The mixture's law before each token of recorded sequences, ``[S, N, T]``."""
        xp, (N, T) = namespace(probs_NxTxS), tokens_NxT.shape
        memory, laws, step = self.start((N,), probs_NxTxS), [], self._step
        counts_R, weights_K = first(memory.counts), first(memory.weights)
        alone = xp is np and N == 1  # then the axis of streams would only be in the way
        if alone:
            counts_R, weights_K, step = counts_R[:, 0], weights_K[:, 0], self._alone
        elif xp is np and N * T >= _WORTH << 4 and compiler_installed():
            step = self._in_parts
        for t in range(T):
            probs_S, token = in_float64(detached(xp.moveaxis(probs_NxTxS[:, t], -1, 0))), tokens_NxT[:, t]
            if alone:
                probs_S, token = probs_S[:, 0], token[0]
            counts_R, weights_K, law_S = step(counts_R, weights_K, probs_S, token)
            laws.append(law_S[:, None] if alone else law_S)
        return xp.stack(laws, axis=-1)

    def _alone(
        self, counts_R: np.ndarray, weights_K: np.ndarray, probs_S: np.ndarray, token: Array
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A step of one stream: in Python's own numbers, since an array of a few takes ten times as long."""
        counts, weights, probs = counts_R.tolist(), weights_K.tolist(), probs_S.tolist()
        M, S, token = len(self.memories), self.problem.n_states, int(token)
        worth_A = self.problem.utility @ probs_S
        own = (1 + int((worth_A >= worth_A.max() - TIE).argmax())) * M
        law = [weights[0] * p for p in probs]
        chances = [weights[0] * probs[token]]
        for u, weight in enumerate(weights[1:]):
            m = u % M
            at = (m if u < M else own + m) * S
            urn = counts[at : at + S]
            weight = weight / (sum(urn) + _PRIOR * S)
            keep = 1 - 1 / self.memories[m]
            chances.append(weight * (urn[token] + _PRIOR))
            law = [x + weight * (count + _PRIOR) for x, count in zip(law, urn, strict=True)]
            counts[at : at + S] = [count * keep for count in urn]
            counts[at + token] += 1.0
        scale, even = (1 - self.share) / sum(chances), self.share / len(chances)
        return np.array(counts), np.array([c * scale + even for c in chances]), np.array(law)

    def step_alone(
        self, counts_R: np.ndarray, weights_K: np.ndarray, probs_S: np.ndarray, token: int, seen: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A step of one stream that has ``seen`` so many tokens: compiled, where that pays."""
        if seen < _STEPS or not compiler_installed():
            return self._alone(counts_R, weights_K, probs_S, token)
        out = np.empty(len(counts_R)), np.empty(len(weights_K)), np.empty(len(probs_S))
        inputs = counts_R, weights_K, probs_S, np.array([token])
        compiled(step_all)(*inputs, self.problem.utility, _kept(self.memories), self.share, _PRIOR, *out)
        return out

    def _in_parts(
        self, counts_R: np.ndarray, weights_K: np.ndarray, probs_S: np.ndarray, token: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A step of many streams: compiled, or a block at a time."""
        flat = [np.ascontiguousarray(rows.reshape(len(rows), -1)) for rows in (counts_R, weights_K, probs_S)]
        token_N, out = token.reshape(-1), [np.empty(rows.shape) for rows in flat]
        if compiler_installed():
            compiled(step_all)(*flat, token_N, self.problem.utility, _kept(self.memories), self.share, _PRIOR, *out)
        else:
            for at in range(0, token_N.size, _BLOCK):
                part = slice(at, at + _BLOCK)
                done = self._step(flat[0][:, part], flat[1][:, part], flat[2][:, part], token_N[part])
                for whole, rows in zip(out, done, strict=True):
                    whole[:, part] = rows
        counts, weights, law = (rows.reshape(len(rows), *token.shape) for rows in out)
        return counts, weights, law

    def _step(self, counts_R: Array, weights_K: Array, probs_S: Array, token: Array) -> tuple[Array, Array, Array]:
        xp, M, now = namespace(token), len(self.memories), self._view(counts_R, weights_K, probs_S)
        _, S, *shape = now.counts_UxS.shape
        counts_CxMxS = xp.reshape(counts_R, (1 + self.problem.n_actions, M, S, *shape))
        keep_U = constant(np.tile(1 - 1 / np.asarray(self.memories), 2), probs_S)
        hit_S = xp.astype(came(token, S), probs_S.dtype)
        grown_UxS = now.counts_UxS * xp.reshape(keep_U, (2 * M, *(1,) * (1 + len(shape)))) + hit_S
        by_advice = [
            xp.where(now.advised == a, grown_UxS[M:], counts_CxMxS[1 + a]) for a in range(self.problem.n_actions)
        ]
        counts_R = xp.reshape(xp.stack([grown_UxS[:M], *by_advice]), counts_R.shape)
        came_U = pick(xp.moveaxis(now.laws_UxS, 1, 0), token)
        posterior_K = weights_K * xp.concat([pick(probs_S, token)[None], came_U])
        moved_K = posterior_K * ((1 - self.share) / total(posterior_K)) + self.share / posterior_K.shape[0]
        return counts_R, moved_K, _mixture(now)

    def _view(self, counts_R: Array, weights_K: Array, probs_S: Array) -> "_View":
        M, (A, S) = len(self.memories), self.problem.utility.shape
        xp = namespace(probs_S)
        counts_CxMxS = xp.reshape(counts_R, (1 + A, M, S, *counts_R.shape[1:]))
        if A == 2:  # a comparison, where a search over two rows would take several times as long
            advised = xp.astype(mix(self.problem.advantage, probs_S)[0] > TIE, xp.int64)
        else:
            worth_A = mix(self.problem.utility, probs_S)
            best_A = worth_A >= xp.max(worth_A, axis=0) - TIE
            advised = xp.argmax(best_A if xp is np else xp.astype(best_A, xp.uint8), axis=0)
        counts_UxS = xp.concat([counts_CxMxS[0], pick(counts_CxMxS[1:], advised)])
        seen_U = total(xp.moveaxis(counts_UxS, 1, 0))
        return _View(probs_S, advised, counts_UxS, (counts_UxS + _PRIOR) / (seen_U + _PRIOR * S)[:, None], weights_K)


@cache
def _kept(memories: tuple[float, ...]) -> np.ndarray:
    """What an urn of each memory keeps of a sighting with each token."""
    return frozen(1 - 1 / np.asarray(memories))


class _View(NamedTuple):
    """What the laws of the shadow are, before the token is known; the short axes first."""

    probs_S: Array  # the base's law
    advised: Array  # its best response, the lowest index on ties
    counts_UxS: Array  # of the U = 2 M urns that speak now
    laws_UxS: Array
    weights_K: Array


def _mixture(now: _View) -> Array:
    return now.weights_K[0] * now.probs_S + total(now.weights_K[1:, None] * now.laws_UxS)
