"""Which layers a test becomes: Theorem B.1 with base + 3 layers for two actions and base + 4 for more.

The first of the layers planned here holds the urn, which needs nothing from the base model: it shares the base's last
layer where the base gives probabilities. Where the base gives logits that layer also turns them into probabilities, and
counts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from ..predictors import PolyaUrn
from ..problems import DecisionProblem
from ..rules import RegretGap, RegretRate
from . import gadgets
from .layers import Head, Perceptron
from .residual import Residual, embed_positions, embed_registers, embed_tokens, sizes_of

OUT_OF_REACH = 4.0  # more than any mean, in units of the span


class Stage(NamedTuple):
    """One layer: heads, then perceptrons."""

    heads: list[Head]
    perceptrons: list[Perceptron]


class Sharpness(NamedTuple):
    """How steep a threshold is, which leaves about 1/steepness undecided."""

    key: float  # in a score
    step: float  # in a clamp


SHARPNESS = {torch.float64: Sharpness(2.0**40, 2.0**40), torch.float32: Sharpness(2.0**22, 2.0**18)}


class Parts(NamedTuple):
    """What a test adds: its subspaces, its bar at each position, and its layers."""

    sizes: dict[str, int]
    bar_T: np.ndarray
    stages: Callable[[Residual], list[Stage]]


# What both tests share: what the response to the last forecast earned.


def utility_in_units(problem: DecisionProblem) -> np.ndarray:
    """Utilities in units of the span, less each state's mean: no test looks at more, and none of them exceeds 1."""
    centred_AxS = problem.utility - problem.utility.mean(axis=0)
    return centred_AxS / (problem.span or 1.0)


def answer_sizes(problem: DecisionProblem, whose: list[str]) -> dict[str, int]:
    """The subspaces that ``answered`` needs."""
    if problem.n_actions == 2:
        return {f"{who} answer": 1 for who in whose}
    return {**{f"{who} answer": problem.n_actions for who in whose}, "before": problem.n_states}


def answered(x: Residual, setting: Any, whose: list[str]) -> list[Stage]:
    """What the response to the last forecast earned in the step that came: U(urn's) - U(base's), or U(base's) alone.

    Utilities are those of ``utility_in_units``.
    Two actions take one layer: the response is a sigmoid, found while it is fetched. More take two: respond, then
    fetch. Either way the result stands in the row of the token it is about: no lag.
    """
    problem, temperature = setting.problem, setting.temperature
    signs = {"base": -1.0, "urn": 1.0} if "urn" in whose else {"base": 1.0}
    answer = sum(signs[who] * x[f"{who} answer"] for who in whose)
    utility_AxS = utility_in_units(problem)
    if problem.n_actions == 2:
        first_S, advantage_S = utility_AxS[0] * sum(signs.values()), utility_AxS[1] - utility_AxS[0]
        earned_SxD = advantage_S[:, None] * answer + first_S[:, None] * x["one"]
        heads = [gadgets.fetch_sigmoid(x, who, problem.advantage[0], temperature, f"{who} answer") for who in whose]
        return [Stage(heads, [gadgets.of_token(x, earned_SxD, "gain")])]
    return [
        Stage([gadgets.respond(x, who, problem.utility, temperature, f"{who} answer") for who in whose], []),
        Stage([gadgets.fetch(x, utility_AxS.T @ answer, "before")], [gadgets.of_token(x, x["before"], "gain")]),
    ]


# RegretGap and RegretRate as layers: respond, average, compare (gadgets 3 to 6).


def _bars(problem: DecisionProblem, total_T: np.ndarray, step_T: np.ndarray) -> np.ndarray:
    """What the mean over rows 0 .. i must reach, in units of the span, for the sum over i steps to reach ``total``."""
    return np.minimum(total_T / (step_T + 1) / (problem.span or 1.0), OUT_OF_REACH)


