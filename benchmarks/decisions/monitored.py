"""The model until an alarm, then something else: what a monitor becomes that says *when*, and not *what instead*."""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

import lowregret as lr
from lowregret.engine import Engine, Inputs, Setting

from .cells import Scene, best_response
from .entrants.plain import Urn

LEAST = 1e-12  # a smaller loss is none


class Monitor(Protocol):
    """Something that hears, in R cells at once, what came of each step and what that cost."""

    def hears(self, loss_R: np.ndarray, laws_RxS: np.ndarray, states_R: np.ndarray) -> np.ndarray:
        """In which cells it gives an alarm now, ``[R]``."""


class Fallback(Protocol):
    """What is played from an alarm on."""

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray: ...

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray, played_R: np.ndarray) -> None:
        """What came of a step; ``played_R``: in which cells it was this that was played in it."""

    def restart(self, now_R: np.ndarray) -> None:
        """An alarm has just come in these cells, the first or another."""


def losses(scene: Scene, laws_RxS: np.ndarray, states_R: np.ndarray) -> np.ndarray:
    """What the best response lost to the best action in hindsight, over the span: in [0, 1]."""
    earned_RxA = scene.problem.utility.T[states_R]
    lost_R = earned_RxA.max(axis=1) - (best_response(scene.problem, laws_RxS) * earned_RxA).sum(axis=1)
    return lost_R / (scene.problem.span or 1.0)


class Monitored:
    """The best response to the model until the first alarm, in each cell, and the fallback from then on."""

    def __init__(self, scene: Scene, monitor: Monitor, after: Fallback) -> None:
        self.scene, self.monitor, self.after = scene, monitor, after
        self.alarmed = np.zeros(scene.R, dtype=bool)
        self.fell_back: deque[np.ndarray] = deque()  # in the steps whose outcomes are not known yet

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        self.fell_back.append(self.alarmed.copy())
        plays_RxA = best_response(self.scene.problem, laws_RxS)
        if self.alarmed.any():
            plays_RxA[self.alarmed] = self.after.advise(laws_RxS)[self.alarmed]
        return plays_RxA

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        now_R = self.monitor.hears(losses(self.scene, laws_RxS, states_R), laws_RxS, states_R)
        self.after.observe(laws_RxS, states_R, self.fell_back.popleft())
        self.alarmed |= now_R
        if now_R.any():
            self.after.restart(now_R)


def monitored(
    monitor: Callable[..., Monitor], after: Callable[[Scene], Fallback], scene: Scene, **settings: Any
) -> Monitored:
    """Both made of a scene; the settings are the monitor's."""
    return Monitored(scene, monitor(scene, **settings), after(scene))


class UrnSince(Urn):
    """Frequencies of what came since the last alarm."""

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray, played_R: np.ndarray | None = None) -> None:
        super().observe(laws_RxS, states_R)

    def restart(self, now_R: np.ndarray) -> None:
        self.counts_RxS[now_R] = 1.0


class Recovers:
    """``Recovery`` as the guard plays it after an alarm of its own, at its defaults.

    It listens from the first step on and is on its budget from the alarm on; a later alarm is nothing to it. Where
    outcomes are late the budget is kept by what it would play now.
    """

    def __init__(self, scene: Scene) -> None:
        self.engine = Engine(Setting(scene.problem, lr.Actions(), lr.NoTest(), lr.Recovery(), lr.BestResponse()))
        self.rows = self.engine.start(scene.R)

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        return np.asarray(self.engine.advise(self.rows, 1, Inputs(laws_RxS)).policy_NxA)

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray, played_R: np.ndarray) -> None:
        step = self.engine.advise(self.rows, 1, Inputs(laws_RxS))
        policy_RxA = np.where(played_R[:, None], step.policy_NxA, step.model_NxA)
        step = step._replace(in_force_N=played_R, policy_NxA=policy_RxA)
        self.rows, _ = self.engine.observe(self.rows, 1, step, states_R)

    def restart(self, now_R: np.ndarray) -> None:
        pass
