"""The streams: every file here has ``STREAMS``, functions that make them by source and name."""

import hashlib
import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from ..cells import Source, Stream


@cache
def sources() -> dict[str, tuple[Source, Callable[[], Stream]]]:
    """Where each stream comes from and how it is made, by name; in the order of files' names, then of theirs."""
    found = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for source, made in module.STREAMS.items():
            for name, make in made.items():
                found[f"{source.name}: {name}"] = (source, make)
    return found


def seed_of(name: str) -> int:
    """A seed that is a stream's own, whatever others there are."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
