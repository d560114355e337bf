"""The entrants: every file here has ``ENTRANTS``, each with its settings."""

import importlib.util
import multiprocessing
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..cells import Entrant


class Entry(NamedTuple):
    """How an entrant is made, of a ``Scene`` and settings; the first of ``settings`` is its own default."""

    make: Callable[..., Entrant]
    settings: Sequence[Mapping[str, Any]] = ({},)  # among which one is chosen on the training half
    promise: str = ""  # what it promises, where it does: "P(false alarm) <= .05", "regret"
    slow: bool = False  # whether it is played on the sample of streams alone
    needs: str = ""  # a package beyond the extra ``dev``, installed or in the folder ``.data``


DATA = Path(__file__).parents[3] / ".data"


@cache
def entries() -> dict[str, Entry]:
    """Every entrant by name, but for those whose package is missing: of these a line is printed."""
    found: dict[str, Entry] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        found |= importlib.import_module(f"{__name__}.{info.name}").ENTRANTS
    if DATA.is_dir() and str(DATA) not in sys.path:
        sys.path.append(str(DATA))
    missing = {name: one.needs for name, one in found.items() if one.needs and not importlib.util.find_spec(one.needs)}
    if multiprocessing.parent_process() is None:
        for name, needs in missing.items():
            print(f"left out: {name}, for want of {needs} (python -m pip install --no-deps --target .data {needs})")
    return {name: one for name, one in found.items() if name not in missing}
