"""RegretGap, with any threshold, and RegretRate as layers: respond, average, compare (gadgets 3 to 6)."""

import numpy as np

from ..rules import RegretGap, RegretRate
from . import gadgets
from .parts import Parts, Sharpness, Stage, answer_cells, answer_sizes, answered
from .stream import Stream


def gap_parts(rule: RegretGap, sharpness: Sharpness) -> Parts:
    """Trip where the gap's mean reaches threshold(i) / (i + 1), whatever the threshold is."""
    place = np.arange(rule.horizon or 0, dtype=np.float64)
    bar_T = np.zeros_like(place)  # 0 for START, whose mean is 0: its excess must be 0
    # Where nothing is at stake the threshold may be 0 as well: out of reach, then.
    bar_T[1:] = 2.0 if rule.pointless else rule.threshold(place[1:]) / (place[1:] + 1)

    def stages(x: Stream) -> list[Stage]:
        excess = x["mean"] - x["bar"]
        return [
            *answered(x, rule, ["base", "urn"]),
            Stage([gadgets.running_mean(x, x["gain"], "mean")], []),
            Stage([gadgets.any_above_zero(x, excess, sharpness.key)], [gadgets.select(x)]),
        ]

    sizes = {**answer_sizes(rule, ["base", "urn"]), "gain": 1, "mean": 1, "bar": 1}
    return Parts(sizes, {"bar": bar_T}, {"bar": 2.0}, answer_cells(rule), stages)


def rate_parts(rule: RegretRate, sharpness: Sharpness) -> Parts:
    """Trip where some action's mean lead exceeds alpha sqrt(i) / (i + 1): a step for each action, and an OR of them."""
    utility_AxS = rule.problem.utility
    place = np.arange(rule.horizon or 0, dtype=np.float64)
    bar_T = np.full_like(place, 2.0)  # START never trips
    bar_T[1:] = rule.alpha * place[1:] ** 0.5 / (place[1:] + 1)

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
    return Parts(sizes, {"bar": bar_T}, {"bar": 2.0}, answer_cells(rule), stages)
