"""By which number a stream is known: its place to begin with, and the same for good, whoever comes and goes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from .ledger import Event, name_of


class Numbers(NamedTuple):
    """The number of each stream along the first batch axis, rising; none is ever given twice."""

    held_N: np.ndarray
    given: int  # how many streams there have been


def numbers_of(numbers: Numbers | None, n: int) -> Numbers:
    """Where nobody has come or gone yet, the places themselves."""
    return Numbers(np.arange(n), n) if numbers is None else numbers


def numbered(fresh: tuple[Event, ...], numbers: Numbers | None) -> tuple[Event, ...]:
    """Events that name a stream by its place, by its number instead."""
    if numbers is None or not fresh:
        return fresh
    return tuple(event._replace(stream=_number(event.stream, numbers)) for event in fresh)


def _number(stream: Any, numbers: Numbers) -> Any:
    if isinstance(stream, tuple):
        return int(numbers.held_N[stream[0]]), *stream[1:]
    return int(numbers.held_N[stream])


class Naming(NamedTuple):
    """While it is open, a refusal of an entry (``inputs.misplaced``) says of which stream it is."""

    shape: tuple[int, ...]
    numbers: Numbers | None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        index = getattr(error, "index", ()) if isinstance(error, ValueError) else ()
        if self.shape and len(index) >= len(self.shape):
            stream = name_of(index[: len(self.shape)])
            number = stream if self.numbers is None else _number(stream, self.numbers)
            raise ValueError(f"{error} (stream {number})") from error


def places_of(index: np.ndarray, n: int, numbers: Numbers | None) -> np.ndarray:
    """Where the streams of these numbers stand."""
    if numbers is None:
        return inputs.tokens_of(index, n, "streams", shape=(index.size,))
    index = inputs.tokens_of(index, numbers.given, "streams", shape=(index.size,))
    places = np.searchsorted(numbers.held_N, index)
    gone = (places == n) | (numbers.held_N[np.minimum(places, n - 1)] != index) if n else np.ones(index.shape, bool)
    if gone.any():
        raise ValueError(f"streams must be among those that are here, and {int(index[gone][0])} has been retired")
    return places


def numbers_told(numbers: Numbers | None, told: Callable[[Any], Any]) -> dict[str, Any]:
    """As part of a guard's state; nothing, where nobody has come or gone."""
    return {} if numbers is None else {"streams": {"held": told(numbers.held_N), "given": numbers.given}}


def numbers_from(values: Any, batch_shape: tuple[int, ...]) -> Numbers | None:
    """What ``numbers_told`` told of this many streams."""
    if values is None:
        return None
    if not isinstance(values, dict) or values.keys() != {"held", "given"} or not batch_shape:
        raise ValueError("state_dict does not fit: streams must say which numbers are held, and how many were given")
    given = inputs.whole(values["given"], "given", least=0)
    try:
        held = np.asarray(values["held"])
    except (TypeError, ValueError):
        held = np.zeros((0, 0))
    right = held.shape == batch_shape[:1] and (held.dtype.kind in "iu" or not held.size)
    if not right or (held.size and (held[0] < 0 or held[-1] >= given or (held[1:] <= held[:-1]).any())):
        raise ValueError("state_dict does not fit: streams must have numbers that rise, each below how many were given")
    return Numbers(held.astype(np.int64), given)
