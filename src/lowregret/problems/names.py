"""Which state or action a value means: by its name, for every way that values come in (Section 2.2 numbers them)."""

import numbers
import unicodedata
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, beside, is_integral, to_numpy

_LISTED, _MOST = 8, 24  # names in a refusal, in a list of them
_MISSING = ("None", "nan", "NaT", "<NA>")  # as what is missing prints itself


class Positions(NamedTuple):
    """States that are given by their positions, whatever their names are: ``guard.observe(Positions([0, 2]))``."""

    at: Any


class Names:
    """Names of states (or actions) in their order, and which of them a value means: one rule everywhere.

    A value means the state whose name it is; a number is a name, never a position (``Positions`` are): states without
    names of their own are called 0, 1, 2, .... What is missing (None, NaN) is refused. These count as the same name:

    - texts that are the same but for blanks around them and the way in which Unicode spells an accent (NFC);
    - numbers that are equal, as numbers or written out: 1, 1.0, "1", "1.0" and "01";
    - bools: True, "True" and "true". They are not numbers: True is not 1, and neither "yes" nor "on".

    >>> Names(["1.0", "0.0"]).position(1), Names(["0", "1"]).position(1), Names(["no", "yes"]).position(1)
    (0, 1, None)
    """

    def __init__(self, names: Iterable[Any], what: str = "states") -> None:
        self.names, self.what = tuple(map(str, names)), what
        self._at: dict[Any, int] = {}
        for i, name in enumerate(self.names):
            first = self._at.setdefault(_meaning(name), i)
            if first != i:
                raise ValueError(f"{what} must have different names, got {self.names[first]!r} and {name!r}")
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
        listed = isinstance(values, (list, tuple))
        if self.unnamed and not listed and (type(values) is int or is_integral(inputs.array_of(values, name))):
            return inputs.tokens_of(values, len(self.names), name, shape=shape, like=like)
        # In a list NumPy would make 1 of True, and "1" of 1.
        each = np.array(values, dtype=object) if listed else np.asarray(to_numpy(inputs.array_of(values, name)))
        if shape is not None and each.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {each.shape}")
        found: dict[Any, int | None] = {}
        at_each = np.empty(each.size, dtype=np.int64)
        for i, value in enumerate(each.ravel()):
            key = type(value), str(value)
            if key not in found:
                found[key] = self.position(value)
            if (at := found[key]) is None:
                raise ValueError(f"{name} must be {self.refusal(value)}")
            at_each[i] = at
        return beside(at_each.reshape(each.shape), like)

    def refusal(self, value: Any) -> str:
        """What it must be, what it was, and what it may have meant."""
        S, shown = len(self.names), inputs.shown(value.item() if isinstance(value, np.generic) else value)
        if self.unnamed:
            wants = f"integers in 0..{S - 1}, {self.what} have no other names"
        else:
            few = ", ".join(map(inputs.shown, self.names[:_LISTED])) + (", ..." if S > _LISTED else "")
            wants = f"one of the {self.what} {few}"
        kind, meant = _meaning(value)
        why = ""
        if kind == "missing":
            why = ": it is missing"
        elif kind == "truth":
            why = f": a bool means {self.what} named True and False, and is not a number"
        elif kind == "number" and not self.unnamed:
            why = f": {self.what} that have names are given by name, or as lowregret.problems.Positions({shown})"
            why += f"; it may be the position of {self.names[int(meant)]!r}, or a code" if meant in range(S) else ""
        return f"{wants}, got {shown}{why}"


def _meaning(value: Any) -> tuple[str, Any]:
    """What a name or a value says, by kind: equal where it is the same."""
    if hasattr(value, "item") and not isinstance(value, np.generic):
        value = value.item()  # of one number: a narrow one of NumPy's own is what it prints
    text = unicodedata.normalize("NFC", str(value).strip())
    if text in _MISSING and not isinstance(value, str):
        return "missing", None
    if text.casefold() in ("true", "false"):
        return "truth", text.casefold() == "true"
    try:
        number = Decimal(text)  # what NumPy prints of a narrow float tells it from others, and no more
    except InvalidOperation:
        return "text", text
    return ("number", number) if number.is_finite() else ("text", text)


def by_name(names: Names, values: Any, what: str = "probs") -> Any:
    """Probabilities by name (a dict, a Series, a frame) in the order of the states; all others as they are.

    Labels that are the states' names decide the order. Labels of which only some are names of states are refused; the
    numbers that a package gives the rows of a frame are not names.
    """
    labels = _labels(values)
    if labels is None or (len(labels) != len(names.names) and not isinstance(values, dict)):
        return values
    at = {names.position(label): i for i, label in enumerate(labels)}
    if None in at or len(at) != len(names.names):
        if isinstance(values, dict) or set(at) != {None}:
            few = ", ".join(map(inputs.shown, labels[:_LISTED]))
            raise ValueError(f"{what} must have an entry for each of the {names}, by name, got {few}")
        return values
    order = [at[i] for i in range(len(at))]
    if isinstance(values, dict):
        return np.stack([np.asarray(values[labels[i]], dtype=np.float64) for i in order], axis=-1)
    if hasattr(values, "select"):
        return values.select([labels[i] for i in order])
    return values.iloc[:, order] if values.ndim == 2 else values.iloc[order]


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
    if type(values) is not int and to_numpy(inputs.array_of(values, name)).dtype.kind in "UO":
        each = np.array(values, dtype=object).ravel()
        if all(isinstance(value, str) for value in each):
            return names.positions(values, name, shape, like)
        if not all(isinstance(value, numbers.Integral) for value in each):
            raise ValueError(f"{name} must be positions or names of {names}, one kind, got {inputs.shown(values)}")
        values = each.astype(np.int64).reshape(np.shape(values))
    return inputs.tokens_of(values, len(names.names), name, shape=shape, like=like)
