"""Memories as values: select streams from them, write them down, read them back."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import inputs
from .arrays import Array, device, namespace, to_numpy


def take(memory: Any, index: Any) -> Any:
    """Select, reorder or repeat the streams of a memory along its first batch axis.

    ``index`` is a slice, a list of indices or a boolean mask; the result is a memory of the same kind.

    >>> from lowregret import PolyaUrn
    >>> urn = PolyaUrn(2)
    >>> memory = urn.update(urn.start((2,)), [0, 1])
    >>> urn.predict(take(memory, [1, 1, 0]))[:, 1].round(3).tolist()
    [0.667, 0.667, 0.333]
    """
    if any(leaf.ndim == 0 for leaf in _leaves(memory)):
        raise ValueError("take needs a memory with a batch axis: start it with a batch_shape such as (1,)")
    if isinstance(memory, tuple):
        return _like(memory, [take(leaf, index) for leaf in memory])
    if memory is None:
        return None
    xp, n = namespace(memory), memory.shape[0]
    if isinstance(index, slice):
        if index.step is None or index.step > 0:
            return memory[index]
        index = np.arange(n)[index]  # torch slices forwards only
    chosen = to_numpy(inputs.array_of(index, "index"))
    if chosen.size == 0:
        chosen = chosen.astype(np.int64)
    if chosen.dtype == bool:
        if chosen.shape != (n,):
            raise ValueError(f"index is a mask of shape {chosen.shape}, the memory has {n} streams")
        chosen = np.flatnonzero(chosen)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
        raise ValueError(f"index must be a slice, a list of stream indices or a mask, got {inputs.shown(index)}")
    if chosen.size and (chosen.min() < -n or chosen.max() >= n):
        raise ValueError(f"index must lie in 0..{n - 1} ({n} streams), got {chosen.min()} to {chosen.max()}")
    chosen = chosen.astype(np.int64) % max(n, 1)
    return xp.take(memory, xp.asarray(chosen, device=device(memory)), axis=0)


def end_to_end(memories: list[Any]) -> Any:
    """The streams of several memories of the same kind, one after the other along their first batch axis."""
    if isinstance(memories[0], tuple):
        return _like(memories[0], [end_to_end(list(parts)) for parts in zip(*memories, strict=True)])
    return None if memories[0] is None else namespace(memories[0]).concat(memories, axis=0)


def each(memory: Any, change: Callable[[Array], Array]) -> Any:
    """The memory with every array of it changed."""
    if isinstance(memory, tuple):
        return _like(memory, [each(leaf, change) for leaf in memory])
    return None if memory is None else change(memory)


def where(condition: Array, yes: Any, no: Any) -> Any:
    """Per stream, one of two memories of the same kind; ``condition`` has the batch shape."""
    few = np.nonzero(condition) if isinstance(condition, np.ndarray) and condition.ndim else None
    return _where(condition, few, yes, no)


def _where(condition: Array, few: tuple[np.ndarray, ...] | None, yes: Any, no: Any) -> Any:
    if isinstance(yes, tuple):
        return _like(yes, [_where(condition, few, a, b) for a, b in zip(yes, no, strict=True)])
    if yes is None:
        return None
    if yes.shape != no.shape:
        raise ValueError(f"streams of different ages cannot share this memory: shapes {yes.shape} and {no.shape}")
    if few is not None:  # often one copy of thousands: choosing cell by cell would take several times as long
        chosen = no.copy(order="K")
        chosen[few] = yes[few]
        return chosen
    mask = namespace(condition).reshape(condition, (*condition.shape, *(1,) * (yes.ndim - condition.ndim)))
    return namespace(yes).where(mask, yes, no)


def joined(template: Any, parts: Sequence[Any]) -> Any:
    """Memories side by side along the first batch axis; ``template`` is a fresh one of them all, of that length."""
    if isinstance(template, tuple):
        return _like(template, [joined(t, leaves) for t, *leaves in zip(template, *parts, strict=True)])
    if template is None:
        return None
    ages = {tuple(part.shape[1:]) for part in parts if part.shape[0]}
    if len(ages) > 1:
        raise ValueError(f"streams of different ages cannot share this memory: shapes {sorted(ages)} per stream")
    xp, grown = namespace(template), next(iter(ages), tuple(template.shape[1:]))
    if grown == tuple(template.shape[1:]):
        own = xp.empty_like(template)  # its axes lie in memory as the template's do: how sums round may depend on it
    else:
        own = xp.empty((template.shape[0], *grown), dtype=template.dtype, device=device(template))
    begin = 0
    for part in parts:
        own[begin : begin + part.shape[0], ...] = part
        begin += part.shape[0]
    return own


def row_of(memory: Any, index: Array) -> Any:
    """From a memory with one row per context, ``[..., C, ...]``, the row of each stream's context, ``[..., ...]``."""
    if isinstance(memory, tuple):
        return _like(memory, [row_of(leaf, index) for leaf in memory])
    if memory is None:
        return None
    if index.ndim == 0:
        return memory[int(index)]
    return memory[(*_places(index), index)]


