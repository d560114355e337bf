"""What a guard remembers of each stream, and what it tells of a switch."""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, device, float_type, namespace, to_numpy
from ..rules import Rule, RuleMemory


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


def blank(rule: Rule, batch_shape: tuple[int, ...], like: Array | None = None) -> Ledger:
    """The ledger before the first step; ``like`` gives the kind of array and its device."""
    xp, where = namespace(like), device(like)
    flat = xp.zeros((*batch_shape, rule.n_comparators), dtype=float_type(xp, where), device=where)
    count = xp.zeros(batch_shape, dtype=xp.int64, device=where)
    nothing = xp.zeros(batch_shape, dtype=flat.dtype, device=where)
    own = flat if rule.problem is not None else flat[..., :0]  # nobody acts
    return Ledger(rule.start(batch_shape, like=like), flat, own, count, count + 1, count, nothing)


def switches(rule: Rule, ledger: Ledger, newly: np.ndarray) -> tuple[Switch, ...]:
    """What there is to tell of the streams that have just switched."""
    statistic, threshold = map(to_numpy, rule.evidence(ledger.rule))
    step, episode = to_numpy(ledger.rule.step), to_numpy(ledger.episode)
    fresh = []
    for at in map(tuple, np.argwhere(newly).tolist()):
        stream = at[0] if len(at) == 1 else at
        margin = float(statistic[at]), float(threshold[at])
        fresh.append(Switch(stream, int(step[at]), type(rule).__name__, *margin, int(episode[at])))
    return tuple(fresh)
