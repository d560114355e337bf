"""A guard of many streams, of which some come and some go while it runs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array
from ..memory import joined, take
from .episodes import streams_of
from .keeping import Kept
from .ledger import LOG, own_copy
from .numbers import Numbers, numbers_of


class Fleet(Kept):
    """Streams that are added and retired while a guard runs.

    Whoever has these methods says how a ledger begins (``_blank``) and what follows from another one (``_regrouped``).
    """

    _blank: Callable[[tuple[int, ...]], Any]
    _regrouped: Callable[[Any, Any, Numbers], Any]

    @property
    def streams(self) -> np.ndarray:
        """The number of each stream along the first batch axis: by it events, ``restart`` and ``retire`` know it.

        It is the place at which it stands, until streams before it are retired; no number is given twice.
        """
        at = self._at
        self._first_axis("streams", at)
        return numbers_of(at.numbers, at.ledger.episode.shape[0]).held_N.copy()

    @property
    def steps(self) -> Array:
        """How many steps of its episode are over for each stream ``[...]``: the state was seen, or given up."""
        found = self._over(self._at)
        return int(found) if self.batch_shape == () else own_copy(found)

    def _over(self, at: Any) -> Array:
        return at.ledger.rule.step

    def add(self, n: int = 1) -> np.ndarray:
        """New streams at the end of the first batch axis, each before its own first step; returns their numbers.

        Between two steps: advice that waits for its state is forgotten, as by ``restart``.
        """
        n = inputs.whole(n, "n", least=0)
        with self._lock:
            at = self._at
            had, *rest = self._first_axis("add(n)", at)
            numbers = numbers_of(at.numbers, had)
            fresh = np.arange(numbers.given, numbers.given + n)
            parts = [at.ledger, self._blank((n, *rest))]
            try:
                ledger = joined(self._blank((had + n, *rest)), parts)
            except ValueError as error:
                raise ValueError(f"add(n) needs a rule and a fallback with memories of one size: {error}") from error
            now = Numbers(np.concatenate([numbers.held_N, fresh]), numbers.given + n)
            self._at = self._regrouped(at, ledger, now)
        LOG.info("%d streams added to %d", n, had)
        return fresh

    def retire(self, streams: Any) -> np.ndarray:
        """End some streams, by their numbers or a mask along the first batch axis; returns their numbers.

        Those behind move up, and keep their numbers. What was told of the ones that go stays in ``events``; the
        certificate speaks of those that stay. Between two steps, as ``add``.
        """
        if streams is None:
            raise ValueError("streams must be numbers of streams or a mask, got None")
        with self._lock:
            at = self._at
            had, *rest = self._first_axis("retire(streams)", at)
            numbers = numbers_of(at.numbers, had)
            gone = streams_of(streams, (had,), at.numbers)
            ledger = joined(self._blank((had - int(gone.sum()), *rest)), [take(at.ledger, ~gone)])
            self._at = self._regrouped(at, ledger, Numbers(numbers.held_N[~gone], numbers.given))
        LOG.info("%d of %d streams retired", int(gone.sum()), had)
        return numbers.held_N[gone]

    def _first_axis(self, what: str, at: Any) -> tuple[int, ...]:
        shape = tuple(at.ledger.episode.shape)
        if shape == ():
            raise ValueError(f"{what} needs a guard with a batch axis: this one was made with batch_shape=()")
        return shape
