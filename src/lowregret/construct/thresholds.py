"""RegretGap, with any threshold, and RegretRate as layers: respond, average, compare (gadgets 3 to 6)."""

import numpy as np

from ..rules import RegretGap, RegretRate
from . import gadgets
from .parts import Parts, Sharpness, Stage, answer_cells, answer_sizes, answered, utility_in_units
from .residual import Stream

OUT_OF_REACH = 4.0  # more than any mean, in units of the span


def _bars(rule: RegretGap | RegretRate, total_T: np.ndarray, step_T: np.ndarray) -> np.ndarray:
    """What the mean over rows 0 .. i must reach, in units of the span, for the sum over i steps to reach ``total``."""
    bar_T = np.broadcast_to(np.asarray(total_T, dtype=np.float64), step_T.shape) / (step_T + 1)
    if np.isnan(bar_T).any():
        step = int(step_T[np.isnan(bar_T)][0])
        raise ValueError(f"rule must have a threshold that is a number: that of {type(rule).__name__} at {step} is NaN")
    return np.clip(bar_T / (rule.problem.span or 1.0), -OUT_OF_REACH, OUT_OF_REACH)


def gap_parts(rule: RegretGap, sharpness: Sharpness) -> Parts:
    """Trip where the gap's mean reaches threshold(i) / (i + 1), whatever the threshold is."""
    step = np.arange(1.0, rule.horizon or 0)
    # 0 for START, whose mean is 0: its excess must be 0. Where nothing is at stake no threshold is reached.
    bar_T = np.append(0.0, OUT_OF_REACH + 0 * step if rule.pointless else _bars(rule, rule.threshold(step), step))

    def stages(x: Stream) -> list[Stage]:
        excess = x["mean"] - x["bar"]
        return [
            *answered(x, rule, ["base", "urn"]),
            Stage([gadgets.running_mean(x, x["gain"], "mean")], []),
            Stage([gadgets.any_above_zero(x, excess, sharpness.key)], [gadgets.select(x)]),
        ]

    sizes = {**answer_sizes(rule, ["base", "urn"]), "gain": 1, "mean": 1, "bar": 1}
    return Parts(sizes, {"bar": bar_T}, {"bar": OUT_OF_REACH}, answer_cells(rule), stages)


def rate_parts(rule: RegretRate, sharpness: Sharpness) -> Parts:
    """Trip where some action's mean lead exceeds alpha sqrt(i) / (i + 1): a step for each action, and an OR of them."""
    utility_AxS, step = utility_in_units(rule.problem), np.arange(1.0, rule.horizon or 0)
    bar_T = np.append(OUT_OF_REACH, _bars(rule, rule.alpha * step**0.5, step))  # START never trips

    def stages(x: Stream) -> list[Stage]:
        leads_AxD = utility_AxS @ x["token"] - x["gain"]
        return [
            *answered(x, rule, ["base"]),
            Stage(
                [gadgets.running_mean(x, leads_AxD, "mean")],
                [gadgets.clamp(x, x["mean"] - x["bar"], sharpness.step, "step")],
            ),
            Stage([gadgets.any_of(x, x["step"], needed=1)], [gadgets.select(x)]),
        ]

    n_actions = rule.problem.n_actions
    sizes = {**answer_sizes(rule, ["base"]), "gain": 1, "mean": n_actions, "bar": 1, "step": n_actions}
    return Parts(sizes, {"bar": bar_T}, {"bar": OUT_OF_REACH}, answer_cells(rule), stages)
