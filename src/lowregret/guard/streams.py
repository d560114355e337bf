"""By what a stream is known: its name, or its place to begin with; the same for good, whoever comes and goes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import to_numpy
from .ledger import Event, name_of


class Labels(NamedTuple):
    """What each stream along the first batch axis is called: numbers that rise and are never given twice, or names."""

    held_N: np.ndarray  # whole numbers, or objects: names
    given: int  # how many streams there have been

    @property
    def named(self) -> bool:
        return self.held_N.dtype == object


def labels_of(labels: Labels | None, n: int) -> Labels:
    """Where nobody has a name and nobody has come or gone yet, the places themselves."""
    return Labels(np.arange(n), n) if labels is None else labels


def named(names: Any, among: Sequence[str] = ()) -> np.ndarray:
    """Names of streams, each once and none of those there are."""
    listed = names.tolist() if hasattr(names, "tolist") else names
    listed = list(listed) if isinstance(listed, (list, tuple)) else None
    if listed is None or not all(isinstance(name, str) and name for name in listed):
        raise ValueError(f"streams must be a list of names, got {inputs.shown(names)}")
    again = {name for name in listed if listed.count(name) > 1} if len(set(listed)) < len(listed) else set()
    again |= set(listed) & set(among)
    if again:
        raise ValueError(f"streams must have names of their own, and {sorted(again)[0]!r} is one of two")
    found = np.empty(len(listed), dtype=object)
    found[:] = listed
    return found


def relabelled(fresh: tuple[Event, ...], labels: Labels | None) -> tuple[Event, ...]:
    """Events that name a stream by its place, by what it is called instead."""
    if labels is None or not fresh:
        return fresh
    return tuple(event._replace(stream=_label(event.stream, labels)) for event in fresh)


def _label(stream: Any, labels: Labels) -> Any:
    if isinstance(stream, tuple):
        return _plain(labels.held_N[stream[0]]), *stream[1:]
    return _plain(labels.held_N[stream])


def _plain(label: Any) -> Any:
    return label if isinstance(label, str) else int(label)


class Naming(NamedTuple):
    """While it is open, a refusal of an entry (``inputs.misplaced``) says of which stream it is."""

    shape: tuple[int, ...]
    labels: Labels | None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        index = getattr(error, "index", ()) if isinstance(error, ValueError) else ()
        if self.shape and len(index) >= len(self.shape):
            stream = name_of(index[: len(self.shape)])
            label = stream if self.labels is None else _label(stream, self.labels)
            raise ValueError(f"{error} (stream {label})") from error


def streams_of(streams: Any, batch_shape: tuple[int, ...], labels: Labels | None) -> np.ndarray:
    """All streams for None, else those called so, or in a mask along the first batch axis: a mask of the batch."""
    if streams is None:
        return np.ones(batch_shape, dtype=bool)
    if batch_shape == ():
        raise ValueError("streams needs a guard with a batch axis: restart() takes none here")
    mask, n = np.zeros(batch_shape, dtype=bool), batch_shape[0]
    if isinstance(streams, str) or (isinstance(streams, (list, tuple)) and any(isinstance(s, str) for s in streams)):
        index = _places_named([streams] if isinstance(streams, str) else list(streams), n, labels)
    else:
        index = np.atleast_1d(to_numpy(inputs.array_of(streams, "streams")))
        if index.size == 0:
            index = index.astype(np.int64)
        if index.dtype != bool:
            index = _places(index, n, labels)
        elif index.shape != (n,):
            raise ValueError(f"streams is a mask of shape {index.shape}, the guard has {n} along its first axis")
    mask[index] = True
    return mask


def _places_named(names: list[Any], n: int, labels: Labels | None) -> np.ndarray:
    place = {} if labels is None or not labels.named else {name: i for i, name in enumerate(labels.held_N.tolist())}
    lost = [name for name in names if name not in place]
    if lost:
        here = f"be one of {inputs.shown(list(place))}" if place else f"lie in 0..{n - 1}, these have no names"
        raise ValueError(f"streams must {here}, got {inputs.shown(lost[0])} of dtype str")
    return np.array([place[name] for name in names], dtype=np.int64)


def _places(index: np.ndarray, n: int, labels: Labels | None) -> np.ndarray:
    """Where the streams of these numbers stand; of streams with names, the places themselves."""
    if labels is None or labels.named:
        places: np.ndarray = inputs.tokens_of(index, n, "streams", shape=(index.size,))
        return places
    index = inputs.tokens_of(index, labels.given, "streams", shape=(index.size,))
    places = np.searchsorted(labels.held_N, index)
    gone = (places == n) | (labels.held_N[np.minimum(places, n - 1)] != index) if n else np.ones(index.shape, bool)
    if gone.any():
        raise ValueError(f"streams must be among those that are here, and {int(index[gone][0])} has been retired")
    return places


def labels_told(labels: Labels | None, told: Callable[[Any], Any]) -> dict[str, Any]:
    """As part of a guard's state; nothing, where streams have no names and nobody has come or gone."""
    if labels is None:
        return {}
    held = labels.held_N.tolist() if labels.named else told(labels.held_N)
    return {"streams": {"held": held, "given": labels.given}}


def labels_from(values: Any, batch_shape: tuple[int, ...], mine: Labels | None) -> Labels | None:
    """What ``labels_told`` told of this many streams, which have names if and only if ``mine`` have."""
    have_names = mine is not None and mine.named
    held: Any = values.get("held") if isinstance(values, dict) else None
    theirs = isinstance(held, list) and (isinstance(held[0], str) if held else have_names)
    if theirs != have_names:
        told = "have names, and its own have none" if have_names else "have no names, and its own have"
        raise ValueError(f"state_dict was made by a guard that differs in: streams (those of this one {told})")
    if values is None:
        return None
    if not isinstance(values, dict) or values.keys() != {"held", "given"} or not batch_shape:
        raise ValueError("state_dict does not fit: streams must say which numbers are held, and how many were given")
    given = inputs.whole(values["given"], "given", least=0)
    if have_names:
        if len(held) != batch_shape[0] or given < len(held):
            raise ValueError(f"state_dict does not fit: streams must have {batch_shape[0]} names")
        return Labels(named(held), given)
    try:
        held = np.asarray(held)
    except (TypeError, ValueError):
        held = np.zeros((0, 0))
    right = held.shape == batch_shape[:1] and (held.dtype.kind in "iu" or not held.size)
    if not right or (held.size and (held[0] < 0 or held[-1] >= given or (held[1:] <= held[:-1]).any())):
        raise ValueError("state_dict does not fit: streams must have numbers that rise, each below how many were given")
    return Labels(held.astype(np.int64), given)
