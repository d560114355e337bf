"""What is decided by real forecasts, beside the usual problems of the library."""

from collections.abc import Sequence

import numpy as np

import lowregret as lr


def supply(
    needs_S: Sequence[float] | np.ndarray, amounts_A: Sequence[float] | np.ndarray, short: float, spare: float
) -> lr.DecisionProblem:
    """Provide an amount before the need is known; a unit too little costs ``short``, one too many ``spare``."""
    gap_AxS = np.asarray(needs_S)[None, :] - np.asarray(amounts_A)[:, None]
    return lr.DecisionProblem.from_payoffs(-short * np.maximum(gap_AxS, 0) - spare * np.maximum(-gap_AxS, 0))


def stake(gain: float, loss: float, sizes: int) -> lr.DecisionProblem:
    """Take part in none, some or all of a thing that brings ``gain`` or ``loss``; the last parts are worth less."""
    part_Ax1 = np.linspace(0, 1, sizes)[:, None]
    return lr.DecisionProblem.from_payoffs(part_Ax1 * np.array([-loss, gain]) - 0.3 * gain * part_Ax1**2)
