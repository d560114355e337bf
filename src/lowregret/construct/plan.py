"""Which layers a rule becomes: Theorem B.1 with base + 3 layers for two actions and base + 4 for more.

The first of the layers planned here, ``beside``, holds the urn, which needs nothing from the base model: it shares the
base's last layer where the base gives probabilities. Where the base gives logits that layer also turns them into
probabilities, and counts. The exact test takes logits and base + 5, or, ``shallow``, 4.
"""

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from ..predictors import PolyaUrn
from ..rules import FirstTest, RegretGap, RegretRate
from . import gadgets
from .exact import exact_parts
from .parts import Parts, Sharpness, Stage
from .residual import Stream, embed_positions, embed_registers, embed_tokens, sizes_of
from .shallow import shallow_parts
from .thresholds import gap_parts, rate_parts

FAMILIES = (RegretGap, RegretRate, FirstTest)


class Plan(NamedTuple):
    """Named subspaces, layers and embeddings, in float64."""

    stream: Stream
    beside: Stage
    layers: list[Stage]
    token_SxD: np.ndarray
    register_RxD: np.ndarray
    position_TxD: np.ndarray
    late: float


def plan(rule: Any, gives: str, sharpness: Sharpness, shallow: bool = False) -> Plan:
    """The weights of the layers that turn a base model into Algorithm 1 with this rule."""
    parts = parts_of(rule, sharpness, shallow)
    n_states, horizon = rule.problem.n_states, rule.horizon
    logits = n_states if gives == "logits" else 0
    sizes = {**sizes_of(n_states, horizon, max(logits, parts.n_cells)), **parts.sizes}
    x = Stream(**sizes, **({"logits": logits} if logits else {}))
    beside = Stage([gadgets.urn(x, rule.fallback.prior)] + ([gadgets.law_of_logits(x)] if logits else []), [])
    register_RxD = embed_registers(x, n_states)
    for name, value in parts.hidden.items():
        register_RxD[:-1, x.at(name)] = value
    position_TxD = embed_positions(x, horizon, parts.columns)
    return Plan(x, beside, parts.stages(x), embed_tokens(x, n_states), register_RxD, position_TxD, parts.late)


def changed(rule: Any, family: type) -> set[str]:
    """What the class of a rule does otherwise than its family; settings and dunders aside."""
    kinds, settings = type(rule).__mro__, {f.name for f in fields(rule)}
    own = {name for kind in kinds[: kinds.index(family)] for name in vars(kind)} & set(dir(family)) - settings
    return {name for name in own if not name.startswith(("__", "_abc_"))}


def parts_of(rule: Any, sharpness: Sharpness, shallow: bool = False) -> Parts:
    """The compiled form of a rule; one that has none is refused by name."""
    name = type(rule).__name__
    if not isinstance(rule, FAMILIES):
        raise ValueError(f"rule must be a RegretGap, a RegretRate or a FirstTest: {name} has no compiled form")
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
    if isinstance(rule, FirstTest):
        return (shallow_parts if shallow else exact_parts)(rule, sharpness)
    if shallow:
        raise ValueError(f"shallow is for a FirstTest only: {name} has one form")
    return gap_parts(rule, sharpness) if isinstance(rule, RegretGap) else rate_parts(rule, sharpness)
