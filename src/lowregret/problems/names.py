"""Which state or action a value means: by its name, for every way that values come in (Section 2.2 numbers them)."""

import datetime
import numbers
import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, beside, is_integral, to_numpy

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)? ?([+-]\d\d:?\d\d|Z|UTC)?)?", re.ASCII)
_LISTED, _MOST = 8, 24  # names in a refusal, in a list of them


class Positions(NamedTuple):
    """States that are given by their positions, whatever their names are: ``guard.observe(Positions([0, 2]))``."""

    at: Any


class Names:
    """Names of states (or actions) in their order, and which of them a value means: one rule everywhere.

    A value means the state whose name it is. States without names of their own are called 0, 1, 2, ..., so their
    numbers are their names; where states have names, a number that is not one of them is refused, and never taken for a
    position. These count as the same name:

    - texts that are the same but for blanks around them and the way in which Unicode spells an accent (NFC);
    - numbers that are equal, as numbers or written out: 1, 1.0, "1", "1.0" and "01";
    - bools: True, "True" and "true". They are not numbers: True is not 1, and neither "yes" nor "on";
    - dates and times that are the same, written as ISO 8601 does: a date is its midnight.

    No value means two states, since names that count as the same are refused. What is missing (None, NaN) is refused.
    ``Positions`` are taken as positions.

    Parameters
    ----------
    names
        At least one, all different.
    what
        What they are the names of.

    >>> Names(["1.0", "0.0"]).position(1), Names(["0", "1"]).position(1), Names(["no", "yes"]).position(1)
    (0, 1, None)
    """

    def __init__(self, names: Iterable[Any], what: str = "states") -> None:
        self.names, self.what = tuple(map(str, names)), what
        self._at: dict[Any, int] = {}
        for i, name in enumerate(self.names):
            first = self._at.setdefault(_meaning(name), i)
            if first != i:
                same = f"{self.names[first]!r} and {name!r}, which are the same" if self.names[first] != name else ""
                raise ValueError(f"{what} must have different names, got {same or f'{inputs.shown(name)} twice'}")
        self.unnamed = list(self._at) == [("number", i) for i in range(len(self.names))]

    def __str__(self) -> str:
        few = ", ".join(self.names[:_MOST]) + ", ..." * (len(self.names) > _MOST)
        return f"{self.what}: {few}"

    def position(self, value: Any) -> int | None:
        """The position of the name that a value means; None: it means none of them."""
        return self._at.get(_meaning(value))

    def positions(self, values: Any, name: str, shape: tuple[int, ...] | None = None, like: Array | None = None) -> Any:
        """The position of each value as int64, of the given ``shape`` if any, as an array like ``like`` if given."""
        if isinstance(values, Positions):
            return inputs.tokens_of(values.at, len(self.names), name, shape=shape, like=like)
        if self.unnamed and (type(values) is int or (type(values) is np.ndarray and values.dtype.kind in "iu")):
            return inputs.tokens_of(values, len(self.names), name, shape=shape, like=like)  # the usual case
        array = inputs.array_of(values, name)
        if self.unnamed and not isinstance(values, (list, tuple)) and is_integral(array):
            return inputs.tokens_of(array, len(self.names), name, shape=shape, like=like)
        each = _one_by_one(values, array)
        if shape is not None and each.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {each.shape}")
        found: dict[Any, int] = {}
        # Narrow floats and times are not what they were as Python's own.
        listed = each.ravel().tolist() if each.dtype.kind in "biuUO" else list(each.ravel())
        at_each = np.array([self._found(value, found, name) for value in listed], dtype=np.int64)
        return beside(at_each.reshape(each.shape), like)

    def _found(self, value: Any, found: dict[Any, int], name: str) -> int:
        try:
            known = found.get((type(value), value))  # True and 1 are the same key without their types
        except Exception:  # what has no hash
            known = None
        if known is None:
            known = self.position(value)
            if known is None:
                raise ValueError(f"{name} must be {self.refusal(value)}")
            found[type(value), value] = known
        return known

    def refusal(self, value: Any) -> str:
        """What it must be, what it was, and what it may have meant."""
        S, shown = len(self.names), inputs.shown(_plain(value))
        if self.unnamed:
            wants = f"integers in 0..{S - 1}, {self.what} have no other names"
        else:
            few = ", ".join(map(inputs.shown, self.names[:_LISTED])) + (", ..." if S > _LISTED else "")
            wants = f"one of the {self.what} {few}"
        kind, meant = _meaning(value)
        if kind == "missing":
            return f"{wants}, got {shown}: it is missing"
        if kind == "truth":
            return f"{wants}, got {shown}: a bool means {self.what} named True and False, and is not a number"
        if kind == "number" and not self.unnamed:
            theirs = f"; it may be the position of {self.names[int(meant)]!r}, or a code" if meant in range(S) else ""
            how = f"{self.what} that have names are given by name, or as lowregret.problems.Positions({shown})"
            return f"{wants}, got {shown}: {how}{theirs}"
        return f"{wants}, got {shown}"


