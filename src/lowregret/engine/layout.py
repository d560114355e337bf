"""The state of a stream is one row of float64, with named parts that are read and written through views."""

import math
from types import SimpleNamespace
from typing import Any

Shapes = dict[str, tuple[int, ...]]
Places = dict[str, tuple[slice, tuple[int, ...]]]
Views = SimpleNamespace  # the parts of rows by name, [N, ...] each: what is written into one is written into the rows


class Layout:
    """Where each part of a row is.

    >>> import numpy as np
    >>> rows = np.zeros((2, 7))
    >>> Layout({"step": (), "wealth_PxK": (2, 3)}).open(rows).wealth_PxK[:, 1] = 5.0
    >>> rows[0].tolist()
    [0.0, 0.0, 0.0, 0.0, 5.0, 5.0, 5.0]
    """

    def __init__(self, shapes: Shapes) -> None:
        self.places: Places = {}
        self.width = 0
        for name, shape in shapes.items():
            end = self.width + math.prod(shape)
            self.places[name], self.width = (slice(self.width, end), shape), end
        self._flat = [(name, at if shape else at.start) for name, (at, shape) in self.places.items() if len(shape) < 2]
        self._tables = [(name, at, shape) for name, (at, shape) in self.places.items() if len(shape) > 1]

    def open(self, rows_NxW: Any) -> Views:
        parts = {name: rows_NxW[:, at] for name, at in self._flat}
        for name, at, shape in self._tables:
            parts[name] = rows_NxW[:, at].reshape(rows_NxW.shape[0], *shape)
        return Views(**parts)
