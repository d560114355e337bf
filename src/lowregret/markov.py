"""A model of bounded context (Section 2.1): the law of the next token is a table over the last few."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from . import inputs
from .arrays import Array, constant, count_up, device, namespace, read_only
from .predictors import Predictor, rows


class MarkovMemory(NamedTuple):
    context: Array  # [...], the last tokens read as a number in base S
    seen: Array  # [...], tokens so far


@dataclass(frozen=True, eq=False)
class Markov(Predictor):
    """The next token depends on the last ``context_len``: ``transition[oldest, ..., newest, next]``.

    Parameters
    ----------
    transition
        Shape ``(S,) * context_len + (S,)``; each last row a law.
    initial
        The law until the context is full (uniform by default).

    >>> sticky = Markov([[0.9, 0.1], [0.1, 0.9]], context_len=1)
    >>> sticky.predict_sequence([1, 1, 0])[:, 1].tolist()
    [0.5, 0.9, 0.9]
    """

    transition: Any
    context_len: int
    initial: Any = None
    n_states: int = field(init=False)

    def __post_init__(self) -> None:
        length = inputs.whole(self.context_len, "context_len", least=0)
        table = inputs.table_of(self.transition, "transition")
        n = int(table.shape[-1]) if table.ndim else 0
        if n == 0 or table.shape != (n,) * (length + 1):
            raise ValueError(
                f"transition must have shape (S,) * context_len + (S,), here {length + 1} equal axes, got {table.shape}"
            )
        table = inputs.probs_of(table, n, "transition").reshape(-1, n)
        initial = np.full(n, 1 / n) if self.initial is None else inputs.table_of(self.initial, "initial")
        # One table for both: row 0 holds the initial law, row 1 + context the transition from that context.
        laws = np.concatenate([inputs.probs_of(initial, n, "initial", shape=())[None], table])
        laws.setflags(write=False)
        object.__setattr__(self, "n_states", n)
        object.__setattr__(self, "transition", laws[1:].reshape((n,) * (length + 1)))
        object.__setattr__(self, "initial", laws[0])
        object.__setattr__(self, "_laws", laws)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(read_only(state))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> MarkovMemory:
        xp = namespace(like)
        zeros = xp.zeros(inputs.batch_shape_of(batch_shape), dtype=xp.int64, device=device(like))
        return MarkovMemory(zeros, zeros)

    def predict(self, memory: MarkovMemory) -> Array:
        return self._law(memory.context, memory.seen)

    def update(self, memory: MarkovMemory, token: Array) -> MarkovMemory:
        token = inputs.tokens_of(token, self.n_states, "token", shape=tuple(memory.seen.shape), like=memory.seen)
        context = (memory.context * self.n_states + token) % self.n_states**self.context_len
        return MarkovMemory(context, memory.seen + 1)

    def predict_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        xp = namespace(tokens)
        tokens = xp.astype(tokens, xp.int64)
        horizon = tokens.shape[-1]
        context = xp.zeros_like(tokens)
        for lag in range(1, min(self.context_len, horizon - 1) + 1):
            older = xp.zeros_like(tokens[..., :lag])
            shifted = xp.concat([older, tokens[..., : horizon - lag]], axis=-1)
            context = context + shifted * self.n_states ** (lag - 1)
        return self._law(context, xp.broadcast_to(count_up(tokens, 0, horizon), tokens.shape))

    def key(self, memory: MarkovMemory) -> Array:
        """What decides, beside the counts so far, how a stream goes on (``lowregret.adversaries``)."""
        return memory.context

    def _law(self, context: Array, seen: Array) -> Array:
        xp = namespace(context)
        full = seen >= self.context_len
        laws: np.ndarray = self._laws  # type: ignore[attr-defined]
        return rows(constant(laws, context), xp.where(full, context + 1, xp.zeros_like(context)))