def gap_parts(setting: Any, sharpness: Sharpness) -> Parts:
    """An alarm where the gap's mean reaches threshold_at(i) / (i + 1)."""
    problem, step = setting.problem, np.arange(1.0, setting.test.horizon)
    # 0 for START, whose mean is 0: its excess must be 0. Where nothing is at stake no threshold is reached.
    bars = _bars(problem, setting.watch.threshold_at(step), step) if problem.span else OUT_OF_REACH + 0 * step

    def stages(x: Residual) -> list[Stage]:
        excess = x["mean"] - x["bar"]
        return [
            *answered(x, setting, ["base", "urn"]),
            Stage([gadgets.running_mean(x, x["gain"], "mean")], []),
            Stage([gadgets.any_above_zero(x, excess, sharpness.key)], [gadgets.select(x)]),
        ]

    sizes = {**answer_sizes(problem, ["base", "urn"]), "gain": 1, "mean": 1, "bar": 1}
    return Parts(sizes, np.append(0.0, bars), stages)


def rate_parts(setting: Any, sharpness: Sharpness) -> Parts:
    """An alarm where some action's mean lead exceeds alpha sqrt(i) / (i + 1): a step for each action, and their OR."""
    problem, test, A = setting.problem, setting.test, setting.problem.n_actions
    utility_AxS, step = utility_in_units(problem), np.arange(1.0, test.horizon)
    bar_T = np.append(OUT_OF_REACH, _bars(problem, test.alpha * step**0.5, step))  # no alarm at START

    def stages(x: Residual) -> list[Stage]:
        leads_AxD = utility_AxS @ x["token"] - x["gain"]
        clamp = gadgets.clamp(x, x["mean"] - x["bar"], sharpness.step, "step")
        return [
            *answered(x, setting, ["base"]),
            Stage([gadgets.running_mean(x, leads_AxD, "mean")], [clamp]),
            Stage([gadgets.any_of(x, x["step"])], [gadgets.select(x)]),
        ]

    return Parts({**answer_sizes(problem, ["base"]), "gain": 1, "mean": A, "bar": 1, "step": A}, bar_T, stages)


BUILT: dict[type, Callable[[Any, Sharpness], Parts]] = {RegretGap: gap_parts, RegretRate: rate_parts}


class Plan(NamedTuple):
    """Named subspaces, layers and embeddings, in float64."""

    stream: Residual
    layers: list[Stage]
    tables: dict[str, np.ndarray]


def plan(setting: Any, gives: str, sharpness: Sharpness) -> Plan:
    """The weights of the layers that turn a base model into Algorithm 1 in this setting."""
    test, fallback, problem = setting.test, setting.fallback, setting.problem
    if type(test) not in BUILT:
        raise ValueError(f"test must be a RegretGap or a RegretRate: {type(test).__name__} has no compiled form")
    if test.horizon is None:
        raise ValueError(f"test must have a known horizon, one position a step: this {type(test).__name__} has None")
    if not isinstance(fallback, PolyaUrn):
        raise ValueError(f"fallback must be a PolyaUrn, the only one built: got {type(fallback).__name__}")
    parts, n_states = BUILT[type(test)](setting, sharpness), problem.n_states
    logits = {"logits": n_states} if gives == "logits" else {}
    n_cells = max(sum(logits.values()), 0 if problem.n_actions == 2 else problem.n_actions)
    x = Residual(**sizes_of(n_states, test.horizon, n_cells), **parts.sizes, **logits)
    first = Stage([gadgets.urn(x, fallback.prior)] + ([gadgets.law_of_logits(x)] if logits else []), [])
    tables = {
        "token_SxD": embed_tokens(x, n_states),
        "register_RxD": embed_registers(x, n_states),
        "position_TxD": embed_positions(x, test.horizon, {"bar": parts.bar_T}),
    }
    tables["register_RxD"][:-1, x.at("bar")] = OUT_OF_REACH
    return Plan(x, [first, *parts.stages(x)], tables)
