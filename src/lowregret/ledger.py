"""What a guard remembers of each stream, and how it is written down: switches, sums, kinds of arrays, settings."""

import math
import reprlib
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from . import inputs
from .arrays import Array, device, namespace
from .rules import RuleMemory


class Switch(NamedTuple):
    """A stream stopped trusting its model: which, after how many steps, by which rule and by what margin."""

    stream: Any  # () for a single stream, an index along one batch axis, a tuple along several
    step: int
    rule: str
    statistic: float
    threshold: float
    episode: int = 1

    def __str__(self) -> str:
        who = "" if self.stream == () else f"stream {self.stream}: "
        return (
            f"{who}switched after {self.step} steps of episode {self.episode}: "
            f"evidence of {self.rule} {self.statistic:.4g}, threshold {self.threshold:.4g}"
        )


class Ledger(NamedTuple):
    """All that a guard remembers per stream."""

    rule: RuleMemory
    lead_A: Array  # [..., A], each fixed action's utility minus the mixed policy's, this episode
    realised_A: Array  # [..., A], the same for the actions reported to observe
    reported: Array  # [...], how many steps of this episode came with an action
    episode: Array  # [...], from 1
    past_steps: Array  # [...], steps of the episodes before this one
    past_bound: Array  # [...], the most that was lost in them, by their certificates


def kind_of(array: Array) -> tuple[str, str]:
    """Which library an array is from, and where it lives."""
    return namespace(array).__name__.removeprefix("array_api_compat."), str(device(array) or "cpu")


def own_copy(probs: Array) -> Array:
    """A copy without its gradient: the caller may fill the same array anew before the state is seen."""
    if isinstance(probs, np.ndarray):
        return probs.copy()
    return probs.detach().clone() if hasattr(probs, "detach") else probs


def array_of_kind(kind: Any) -> Array | None:
    """An array such as ``kind_of`` described."""
    if kind == ["numpy", "cpu"]:
        return None
    if not isinstance(kind, list) or len(kind) != 2 or kind[0] != "torch":
        raise ValueError(f"state_dict does not fit: arrays must be ['numpy', 'cpu'] or ['torch', device], got {kind!r}")
    import torch

    try:
        return torch.zeros(0, device=kind[1])
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"state_dict does not fit: arrays were on {kind[1]!r}, which is not here") from error


def settings_of(thing: Any) -> dict[str, Any]:
    """The numbers, words and tables that make up a rule or a predictor, as JSON values."""
    values = {f.name: getattr(thing, f.name) for f in fields(thing)} if is_dataclass(thing) else {}
    values = {k: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for k, v in values.items()}
    return {k: v for k, v in values.items() if isinstance(v, (int, float, str, list, type(None)))}


def as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def event_from(values: Any) -> Switch:
    try:
        stream, step, rule, statistic, threshold, episode = values
        several = isinstance(stream, list)
        index = tuple(inputs.whole(i, "stream", least=0) for i in (stream if several else [stream]))
        step, episode = inputs.whole(step, "step"), inputs.whole(episode, "episode")
        statistic, threshold = (math.inf if v is None else inputs.finite(v, "a margin") for v in (statistic, threshold))
    except (TypeError, ValueError) as error:
        raise ValueError(f"state_dict does not fit: events hold {reprlib.repr(values)}") from error
    return Switch(index if several else index[0], step, str(rule), statistic, threshold, episode)
