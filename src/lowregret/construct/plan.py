"""Which layers a rule becomes: Theorem B.1 with base + 3 layers for two actions and base + 4 for more.

The first of the layers planned here, ``beside``, holds the urn, which needs nothing from the base model: it shares the
base's last layer where the base gives probabilities. Where the base gives logits that layer also turns them into
probabilities, and counts.
"""

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from ..predictors import PolyaUrn
from ..rules import RegretGap, RegretRate
from . import gadgets
from .parts import OUT_OF_REACH, Parts, Sharpness, Stage, answer_cells, answer_sizes, answered, utility_in_units
from .residual import Residual, embed_positions, embed_registers, embed_tokens, sizes_of

# RegretGap, with any threshold, and RegretRate as layers: respond, average, compare (gadgets 3 to 6).


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

    def stages(x: Residual) -> list[Stage]:
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

    def stages(x: Residual) -> list[Stage]:
        leads_AxD = utility_AxS @ x["token"] - x["gain"]
        return [
            *answered(x, rule, ["base"]),
            Stage(
                [gadgets.running_mean(x, leads_AxD, "mean")],
                [gadgets.clamp(x, x["mean"] - x["bar"], sharpness.step, "step")],
            ),
            Stage([gadgets.any_of(x, x["step"])], [gadgets.select(x)]),
        ]

    n_actions = rule.problem.n_actions
    sizes = {**answer_sizes(rule, ["base"]), "gain": 1, "mean": n_actions, "bar": 1, "step": n_actions}
    return Parts(sizes, {"bar": bar_T}, {"bar": OUT_OF_REACH}, answer_cells(rule), stages)


FAMILIES = (RegretGap, RegretRate)


class Plan(NamedTuple):
    """Named subspaces, layers and embeddings, in float64."""

    stream: Residual
    beside: Stage
    layers: list[Stage]
    token_SxD: np.ndarray
    register_RxD: np.ndarray
    position_TxD: np.ndarray


def plan(rule: Any, gives: str, sharpness: Sharpness) -> Plan:
    """The weights of the layers that turn a base model into Algorithm 1 with this rule."""
    parts = parts_of(rule, sharpness)
    n_states, horizon = rule.problem.n_states, rule.horizon
    logits = n_states if gives == "logits" else 0
    sizes = {**sizes_of(n_states, horizon, max(logits, parts.n_cells)), **parts.sizes}
    x = Residual(**sizes, **({"logits": logits} if logits else {}))
    beside = Stage([gadgets.urn(x, rule.fallback.prior)] + ([gadgets.law_of_logits(x)] if logits else []), [])
    register_RxD = embed_registers(x, n_states)
    for name, value in parts.hidden.items():
        register_RxD[:-1, x.at(name)] = value
    position_TxD = embed_positions(x, horizon, parts.columns)
    return Plan(x, beside, parts.stages(x), embed_tokens(x, n_states), register_RxD, position_TxD)


def changed(rule: Any, family: type) -> set[str]:
    """What the class of a rule does otherwise than its family; settings and dunders aside."""
    kinds, settings = type(rule).__mro__, {f.name for f in fields(rule)}
    own = {name for kind in kinds[: kinds.index(family)] for name in vars(kind)} & set(dir(family)) - settings
    return {name for name in own if not name.startswith(("__", "_abc_"))}


def refuse_unbuilt(rule: Any) -> None:
    """Refuse, by name, a rule that has no compiled form."""
    name = type(rule).__name__
    if not isinstance(rule, FAMILIES):
        raise ValueError(f"rule must be a RegretGap or a RegretRate: {name} has no compiled form")
    family = next(kind for kind in FAMILIES if isinstance(rule, kind))
    own = changed(rule, family) - {"threshold", "certificate"}
    if own:
        raise ValueError(
            f"rule must be a {family.__name__} but for its threshold and certificate: {name} has "
            f"{', '.join(sorted(own))} of its own, and no compiled form"
        )
    if rule.horizon is None or rule.temperature is None:
        raise ValueError(f"rule must have a known horizon, one position a step: this {name} has None")
    if not isinstance(rule.fallback, PolyaUrn):
        raise ValueError(f"rule must fall back on a PolyaUrn, the only one built: got {type(rule.fallback).__name__}")


def parts_of(rule: Any, sharpness: Sharpness) -> Parts:
    """The compiled form of a rule."""
    refuse_unbuilt(rule)
    return gap_parts(rule, sharpness) if isinstance(rule, RegretGap) else rate_parts(rule, sharpness)
