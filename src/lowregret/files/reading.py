"""What a user hands over as a file: text or an array; a file that is neither is refused in a sentence."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from .paths import a_path
from .room import in_memory

_NO_TEXT = re.compile("[\0-\x08\x0e-\x1f]")  # control characters that no text has


def handed_over(path: Any, name: str, suffixes: tuple[str, ...]) -> Path:
    """A file that is there, is not empty, and ends in one of these."""
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
    """The array of a .npy file; one of Python objects is refused, since to read it is to run it."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{name} must be an array as numpy.save writes it, and {path} is not: {error}") from error
    if not isinstance(array, np.ndarray):  # several, in one file
        array.close()
        raise ValueError(f"{name} must be one array as numpy.save writes it, and {path} is an archive")
    return array
