"""Falling back on one reference, as it is: what it says is played from the alarm on, for good."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array
from ..problems import DecisionProblem, Scene


@dataclass(frozen=True)
class Incumbent:
    """What to fall back on where there is only that: the reference of this name.

    >>> Incumbent("today's model").name
    "today's model"
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"name must be that of a reference, got {inputs.shown(self.name)}")


@dataclass(frozen=True)
class PlaysReference:
    """An ``Incumbent`` in play. It remembers nothing; all is unchecked."""

    name: str
    index: int
    acts: bool  # it states no laws
    alone: bool  # nothing else is compared with

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> tuple[()]:
        return ()

    def policy(self, memory: Any, scene: Scene) -> Array:
        """What it plays, ``[A, ...]``."""
        return scene.base_A if scene.plays_NxA is None else scene.plays_NxA[self.index]

    def law(self, memory: Any, scene: Scene) -> Array:
        """The law it plays by, ``[S, ...]``."""
        return scene.law_S if scene.laws_NxS is None else scene.laws_NxS[self.index]

    def update(self, memory: Any, scene: Scene, state: Array, late: Array) -> tuple[()]:
        return ()

    def share_of_base(self, memory: Any) -> Any:
        return 0.0

    def turned(self, memory: Any) -> Array:
        return np.zeros((), dtype=np.int64)

    def regret_after(self, problem: DecisionProblem, steps: int, temperature: float | None) -> Any:
        """Nothing is lost to itself; what is lost to others is not known."""
        return partial(np.multiply, 0.0) if self.alone else None
