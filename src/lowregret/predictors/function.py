"""Any function of the history as a predictor (Section 2.1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, device, float_type, namespace
from .contract import Predictor


class HistoryMemory(NamedTuple):
    history: Array  # [..., t]
    seen: Array  # [...], tokens so far


@dataclass(frozen=True, eq=False)
class FromFunction(Predictor):
    """Any function of the history: ``fn(history[t]) -> [S]``, or with ``batched`` ``fn(history[B, t]) -> [B, S]``.

    ``history`` is an array of the tokens so far, oldest first, empty at the first step: ask ``len(history)``.

    >>> echo = FromFunction(lambda history: [0.5, 0.5] if len(history) == 0 else np.eye(2)[history[-1]], n_states=2)
    >>> echo.predict_sequence([1, 0, 0])[:, 1].tolist()
    [0.5, 1.0, 0.0]
    """

    fn: Callable[[Any], Any]
    n_states: int
    batched: bool = False

    def __post_init__(self) -> None:
        inputs.whole(self.n_states, "n_states")
        if not callable(self.fn):
            raise ValueError(f"fn must be a function of the history, got {self.fn!r}")

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> HistoryMemory:
        xp = namespace(like)
        shape, where = inputs.batch_shape_of(batch_shape), device(like)
        history = xp.zeros((*shape, 0), dtype=xp.int64, device=where)
        return HistoryMemory(history, xp.zeros(shape, dtype=xp.int64, device=where))

    def predict(self, memory: HistoryMemory) -> Array:
        history = memory.history
        xp, shape = namespace(history), tuple(history.shape[:-1])
        flat = xp.reshape(history, (int(np.prod(shape, dtype=np.int64)), history.shape[-1]))
        if self.batched:
            laws = self._array(self.fn(flat), history)
            laws = inputs.probs_of(laws, self.n_states, "what fn returned", shape=(flat.shape[0],))
        elif flat.shape[0] == 0:
            laws = xp.zeros((0, self.n_states), dtype=float_type(xp, device(history)), device=device(history))
        else:
            each = [self._array(self.fn(flat[i]), history) for i in range(flat.shape[0])]
            laws = xp.stack([inputs.probs_of(law, self.n_states, "what fn returned", shape=()) for law in each])
        return xp.reshape(laws, (*shape, self.n_states))

    def update(self, memory: HistoryMemory, token: Array) -> HistoryMemory:
        xp, seen = namespace(memory.history), memory.seen
        token = inputs.tokens_of(token, self.n_states, "token", shape=tuple(seen.shape), like=seen)
        return HistoryMemory(xp.concat([memory.history, xp.astype(token, xp.int64)[..., None]], axis=-1), seen + 1)

    @staticmethod
    def _array(law: Any, like: Array) -> Array:
        xp = namespace(like)
        if xp is np or namespace(law) is not np:
            return law
        return xp.asarray(np.asarray(law, dtype=np.float64), device=device(like))
