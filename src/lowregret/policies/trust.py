"""When a model that was left has returned, and when it is left again: by its share in what is played after an alarm."""

from typing import Any

from ..arrays import Array, namespace

HOME, GONE = 0.5, 0.25  # the share above which it has returned, and below which it is left again


def trust_after(memory: Any, share: Array, late: Array, step: Array) -> Any:
    """The memory with whom it trusts after a step: ``late`` where the alarm had sounded, ``share`` the model's now."""
    trusted = late & ((share > HOME) | (memory.trusted & (share > GONE)))
    turned_at = namespace(share).where(trusted != memory.trusted, step, memory.turned_at)
    return memory._replace(trusted=trusted, turned_at=turned_at)


def turned(memory: Any, step: Array) -> Array:
    """Which streams ``[...]`` returned with the last token (1), and which were left again (-1)."""
    xp = namespace(step)
    just = (memory.turned_at == step) & (step > 0)
    return xp.astype(just & memory.trusted, xp.int64) - xp.astype(just & ~memory.trusted, xp.int64)
