"""Laws that run in the shadow of a base model: urns that forget, alone and by what the base advises, and their mixture.

Each urn forgets a state by a factor of 1 - 1/memory for each one that it sees. One urn of each memory sees every state;
one more for each action sees the states that came while the base advised that action, so the mixture can learn that the
model is right, wrong, or right about one thing only. The mixture follows the log
loss (a Bayes mixture) and spreads a fixed share of all weight evenly each step: no law is ever lost for good, least of
all the base's.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from ..arrays import (
    Array,
    astype,
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
)
from ..files import compiled, is_compiled, to_read
from ..memory import row_of, with_row
from ..problems import DecisionProblem, Scene, best_action
from ..problems.decision import TIE

_PRIOR = 1.0  # sightings of every state before the first
_STEPS = 1 << 15  # of recorded sequences: below, compiling costs more than it saves


class ShadowMemory(NamedTuple):
    counts: Array  # [..., 1 + A, M, S], what is left of the sightings: all, and by advice
    weights: Array  # [..., L], of the base, the urns that see everything, those by advice


class Shadow(NamedTuple):
    """Which laws run beside the base's, and how their weights change."""

    problem: DecisionProblem
    memories: tuple[float, ...]
    share: float

    def start(self, shape: tuple[int, ...], like: Array | None) -> ShadowMemory:
        """Empty urns, and the same weight for every law."""
        xp, where, M, (A, S) = namespace(like), device(like), len(self.memories), self.problem.utility.shape
        dtype, L = float_type(xp, where), 1 + 2 * M
        counts = xp.zeros((*shape, 1 + A, M, S), dtype=dtype, device=where)
        return ShadowMemory(counts, xp.full((*shape, L), 1 / L, dtype=dtype, device=where))

    def law(self, memory: ShadowMemory, scene: Scene) -> Array:
        """The mixture's law ``[S, ...]``."""
        return first(self._view(memory, scene).mixture)

    def advance(self, memory: ShadowMemory, scene: Scene, state: Array) -> tuple[ShadowMemory, Array]:
        """Urns and weights after one more state, and the mixture's law ``[S, ...]`` before it."""
        view = self._view(memory, scene)
        return self._after(memory, view, state), first(view.mixture)

    def recorded(self, probs_NxTxS: Array, states_NxT: Array) -> Array:
        """The mixture's law before each state of recorded sequences, ``[S, N, T]``."""
        xp, (N, T) = namespace(probs_NxTxS), states_NxT.shape
        memory, laws = self.start((N,), probs_NxTxS), []
        if xp is np and compiler_installed() and (N * T >= _STEPS or is_compiled(run_shadow)):
            law_S = in_float64(np.moveaxis(probs_NxTxS, -1, 0))
            mixture_S = np.empty(law_S.shape)
            told = to_read(law_S), to_read(mix(self.problem.utility, law_S)), to_read(states_NxT, np.int64)
            compiled(run_shadow)(*told, _kept(self.memories), self.share, *memory, mixture_S)
            return mixture_S
        for t in range(T):
            scene = Scene(self.problem, first(in_float64(detached(probs_NxTxS[:, t]))), None, None)
            memory, law_S = self.advance(memory, scene, states_NxT[:, t])
            laws.append(law_S)
        return xp.stack(laws, axis=-1)

    def _view(self, row: ShadowMemory, scene: Scene) -> "_View":
        xp, probs = namespace(row.weights), last(scene.law_S)
        advised = best_action(mix(self.problem.utility, scene.law_S))
        shape = tuple(row.weights.shape[:-1])
        if advised.shape != shape:
            advised, probs = xp.broadcast_to(advised, shape), xp.broadcast_to(probs, (*shape, probs.shape[-1]))
        counts = xp.concat([row.counts[..., 0, :, :], row_of(row.counts[..., 1:, :, :], advised)], axis=-2)
        urns = (counts + _PRIOR) / (xp.sum(counts, axis=-1, keepdims=True) + _PRIOR * probs.shape[-1])
        said = xp.concat([probs[..., None, :], urns], axis=-2)
        mixture = (row.weights[..., None, :] @ said)[..., 0, :]
        return _View(said, mixture, advised, counts)

    def _after(self, row: ShadowMemory, view: "_View", state: Array) -> ShadowMemory:
        """Urns and weights after the state."""
        xp, S, L, M = namespace(row.weights), view.laws.shape[-1], row.weights.shape[-1], len(self.memories)
        if state.shape != view.advised.shape:
            state = xp.broadcast_to(state, view.advised.shape)
        hit = astype(state[..., None] == xp.arange(S, device=device(state)), view.laws.dtype)  # [..., S]
        keep = constant(_kept(self.memories * 2), view.laws)[:, None]
        grown = view.counts * keep + hit[..., None, :]
        by_advice = with_row(row.counts[..., 1:, :, :], view.advised, grown[..., M:, :])
        counts = xp.concat([grown[..., None, :M, :], by_advice], axis=-3)
        came = (view.laws @ hit[..., None])[..., 0]
        posterior = row.weights * came
        weights = posterior * ((1 - self.share) / xp.sum(posterior, axis=-1, keepdims=True)) + self.share / L
        return ShadowMemory(counts, weights)


class _View(NamedTuple):
    """What the laws of the shadow are, before the state is known."""

    laws: Array  # [..., L, S], those that speak
    mixture: Array  # [..., S]
    advised: Array  # [...], the base's best response, the lowest index on ties
    counts: Array  # [..., 2 M, S], of the urns that speak now


@cache
def _kept(memories: tuple[float, ...]) -> np.ndarray:
    """What an urn of each memory keeps of a sighting with each state."""
    return frozen(1 - 1 / np.asarray(memories))


def run_shadow(  # type: ignore[no-untyped-def]
    law_SxNxT, worth_AxNxT, states_NxT, keep_M, share, counts_NxRxMxS, weights_NxL, mixture_SxNxT
):
    """Compiled: the laws in the shadow, step by step; the last three are filled."""
    S, N, T = law_SxNxT.shape
    A, M, L = worth_AxNxT.shape[0], keep_M.size, weights_NxL.shape[1]
    came_L = np.empty(L)
    for n in range(N):
        weights_L, counts_RxMxS = weights_NxL[n], counts_NxRxMxS[n]
        for t in range(T):
            state = states_NxT[n, t]
            best, advised = -np.inf, 0
            for a in range(A):
                best = max(best, worth_AxNxT[a, n, t])
            while worth_AxNxT[advised, n, t] < best - TIE:
                advised += 1
            for s in range(S):
                mixture_SxNxT[s, n, t] = weights_L[0] * law_SxNxT[s, n, t]
            came_L[0] = law_SxNxT[state, n, t]
            for u in range(2 * M):
                m = u % M
                urn_S, mass = counts_RxMxS[0 if u < M else 1 + advised, m], _PRIOR * S
                for s in range(S):
                    mass += urn_S[s]
                came_L[1 + u] = (urn_S[state] + _PRIOR) / mass
                weight = weights_L[1 + u] / mass
                for s in range(S):
                    mixture_SxNxT[s, n, t] += weight * (urn_S[s] + _PRIOR)
                    urn_S[s] *= keep_M[m]
                urn_S[state] += 1.0
            whole = 0.0
            for i in range(L):
                weights_L[i] *= came_L[i]
                whole += weights_L[i]
            for i in range(L):
                weights_L[i] = weights_L[i] * ((1 - share) / whole) + share / L
