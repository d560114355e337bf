"""Ours: the guard as it is by default, and its main variants."""

from functools import partial
from typing import Any

import numpy as np

import lowregret as lr
from lowregret.problems import Positions

from ..cells import Scene
from . import Entry

FALSE_ALARM = "P(false alarm) <= .05, regret"


class Guarded:
    """A ``Guard`` of so many streams; ``known_T``: whether it is told the horizon."""

    def __init__(
        self, scene: Scene, known_T: bool = False, tests: bool = True, delta: float = 0.05, **more: Any
    ) -> None:
        horizon, self.tests = scene.T if known_T else None, tests
        test = lr.ExactTest(delta, horizon) if tests else lr.NoTest(horizon)
        self.guard = lr.Guard(scene.problem, test=test, streams=scene.R, lag=scene.lag, **more)

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        return np.asarray(self.guard.advise(laws_RxS).policy)

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        self.guard.observe(Positions(states_R))

    @property
    def alarmed(self) -> np.ndarray | None:
        return np.asarray(self.guard.switched) if self.tests else None


SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"delta": 0.01},
    {"fallback": lr.Recovery(budget=1.0)},
    {"fallback": lr.Recovery(share=0.01)},
    {"fallback": lr.Recovery(memories=(10, 100))},
    {"fallback": lr.Recovery(memories=(50, 500))},
)  # all keep the promise

ENTRANTS = {
    "guard": Entry(Guarded, SETTINGS, promise=FALSE_ALARM),
    "guard, known horizon": Entry(partial(Guarded, known_T=True), promise=FALSE_ALARM),
    "guard, no test": Entry(partial(Guarded, tests=False), promise="regret"),
}
