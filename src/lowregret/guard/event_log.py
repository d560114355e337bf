"""Events as an append-only file of JSON lines, which a crash at any byte leaves whole but for its last line."""

import contextlib
import json
import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from .. import files, inputs
from .ledger import LOG, Return, Switch
from .resume import as_json, event_from

_CRC = re.compile(rb',"crc":"([0-9a-f]{8})"}')
_KINDS: dict[str, type] = {"switch": Switch, "return": Return}


def _line(values: dict[str, Any]) -> bytes:
    """One JSON object, with a checksum of all before it."""
    body = json.dumps(values, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


_HEADER = _line({"lowregret": "events", "format": 1})


class EventLog:
    """What a guard tells, as lines of JSON at the end of a file: ``Guard(..., on_switch=EventLog(path))``.

    Each event is one line with a checksum. Whatever is cut short by a crash is the end of the file: it is dropped when
    the log is opened again, and no whole line is. A line that is damaged elsewhere is refused by its number.

    Parameters
    ----------
    path
        A file that such a log has written, or that is not there yet. One process writes to it at a time.
    sync
        Wait until the disk has them (``fsync``), once for the events of a step: then not even a power cut loses one.
        False leaves that to the system: a crash of the process loses none, one of the machine the last few.

    >>> import tempfile
    >>> import lowregret as lr
    >>> with tempfile.TemporaryDirectory() as folder, lr.EventLog(f"{folder}/events.jsonl") as log:
    ...     guard = lr.Guard(lr.matching(), horizon=100, on_switch=log)
    ...     for _ in range(5):
    ...         _ = guard.advise([0.9, 0.1])
    ...         guard.observe(1)
    ...     lr.EventLog.read(log.path) == guard.events
    True
    """

    def __init__(self, path: str | Path, *, sync: bool = True) -> None:
        self.path, self.sync = files.to_write(path), inputs.flag(sync, "sync")
        self._open = contextlib.ExitStack()
        lock = self.path.with_name(f".{self.path.name}.lock")
        self._open.enter_context(files.locked(lock, f"{self.path} is written to"))
        try:
            self._end = _lines(self.path) if self.path.exists() else 0
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            self._open.callback(os.close, self._file)
            self._mended()
        except BaseException:
            self._open.close()
            raise
        self._writer: int | None = os.getpid()

    def __call__(self, event: Switch | Return) -> None:
        """Append one event."""
        self.extend([event])

    def extend(self, events: Iterable[Switch | Return]) -> None:
        """Append events, all of them or, if the disk refuses, none."""
        lines = [_line(_told(event)) for event in events]
        if self._writer != os.getpid():
            raise ValueError(f"this log of {self.path} is closed, or was opened by another process")
        if not lines:
            return
        try:
            self._write(b"".join(lines))
        except BaseException as error:
            try:
                os.ftruncate(self._file, self._end)
            except OSError:
                self._writer = None  # what comes next would stand behind half a line
            if isinstance(error, OSError):
                raise OSError(error.errno, f"{self.path} could not be written: {error.strerror}") from error
            raise

    def close(self) -> None:
        """Let go of the file; another may write to it then."""
        self._writer = None
        self._open.close()

    @staticmethod
    def read(path: str | Path) -> list[Switch | Return]:
        """The events of a log, whoever is writing to it: those of its whole lines."""
        found = files.a_path(path)
        if not found.is_file():
            raise ValueError(
                f"path must be a log of events, and {found} is {'a folder' if found.is_dir() else 'not there'}"
            )
        lines: list[bytes] = []
        _lines(found, lines)
        try:
            return [_found(json.loads(line)) for line in lines]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{found} holds what is no event of a guard: {error}") from error

    def __enter__(self) -> "EventLog":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EventLog({str(self.path)!r}, sync={self.sync})"

    def __reduce__(self) -> Any:
        raise TypeError(f"a log that is being written to cannot be copied or pickled: {self.path}")

    def _mended(self) -> None:
        """Drop what a crash has left of a line, and begin a log that is new."""
        size = os.fstat(self._file).st_size
        if size > self._end:
            LOG.warning("%s: dropped its last %d bytes, which are no whole event", self.path, size - self._end)
            os.ftruncate(self._file, self._end)
        if self._end == 0:
            self._write(_HEADER)
            if self.sync:
                _in_folder(self.path.parent)
            return
        os.lseek(self._file, self._end - 1, os.SEEK_SET)
        if os.read(self._file, 1) != b"\n":
            self._write(b"\n")  # all but the end of the line was there

    def _write(self, data: bytes) -> None:
        os.lseek(self._file, self._end, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        if self.sync:
            os.fsync(self._file)
        self._end += len(data)


def _lines(path: Path, kept: list[bytes] | None = None) -> int:
    """Where the last whole line ends, 0 for a log that is yet to begin; its lines are put into ``kept``."""
    with open(path, "rb") as file:
        header = file.readline()
        if header != _HEADER:
            if _HEADER.startswith(header):
                return 0
            raise ValueError(f"path must be a log of events, or a file that is not there yet, and {path} is neither")
        end, torn, begin = len(_HEADER), None, len(_HEADER)
        for number, line in enumerate(file, 2):
            begin += len(line)
            body = line.removesuffix(b"\n")
            crc = _CRC.fullmatch(body[-18:])
            if crc is None or int(crc[1], 16) != zlib.crc32(body[:-18]):
                torn = number if torn is None else torn
                continue
            if torn is not None:
                raise ValueError(
                    f"{path}, line {torn} is damaged, and whole ones come after it: a crash leaves no such"
                )
            end = begin
            if kept is not None:
                kept.append(body)
    return end


def _told(event: Any) -> dict[str, Any]:
    if not isinstance(event, (Switch, Return)):
        raise ValueError(f"event must be a Switch or a Return, got {inputs.shown(event)}")
    told = {
        "event": type(event).__name__.lower(),
        **{name: as_json(value) for name, value in event._asdict().items()},
    }
    if _found(dict(told)) != event:
        raise ValueError(f"event must be as a guard tells it, got {inputs.shown(event)}")
    return told


def _found(told: dict[str, Any]) -> Switch | Return:
    kind = _KINDS[told.pop("event")]
    values = [told[name] for name in kind._fields]  # type: ignore[attr-defined]
    return event_from(values if kind is Switch else ["return", *values])


def _in_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder, where the system can say so."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
