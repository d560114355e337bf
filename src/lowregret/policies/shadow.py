"""Laws that run in the shadow of a base model: urns that forget, alone and by what the base advises, and their mixture.

Each urn forgets a state by a factor of 1 - 1/memory for each one that it sees. One urn of each memory sees every state;
one more for each action sees the states that came while the base advised that action, so the mixture can learn that the
model is right, wrong, or right about one thing only. References speak too. The mixture follows the log
loss (a Bayes mixture) and spreads a fixed share of all weight evenly each step: no law is ever lost for good, least of
all the base's. Every context has urns and weights of its own.
"""

from functools import cache
from typing import Any, NamedTuple

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
_STEPS, _STREAMS = 64, 1 << 11  # of one stream, and of a fleet: below, compiling costs more than it saves
_NOWHERE = np.zeros((1, 1), dtype=np.int64)  # the context of steps where there is one
_NOBODY = np.empty((0, 1, 1, 1))  # what references say, where there are none


class ShadowMemory(NamedTuple):
    counts: Array  # [..., C, 1 + A, M, S], what is left of the sightings: all, and by advice
    weights: Array  # [..., C, L], of the base, the urns that see everything, those by advice, the references


class Shadow(NamedTuple):
    """Which laws run beside the base's, and how their weights change."""

    problem: DecisionProblem
    memories: tuple[float, ...]
    share: float
    contexts: int = 1
    laws: int = 0  # how many references there are
    trust: float | None = None  # the base's weight at first; None: as every other's

    def start(self, shape: tuple[int, ...], like: Array | None) -> ShadowMemory:
        """Empty urns, and the same weight for every law, unless the base has one of its own."""
        xp, where, M, (A, S) = namespace(like), device(like), len(self.memories), self.problem.utility.shape
        dtype, L, shape = float_type(xp, where), 1 + 2 * M + self.laws, (*shape, self.contexts)
        counts = xp.zeros((*shape, 1 + A, M, S), dtype=dtype, device=where)
        weights = xp.full((*shape, L), 1 / L, dtype=dtype, device=where)
        if self.trust is not None:
            weights = weights * 0 + constant(np.array([self.trust] + [(1 - self.trust) / (L - 1)] * (L - 1)), weights)
        return ShadowMemory(counts, weights)

    def law(self, memory: ShadowMemory, scene: Scene) -> Array:
        """The mixture's law ``[S, ...]``."""
        return first(self._view(self._rows(memory, scene), scene).mixture)

    def advance(self, memory: ShadowMemory, scene: Scene, state: Array, seen: Any = 0) -> tuple[ShadowMemory, Array]:
        """Urns and weights after one more state than were ``seen``, and the mixture's law before it."""
        shape = memory.weights.shape[:-2]
        if type(memory.counts) is np.ndarray and compiler_installed():
            enough = int(seen) >= _STEPS if shape == () else np.size(state) >= _STREAMS
            if enough or is_compiled(run_shadow):
                return self._compiled(memory, scene, state)
        rows = self._rows(memory, scene)
        view = self._view(rows, scene)
        after = self._after(rows, view, state)
        if self.contexts == 1:
            after = ShadowMemory(after.counts[..., None, :, :, :], after.weights[..., None, :])
        else:
            after = with_row(memory, scene.context, after)
        return after, first(view.mixture)

    def recorded(self, probs_NxTxS: Array, states_NxT: Array) -> Array:
        """The mixture's law before each state of recorded sequences, ``[S, N, T]``: one context, no references."""
        xp, (N, T) = namespace(probs_NxTxS), states_NxT.shape
        memory, laws = self.start((N,), probs_NxTxS), []
        if xp is np and compiler_installed() and (N * T >= _STREAMS << 4 or is_compiled(run_shadow)):
            probs_S = in_float64(np.moveaxis(probs_NxTxS, -1, 0))
            return self._run(memory, probs_S, mix(self.problem.utility, probs_S), None, None, states_NxT)
        for t in range(T):
            scene = Scene(self.problem, first(in_float64(detached(probs_NxTxS[:, t]))), None, None)
            memory, law_S = self.advance(memory, scene, states_NxT[:, t], t)
            laws.append(law_S)
        return xp.stack(laws, axis=-1)

    def run(self, probs_NxTxS: np.ndarray, states_NxT: np.ndarray) -> tuple[ShadowMemory, np.ndarray, np.ndarray]:
        """Urns and weights after recorded sequences, the mixture's law before each state, and the base's weight in it.

        Compiled, as above; ``[S, N, T]`` and ``[N, T]``.
        """
        memory, probs_S = self.start((len(states_NxT),), None), in_float64(np.moveaxis(probs_NxTxS, -1, 0))
        base_NxT = np.empty(states_NxT.shape)
        told = probs_S, mix(self.problem.utility, probs_S), None, None, states_NxT
        return memory, self._run(memory, *told, base_NxT), base_NxT

    def _rows(self, memory: ShadowMemory, scene: Scene) -> ShadowMemory:
        """Those of the context that each stream is in."""
        if self.contexts == 1:
            return ShadowMemory(memory.counts[..., 0, :, :, :], memory.weights[..., 0, :])
        row: ShadowMemory = row_of(memory, scene.context)
        return row

    def _view(self, row: ShadowMemory, scene: Scene) -> "_View":
        xp, probs = namespace(row.weights), last(scene.law_S)
        advised = best_action(scene.worth(scene.law_S))
        shape = tuple(row.weights.shape[:-1])
        if advised.shape != shape:
            advised, probs = xp.broadcast_to(advised, shape), xp.broadcast_to(probs, (*shape, probs.shape[-1]))
        counts = xp.concat([row.counts[..., 0, :, :], row_of(row.counts[..., 1:, :, :], advised)], axis=-2)
        urns = (counts + _PRIOR) / (xp.sum(counts, axis=-1, keepdims=True) + _PRIOR * probs.shape[-1])
        laws = [probs[..., None, :], urns]
        if self.laws and scene.laws_NxS is not None:
            laws.append(xp.moveaxis(scene.laws_NxS, (0, 1), (-2, -1)))
        said = xp.concat(laws, axis=-2)
        weights = row.weights[..., : said.shape[-2]]
        mixture = (weights[..., None, :] @ said)[..., 0, :]
        if weights.shape[-1] < row.weights.shape[-1]:  # some say nothing this time
            mixture = mixture / xp.sum(weights, axis=-1, keepdims=True)
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
        if came.shape[-1] < L:  # whoever said nothing stands for what all others say
            silent = (view.mixture[..., None, :] @ hit[..., None])[..., 0]
            came = xp.concat([came, xp.broadcast_to(silent, (*came.shape[:-1], L - came.shape[-1]))], axis=-1)
        posterior = row.weights * came
        weights = posterior * ((1 - self.share) / xp.sum(posterior, axis=-1, keepdims=True)) + self.share / L
        return ShadowMemory(counts, weights)

    def _compiled(self, memory: ShadowMemory, scene: Scene, state: Array) -> tuple[ShadowMemory, np.ndarray]:
        shape, said = memory.weights.shape[:-2], scene.laws_NxS if self.laws else None
        worth_A, after = scene.worth(scene.law_S), ShadowMemory(memory.counts.copy(), memory.weights.copy())
        if shape == ():
            told: Any = (
                scene.law_S[:, None, None],
                worth_A[:, None, None],
                None if said is None else said[:, :, None, None],
                None if scene.context is None else np.array([[scene.context]]),
                np.array([[state]]),
            )
            return after, self._run(ShadowMemory(after.counts[None], after.weights[None]), *told)[:, 0, 0]
        N = int(np.prod(shape))

        def flat(part: Any, axes: int) -> Any:
            if part is None:
                return None
            short = part.shape[:axes]
            return np.broadcast_to(part, (*short, *shape)).reshape(*short, N, 1)

        state_N = ShadowMemory(*(part.reshape(N, *part.shape[len(shape) :]) for part in after))
        told = [(scene.law_S, 1), (worth_A, 1), (said, 2), (scene.context, 0), (state, 0)]
        law_SxNxT = self._run(state_N, *(flat(part, axes) for part, axes in told))
        return after, law_SxNxT.reshape(self.problem.n_states, *shape)

    def _run(
        self,
        memory: ShadowMemory,
        law_SxNxT: np.ndarray,
        worth_AxNxT: np.ndarray,
        said_QxSxNxT: np.ndarray | None,
        context_NxT: np.ndarray | None,
        states_NxT: np.ndarray,
        base_NxT: np.ndarray | None = None,
    ) -> np.ndarray:
        """The mixture's law before each state, ``[S, N, T]``; the memory is written over, and the base's weight."""
        mixture = np.empty(law_SxNxT.shape)
        told = map(to_read, (law_SxNxT, worth_AxNxT, _NOBODY if said_QxSxNxT is None else said_QxSxNxT))
        context_NxT = _NOWHERE if context_NxT is None else to_read(context_NxT, np.int64)
        states_NxT = to_read(states_NxT, np.int64)
        base_NxT = np.empty(states_NxT.shape) if base_NxT is None else base_NxT
        filled = *memory, mixture, base_NxT
        compiled(run_shadow)(*told, context_NxT, states_NxT, _kept(self.memories), self.share, *filled)
        return mixture


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
    law_SxNxT,
    worth_AxNxT,
    said_QxSxNxT,
    context_NxT,
    states_NxT,
    keep_M,
    share,
    counts_NxCxRxMxS,
    weights_NxCxL,
    mixture_SxNxT,
    base_NxT,
):
    """Compiled: the laws in the shadow, step by step; the last four are filled."""
    S, N, T = law_SxNxT.shape
    A, M, Q, C = worth_AxNxT.shape[0], keep_M.size, said_QxSxNxT.shape[0], counts_NxCxRxMxS.shape[1]
    L = weights_NxCxL.shape[2]
    speaking, came_L = 1 + 2 * M + Q, np.empty(L)
    for n in range(N):
        for t in range(T):
            context, state = context_NxT[n, t] if C > 1 else 0, states_NxT[n, t]
            best, advised = -np.inf, 0
            for a in range(A):
                best = max(best, worth_AxNxT[a, n, t])
            while worth_AxNxT[advised, n, t] < best - TIE:
                advised += 1
            weights_L, counts_RxMxS = weights_NxCxL[n, context], counts_NxCxRxMxS[n, context]
            base_NxT[n, t] = weights_L[0]
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
            for q in range(Q):
                came_L[1 + 2 * M + q] = said_QxSxNxT[q, state, n, t]
                for s in range(S):
                    mixture_SxNxT[s, n, t] += weights_L[1 + 2 * M + q] * said_QxSxNxT[q, s, n, t]
            if speaking < L:  # whoever says nothing stands for what all others say
                weight = 0.0
                for i in range(speaking):
                    weight += weights_L[i]
                for s in range(S):
                    mixture_SxNxT[s, n, t] /= weight
                for i in range(speaking, L):
                    came_L[i] = mixture_SxNxT[state, n, t]
            whole = 0.0
            for i in range(L):
                weights_L[i] *= came_L[i]
                whole += weights_L[i]
            for i in range(L):
                weights_L[i] = weights_L[i] * ((1 - share) / whole) + share / L
