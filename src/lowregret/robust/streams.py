"""The engine on the memory of a predictor: rows ``[..., W]`` of any batch shape, in NumPy or torch, on any device."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from ..arrays import Array, astype, detached, device, in_float64, namespace
from ..engine import Engine, Inputs, Setting, Step


class Streams:
    """A setting at work beside a predictor, which hands it forecasts ``[..., S]`` and tokens ``[...]``."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._engines: dict[Any, Engine] = {(np, None): Engine(setting)}

    @contextmanager
    def engine_for(self, like: Array) -> Iterator[Engine]:
        """The engine on arrays of this kind; inside, new ones are made on their device."""
        xp, where = namespace(like), device(like)
        on_device = where is not None and where.type != "cpu"
        with where if on_device else nullcontext():
            if (xp, where) not in self._engines:
                self._engines[xp, where] = Engine(self.setting.on(xp))
            yield self._engines[xp, where]

    def start(self, shape: tuple[int, ...], like: Array) -> Array:
        """The rows before the first token."""
        with self.engine_for(like) as engine:
            return engine.start(math.prod(shape)).reshape(*shape, engine.width)

    def step(self, rows: Array, probs: Array) -> Step:
        """Both responses, and what the fallback predicts, where the model forecasts ``probs``; streams in one axis."""
        with self.engine_for(probs) as engine:
            return engine.advise(_flat(rows), 1, Inputs(_flat(in_float64(detached(probs)))))

    def predict(self, rows: Array, probs: Array) -> Array:
        """The forecasts before an alarm, and the fallback's after it."""
        fallback = astype(self.step(rows, probs).mixture_NxS, probs.dtype).reshape(probs.shape)
        return namespace(probs).where((self.read(rows, "alarm", probs) > 0)[..., None], fallback, probs)

    def observe(self, rows: Array, probs: Array, token: Array) -> Array:
        """The rows after one more token: the test and the fallback learn from it."""
        with self.engine_for(probs) as engine:
            after, _ = engine.observe(_flat(rows), 1, self.step(rows, probs), token.reshape(-1))
        return after.reshape(rows.shape)

    def read(self, rows: Array, name: str, like: Array) -> Array:
        """One part ``[...]`` of what the engine remembers, by its name (``engine/run.py``)."""
        with self.engine_for(like) as engine:
            return getattr(engine.head.open(_flat(rows)), name).reshape(rows.shape[:-1])


def _flat(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])
