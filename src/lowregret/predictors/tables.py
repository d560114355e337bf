"""Forecasts from a table (Section 2.1): one per step, or one for each choice of the last few tokens."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, constant, count_up, device, namespace
from .contract import Predictor


class StepMemory(NamedTuple):
    step: Array  # [...], tokens so far


@dataclass(frozen=True, eq=False)
class Scheduled(Predictor):
    """Independent tokens with a distribution for each step, ``probs_TxS``; the last holds for ever after.

    >>> Scheduled([[0.9, 0.1], [0.2, 0.8]]).predict_sequence([0, 0, 0])[:, 1].tolist()
    [0.1, 0.8, 0.8]
    """

    probs_TxS: Any
    n_states: int = field(init=False)

    def __post_init__(self) -> None:
        table = inputs.numbers_of(self.probs_TxS, "probs_TxS", "numbers")
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(f"probs_TxS must have shape [steps, states] with at least one of each, got {table.shape}")
        table = inputs.probs_of(table, table.shape[1], "probs_TxS")
        table.setflags(write=False)
        inputs.keep(self, probs_TxS=table, n_states=int(table.shape[1]))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> StepMemory:
        xp = namespace(like)
        return StepMemory(xp.zeros(inputs.batch_shape_of(batch_shape), dtype=xp.int64, device=device(like)))

    def predict(self, memory: StepMemory) -> Array:
        xp = namespace(memory.step)
        return constant(self.probs_TxS, memory.step)[xp.clip(memory.step, 0, len(self.probs_TxS) - 1)]

    def update(self, memory: StepMemory, token: Array) -> StepMemory:
        inputs.tokens_of(token, self.n_states, "token", shape=tuple(memory.step.shape))
        return StepMemory(memory.step + 1)

    def laws(self, tokens: Array) -> Array:
        """``predict_sequence`` without its checks."""
        xp = namespace(tokens)
        at = xp.clip(count_up(tokens, 0, tokens.shape[-1]), 0, len(self.probs_TxS) - 1)
        probs_TxS = constant(self.probs_TxS, tokens)[at]
        return xp.broadcast_to(probs_TxS, (*tokens.shape, self.n_states))

    def law_of_counts(self, counts: Array) -> Array:
        """The distribution of the next token after these counts of each state: only their sum, the step, matters."""
        return self.predict(StepMemory(namespace(counts).sum(counts, axis=-1)))


class MarkovMemory(NamedTuple):
    context: Array  # [...], the last tokens read as a number in base S
    seen: Array  # [...], tokens so far


@dataclass(frozen=True, eq=False)
class Markov(Predictor):
    """The next token depends on the last ``window``: ``transition[oldest, ..., newest, next]``.

    Parameters
    ----------
    transition
        Shape ``(S,) * window + (S,)``; each last row a distribution.
    initial
        The distribution until the context is full (uniform by default).

    >>> sticky = Markov([[0.9, 0.1], [0.1, 0.9]], window=1)
    >>> sticky.predict_sequence([1, 1, 0])[:, 1].tolist()
    [0.5, 0.9, 0.9]
    """

    transition: Any
    window: int
    initial: Any = None
    n_states: int = field(init=False)

    def __post_init__(self) -> None:
        length = inputs.whole(self.window, "window", least=0)
        table = inputs.numbers_of(self.transition, "transition", "numbers")
        n = int(table.shape[-1]) if table.ndim else 0
        if n == 0 or table.ndim != length + 1 or len(set(table.shape)) > 1:
            raise ValueError(
                f"transition must have shape (S,) * window + (S,), here {length + 1} equal axes, got {table.shape}"
            )
        table = inputs.probs_of(table, n, "transition").reshape(-1, n)
        initial = np.full(n, 1 / n) if self.initial is None else inputs.numbers_of(self.initial, "initial", "numbers")
        # One table for both: row 0 holds the initial distribution, row 1 + context the transition from that context.
        table = np.concatenate([inputs.probs_of(initial, n, "initial", shape=())[None], table])
        table.setflags(write=False)
        inputs.keep(self, n_states=n, window=length, initial=table[0], _table=table)
        inputs.keep(self, transition=table[1:].reshape((n,) * (length + 1)))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> MarkovMemory:
        xp = namespace(like)
        zeros = xp.zeros(inputs.batch_shape_of(batch_shape), dtype=xp.int64, device=device(like))
        return MarkovMemory(zeros, zeros)

    def predict(self, memory: MarkovMemory) -> Array:
        return self._probs(memory.context, memory.seen)

    def update(self, memory: MarkovMemory, token: Array) -> MarkovMemory:
        token = inputs.tokens_of(token, self.n_states, "token", shape=tuple(memory.seen.shape), like=memory.seen)
        context = (memory.context * self.n_states + token) % self.n_states**self.window
        return MarkovMemory(context, memory.seen + 1)

    def laws(self, tokens: Array) -> Array:
        """``predict_sequence`` without its checks."""
        xp = namespace(tokens)
        tokens = xp.astype(tokens, xp.int64)
        horizon = tokens.shape[-1]
        context = xp.zeros_like(tokens)
        for lag in range(1, min(self.window, horizon - 1) + 1):
            older = xp.zeros_like(tokens[..., :lag])
            shifted = xp.concat([older, tokens[..., : horizon - lag]], axis=-1)
            context = context + shifted * self.n_states ** (lag - 1)
        return self._probs(context, xp.broadcast_to(count_up(tokens, 0, horizon), tokens.shape))

    def key(self, memory: MarkovMemory) -> Array:
        """What decides, beside the counts so far, how a stream goes on (``lowregret.evaluate.adversaries``)."""
        return memory.context

    def _probs(self, context: Array, seen: Array) -> Array:
        xp = namespace(context)
        full = seen >= self.window
        table: np.ndarray = self._table  # type: ignore[attr-defined]
        return constant(table, context)[xp.where(full, context + 1, xp.zeros_like(context))]
