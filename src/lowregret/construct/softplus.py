"""ln(1 + exp(x)) from above and from below, as sums of ReLUs that only add: for the exact test's wealth."""

from typing import NamedTuple

import numpy as np


class Broken(NamedTuple):
    """A convex broken line: ``level + sum of rise * relu(x - kink)``, every rise positive, so nothing cancels."""

    level: float
    kink_F: np.ndarray
    rise_F: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.level + np.maximum(x[..., None] - self.kink_F, 0) @ self.rise_F


def above(n: int) -> Broken:
    """Chords of softplus between ``n`` points, constant before them and of slope one after.

    A chord of length h lies above a convex f by at most h^2 max f'' / 8. The points are spread evenly in
    2 atan(exp(x/2)), whose derivative is sqrt(f''): each chord then costs about (pi / (n + 1))^2 / 8, either end twice
    that.

    >>> x = np.linspace(-40, 40, 4001)
    >>> error = above(256)(x) - np.logaddexp(0, x)
    >>> bool(error.min() >= 0), float(error.max().round(6))
    (True, 3.7e-05)
    """
    point_F = _points(np.arange(1, n + 1) / (n + 1))
    value_F = np.logaddexp(0, point_F)
    slopes = np.concatenate([[0.0], np.diff(value_F) / np.diff(point_F), [1.0]])
    return Broken(float(value_F[0]), point_F, np.diff(slopes))


def below(n: int) -> Broken:
    """The largest of ``n - 1`` tangents of softplus, of zero and of x: ``n`` kinks, each where two neighbours meet.

    Between touching points h apart a tangent is at most h^2 max f'' / 8 below f, to first order: as in ``above``.

    >>> x = np.linspace(-40, 40, 4001)
    >>> error = np.logaddexp(0, x) - below(256)(x)
    >>> bool(error.min() >= -1e-12), float(error.max().round(6))
    (True, 1.9e-05)
    """
    point_F = _points(np.arange(1, n) / n)
    slope_F = 1 / (1 + np.exp(-point_F))
    # The tangent at x is slope * (. - x) + softplus(x); its level at 0 is the entropy of its slope.
    level_F = np.logaddexp(0, point_F) - slope_F * point_F
    slope_F = np.concatenate([[0.0], slope_F, [1.0]])
    level_F = np.concatenate([[0.0], level_F, [0.0]])
    rise_F = np.diff(slope_F)
    return Broken(0.0, -np.diff(level_F) / rise_F, rise_F)


def _points(shares: np.ndarray) -> np.ndarray:
    return 2 * np.log(np.tan(np.pi / 2 * shares))
