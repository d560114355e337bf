"""Files that are written whole or not at all: under another name first, flushed to the disk, then renamed.

The other name cannot be guessed, and a draft is always a new file. Its writer locks it until it is renamed, so what a
killed process left behind can be told from what another process is writing now.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ..arrays import Array, namespace, to_numpy
from .lock import hold, still

# What our safetensors files have in their header: a text about the tensors, and a digest of it and of them.


UNREADABLE = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)  # what safetensors says of odd headers
_LARGEST = 100_000_000  # bytes of a header: safetensors reads no larger one


def stamp(key: str, text: str, tensors: Mapping[str, Array]) -> dict[str, str]:
    """The metadata of a file: the text under its key, and the digest beside it. Tensors are contiguous, on the CPU."""
    return {key: text, _beside(key): _digest(text, tensors)}


def header_in(file: BinaryIO) -> dict[str, Any]:
    """The metadata of a file, from its beginning alone."""
    size = int.from_bytes(file.read(8), "little")
    return json.loads(file.read(min(size, _LARGEST))).get("__metadata__") or {}


def is_stamped(key: str, header: Mapping[str, Any]) -> bool:
    """Whether a header has a digest beside this key."""
    return _beside(key) in header


def intact(key: str, header: Mapping[str, Any], tensors: Mapping[str, Array]) -> bool:
    """Whether text and tensors are those that were written."""
    return header.get(_beside(key)) == _digest(header[key], tensors)


def _beside(key: str) -> str:
    return f"{key}.sha256"


def _digest(text: str, tensors: Mapping[str, Array]) -> str:
    """A digest of all that a file says: the text, and the name, type, shape and bytes of each tensor."""
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        kind = getattr(tensor.dtype, "str", str(tensor.dtype))
        found.update(repr((name, kind, tuple(tensor.shape))).encode())
        found.update(to_numpy(tensor.reshape(-1).view(namespace(tensor).uint8)).data)
    return found.hexdigest()


_MARK = r"([\w-]{8}|\d+(-\d+)?)"  # of a draft; the second as they once were
_SWEPT: set[Path] = set()  # by this process, before it first wrote there


def replace(path: Path, data: bytes) -> None:
    """Write this content to the file, or leave it as it was."""
    replace_all({path: data})


def replace_all(contents: Mapping[Path, bytes]) -> None:
    """Write these contents to the files, or leave all of them as they were.

    All are written beside their places before the first is renamed, so that a disk that fills up changes none. A link
    is followed and stays a link; what is not a file (a pipe, a terminal) is written to directly.
    """
    drafts: dict[Path, Path] = {}
    held = contextlib.ExitStack()
    try:
        for path, data in contents.items():
            with _named(path):
                target = Path(os.path.realpath(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.exists() and not target.is_file():
                    target.write_bytes(data)
                    continue
                draft, begun = _begun(target)
                held.callback(os.close, begun)
                drafts[target] = draft
                with open(begun, "wb", closefd=False) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                if target.exists():
                    shutil.copymode(target, draft)
        for target, draft in drafts.items():
            with _named(target):
                os.replace(draft, target)
    finally:
        for draft in drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink()
        held.close()


@contextlib.contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """A path for a program that writes files itself: what it leaves there is moved into place if nothing goes wrong.

    Files that it puts beside that path are moved too.
    """
    with _named(path):
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        (room, held), writer = _begun_room(target), os.getpid()
        try:
            yield room / target.name
            # The file itself comes last: by then what it refers to is there.
            for written in sorted(room.iterdir(), key=lambda file: file.name == target.name):
                place = target.with_name(written.name)
                with open(written, "rb+") as file:
                    os.fsync(file.fileno())
                if place.exists():
                    shutil.copymode(place, written)
                os.replace(written, place)
        finally:
            if os.getpid() == writer:  # a process that was forked meanwhile leaves it alone
                shutil.rmtree(room, ignore_errors=True)
                if held is not None:
                    os.close(held)


def sweep(*paths: Path) -> None:
    """Remove drafts of these files that killed processes left behind; what another is writing now stays."""
    for path in (Path(os.path.realpath(path)) for path in paths):
        _SWEPT.add(path)
        mine = re.compile(rf"\.{re.escape(path.name)}\.{_MARK}\.part")
        with contextlib.suppress(OSError):
            for name in os.listdir(path.parent):
                if mine.fullmatch(name):
                    _remove_left(path.with_name(name))


def _remove_left(draft: Path) -> None:
    """Remove it, unless a process holds it, or it is not a draft but a link."""
    try:
        file = os.open(draft, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return
    try:
        kind = os.fstat(file).st_mode
        if hold(file) and still(draft, file):
            if stat.S_ISDIR(kind):
                shutil.rmtree(draft, ignore_errors=True)
            elif stat.S_ISREG(kind):
                draft.unlink(missing_ok=True)
    finally:
        os.close(file)


def _begun(target: Path) -> tuple[Path, int]:
    """A new file beside its place, open and held."""
    while True:
        draft = _name(target)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if hold(file) is not False and still(draft, file):
            return draft, file
        os.close(file)  # another process removed it first


def _begun_room(target: Path) -> tuple[Path, int | None]:
    """A new private folder beside its place, held where folders can be."""
    while True:
        room = _name(target)
        room.mkdir(mode=0o700)
        if not hasattr(os, "O_DIRECTORY"):
            return room, None
        try:
            file = os.open(room, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        if hold(file) is not False and still(room, file):
            return room, file
        os.close(file)


def _name(target: Path) -> Path:
    if target not in _SWEPT:
        sweep(target)
    return target.with_name(f".{target.name}.{secrets.token_urlsafe(6)}.part")


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """What the system refuses, in a sentence that names the file."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:
            raise
        words = f"{path} could not be written: {error.strerror}. A file that was there is unchanged"
        raise OSError(error.errno, words) from error
