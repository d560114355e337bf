"""What a stream remembers is one row of float64: parts by name, and views of them."""

import math
from typing import Any

Shapes = dict[str, tuple[int, ...]]
Places = dict[str, tuple[slice, tuple[int, ...]]]


class Views:
    """The parts of some rows by name, ``[N, ...]`` each: what is written into one is written into the rows."""

    def __init__(self, rows_NxW: Any, places: Places) -> None:
        self._rows_NxW, self._places = rows_NxW, places

    def __getattr__(self, name: str) -> Any:  # when it is first asked for
        if name.startswith("_") or name not in self._places:
            raise AttributeError(f"no part of these rows is called {name!r}")
        at, shape = self._places[name]
        view = self._rows_NxW[:, at if shape else at.start]
        if len(shape) > 1:
            view = view.reshape(view.shape[0], *shape)
        self.__dict__[name] = view
        return view


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

    def open(self, rows_NxW: Any) -> Views:
        return Views(rows_NxW, self.places)
