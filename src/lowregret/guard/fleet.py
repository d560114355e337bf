"""A guard of many streams, of which some come and some go while it runs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array
from ..memory import joined, take
from .ledger import LOG, Ledger, own_copy
from .memory import GuardMemory, over_of
from .saving import Kept
from .streams import Labels, labels_of, named, streams_of


class Fleet(Kept):
    """Streams that are added and retired while a guard runs.

    Whoever has these methods says how a ledger begins (``_blank``) and what follows from another one (``_regrouped``).
    """

    _blank: Callable[[tuple[int, ...]], Ledger]
    _regrouped: Callable[[GuardMemory, Ledger, Labels], GuardMemory]

    @property
    def streams(self) -> np.ndarray:
        """What each stream along the first batch axis is called: so events, ``restart`` and ``retire`` know it.

        Its name, or a number: the place at which it stands, until streams before it are retired; none is given twice.
        """
        at = self._at
        self._first_axis("streams", at)
        return labels_of(at.labels, at.ledger.episode.shape[0]).held_N.copy()

    @property
    def steps(self) -> Array:
        """How many steps of its episode are over for each stream ``[...]``: the state was seen, or given up."""
        found = over_of(self._at.ledger)
        return int(found) if self.batch_shape == () else own_copy(found)

    def add(self, n: int | Sequence[str] = 1) -> np.ndarray:
        """New streams at the end of the first batch axis, each before its own first step; returns what they are called.

        ``n``: how many, or the names of streams that have names. Between two steps: advice that waits for its state is
        forgotten, as by ``restart``.
        """
        with self._lock:
            at = self._at
            had, *rest = self._first_axis("add(n)", at)
            labels = labels_of(at.labels, had)
            fresh = _called(n, labels)
            n = len(fresh)
            parts = [at.ledger, self._blank((n, *rest))]
            try:
                ledger = joined(self._blank((had + n, *rest)), parts)
            except ValueError as error:
                raise ValueError(f"add(n) needs a rule and a fallback with memories of one size: {error}") from error
            now = Labels(np.concatenate([labels.held_N, fresh]), labels.given + n)
            self._at = self._regrouped(at, ledger, now)
        LOG.info("%d streams added to %d", n, had)
        return fresh

    def retire(self, streams: Any) -> np.ndarray:
        """End some streams, by what they are called or a mask along the first batch axis; returns what that was.

        Those behind move up, and keep what they are called. What was told of the ones that go stays in ``events``; the
        certificate speaks of those that stay. Between two steps, as ``add``.
        """
        if streams is None:
            raise ValueError("streams must be numbers or names of streams, or a mask, got None")
        with self._lock:
            at = self._at
            had, *rest = self._first_axis("retire(streams)", at)
            labels = labels_of(at.labels, had)
            gone = streams_of(streams, (had,), at.labels)
            ledger = joined(self._blank((had - int(gone.sum()), *rest)), [take(at.ledger, ~gone)])
            self._at = self._regrouped(at, ledger, Labels(labels.held_N[~gone], labels.given))
        LOG.info("%d of %d streams retired", int(gone.sum()), had)
        called: np.ndarray = labels.held_N[gone]
        return called

    def _first_axis(self, what: str, at: GuardMemory) -> tuple[int, ...]:
        shape = tuple(at.ledger.episode.shape)
        if shape == ():
            raise ValueError(f"{what} needs a guard with a batch axis: this one was made with batch_shape=()")
        return shape


def _called(n: Any, labels: Labels) -> np.ndarray:
    """What new streams are called: as they are named, or by the next numbers."""
    if not labels.named or (isinstance(n, int) and n == 0):
        n = inputs.whole(n, "n", least=0)
        return np.empty(0, dtype=object) if labels.named else np.arange(labels.given, labels.given + n)
    if not isinstance(n, (list, tuple, np.ndarray)):
        raise ValueError(f"add(names) needs the names of the new streams, as the others have, got {inputs.shown(n)}")
    return named(n, labels.held_N.tolist())
