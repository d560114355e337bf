"""An append-only file of JSON lines: after a crash at any byte, all lines but the last are whole."""

import contextlib
import json
import logging
import os
import re
import threading
import zlib
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from .lock import lock_of, locked
from .paths import to_write

LOG = logging.getLogger("lowregret")
_CRC = re.compile(rb',"crc":"([0-9a-f]{8})"}')


class Journal:
    """Lines of JSON at the end of a file, one writer at a time.

    Each line has a checksum. A crash can only cut the end of the file short: what is left of that line is dropped when
    the file is opened again, and no whole line is lost. A file with a damaged line elsewhere is refused, with the
    line's number.

    Parameters
    ----------
    path
        A file that a journal has written, or that is not there yet.
    kind
        What kind of lines they are: the first line says it, and a file of another kind is refused.
    what
        The same in a sentence, such as "a log of events".
    sync
        Wait until the lines are on the disk (``fsync``). False leaves that to the system.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Journal(f"{folder}/a.jsonl", "notes", "a book of notes") as book:
    ...     book.append([{"note": 1}, {"note": 2}])
    ...     lines_in(book.path, "notes", "a book of notes")
    [{'note': 1}, {'note': 2}]
    """

    def __init__(self, path: str | Path, kind: str, what: str, *, sync: bool = True) -> None:
        self.path, self.sync, self._header = to_write(path), sync, _header(kind)
        self._open = contextlib.ExitStack()
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"path must be {what}, or a file that is not there yet, and {self.path} is neither")
        self._open.enter_context(locked(lock_of(self.path), f"{self.path} is written to"))
        try:
            self._end = _read(self.path, self._header, what) if self.path.exists() else 0
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            self._open.callback(os.close, self._file)
            self._mended()
        except BaseException:
            self._open.close()
            raise
        self._writer: int | None = os.getpid()
        self._lock = threading.Lock()  # threads may share it: their lines must not overlap

    def append(self, values: Iterable[dict[str, Any]]) -> None:
        """Append lines, all of them or, if the disk refuses, none."""
        lines = [_line(one) for one in values]
        self._refuse_others()  # before the lock, which a process that was forked may find held for good
        with self._lock:
            self._refuse_others()
            if lines:
                self._append(lines)

    def _refuse_others(self) -> None:
        if self._writer != os.getpid():
            raise ValueError(f"this log of {self.path} is closed, or was opened by another process")

    def _append(self, lines: list[bytes]) -> None:
        try:
            self._write(b"".join(lines))
        except BaseException as error:
            try:
                os.ftruncate(self._file, self._end)
            except OSError:
                self._writer = None  # the next line would follow half a line
            if isinstance(error, OSError):
                raise OSError(error.errno, f"{self.path} could not be written: {error.strerror}") from error
            raise

    def close(self) -> None:
        """Let go of the file; another may write to it then."""
        if self._writer == os.getpid():
            with self._lock:  # a thread that is writing finishes its lines
                self._writer = None
        self._writer = None
        self._open.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _mended(self) -> None:
        """Drop what a crash has left of a line, and begin a file that is new."""
        size = os.fstat(self._file).st_size
        if size > self._end:
            LOG.warning("%s: dropped its last %d bytes, an unfinished line", self.path, size - self._end)
            os.ftruncate(self._file, self._end)
        if self._end == 0:
            self._write(self._header)
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


def lines_in(path: Path, kind: str, what: str) -> list[dict[str, Any]]:
    """The whole lines of a journal, even while it is being written."""
    kept: list[bytes] = []
    _read(path, _header(kind), what, kept)
    return [{name: value for name, value in json.loads(line).items() if name != "crc"} for line in kept]


def _line(values: dict[str, Any]) -> bytes:
    """One JSON object, with a checksum of all before it."""
    body = json.dumps(values, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def _header(kind: str) -> bytes:
    return _line({"lowregret": kind, "format": 1})


def _read(path: Path, expected: bytes, what: str, kept: list[bytes] | None = None) -> int:
    """Where the last whole line ends, 0 for an empty journal; its lines are put into ``kept``."""
    with open(path, "rb") as file:
        header = file.readline()
        if header != expected:
            if expected.startswith(header):
                return 0
            raise ValueError(f"path must be {what}, or a file that is not there yet, and {path} is neither")
        end, torn, begin = len(header), None, len(header)
        for number, line in enumerate(file, 2):
            begin += len(line)
            body = line.removesuffix(b"\n")
            crc = _CRC.fullmatch(body[-18:])
            if crc is None or int(crc[1], 16) != zlib.crc32(body[:-18]):
                torn = number if torn is None else torn
                continue
            if torn is not None:
                raise ValueError(
                    f"{path}, line {torn} is damaged, and whole lines come after it, so it was not a crash"
                )
            end = begin
            if kept is not None:
                kept.append(body)
    return end


def _in_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can say so."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
