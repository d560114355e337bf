"""What a test adds to the layers, and the part that both share: what the response to the last forecast earned."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..problems import DecisionProblem
from . import gadgets
from .layers import Head, Perceptron
from .residual import Residual

OUT_OF_REACH = 4.0  # more than any mean, in units of the span


class Stage(NamedTuple):
    """One layer: heads, then perceptrons."""

    heads: list[Head]
    perceptrons: list[Perceptron]


class Sharpness(NamedTuple):
    """How steep a threshold is, which leaves about 1/steepness undecided."""

    key: float  # in a score
    step: float  # in a clamp


SHARPNESS = {"float64": Sharpness(2.0**40, 2.0**40), "float32": Sharpness(2.0**22, 2.0**18)}


def sharpness_of(dtype: object) -> Sharpness:
    """For layers of this torch type, or of this name."""
    return SHARPNESS[str(dtype).removeprefix("torch.")]


class Parts(NamedTuple):
    """What a test adds: its subspaces, what START and each position know beforehand, its cells and its layers."""

    sizes: dict[str, int]
    columns: dict[str, np.ndarray]  # by position
    hidden: dict[str, float]  # what SINK and the cells hold in those columns
    n_cells: int
    stages: Callable[[Residual], list[Stage]]


def utility_in_units(problem: DecisionProblem) -> np.ndarray:
    """Utilities in units of the span, less each state's mean: no test looks at more, and none of them exceeds 1."""
    centred_AxS = problem.utility - problem.utility.mean(axis=0)
    return centred_AxS / (problem.span or 1.0)


def answer_sizes(problem: DecisionProblem, whose: list[str]) -> dict[str, int]:
    """The subspaces that ``answered`` needs."""
    if problem.n_actions == 2:
        return {f"{who} answer": 1 for who in whose}
    return {**{f"{who} answer": problem.n_actions for who in whose}, "before": problem.n_states}


def answer_cells(problem: DecisionProblem) -> int:
    """How many cells ``answered`` looks at."""
    return 0 if problem.n_actions == 2 else problem.n_actions


def answered(x: Residual, setting: Any, whose: list[str]) -> list[Stage]:
    """What the response to the last forecast earned in the step that came: U(urn's) - U(base's), or U(base's) alone.

    Utilities are those of ``utility_in_units``.
    Two actions take one layer: the response is a sigmoid, found while it is fetched. More take two: respond, then
    fetch. Either way the result stands in the row of the token it is about: no lag.
    """
    problem, temperature = setting.problem, setting.temperature
    signs = {"base": -1.0, "urn": 1.0} if "urn" in whose else {"base": 1.0}
    utility_AxS = utility_in_units(problem)
    if problem.n_actions == 2:
        second = sum(signs[who] * x[f"{who} answer"] for who in whose)
        first_S, advantage_S = utility_AxS[0] * sum(signs.values()), utility_AxS[1] - utility_AxS[0]
        earned_SxD = advantage_S[:, None] * second + first_S[:, None] * x["one"]
        heads = [gadgets.fetch_sigmoid(x, who, problem.advantage[0], temperature, f"{who} answer") for who in whose]
        return [Stage(heads, [gadgets.of_token(x, earned_SxD, "gain")])]
    answer_AxD = sum(signs[who] * x[f"{who} answer"] for who in whose)
    return [
        Stage(
            [gadgets.respond(x, who, problem.utility, temperature, f"{who} answer") for who in whose],
            [],
        ),
        Stage(
            [gadgets.fetch(x, utility_AxS.T @ answer_AxD, "before")],
            [gadgets.of_token(x, x["before"], "gain")],
        ),
    ]
