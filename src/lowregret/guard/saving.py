"""What a guard remembers, given out and taken up again: as JSON values, as one safetensors file, as a pickle."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Self

import numpy as np

from .. import files
from ..arrays import to_numpy
from ..memory import saved
from .ledger import Event, later, tell
from .memory import GuardMemory

# A state as one safetensors file: its arrays as tensors by name, the rest as JSON in the header, and a digest.


_KEY = "lowregret.guard"
_TENSOR, _TEXT = "$tensor", "$text"  # what stands in the JSON for an array; for JSON that is one, since it may be long
_LONG = ("events", "advised")


def write_to(path: Path, state: dict[str, Any]) -> None:
    """Write a state, whose arrays may be in tuples with names; a file that was there is replaced, or as it was."""
    import safetensors.numpy  # late: few save

    tensors: dict[str, np.ndarray] = {}
    about = {name: _told(value, name, tensors) for name, value in state.items()}
    for name in _LONG:
        if isinstance(about.get(name), list) or (isinstance(about.get(name), dict) and name not in tensors):
            tensors[name] = np.frombuffer(json.dumps(about[name], allow_nan=False).encode(), dtype=np.uint8)
            about[name] = {_TEXT: name}
    text = json.dumps(about, allow_nan=False)
    with files.drafted(path) as draft:
        try:
            safetensors.numpy.save_file(tensors, draft, metadata=files.stamp(_KEY, text, tensors))
        except Exception as error:  # its own for everything, a full disk among it
            if found := re.search(r"os error (\d+)", str(error)):
                raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
            raise


def read_from(path: Path) -> dict[str, Any]:
    """What ``write_to`` wrote; a file that was cut short, changed or written by something else is refused by name."""
    import safetensors.numpy  # late: few load

    try:
        data = path.read_bytes()  # not mapped: whoever writes over the file would change a guard in use
    except FileNotFoundError:
        raise ValueError(f"path must be a file that save(path) wrote, and there is no {path}") from None
    except IsADirectoryError:
        raise ValueError(f"path must be a file that save(path) wrote, and {path} is a folder") from None
    try:
        tensors = safetensors.numpy.load(data)
        header = files.header_in(io.BytesIO(data))
    except Exception as error:  # safetensors has its own for each kind of oddity
        raise ValueError(f"{path} was cut short, or is no safetensors file: {error}") from error
    if _KEY not in header:
        raise ValueError(f"{path} is a safetensors file of another program: its header has no {_KEY!r}")
    if not files.intact(_KEY, header, tensors):
        raise ValueError(f"{path} has been changed: its digest is not that of what it holds")
    try:
        return {name: _found(value, tensors) for name, value in json.loads(header[_KEY]).items()}
    except (RecursionError, *files.UNREADABLE) as error:
        raise ValueError(f"{path} holds no state of a guard: {error}") from error


def refuse_other(path: Path) -> None:
    """Refuse to write over a file that holds no state of a guard, by its header."""
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        with open(path, "rb") as file:
            json.loads(files.header_in(file)[_KEY])
    except (RecursionError, *files.UNREADABLE) as error:
        raise ValueError(
            f"path: {path} is there, and is no file that save(path) wrote, or is damaged: remove it, or take another"
        ) from error


def _told(value: Any, name: str, tensors: dict[str, np.ndarray]) -> Any:
    """As JSON; arrays are left to ``tensors``, under the names of what they are in."""
    if isinstance(value, dict):
        return {key: _told(part, f"{name}.{key}", tensors) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", range(len(value)))
        return [_told(part, f"{name}.{key}", tensors) for key, part in zip(names, value, strict=True)]
    if not hasattr(value, "shape"):
        return value
    tensors[name] = np.array(to_numpy(value), order="C")  # rows one after the other, whatever they were
    return {_TENSOR: name}


def _found(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_found(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_TENSOR}:
        return tensors[value[_TENSOR]]
    if value.keys() == {_TEXT}:
        return json.loads(tensors[value[_TEXT]].tobytes())
    return {key: _found(part, tensors) for key, part in value.items()}


# What a guard does with them.


_LOCKS = ("_lock", "_saving")  # they stay where they are


class Kept:
    """The state of a guard; who has these methods says what it is (``_written``) and how to go on (``_read``)."""

    _at: GuardMemory
    _lock: RLock
    on_event: Callable[[Event], object] | None
    _written: Callable[[GuardMemory, Callable[[Any], Any]], dict[str, Any]]
    _read: Callable[[dict[str, Any], tuple[int, ...]], GuardMemory]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """How many streams there are along each batch axis, now."""
        return tuple(self._at.ledger.episode.shape)

    def state_dict(self) -> dict[str, Any]:
        """Everything it remembers, as finite JSON numbers: ``load_state_dict`` resumes bit for bit."""
        return self._written(self._at, saved)

    def load_state_dict(self, d: dict[str, Any]) -> None:
        """Take up where ``state_dict`` left off; refused, and nothing changed, if it was made by another guard."""
        with self._lock:
            self._at = self._read(d, self.batch_shape)

    def save(self, path: str | Path) -> None:
        """Everything it remembers as one safetensors file, written whole or not at all.

        The tensors are what is kept of each stream, by name; the rest is JSON in the header, with a digest of it all.

        Refused, and the file as it was, if it holds no state of a guard.
        """
        path = files.to_write(path, ".safetensors")
        alone = vars(self).setdefault("_saving", Lock())
        with alone, files.locked(files.lock_of(path), f"{path} is being saved"):
            refuse_other(path)
            write_to(path, self._written(self._at, lambda memory: memory))

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
            except ValueError as error:
                raise ValueError(f"{path}: {str(error).replace('state_dict', 'its state')}") from error

    @contextmanager
    def _as_one(self) -> Iterator[Self]:
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
        self._lock = RLock()


def _shape_in(d: dict[str, Any], mine: tuple[int, ...]) -> tuple[int, ...]:
    """The batch shape that a file speaks of, if its arrays bear that out; else ours, which is then found to differ."""
    made_for, ledger = d.get("made_for"), d.get("ledger")
    said = made_for.get("batch_shape") if isinstance(made_for, dict) else None
    held = ledger[-3:-2] if isinstance(ledger, list) else []  # the episode of each stream
    if not mine or not isinstance(said, list) or not held or list(getattr(held[0], "shape", ())) != said:
        return mine
    return tuple(said) if len(said) == len(mine) and said[1:] == list(mine[1:]) else mine
