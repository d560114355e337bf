"""What a guard remembers, given out and taken up again: as JSON values, as one safetensors file, as a pickle."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from .. import files
from ..memory import saved
from .lineage import Lineage, refuse_unknown
from .telling import later, tell
from .tensors import read_from, told_at, write_to

_LOCKS = ("_lock", "_saving")  # they stay where they are


class Kept:
    """The state of a guard; who has these methods says what it is (``_written``) and how to go on (``_read``)."""

    _at: Any
    _lock: Any
    on_event: Callable[[Any], Any] | None
    _lineage = Lineage()  # the saved states that it goes on from
    _written: Callable[[Any, Callable[[Any], Any]], dict[str, Any]]
    _read: Callable[[dict[str, Any], tuple[int, ...]], Any]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """How many streams there are along each batch axis, now."""
        return tuple(self._at.ledger.episode.shape)

    def state_dict(self) -> dict[str, Any]:
        """Everything it remembers, as finite JSON numbers: ``load_state_dict`` resumes bit for bit."""
        return self._written(self._at, saved)

    def load_state_dict(self, d: dict[str, Any]) -> None:
        """Take up where ``state_dict`` left off; refused, and nothing changed, if it was made by another guard.

        Which files it goes on from is not known then: ``save`` will not write over one.
        """
        with self._lock:
            self._at, self._lineage = self._read(d, self.batch_shape), Lineage()

    def save(self, path: str | Path) -> None:
        """Everything it remembers as one safetensors file, written whole or not at all (extra ``fleet``).

        The tensors are what is kept of each stream, by name; the rest is JSON in the header, with a digest of it all.

        Refused, and the file as it was, if it holds a state that this guard does not go on from: it was neither loaded
        nor saved by this guard, nor by one that this is a copy of, or another process has saved there since.
        """
        path = files.to_write(path, ".safetensors")
        alone = vars(self).setdefault("_saving", Lock())
        with alone, files.locked(files.lock_of(path), f"{path} is being saved"):
            there = told_at(path)
            with self._lock:
                at, ours = self._at, self._lineage
                if there is not None:
                    refuse_unknown(path, there["lineage"], there.get("clock"), ours, at.clock)
                self._lineage = ours.saved()  # before it is written: an interrupt then loses a number and no save
                lives = [list(life) for life in self._lineage.lives]
            write_to(path, {**self._written(at, lambda memory: memory), "lineage": lives})

    def load(self, path: str | Path) -> None:
        """Take up where ``save`` left off, bit for bit, with the streams that there were then.

        Refused, and nothing changed, if the file was made by another guard, was cut short or has been changed. How
        many streams there are along the first batch axis is the file's to say.
        """
        path = files.a_path(path)
        d = read_from(path)
        with self._lock:
            try:
                self._at = self._read(d, _shape_in(d, self.batch_shape))
                self._lineage = d["lineage"]  # last: a guard that does not know of the file will not write over it
            except ValueError as error:
                raise ValueError(f"{path}: {str(error).replace('state_dict', 'its state')}") from error

    @contextmanager
    def _as_one(self) -> Iterator[Any]:
        """A copy to take several steps with: left without an error, this guard stands where the copy does.

        Nobody else moves the guard meanwhile. What happened is told once it stands there.
        """
        with self._lock:
            ahead = copy(self)
            ahead.on_event, before = later, len(self._at.events)
            yield ahead
            self._at = ahead._at
            fresh = self._at.events[before:]
        if fresh:
            tell(fresh, self.on_event)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _LOCKS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._lineage = RLock(), self._lineage.handed_on()


def _shape_in(d: dict[str, Any], mine: tuple[int, ...]) -> tuple[int, ...]:
    """The batch shape that a file speaks of, if its arrays bear that out; else ours, which is then found to differ."""
    made_for, ledger = d.get("made_for"), d.get("ledger")
    said = made_for.get("batch_shape") if isinstance(made_for, dict) else None
    held = ledger[-3:-2] if isinstance(ledger, list) else []  # the episode of each stream
    if not mine or not isinstance(said, list) or not held or list(getattr(held[0], "shape", ())) != said:
        return mine
    return tuple(said) if len(said) == len(mine) and said[1:] == list(mine[1:]) else mine
