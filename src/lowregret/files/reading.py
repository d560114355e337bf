"""Files from a user, text or an array; a file that is neither is refused in a sentence."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from .paths import a_path

# Whether there is room in memory and on the disk: a refusal beats being killed halfway.


def in_memory(n_bytes: float, what: str, have: float | None = None) -> None:
    """Refuse what takes more memory than there is (or than ``have``).

    >>> in_memory(1e18, "size")
    Traceback (most recent call last):
    ValueError: size takes 931322575 GiB, more than the memory of this machine
    """
    if n_bytes > (memory() if have is None else have):
        raise ValueError(f"{what} takes {n_bytes / 2**30:.0f} GiB, more than the memory of this machine")


def on_disk(n_bytes: float, what: str, folder: Path) -> None:
    """Refuse what takes more than is free where it is to be written."""
    there = next((part for part in (folder, *folder.resolve().parents) if part.is_dir()), Path("."))
    free = shutil.disk_usage(there).free
    if n_bytes > free:
        raise ValueError(f"{what} takes {n_bytes / 2**20:.0f} MiB, and {there} has {free / 2**20:.0f} MiB left")


def memory() -> float:
    """The memory of this machine in bytes, or the part of it that we may use; infinite where that is not known."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        limit = "max"
    try:
        all_of_it = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        all_of_it = 0
    return min(float(all_of_it or "inf"), float(limit) if limit.isdecimal() else float("inf"))


_NO_TEXT = re.compile("[\0-\x08\x0e-\x1f]")  # control characters that no text has


def handed_over(path: Any, name: str, suffixes: tuple[str, ...]) -> Path:
    """A file that is there, is not empty, and has one of these endings."""
    path = a_path(path)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{name} must be a file that ends in {' or '.join(suffixes)}, got {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"{name} must be a file, and {path} is {'a folder' if path.is_dir() else 'not there'}")
    if path.stat().st_size == 0:
        raise ValueError(f"{name} must hold something, and {path} is empty")
    in_memory(8 * path.stat().st_size, f"{name} {path}")
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
