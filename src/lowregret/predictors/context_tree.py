"""Context-tree weighting (Willems, Shtarkov and Tjalkens 1995): the exact Bayesian mixture of all context trees.

A *context tree* splits the pasts by their last tokens: its root stands for all of them; a node is a leaf, or it splits
by the token before those it has read, down to ``depth``. In each leaf tokens are independent, with a Dirichlet prior on
their law. Of a node that could split, the prior says with probability ``stop`` that it is a leaf. The mixture over all
trees needs no tree: with KT_n the law of a node as a leaf, and r_n the odds that it is one given the past, a prediction
runs up the path of the nodes that the past is in, from the deepest:

    law_n = r_n / (1 + r_n) KT_n + 1 / (1 + r_n) law_child,        r_n <- r_n KT_n(token) / law_child(token)

*A past shorter than the tree's depth.* The place before the first token counts as one more token, at which no node
splits further: a context that reaches back there comes once and never again, and its leaf says the uniform law. So the
first ``depth`` tokens are predicted, and learnt from, like all others.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, constant, copied, device, float_type, namespace, running_sum
from .contract import Predictor

_MOST_CELLS = 1 << 24  # numbers that a stream may keep: 128 MiB


class TreeMemory(NamedTuple):
    counts: Array  # [..., N, S], how often each token came at each node, the root first
    log_odds: Array  # [..., N], of each node: that it is a leaf, to that it splits
    recent: Array  # [..., D], the last tokens, the newest first; zeros before the first
    seen: Array  # [...], tokens so far


class _Path(NamedTuple):
    """The nodes that a past is in, from the root down; B streams."""

    nodes_BxD: Array  # [B, depth + 1]
    known_BxD: Array  # whether the past is that long
    leaf_BxDxS: Array  # KT_n
    law_BxDxS: Array  # law_n; uniform where the past is not that long


@dataclass(frozen=True)
class ContextTree(Predictor):
    """The exact Bayesian mixture of all context trees up to a depth: it learns how far to look back, and where.

    Its log loss is above that of the best tree by no more than the tree's own description and half a logarithm of the
    steps for each of its parameters. A step costs O(depth) in the recorded form; streaming copies the memory, which
    has one row for each context.

    Parameters
    ----------
    depth
        How many of the last tokens a tree may look at.
    prior
        Of each leaf: sightings of every state before the first token (1/2 is the prior of Krichevsky and Trofimov).
    stop
        How likely a node that could split is a leaf, before any token is seen.

    >>> tree = ContextTree(2, depth=3)
    >>> tree.predict_sequence([0, 0, 1] * 20)[-3:, 1].round(2).tolist()  # it has found the period
    [0.03, 0.03, 0.97]
    """

    n_states: int
    depth: int
    prior: float = 0.5
    stop: float = 0.5

    def __post_init__(self) -> None:
        n_states, depth = inputs.whole(self.n_states, "n_states"), inputs.whole(self.depth, "depth", least=0)
        cells = sum(n_states**d for d in range(min(depth, 64) + 1)) * (n_states + 1)
        if cells > _MOST_CELLS or depth > 64:
            raise ValueError(
                f"depth must leave a stream at most {_MOST_CELLS:,} numbers to keep, and be at most 64: {depth} with "
                f"{n_states} states needs {cells:,}"
            )
        inputs.keep(
            self,
            n_states=n_states,
            depth=depth,
            prior=inputs.positive(self.prior, "prior"),
            stop=inputs.probability(self.stop, "stop"),
        )

    @property
    def n_contexts(self) -> int:
        """How many nodes the largest tree has."""
        return sum(self.n_states**d for d in range(self.depth + 1))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> TreeMemory:
        shape, xp, where = inputs.batch_shape_of(batch_shape), namespace(like), device(like)
        dtype, nodes = float_type(xp, where), self.n_contexts
        odds = math.log(self.stop) - math.log1p(-self.stop)
        return TreeMemory(
            xp.zeros((*shape, nodes, self.n_states), dtype=dtype, device=where),
            xp.full((*shape, nodes), odds, dtype=dtype, device=where),
            xp.zeros((*shape, self.depth), dtype=xp.int64, device=where),
            xp.zeros(shape, dtype=xp.int64, device=where),
        )

    def predict(self, memory: TreeMemory) -> Array:
        xp, shape = namespace(memory.seen), tuple(memory.seen.shape)
        return xp.reshape(self._path(_flat(memory)).law_BxDxS[:, 0], (*shape, self.n_states))

    def update(self, memory: TreeMemory, token: Array) -> TreeMemory:
        shape, xp = tuple(memory.seen.shape), namespace(memory.seen)
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.seen)
        flat = _flat(memory)
        flat = flat._replace(counts=copied(flat.counts), log_odds=copied(flat.log_odds))
        after = self._learnt(flat, self._path(flat), xp.reshape(xp.astype(token, xp.int64), (-1,)))
        return TreeMemory(*(xp.reshape(new, tuple(old.shape)) for new, old in zip(after, memory, strict=True)))

    def predict_sequence(self, tokens: Array) -> Array:
        return self.laws(inputs.sequences_of(tokens, self.n_states))

    def laws(self, tokens: Array) -> Array:
        """``predict_sequence`` without its checks: one memory, changed in place."""
        xp, horizon = namespace(tokens), tokens.shape[-1]
        tokens_BxT = xp.reshape(xp.astype(tokens, xp.int64), (-1, horizon))
        memory, laws = self.start((tokens_BxT.shape[0],), like=tokens), []
        for t in range(horizon):
            path = self._path(memory)
            laws.append(path.law_BxDxS[:, 0])
            if t + 1 < horizon:
                memory = self._learnt(memory, path, tokens_BxT[:, t])
        return xp.reshape(xp.stack(laws, axis=-2), (*tokens.shape, self.n_states))

    def _path(self, memory: TreeMemory) -> _Path:
        """The nodes that the past is in, and what each says; ``memory`` has one batch axis."""
        xp, S, D = namespace(memory.seen), self.n_states, self.depth
        depths = xp.arange(D + 1, device=device(memory.seen))
        powers, firsts = (constant(table, memory.recent) for table in self._places)
        nodes = firsts + running_sum(xp.concat([xp.zeros_like(memory.seen)[:, None], memory.recent * powers], axis=-1))
        known = depths <= memory.seen[:, None]
        rows = xp.arange(nodes.shape[0], device=device(memory.seen))[:, None]
        counts = memory.counts[rows, nodes]
        leaf = (counts + self.prior) / (xp.sum(counts, axis=-1) + S * self.prior)[..., None]
        most = math.log(xp.finfo(memory.log_odds.dtype).max) - 1
        odds = xp.exp(xp.clip(memory.log_odds[rows, nodes], -most, most))
        is_leaf, splits = odds / (1 + odds), 1 / (1 + odds)
        law, laws = xp.full_like(leaf[:, 0], 1 / S), []
        for d in range(D, -1, -1):
            # As a sum, not as a step from one to the other: that would round a small chance to 0.
            here = leaf[:, d] if d == D else is_leaf[:, d, None] * leaf[:, d] + splits[:, d, None] * law
            law = xp.where(known[:, d, None], here, law)
            laws.append(law)
        return _Path(nodes, known, leaf, xp.stack(laws[::-1], axis=1))

    def _learnt(self, memory: TreeMemory, path: _Path, token_B: Array) -> TreeMemory:
        """The memory after a token, its nodes changed in place."""
        xp, where, D = namespace(memory.seen), device(memory.seen), self.depth
        rows = xp.arange(token_B.shape[0], device=where)[:, None]
        levels = xp.arange(D + 1, device=where)
        came, known = token_B[:, None], xp.astype(path.known_BxD, memory.counts.dtype)
        # All nodes of a path are different ones, also those that the past does not reach: nothing is added to these.
        memory.counts[rows, path.nodes_BxD, came] += known
        as_leaf, as_split = path.leaf_BxDxS[rows, levels[:-1], came], path.law_BxDxS[rows, levels[1:], came]
        memory.log_odds[rows, path.nodes_BxD[:, :-1]] += xp.log(as_leaf / as_split) * known[:, :-1]
        recent = xp.concat([came, memory.recent], axis=-1)[:, :D]
        return memory._replace(recent=recent, seen=memory.seen + 1)

    @property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """Place values of past tokens in the number of a context, ``[D]``; where each depth begins, ``[D + 1]``."""
        powers = self.n_states ** np.arange(self.depth, dtype=np.int64)
        return powers, np.append(0, np.cumsum(powers)).astype(np.int64)


def _flat(memory: TreeMemory) -> Any:
    """The same with one batch axis."""
    xp, shape = namespace(memory.seen), tuple(memory.seen.shape)
    return TreeMemory(*(xp.reshape(part, (math.prod(shape), *part.shape[len(shape) :])) for part in memory))
