"""Files: written whole or not at all, never over an input, by one process at a time; what is read is checked first."""

import contextlib
import errno
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

try:
    import fcntl
except ModuleNotFoundError:  # on Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]

_NO_TEXT = re.compile("[\0-\x08\x0e-\x1f]")  # control characters that no text has


# Where something may be written, checked before the work rather than after it


def a_path(path: Any) -> Path:
    """The name of a file or folder; anything else is refused.

    >>> a_path("results/demo").name
    'demo'
    """
    if not isinstance(path, (str, os.PathLike)) or "\0" in str(path):
        raise ValueError(f"path must be the name of a file, got {path!r}")
    name: str = os.fspath(path)
    return Path(name)


def to_write(given: Any, suffix: str | None = None) -> Path:
    """A path at which a file can be written: not a folder, and not below a file."""
    path = a_path(given)
    if suffix is not None and path.suffix != suffix:
        raise ValueError(f"path must end in {suffix}, got {str(path)!r}")
    if os.path.isdir(path):
        raise ValueError(f"path must be a file, and {path} is a folder")
    in_folder(path.parent)
    return path


def in_folder(folder: Path) -> None:
    """A folder that is there or can be made: nothing on the way to it is a file."""
    there = next((part for part in (folder, *folder.parents) if os.path.exists(part)), folder)
    if os.path.exists(there) and not os.path.isdir(there):
        raise ValueError(f"{there} is a file: there can be no folder {folder}")


def writable(path: Path) -> None:
    """Try whether a file can be written there, and leave nothing behind.

    Permissions are not enough: a read-only disk or a name that is too long shows only when it is tried.
    """
    path = Path(os.path.realpath(path))
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, f"{path} cannot be written: {os.strerror(errno.EACCES)}")
    if os.path.exists(path) and not os.path.isfile(path):
        return  # a pipe or a terminal: it is written to as it is
    made = [part for part in path.parents if not os.path.lexists(part)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass
    except OSError as error:
        raise OSError(error.errno, f"{path} cannot be written: {error.strerror}") from error
    finally:
        for part in made:
            with contextlib.suppress(OSError):
                part.rmdir()


def apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse to write two things to one path, or over what is read; links of both kinds are followed.

    Parameters
    ----------
    outputs, inputs
        Paths by the name that the user knows them by; None: not given.

    >>> apart({"--out": Path("a.json")}, {"the model": Path("./a.json")})
    Traceback (most recent call last):
    ValueError: --out must be another path than the model, got a.json for both
    """
    seen = [(name, path) for name, path in inputs.items() if path is not None]
    for name, path in outputs.items():
        if path is None:
            continue
        for other, taken in seen:
            both_there = path.exists() and taken.exists()
            if os.path.realpath(path) == os.path.realpath(taken) or (both_there and path.samefile(taken)):
                raise ValueError(f"{name} must be another path than {other}, got {path} for both")
        seen.append((name, path))


@contextlib.contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file ``path`` within the block; refuse with ``busy`` where another process holds it.

    The system holds the lock as long as the process lives, so nothing need be removed by hand after a kill.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = os.path.samestat(os.fstat(file.fileno()), os.stat(path))  # its holder may just have removed it
        except (BlockingIOError, FileNotFoundError):
            is_free = False
        if not is_free:
            raise ValueError(f"{busy} by another process (lock {path})")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


# Writing


def replace(path: Path, data: bytes) -> None:
    """Write this content to the file, or leave it as it was."""
    replace_all({path: data})


def replace_all(contents: Mapping[Path, bytes]) -> None:
    """Write these contents to the files, or leave all of them as they were.

    All are written beside their places before the first is renamed, so that a disk that fills up changes none. A link
    is followed and stays a link; what is not a file (a pipe, a terminal) is written to directly.
    """
    drafts: dict[Path, Path] = {}
    try:
        for path, data in contents.items():
            with _named(path):
                target = Path(os.path.realpath(path))
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.exists() and not target.is_file():
                    target.write_bytes(data)
                    continue
                draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
                with open(draft, "xb") as file:
                    drafts[target] = draft
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


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """What the system refuses, in a sentence that names the file."""
    try:
        yield
    except OSError as error:
        words = f"{path} could not be written: {error.strerror or error}. A file that was there is unchanged"
        raise OSError(error.errno, words) from error


# Reading


def handed_over(given: Any, name: str, suffixes: tuple[str, ...]) -> Path:
    """A file that is there, is not empty, and has one of these endings."""
    path = a_path(given)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{name} must be a file that ends in {' or '.join(suffixes)}, got {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"{name} must be a file, and {path} is {'a folder' if path.is_dir() else 'not there'}")
    if path.stat().st_size == 0:
        raise ValueError(f"{name} must hold something, and {path} is empty")
    return path


def text_in(path: Path, name: str) -> str:
    """The text of a file, UTF-8; a byte order mark, as spreadsheets write one, is left out."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} must be text in UTF-8, and {path} is not: {error}") from None
    if found := _NO_TEXT.search(text):
        raise ValueError(f"{name} must be text, and {path} has the character {found.group()!r}")
    if not text.strip():
        raise ValueError(f"{name} must hold something, and {path} has only blanks")
    return text


def array_in(path: Path, name: str) -> np.ndarray:
    """The array in a .npy file; one of Python objects is refused, since reading it would run code."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{name} must be an array as numpy.save writes it, and {path} is not: {error}") from error
    if not isinstance(array, np.ndarray):  # several, in one file
        array.close()
        raise ValueError(f"{name} must be one array as numpy.save writes it, and {path} is an archive")
    return array


def in_memory(n_bytes: float, what: str) -> None:
    """Refuse what takes more memory than there is, rather than be killed halfway.

    >>> in_memory(1e18, "size")
    Traceback (most recent call last):
    ValueError: size takes 931322575 GiB, more than the memory of this machine
    """
    limits = []
    with contextlib.suppress(OSError, ValueError):  # "max": there is no limit
        limits.append(float(Path("/sys/fs/cgroup/memory.max").read_text()))
    with contextlib.suppress(AttributeError, OSError, ValueError):  # not on every system
        limits.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    if n_bytes > min(limits, default=float("inf")):
        raise ValueError(f"{what} takes {n_bytes / 2**30:.0f} GiB, more than the memory of this machine")
