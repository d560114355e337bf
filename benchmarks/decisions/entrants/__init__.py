"""The entrants: every file here has ``ENTRANTS``, each with its settings."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..cells import Entrant


class Entry(NamedTuple):
    """How an entrant is made, of a ``Scene`` and settings; the first of ``settings`` is its own default."""

    make: Callable[..., Entrant]
    settings: Sequence[Mapping[str, Any]] = ({},)  # among which one is chosen on the training half
    promise: str = ""  # what it promises, where it does: "P(false alarm) <= .05", "regret"
    slow: bool = False  # whether it is played on the sample of streams alone


@cache
def entries() -> dict[str, Entry]:
    """Every entrant by name."""
    found: dict[str, Entry] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        found |= importlib.import_module(f"{__name__}.{info.name}").ENTRANTS
    return found
