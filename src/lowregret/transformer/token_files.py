"""Sequences out of files and lists: whole numbers, or names that stand for them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import files, inputs
from ..arrays import to_numpy

_WHOLE = re.compile(r"[+-]?\d{1,15}")
_BETWEEN = re.compile(r"[\s,;]+")


class Written(NamedTuple):
    """Sequences as they were found, one after the other."""

    tokens: np.ndarray  # int64, all of them
    lengths: list[int]
    states: tuple[str, ...] | None  # their names, where the file has names


def written(tokens: Any, states: Sequence[str] | None = None) -> Written:
    """The sequences of a file (its path), of an array ``[N, T]`` or ``[T]``, or of a list of sequences.

    A .npy file holds such an array. A .csv or .txt file has a sequence a line, its tokens separated by commas,
    semicolons or blanks; if every line has one token, they are one sequence.
    """
    if isinstance(tokens, (str, Path)):
        path = files.handed_over(tokens, "tokens", (".npy", ".csv", ".txt"))
        if path.suffix.lower() != ".npy":
            return _of_lines(path, states)
        tokens = files.array_in(path, "tokens")
    if isinstance(tokens, (list, tuple)) and tokens and all(np.ndim(row) == 1 for row in tokens):
        rows = [_integers(row, f"tokens[{i}]") for i, row in enumerate(tokens)]
    else:
        found = _integers(tokens, "tokens")
        if found.ndim not in (1, 2) or not found.size:
            raise ValueError(f"tokens must have shape [sequences, steps] or [steps], got {found.shape}")
        rows = [found] if found.ndim == 1 else list(found)
    return Written(np.concatenate(rows), list(map(len, rows)), None if states is None else tuple(states))


def _integers(values: Any, name: str) -> np.ndarray:
    array = to_numpy(inputs.array_of(values, name))
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers from 0 on, one for each state, got dtype {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() > inputs.MOST:
        raise ValueError(f"{name} must be whole numbers from 0 on, one for each state, got {array.max()}")
    return array.astype(np.int64)


def _of_lines(path: Path, states: Sequence[str] | None) -> Written:
    lines = files.text_in(path, "tokens").splitlines()
    words = [
        (at, [word for word in _BETWEEN.split(line) if word]) for at, line in enumerate(lines, start=1) if line.strip()
    ]
    rows = [row for _, row in words if row]
    if not rows:
        raise ValueError(f"tokens must hold something, and {path} has separators only")
    found = sorted({word for row in rows for word in row})
    if odd := {word for word in found if _is_fraction(word) and word not in (states or ())}:
        at, word = next((at, word) for at, row in words for word in row if word in odd)
        raise ValueError(f"tokens must be whole numbers or names, and line {at} of {path} has {inputs.shown(word)}")
    whole = [word for word in found if _WHOLE.fullmatch(word)]
    if whole and len(whole) < len(found) and states is None:
        name = next(word for word in found if word not in whole)
        raise ValueError(f"tokens must be all whole numbers or all names, and {path} has {whole[0]} and {name!r}")
    if len(whole) == len(found) and not (states is not None and set(found) <= set(states)):
        numbers = {word: inputs.whole(int(word), "tokens", least=0) for word in whole}
        named = None if states is None else tuple(states)
    else:
        named = tuple(found if states is None else states)
        if unknown := [word for word in found if word not in named]:
            raise ValueError(f"tokens must be among the states {', '.join(named)}, and {path} has {unknown[0]!r}")
        numbers = {name: i for i, name in enumerate(named)}
    if all(len(row) == 1 for row in rows):
        rows = [[row[0] for row in rows]]
    tokens = np.array([numbers[word] for row in rows for word in row], dtype=np.int64)
    return Written(tokens, list(map(len, rows)), named)


def _is_fraction(word: str) -> bool:
    """Whether a word is a number and not a whole one; NaN is such a number."""
    if _WHOLE.fullmatch(word):
        return False
    try:
        float(word)
    except ValueError:
        return False
    return True
