"""Where something may be written, checked before the work rather than after it."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def a_path(path: Any) -> Path:
    """The name of a file or folder; anything else is refused.

    >>> a_path("results/demo").name
    'demo'
    """
    try:
        found = Path(path)
    except TypeError:
        raise ValueError(f"path must be the name of a file, got {path!r}") from None
    if "\0" in str(found):
        raise ValueError(f"path must be the name of a file, got {path!r}")
    return found


def to_write(path: Any, suffix: str | None = None) -> Path:
    """A path at which a file can be written: not a folder, and not below a file."""
    path = a_path(path)
    if suffix is not None and path.suffix != suffix:
        raise ValueError(f"path must end in {suffix}, got {str(path)!r}")
    if os.path.isdir(path):
        raise ValueError(f"path must be a file, and {path} is a folder")
    in_folder(path.parent)
    return path


def in_folder(folder: Path) -> Path:
    """A folder that is there or can be made: nothing on the way to it is a file."""
    there = next((part for part in (folder, *folder.parents) if os.path.exists(part)), folder)
    if os.path.exists(there) and not os.path.isdir(there):
        raise ValueError(f"{there} is a file: there can be no folder {folder}")
    return folder


def writable(*paths: Path | None, folder: bool = False) -> None:
    """Try whether files can be written there (or, with ``folder``, in there), and leave nothing behind.

    Permissions are not enough: a read-only disk or a name that is too long shows only when it is tried.
    """
    for path in paths:
        if path is None:
            continue
        path = Path(os.path.realpath(path))
        if not folder and os.path.exists(path) and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, f"{path} cannot be written: {os.strerror(errno.EACCES)}")
        if not folder and os.path.exists(path) and not os.path.isfile(path):
            continue  # a pipe or a terminal: it is written to as it is
        place = path if folder else path.parent
        made = [part for part in (place, *place.parents) if not os.path.lexists(part)]
        try:
            place.mkdir(parents=True, exist_ok=True)
            prefix = "." if folder else f".{path.name}."
            descriptor, draft = tempfile.mkstemp(prefix=prefix, suffix=".part", dir=place)
            os.close(descriptor)
            Path(draft).unlink(missing_ok=True)  # another process may have removed it already
        except OSError as error:
            raise OSError(error.errno, f"{path} cannot be written: {error.strerror}") from error
        finally:
            for part in made:
                with contextlib.suppress(OSError):
                    part.rmdir()


def apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse to write two things to one path, or over what is read.

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
            if same(path, taken):
                raise ValueError(f"{name} must be another path than {other}, got {path} for both")
        seen.append((name, path))


def same(one: Path, other: Path) -> bool:
    """Whether two names mean one file: links of both kinds are followed, and it need not be there yet."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return False