def by_name(names: Names, values: Any, what: str = "probs") -> Any:
    """Probabilities by name (a dict, a Series, a frame) in the order of the states; all others as they are.

    Labels that are the states' names decide the order. Labels of which only some are names of states are refused; the
    numbers that a package gives the rows of a frame are not names.
    """
    labels = _labels(values)
    if labels is None or (len(labels) != len(names.names) and not isinstance(values, dict)):
        return values
    places = [names.position(label) for label in labels]
    if sorted(place for place in places if place is not None) != list(range(len(names.names))) or None in places:
        if isinstance(values, dict) or any(place is not None for place in places):
            few = ", ".join(map(inputs.shown, labels[:_LISTED]))
            raise ValueError(f"{what} must have an entry for each of the {names}, by name, got {few}")
        return values
    order = np.argsort(np.array(places, dtype=np.int64)).tolist()
    if isinstance(values, dict):
        return np.stack([np.asarray(values[labels[i]], dtype=np.float64) for i in order], axis=-1)
    if hasattr(values, "iloc"):
        return values.iloc[:, order] if values.ndim == 2 else values.iloc[order]
    return values.select([labels[i] for i in order])


def _labels(values: Any) -> list[Any] | None:
    """What the entries are called; None: nothing."""
    package = type(values).__module__.split(".")[0]
    if isinstance(values, dict):
        return list(values)
    if package == "pandas" and values.ndim in (1, 2):
        return labels_along(values.columns if values.ndim == 2 else values.index)
    return list(values.columns) if package == "polars" and hasattr(values, "columns") else None


def labels_along(axis: Any) -> list[Any] | None:
    """The names along an axis of a pandas frame; None: they are just numbers."""
    return None if type(axis).__name__ == "RangeIndex" else axis.tolist()


def actions_of(
    names: Names, values: Any, name: str, shape: tuple[int, ...] | None = None, like: Array | None = None
) -> Any:
    """Positions of actions that were taken: a number is a position, as ``act`` gives it, and a text is a name."""
    if type(values) is int:
        return inputs.tokens_of(values, len(names.names), name, shape=shape, like=like)
    array = to_numpy(inputs.array_of(values, name))
    if array.dtype.kind == "O" or (array.dtype.kind == "U" and isinstance(values, (list, tuple))):
        each = _one_by_one(values, array).ravel().tolist()  # in a list NumPy makes texts of numbers beside texts
        if all(isinstance(value, numbers.Integral) and not isinstance(value, bool) for value in each):
            values = array = array.astype(np.int64)
        elif not all(isinstance(value, str) for value in each):
            raise ValueError(f"{name} must be positions or names of {names}, one kind, got {inputs.shown(values)}")
    if array.dtype.kind in "UO":
        return names.positions(values, name, shape, like)
    return inputs.tokens_of(values, len(names.names), name, shape=shape, like=like)


def numbers_apart(values: Iterable[float], digits: int) -> list[str]:
    """Different numbers as names: with this many digits, or as many more as tell them apart.

    >>> numbers_apart([0.25, 0.5], 2), numbers_apart([0.25, 0.2501], 2)
    (['0.25', '0.5'], ['0.25', '0.2501'])
    """
    listed = [float(value) for value in values]
    short = [f"{value:.{digits}g}" for value in listed]
    return short if len(set(short)) == len(short) else list(map(repr, listed))


def _one_by_one(values: Any, array: Array) -> np.ndarray:
    """The values unconverted: in a list NumPy would make 1 of True, and "1" of 1."""
    if not isinstance(values, (list, tuple)):
        return np.asarray(to_numpy(array))
    if array.ndim == 1:
        return np.fromiter(values, dtype=object, count=len(values))
    rows = [_one_by_one(row, part) for row, part in zip(values, array, strict=True)]
    return np.stack(rows) if rows else np.empty(array.shape, dtype=object)


def _plain(value: Any) -> Any:
    """A scalar of an array package as Python has it."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _meaning(value: Any) -> tuple[str, Any]:
    """What a name or a value says, by kind: equal where it is the same."""
    if isinstance(value, str):
        return _of_text(str(value))
    if isinstance(value, np.datetime64):
        return ("missing", None) if np.isnat(value) else _of_text(str(value))
    if isinstance(value, np.floating):
        return _number(str(value))  # as short as its own precision tells it from others
    value = _plain(value)
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, int):
        return "number", value
    if isinstance(value, (float, Decimal)):
        return _number(str(value))
    if isinstance(value, numbers.Rational):
        return "number", value
    if value is None or _is_missing(value):
        return "missing", None
    if isinstance(value, (datetime.date, datetime.datetime)):
        return _of_text(value.isoformat())
    try:
        return _of_text(str(value))
    except Exception:  # a caller's object may raise anything when it is printed
        return "unknown", id(value)


def _of_text(text: str) -> tuple[str, Any]:
    text = unicodedata.normalize("NFC", text.strip())
    if text.casefold() in ("true", "false"):
        return "truth", text.casefold() == "true"
    if _NUMBER.fullmatch(text):
        return _number(text)
    if _TIME.fullmatch(text):
        return _time(text)
    return "text", text


def _number(text: str) -> tuple[str, Any]:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return "text", text
    return ("number", number) if number.is_finite() else ("missing" if number.is_nan() else "text", str(number))


def _time(text: str) -> tuple[str, Any]:
    """Times in different zones are kept apart: a day begins at another time in each."""
    found = _TIME.fullmatch(text)
    assert found is not None
    day, clock, seconds, parts, zone = found.groups()
    zone = None if zone is None else "+00:00" if zone in ("Z", "UTC") else f"{zone[:3]}:{zone[-2:]}"
    return "time", (day, clock or "00:00", seconds or "00", (parts or "").rstrip("0"), zone)


def _is_missing(value: Any) -> bool:
    """NaN, NaT and their kin are not equal to themselves, or will not say."""
    try:
        return bool(value != value)
    except Exception:
        return True
