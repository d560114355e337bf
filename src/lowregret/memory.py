"""Memories as values: select streams from them, write them down, read them back."""

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
    n, xp = memory.shape[0], namespace(memory)
    if not isinstance(index, slice):
        index = to_numpy(inputs.array_of(index, "index"))
        index = index if index.size else np.zeros(0, dtype=np.int64)
        if index.ndim != 1:
            raise ValueError(f"index must be a slice, a list of stream indices or a mask, got {inputs.shown(index)}")
    try:
        chosen = np.ascontiguousarray(np.arange(n)[index])
    except IndexError as error:
        raise ValueError(f"index must name some of {n} streams, or be a mask of them: {error}") from None
    return xp.take(memory, xp.asarray(chosen, device=device(memory)), axis=0)


def where(condition: Array, yes: Any, no: Any) -> Any:
    """Per stream, one of two memories of the same kind; ``condition`` has the batch shape."""
    if isinstance(yes, tuple):
        return _like(yes, [where(condition, a, b) for a, b in zip(yes, no, strict=True)])
    mask = namespace(condition).reshape(condition, (*condition.shape, *(1,) * (yes.ndim - condition.ndim)))
    return namespace(yes).where(mask, yes, no)


def saved(memory: Any) -> Any:
    """A memory as nested lists of finite numbers."""
    if isinstance(memory, tuple):
        return [saved(leaf) for leaf in memory]
    return None if memory is None else to_numpy(memory).tolist()


def restored(template: Any, data: Any, fresh: bool = False) -> Any:
    """The memory that ``saved`` wrote, of the kind of ``template``; if that is ``fresh``, only empty axes may grow."""
    if isinstance(template, tuple):
        if not isinstance(data, list) or len(data) != len(template):
            raise ValueError("state_dict does not fit: it was made by another kind of predictor")
        return _like(template, [restored(t, d, fresh) for t, d in zip(template, data, strict=True)])
    if template is None:
        return None
    try:
        values = np.asarray(data)
        values = values.astype(to_numpy(template).dtype, casting="same_kind" if values.size else "unsafe")
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"state_dict does not fit: {error}") from error
    shape = tuple(template.shape)
    if 0 in values.shape and values.shape == shape[: values.ndim]:  # nested lists lose what comes after an empty axis
        return template
    if values.ndim != len(shape) or (fresh and any(m not in (0, n) for n, m in zip(values.shape, shape, strict=True))):
        raise ValueError(f"state_dict does not fit: an array of shape {shape} was expected, got {values.shape}")
    xp = namespace(template)
    read = xp.asarray(values, dtype=template.dtype, device=device(template))
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
