"""Drift detectors on the loss: River's as they are, and two control charts as practitioners write them.

Each hears what the best response lost (``monitored.losses``); from its alarm on either an urn is played that begins
there, and again with every later alarm, or our ``Recovery``. None promises anything for a whole run: ADWIN's delta of
.002 bounds the chance of a false alarm each time that it looks (every 32 steps), KSWIN's alpha of .005 that of a test
at every step, and the thresholds of DDM and of control charts are so many standard deviations at every step.
"""

from functools import partial
from typing import Any

import numpy as np

from ..cells import Scene
from ..monitored import LEAST, Recovers, UrnSince, monitored
from . import Entry

REFERENCE = 100  # steps at first from which control charts learn what is usual
LEAST_SIGMA = 0.01  # of the span, where nothing was lost in all of them
RECENT = 30


class River:
    """A detector of River in each cell; ``rises``: of its alarms only those when recent losses are above the mean."""

    def __init__(self, scene: Scene, name: str, rises: bool = False, **settings: Any) -> None:
        from river import drift

        self.binary, self.rises = name == "DDM", rises
        kind = getattr(drift.binary if self.binary else drift, name)
        self.each_R = [kind(**settings) for _ in range(scene.R)]
        self.seen, self.mean_R, self.recent_R = 0, np.zeros(scene.R), np.zeros(scene.R)

    def hears(self, loss_R: np.ndarray, laws_RxS: np.ndarray, states_R: np.ndarray) -> np.ndarray:
        heard: list[Any] = (loss_R > LEAST).tolist() if self.binary else loss_R.tolist()
        for detector, loss in zip(self.each_R, heard, strict=True):
            detector.update(loss)
        alarm_R = np.array([detector.drift_detected for detector in self.each_R])
        self.seen += 1
        self.mean_R += (loss_R - self.mean_R) / self.seen
        self.recent_R += (loss_R - self.recent_R) / min(self.seen, RECENT)
        return alarm_R & (self.recent_R > self.mean_R) if self.rises else alarm_R


class Chart:
    """A control chart: mean and standard deviation of the first losses, and an alarm where later ones are too high."""

    def __init__(self, scene: Scene) -> None:
        self.seen, self.first_RxT = 0, np.zeros((scene.R, REFERENCE))

    def hears(self, loss_R: np.ndarray, laws_RxS: np.ndarray, states_R: np.ndarray) -> np.ndarray:
        self.seen += 1
        if self.seen > REFERENCE:
            return self.above(loss_R)
        self.first_RxT[:, self.seen - 1] = loss_R
        self.mean_R, self.sigma_R = self.first_RxT.mean(axis=1), np.maximum(self.first_RxT.std(axis=1), LEAST_SIGMA)
        return np.zeros(len(loss_R), dtype=bool)

    def above(self, loss_R: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class Cusum(Chart):
    """One-sided CUSUM: S <- max(0, S + (loss - mean) / sigma - slack), an alarm above ``limit``; S is then 0 again."""

    def __init__(self, scene: Scene, slack: float = 0.5, limit: float = 5.0) -> None:
        super().__init__(scene)
        self.slack, self.limit, self.sum_R = slack, limit, np.zeros(scene.R)

    def above(self, loss_R: np.ndarray) -> np.ndarray:
        self.sum_R = np.maximum(0, self.sum_R + (loss_R - self.mean_R) / self.sigma_R - self.slack)
        alarm_R = self.sum_R > self.limit
        self.sum_R[alarm_R] = 0.0
        return alarm_R


class RollingThreshold(Chart):
    """An alarm where the mean of the last ``window`` losses gets above the first ones' by ``sigmas`` of such a mean."""

    def __init__(self, scene: Scene, sigmas: float = 3.0, window: int = 50) -> None:
        super().__init__(scene)
        self.window, self.limit, self.was_R = window, sigmas * window**-0.5, np.zeros(scene.R, dtype=bool)

    def above(self, loss_R: np.ndarray) -> np.ndarray:
        if self.seen == REFERENCE + 1:
            self.last_RxW = self.first_RxT[:, -self.window :].copy()
        self.last_RxW[:, (self.seen - REFERENCE - 1) % self.window] = loss_R
        was_R, self.was_R = self.was_R, self.last_RxW.mean(axis=1) > self.mean_R + self.limit * self.sigma_R
        return self.was_R & ~was_R


MONITORS: dict[str, tuple[Any, tuple[dict[str, Any], ...], bool]] = {
    "ADWIN": (
        partial(River, name="ADWIN"),
        ({}, {"delta": 1e-4}, {"rises": True}, {"rises": True, "clock": 1, "delta": 1e-4}),
        False,
    ),
    "PageHinkley": (
        partial(River, name="PageHinkley"),
        ({}, *({"mode": "up", "threshold": limit, "delta": 0.02} for limit in (5, 10, 20))),
        False,
    ),
    "KSWIN": (
        partial(River, name="KSWIN", seed=0),
        ({}, {"rises": True, "alpha": 1e-6}),
        True,
    ),
    "DDM": (
        partial(River, name="DDM"),
        ({}, {"drift_threshold": 4}, *({"warm_start": 100, "drift_threshold": limit} for limit in (4, 6))),
        False,
    ),
    "CUSUM": (Cusum, ({}, {"limit": 10}, {"limit": 20}, {"slack": 0.25, "limit": 20}), False),
    "rolling threshold": (RollingThreshold, ({}, {"sigmas": 4}, {"sigmas": 5}, {"sigmas": 4, "window": 100}), False),
}

ENTRANTS = {
    f"{name}, then {what}": Entry(partial(monitored, monitor, after), settings, slow=slow)
    for name, (monitor, settings, slow) in MONITORS.items()
    for what, after in (("an urn", UrnSince), ("Recovery", Recovers))
}
