"""Advices that wait for their outcomes as finite JSON numbers, and back: refused unless a run can have led there."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, device, namespace, to_numpy
from ..rules import Late, Rule, RuleMemory
from .before import known_again
from .standing import Advice, Standing

_IMPOSSIBLE = "state_dict does not fit: no run of this guard can have led to its counts of steps"


def waiting_told(at: Standing, told: Callable[[Any], Any]) -> dict[str, Any]:
    """How many steps were advised, and those that wait: each with its law and what else was known."""
    steps = [[one.step, told(one.probs), _dtype(one.probs), told(one.known)] for one in at.waiting]
    return {"advised": at.advised, "steps": steps}


def waiting_from(rule: Late, shape: tuple[int, ...], at: Standing, found: Any) -> Standing:
    """The standing with the advices that ``waiting_told`` wrote."""
    if not isinstance(found, dict) or not isinstance(found.get("steps"), list) or "advised" not in found:
        raise ValueError("state_dict does not fit: waiting must have the steps that wait, and how many were advised")
    advised, waiting = inputs.whole(found["advised"], "advised", least=0), []
    for values in found["steps"]:
        if not isinstance(values, list) or len(values) != 4:
            raise ValueError(f"state_dict does not fit: waiting holds {inputs.shown(values)}")
        step, law, dtype, known = values
        probs = advised_from(rule, shape, law, dtype, like=at.ledger.lead_A)
        waiting.append(Advice(inputs.whole(step, "step"), probs, known_again(rule, shape, probs, known), None))
    steps, closed = [one.step for one in waiting], at.ledger.rule.step + rule.missed(at.ledger.rule)
    right = steps == sorted(set(steps)) and all(advised - rule.lag < step <= advised for step in steps)
    if not right or advised < at.clock + len(steps):
        raise ValueError(f"state_dict does not fit: of {advised} steps, {at.clock} seen, {steps} cannot wait")
    if rule.horizon is not None and bool((closed + len(steps) > rule.horizon).any()):
        raise ValueError(_IMPOSSIBLE)
    return at._replace(waiting=tuple(waiting), advised=advised)


def advised_from(rule: Rule, shape: tuple[int, ...], law: Any, dtype: Any, like: Array) -> Array:
    """A law that was saved, as an array of the kind that ``like`` is."""
    if dtype not in ("float32", "float64"):
        raise ValueError(f"state_dict does not fit: dtype must be float32 or float64, got {dtype!r}")
    probs, xp = inputs.probs_of(law, rule.n_states, "advised", shape=shape), namespace(like)
    return xp.asarray(probs, dtype=getattr(xp, dtype), device=device(like))


def refuse_impossible_classes(rule: Late, memory: RuleMemory) -> None:
    """Classes whose numbers no run can have led to."""
    late, seen = memory.statistics, to_numpy(memory.step)
    steps_D = np.stack([to_numpy(part.step) for part in late.classes], axis=-1)
    tripped_D = np.stack([to_numpy(part.tripped_at) for part in late.classes], axis=-1)
    right = (steps_D >= 0).all() and (steps_D.sum(axis=-1) == seen).all()
    right = right and ((tripped_D >= 0) & (tripped_D <= np.maximum(steps_D, 1))).all()
    right = right and not (tripped_D.any(axis=-1) & (to_numpy(memory.tripped_at) == 0)).any()
    right = right and (to_numpy(late.missed_D) >= 0).all()
    right = right and ((to_numpy(late.turned_at) >= 0) & (to_numpy(late.turned_at) <= seen)).all()
    if not right or (rule.each.horizon is not None and (steps_D > rule.each.horizon).any()):
        raise ValueError(_IMPOSSIBLE)


def _dtype(probs: Array) -> str:
    return str(probs.dtype).removeprefix("torch.")
