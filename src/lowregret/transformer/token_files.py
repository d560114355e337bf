"""Sequences out of files and lists: whole numbers, or names that stand for them."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import files, inputs
from ..arrays import to_numpy
from ..problems import Names

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
    names = None if states is None else Names(states)
    if isinstance(tokens, (list, tuple)) and tokens and all(np.ndim(row) == 1 for row in tokens):
        rows = [_integers(row, f"tokens[{i}]", names) for i, row in enumerate(tokens)]
    else:
        found = _integers(tokens, "tokens", names)
        if found.ndim not in (1, 2) or not found.size:
            raise ValueError(f"tokens must have shape [sequences, steps] or [steps], got {found.shape}")
        rows = [found] if found.ndim == 1 else list(found)
    return Written(np.concatenate(rows), list(map(len, rows)), None if names is None else names.names)


def _integers(values: Any, name: str, names: Names | None = None) -> np.ndarray:
    if names is not None and not names.unnamed:
        return to_numpy(names.positions(values, name))
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
    numbers, named = _known(found, path, states) if states is not None else _new(found, path, words)
    if all(len(row) == 1 for row in rows):
        rows = [[row[0] for row in rows]]
    tokens = np.array([numbers[word] for row in rows for word in row], dtype=np.int64)
    return Written(tokens, list(map(len, rows)), named)


def _known(found: list[str], path: Path, states: Sequence[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Which of the states each word is, by name."""
    names = Names(states)
    places = {word: names.position(word) for word in found}
    if unknown := [word for word, place in places.items() if place is None]:
        raise ValueError(f"tokens in {path} must be {names.refusal(unknown[0])}")
    return {word: place for word, place in places.items() if place is not None}, names.names


def _new(
    found: list[str], path: Path, words: list[tuple[int, list[str]]]
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Whole numbers as they are, or names in the order of the alphabet."""
    if odd := {word for word in found if _is_fraction(word)}:
        at, word = next((at, word) for at, row in words for word in row if word in odd)
        raise ValueError(f"tokens must be whole numbers or names, and line {at} of {path} has {inputs.shown(word)}")
    whole = [word for word in found if _WHOLE.fullmatch(word)]
    if whole and len(whole) < len(found):
        name = next(word for word in found if word not in whole)
        raise ValueError(f"tokens must be all whole numbers or all names, and {path} has {whole[0]} and {name!r}")
    if whole:
        return {word: inputs.whole(int(word), "tokens", least=0) for word in whole}, None
    return {name: i for i, name in enumerate(found)}, Names(found).names


def _is_fraction(word: str) -> bool:
    """Whether a word is a number and not a whole one; NaN is such a number."""
    if _WHOLE.fullmatch(word):
        return False
    try:
        float(word)
    except ValueError:
        return False
    return True
