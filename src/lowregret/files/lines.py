"""Append-only files of JSON lines, each with a checksum: a crash at any byte tears the last line at most."""

import contextlib
import json
import logging
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .lock import locked
from .paths import to_write

LOG = logging.getLogger("lowregret")
_CRC = re.compile(rb',"crc":"([0-9a-f]{8})"}')


def line_of(values: dict[str, Any]) -> bytes:
    """One JSON object, with a checksum of all before it.

    >>> line_of({"a": 1})
    b'{"a":1,"crc":"a702fc6e"}\\n'
    """
    body = json.dumps(values, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def whole_lines(path: Path, begins: bytes, what: str, kept: list[bytes] | None = None) -> int:
    """Where the last whole line ends, 0 for a file that is yet to begin; its lines are put into ``kept``.

    Parameters
    ----------
    begins
        How the first line of such a file begins.
    what
        What it is called when another file is refused.
    """
    with open(path, "rb") as file:
        header = file.readline()
        if not _whole(header) or not header.startswith(begins) or not header.endswith(b"\n"):
            if not header.endswith(b"\n") and (header.startswith(begins) or begins.startswith(header)):
                return 0
            raise ValueError(f"path must be {what}, or a file that is not there yet, and {path} is neither")
        end = begin = len(header)
        torn = None
        if kept is not None:
            kept.append(header[:-1])
        for number, line in enumerate(file, 2):
            begin += len(line)
            if not _whole(line):
                torn = number if torn is None else torn
                continue
            if torn is not None:
                raise ValueError(
                    f"{path}, line {torn} is damaged, and whole ones come after it: a crash leaves no such"
                )
            end = begin
            if kept is not None:
                kept.append(line.removesuffix(b"\n"))
    return end


def _whole(line: bytes) -> bool:
    body = line.removesuffix(b"\n")
    crc = _CRC.fullmatch(body[-18:])
    return crc is not None and int(crc[1], 16) == zlib.crc32(body[:-18])


class Lines:
    """Such a file, open for appending; one process writes to it at a time.

    Parameters
    ----------
    header
        The first line of a file that is new; of one that is there, only how it ``begins`` must be the same.
    sync
        Wait until the disk has what is appended (``fsync``).
    keep
        Have the lines that were there in ``found``, the header first.
    """

    def __init__(
        self, path: Any, header: dict[str, Any], begins: bytes, what: str, *, sync: bool = True, keep: bool = False
    ) -> None:
        self.path, self.sync = to_write(path), sync
        self.found: list[bytes] = []
        self._open = contextlib.ExitStack()
        lock = self.path.with_name(f".{self.path.name}.lock")
        self._open.enter_context(locked(lock, f"{self.path} is written to"))
        try:
            self._end = whole_lines(self.path, begins, what, self.found if keep else None) if self.path.exists() else 0
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            self._open.callback(os.close, self._file)
            self._mended(line_of(header))
        except BaseException:
            self._open.close()
            raise
        self._writer: int | None = os.getpid()

    def append(self, values: Sequence[dict[str, Any]]) -> None:
        """Append lines, all of them or, if the disk refuses, none."""
        lines = [line_of(each) for each in values]
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

    def _mended(self, header: bytes) -> None:
        """Drop what a crash has left of a line, and begin a file that is new."""
        size = os.fstat(self._file).st_size
        if size > self._end:
            LOG.warning("%s: dropped its last %d bytes, which are no whole line", self.path, size - self._end)
            os.ftruncate(self._file, self._end)
        if self._end == 0:
            self._write(header)
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


def _in_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder, where the system can say so."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
