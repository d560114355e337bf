"""Which layers a rule becomes: Theorem B.1 with base + 3 layers for two actions and base + 4 for more.

The first of the layers planned here, ``beside``, holds the urn, which needs nothing from the base model: it shares the
base's last layer where the base gives probabilities. Where the base gives logits that layer also turns them into
probabilities, and counts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..predictors import PolyaUrn
from ..rules import RegretGap, RegretRate, ResponseRule
from . import gadgets
from .layers import Head, Perceptron
from .stream import Stream, embed_positions, embed_registers, embed_tokens, sizes_of


class Stage(NamedTuple):
    """One layer: heads, then perceptrons."""

    heads: list[Head]
    perceptrons: list[Perceptron]


class Sharpness(NamedTuple):
    """How steep a threshold is: 1/steepness is about what lies undecided."""

    key: float  # in a score
    step: float  # in a clamp


SHARPNESS = {"float64": Sharpness(2.0**40, 2.0**40), "float32": Sharpness(2.0**22, 2.0**18)}


class Plan(NamedTuple):
    stream: Stream
    beside: Stage
    layers: list[Stage]
    token_SxD: np.ndarray
    register_RxD: np.ndarray
    position_TxD: np.ndarray


class Parts(NamedTuple):
    """What a rule adds: its subspaces, what START and each position know beforehand, and its layers."""

    sizes: dict[str, int]
    columns: dict[str, np.ndarray]  # by position
    hidden: dict[str, float]  # what SINK and the cells hold in those columns
    stages: Callable[[Stream], list[Stage]]


def plan(rule: Any, gives: str, sharpness: Sharpness) -> Plan:
    """The weights of the layers that turn a base model into Algorithm 1 with this rule, in float64."""
    parts = parts_of(rule, sharpness)
    problem, horizon = rule.problem, rule.horizon
    logits = problem.n_states if gives == "logits" else 0
    n_cells = max(logits, problem.n_actions if problem.n_actions != 2 else 0)
    sizes = {**sizes_of(problem.n_states, horizon, n_cells), **parts.sizes}
    x = Stream(**sizes, **({"logits": logits} if logits else {}))
    beside = Stage([gadgets.urn(x, rule.fallback.prior)] + ([gadgets.law_of_logits(x)] if logits else []), [])
    register_RxD = embed_registers(x, problem.n_states)
    for name, value in parts.hidden.items():
        register_RxD[:-1, x.at(name)] = value
    position_TxD = embed_positions(x, horizon, parts.columns)
    return Plan(x, beside, parts.stages(x), embed_tokens(x, problem.n_states), register_RxD, position_TxD)


def parts_of(rule: Any, sharpness: Sharpness) -> Parts:
    """The compiled form of a rule; one that has none is refused by name."""
    if not isinstance(rule, RegretGap | RegretRate):
        name = type(rule).__name__
        raise ValueError(f"rule must be a RegretGap or a RegretRate: {name} has no compiled form")
    if rule.horizon is None or rule.temperature is None:
        raise ValueError(f"rule must have a known horizon, one position a step: this {type(rule).__name__} has None")
    if not isinstance(rule.fallback, PolyaUrn):
        raise ValueError(f"rule must fall back on a PolyaUrn, the only one built: got {type(rule.fallback).__name__}")
    return gap_parts(rule, sharpness) if isinstance(rule, RegretGap) else rate_parts(rule, sharpness)


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
    return Parts(sizes, {"bar": bar_T}, {"bar": 2.0}, stages)


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
    return Parts(sizes, {"bar": bar_T}, {"bar": 2.0}, stages)


def answer_sizes(rule: ResponseRule, laws: list[str]) -> dict[str, int]:
    """The subspaces that ``answered`` needs."""
    if rule.problem.n_actions == 2:
        return {f"{law} answer": 1 for law in laws}
    return {**{f"{law} answer": rule.problem.n_actions for law in laws}, "before": rule.problem.n_states}


def answered(x: Stream, rule: ResponseRule, laws: list[str]) -> list[Stage]:
    """What the response to the last law earned in the step that came: U(urn's) - U(base's), or U(base's) alone.

    Two actions take one layer: the response is a sigmoid, found while it is fetched. More take two: respond, then
    fetch. Either way the result stands in the row of the token it is about: no lag.
    """
    problem, warmth = rule.problem, rule.temperature
    assert warmth is not None
    signs = {"base": -1.0, "urn": 1.0} if "urn" in laws else {"base": 1.0}
    if problem.n_actions == 2:
        second = sum(signs[law] * x[f"{law} answer"] for law in laws)
        first_S = problem.utility[0] * sum(signs.values())
        earned_SxD = problem.advantage[0][:, None] * second + first_S[:, None] * x["one"]
        heads = [gadgets.fetch_sigmoid(x, law, problem.advantage[0], warmth, f"{law} answer") for law in laws]
        return [Stage(heads, [gadgets.of_token(x, earned_SxD, "gain")])]
    answer_AxD = sum(signs[law] * x[f"{law} answer"] for law in laws)
    return [
        Stage([gadgets.respond(x, law, problem.utility, warmth, f"{law} answer") for law in laws], []),
        Stage(
            [gadgets.fetch(x, problem.utility.T @ answer_AxD, "before")],
            [gadgets.of_token(x, x["before"], "gain")],
        ),
    ]
