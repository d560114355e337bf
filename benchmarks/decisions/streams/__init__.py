"""The streams: every file here has ``STREAMS``, functions that make them by source and name.

A source is in one half for good, by its name here: data that are alike (two indices, two years of one grid) in one.
"""

import hashlib
import importlib
import pkgutil
import sys
from collections.abc import Callable
from functools import cache

import numpy as np

import lowregret as lr

from ..bins import Bins
from ..cells import Source, Stream
from ..models import softened
from ..packages import folder

LONGEST = 2000


@cache
def sources(install: bool = True) -> dict[str, tuple[Source, Callable[[], Stream]]]:
    """Where each stream comes from and how it is made, by name; in the order of files' names, then of theirs.

    Data that are not there are put into ``.data``, with ``install``; where that cannot be, their streams are left out.
    """
    found = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda one: one.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for source, made in module.STREAMS.items():
            if source.package and folder(source.package, install) is None:
                print(f"{source.name}: left out, for {source.package} is not there", file=sys.stderr)
                continue
            for name, make in made.items():
                found[f"{source.name}: {name}"] = (source, make)
    return found


def seed_of(name: str) -> int:
    """A seed that is a stream's own, whatever others there are."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def of_recording(problem: lr.DecisionProblem, laws_TxS: np.ndarray, states_T: np.ndarray, lag: int = 1) -> Stream:
    """The first steps of it, as many as are played."""
    return Stream(problem, softened(laws_TxS[:LONGEST]), states_T[:LONGEST], lag)


def ranges(outcomes: np.ndarray, S: int) -> Bins:
    """Into which these outcomes fell about equally often; made of those of the warm-up, they foresee nothing."""
    inner = np.unique(np.quantile(outcomes, np.arange(1, S) / S))
    return Bins([-np.inf, *inner, np.inf], outcomes)
