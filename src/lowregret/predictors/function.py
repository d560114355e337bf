"""Any function of the history as a predictor (Section 2.1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, device, float_type, namespace, to_numpy
from .contract import Predictor


class HistoryMemory(NamedTuple):
    history: Array  # [..., t]
    seen: Array  # [...], tokens so far


def no_history(batch_shape: tuple[int, ...], like: Array | None) -> HistoryMemory:
    """Before the first token; ``like`` gives the kind of array and its device."""
    xp, shape, where = namespace(like), inputs.batch_shape_of(batch_shape), device(like)
    history = xp.zeros((*shape, 0), dtype=xp.int64, device=where)
    return HistoryMemory(history, xp.zeros(shape, dtype=xp.int64, device=where))


def with_token(memory: Any, token: Array, n_states: int) -> HistoryMemory:
    """After one more token, which is checked; of a memory only ``history`` and ``seen`` are read."""
    xp, seen = namespace(memory.history), memory.seen
    token = inputs.tokens_of(token, n_states, "token", shape=tuple(seen.shape), like=seen)
    return HistoryMemory(xp.concat([memory.history, xp.astype(token, xp.int64)[..., None]], axis=-1), seen + 1)


@dataclass(frozen=True, eq=False)
class FromFunction(Predictor):
    """Any function of the history: ``fn(history[t]) -> [S]``, or with ``batched`` ``fn(history[B, t]) -> [B, S]``.

    ``history`` is an array of the tokens so far, oldest first, empty at the first step: ask ``len(history)``. What
    looks back only so far cuts it, as in ``history[..., -64:]``. A torch module is handed tensors on its own device; it
    must give probabilities (softmax its logits).

    >>> echo = FromFunction(lambda history: [0.5, 0.5] if len(history) == 0 else np.eye(2)[history[-1]], n_states=2)
    >>> echo.predict_sequence([1, 0, 0])[:, 1].tolist()
    [0.5, 1.0, 0.0]
    """

    fn: Callable[[Any], Any]
    n_states: int
    batched: bool = False

    def __post_init__(self) -> None:
        inputs.function(self.fn, "fn", "the history")
        inputs.keep(self, n_states=inputs.whole(self.n_states, "n_states"))

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> HistoryMemory:
        return no_history(batch_shape, like)

    def predict(self, memory: HistoryMemory) -> Array:
        history = memory.history
        xp, shape = namespace(history), tuple(history.shape[:-1])
        flat = xp.reshape(history, (int(np.prod(shape, dtype=np.int64)), history.shape[-1]))
        if self.batched:
            probs = self._asked(flat, shape=(flat.shape[0],))
        elif flat.shape[0] == 0:
            probs = xp.zeros((0, self.n_states), dtype=float_type(xp, device(history)), device=device(history))
        else:
            probs = xp.stack([self._asked(flat[i], shape=()) for i in range(flat.shape[0])])
        return xp.reshape(probs, (*shape, self.n_states))

    def update(self, memory: HistoryMemory, token: Array) -> HistoryMemory:
        return with_token(memory, token, self.n_states)

    def _asked(self, history: Array, shape: tuple[int, ...]) -> Array:
        """What the function says of this history: checked, and an array like the history."""
        probs = inputs.probs_of(self.fn(self._handed(history)), self.n_states, "what fn returned", shape=shape)
        xp = namespace(history)
        if namespace(probs) is xp and device(probs) == device(history):
            return probs
        return xp.asarray(to_numpy(probs), device=device(history))

    def _handed(self, history: Array) -> Array:
        """The history as the function can take it."""
        module: Any = self.fn
        if not hasattr(module, "named_modules"):  # torch is not imported to ask
            return history
        import torch

        own = next(module.parameters(), None)
        return torch.as_tensor(history, device=None if own is None else own.device)