def with_row(memory: Any, index: Array, row: Any) -> Any:
    """A copy of the memory with these rows in place of those of each stream's context."""
    if isinstance(memory, tuple):
        return _like(memory, [with_row(leaf, index, part) for leaf, part in zip(memory, row, strict=True)])
    if memory is None:
        return None
    after = namespace(memory).asarray(memory, copy=True)
    after[int(index) if index.ndim == 0 else (*_places(index), index)] = row
    return after


def _places(index: Array) -> list[Array]:
    """Every stream's own index along each batch axis, so that they broadcast against ``index``."""
    xp, n = namespace(index), index.ndim
    return [
        xp.reshape(xp.arange(length, device=device(index)), tuple(-1 if a == axis else 1 for a in range(n)))
        for axis, length in enumerate(index.shape)
    ]


def moved(template: Any, memory: Any) -> Any:
    """The memory as arrays of the kind that ``template``, a memory like it, is made of."""
    if isinstance(template, tuple):
        return _like(template, [moved(t, m) for t, m in zip(template, memory, strict=True)])
    if template is None:
        return None
    values = to_numpy(memory).astype(to_numpy(template).dtype)
    return namespace(template).asarray(values, device=device(template))


def saved(memory: Any) -> Any:
    """A memory as nested lists of finite numbers."""
    if isinstance(memory, tuple):
        return [saved(leaf) for leaf in memory]
    return None if memory is None else to_numpy(memory).tolist()


def restored(template: Any, data: Any, fresh: bool = False) -> Any:
    """The memory that ``saved`` wrote, of the kind of ``template``; if that is ``fresh``, only empty axes may grow."""
    if isinstance(template, tuple):
        if not isinstance(data, list) or len(data) != len(template):
            raise ValueError("state_dict does not fit: it was made by another kind of predictor or rule")
        return _like(template, [restored(t, d, fresh) for t, d in zip(template, data, strict=True)])
    if template is None:
        return None
    try:
        values = np.asarray(data)
    except (TypeError, ValueError) as error:
        raise ValueError("state_dict does not fit: its lists have rows of different lengths") from error
    dtype, shape = to_numpy(template).dtype, tuple(template.shape)
    if 0 in values.shape and values.shape == shape[: values.ndim]:  # nested lists lose what comes after an empty axis
        return template
    if values.size and (values.dtype.kind not in {"f": "fiu", "i": "iu"}.get(dtype.kind, dtype.kind)):
        raise ValueError(f"state_dict does not fit: {dtype} numbers were expected, got {values.dtype}")
    if values.ndim != len(shape) or (fresh and any(m not in (0, n) for n, m in zip(values.shape, shape, strict=True))):
        raise ValueError(f"state_dict does not fit: an array of shape {shape} was expected, got {values.shape}")
    if values.size and not np.isfinite(values).all():
        raise ValueError("state_dict does not fit: finite numbers were expected, got NaN or infinity")
    xp = namespace(template)
    read = xp.asarray(values.astype(dtype), dtype=template.dtype, device=device(template))
    if values.shape != shape:
        return read
    own = xp.empty_like(template)  # its axes lie in memory as the template's do: how sums round may depend on it
    own[...] = read
    return own


def _leaves(memory: Any) -> list[Array]:
    if isinstance(memory, tuple):
        return [leaf for part in memory for leaf in _leaves(part)]
    return [] if memory is None else [memory]


def _like(memory: tuple, leaves: list) -> Any:
    return type(memory)(*leaves) if hasattr(memory, "_fields") else tuple(leaves)
