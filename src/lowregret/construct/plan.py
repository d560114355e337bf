"""Which layers a test becomes: Theorem B.1 with base + 3 layers for two actions and base + 4 for more.

The first of the layers planned here, ``beside``, holds the urn, which needs nothing from the base model: it shares the
base's last layer where the base gives probabilities. Where the base gives logits that layer also turns them into
probabilities, and counts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..engine import QuantalResponse, Setting
from ..predictors import PolyaUrn
from ..problems import DecisionProblem
from ..rules import RegretGap, RegretRate
from . import gadgets
from .parts import OUT_OF_REACH, Parts, Sharpness, Stage, answer_cells, answer_sizes, answered, utility_in_units
from .residual import Residual, embed_positions, embed_registers, embed_tokens, sizes_of

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
    return Parts(sizes, {"bar": np.append(0.0, bars)}, {"bar": OUT_OF_REACH}, answer_cells(problem), stages)


def rate_parts(setting: Any, sharpness: Sharpness) -> Parts:
    """An alarm where some action's mean lead exceeds alpha sqrt(i) / (i + 1): a step for each action, and their OR."""
    problem, test = setting.problem, setting.test
    utility_AxS, step = utility_in_units(problem), np.arange(1.0, test.horizon)
    bar_T = np.append(OUT_OF_REACH, _bars(problem, test.alpha * step**0.5, step))  # no alarm at START

    def stages(x: Residual) -> list[Stage]:
        leads_AxD = utility_AxS @ x["token"] - x["gain"]
        return [
            *answered(x, setting, ["base"]),
            Stage(
                [gadgets.running_mean(x, leads_AxD, "mean")],
                [gadgets.clamp(x, x["mean"] - x["bar"], sharpness.step, "step")],
            ),
            Stage([gadgets.any_of(x, x["step"])], [gadgets.select(x)]),
        ]

    A = problem.n_actions
    sizes = {**answer_sizes(problem, ["base"]), "gain": 1, "mean": A, "bar": 1, "step": A}
    return Parts(sizes, {"bar": bar_T}, {"bar": OUT_OF_REACH}, answer_cells(problem), stages)


BUILT: dict[type, Callable[[Any, Sharpness], Parts]] = {RegretGap: gap_parts, RegretRate: rate_parts}


class Plan(NamedTuple):
    """Named subspaces, layers and embeddings, in float64."""

    stream: Residual
    beside: Stage
    layers: list[Stage]
    token_SxD: np.ndarray
    register_RxD: np.ndarray
    position_TxD: np.ndarray


def plan(setting: Any, gives: str, sharpness: Sharpness) -> Plan:
    """The weights of the layers that turn a base model into Algorithm 1 in this setting."""
    parts = BUILT[type(setting.test)](setting, sharpness)
    n_states, horizon = setting.problem.n_states, setting.test.horizon
    logits = n_states if gives == "logits" else 0
    sizes = {**sizes_of(n_states, horizon, max(logits, parts.n_cells)), **parts.sizes}
    x = Residual(**sizes, **({"logits": logits} if logits else {}))
    beside = Stage([gadgets.urn(x, setting.fallback.prior)] + ([gadgets.law_of_logits(x)] if logits else []), [])
    register_RxD = embed_registers(x, n_states)
    for name, value in parts.hidden.items():
        register_RxD[:-1, x.at(name)] = value
    position_TxD = embed_positions(x, horizon, parts.columns)
    return Plan(x, beside, parts.stages(x), embed_tokens(x, n_states), register_RxD, position_TxD)


def refuse_unbuilt(setting: Any) -> None:
    """Refuse, by name, a setting that has no compiled form."""
    inputs.of_kind(setting, Setting, "setting", "robust.algorithm_1(problem, RegretGap(horizon))")
    test, name = setting.test, type(setting.test).__name__
    if type(test) not in BUILT:
        raise ValueError(f"test must be a RegretGap or a RegretRate: {name} has no compiled form")
    if test.horizon is None:
        raise ValueError(f"test must have a known horizon, one position a step: this {name} has None")
    if not isinstance(setting.fallback, PolyaUrn):
        raise ValueError(f"fallback must be a PolyaUrn, the only one built: got {type(setting.fallback).__name__}")
    if not isinstance(setting.response, QuantalResponse):
        raise ValueError(f"response must be a QuantalResponse: {type(setting.response).__name__} has no compiled form")
