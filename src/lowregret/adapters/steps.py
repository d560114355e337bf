"""Rows as steps of a guard: labels come in the order of the rows, or by the id that was given with a row."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..guard import Advice, Guard
from ..guard.events import LOG

KEPT = 100  # ids of steps that no longer wait: a label that comes too late, or twice, is known for one
SIDE = ("context", "references", "scale", "payoffs")  # what ``Guard.advise`` takes beside a forecast
Id = str | int


class Answers(NamedTuple):
    """What the guard advises for N rows."""

    policy_NxA: np.ndarray
    action_N: np.ndarray
    probs_NxS: np.ndarray  # the forecast that is acted on


def ask(guard: Guard, inputs_N: dict[str, Any], ids: Any = None) -> Answers:
    """The answers to N rows; ``inputs_N``: the arguments of ``advise``, each with a first axis of N.

    With ids each row is a step of its own, which keeps its answer until its label comes. Without, a single row is what
    ``advise`` takes it for: the step that waits, advised anew, or with a lag the next one. Several rows, or one row
    while others wait by id, take no step: each is answered as if it were the next.
    """
    n = len(inputs_N["forecast"])
    with guard.lock:
        if ids is not None:
            found = _take(guard, inputs_N, ids_of(ids, n))
        elif n == 1 and not set(guard.waiting) & set(_known(guard).values()):
            found = [guard.advise(**_row(inputs_N, 0))]
        else:
            advice = guard.fork(n).advise(**inputs_N)
            return Answers(advice.policy, advice.action, advice.forecast)
    return Answers(*(np.array([getattr(one, part) for one in found]) for part in ("policy", "action", "forecast")))


def _take(guard: Guard, inputs_N: dict[str, Any], ids: list[Id]) -> list[Advice]:
    """The advice of the steps with these ids, of which those that do not wait yet are taken now."""
    known = _known(guard)
    held = [step for step in guard.waiting if step in known.values()]
    fresh = [one for one in ids if known.get(one) not in held]
    if len(fresh) > guard.lag:
        raise ValueError(f"{len(fresh)} rows cannot wait for their labels at once where lag is {guard.lag}")
    if len(ids) > 1:
        guard.fork(len(ids)).advise(**inputs_N)  # what is refused is refused before any step is taken
    for row, one in enumerate(ids):
        if one in fresh:
            anew = guard.lag > 1 or not held  # else it is another step, for which that is given up
            known.pop(one, None)
            known[one] = guard.advise(**_row(inputs_N, row), step=None if anew else held[0] + 1).step
    kept = {"episode": guard.episodes, "ids": list(known.items())[-guard.lag - KEPT :]}
    guard.note = {**(guard.note or {}), "steps": kept}
    return [guard.advice(step=known[one]) for one in ids]


def waiting(guard: Guard, ids: Any = None, n: int = 1) -> list[int]:
    """The numbers of the n steps that wait longest; or of those with these ids, whether they wait or no longer do.

    It is 0 for a step of an earlier episode, which this one does not judge.
    """
    if ids is None:
        if n > len(waits := guard.waiting):
            raise ValueError(f"{n} labels were given, and {len(waits)} rows wait for one: predict each row first")
        return waits[:n]
    known = _known(guard)
    for one in (named := ids_of(ids, n)):
        if one not in known:
            wait = [name for name, step in known.items() if step in guard.waiting]
            raise ValueError(f"id {one!r} is unknown, or too old; those that wait: {inputs.shown(wait)}")
        if known[one] == 0:
            LOG.info("the label of id %r is ignored: its row belongs to an earlier episode", one)
    return [known[one] for one in named]


def _known(guard: Guard) -> dict[Id, int]:
    """The steps of ids: of those that wait, and of the last that no longer do.

    Without a lag a new episode uses the number of a step that was only advised anew.
    """
    kept = (guard.note or {}).get("steps", {"episode": 1, "ids": ()})
    return {one: step if kept["episode"] == guard.episodes else 0 for one, step in kept["ids"]}


def _row(inputs_N: dict[str, Any], row: int) -> dict[str, Any]:
    """The arguments of ``advise`` for one of the rows."""
    parts = {name: part[row] for name, part in inputs_N.items() if name != "references"}
    if "references" in inputs_N:
        parts["references"] = {name: probs_NxS[row] for name, probs_NxS in inputs_N["references"].items()}
    return parts


def ids_of(given: Any, n: int) -> list[Id]:
    """One id for each of n rows, texts or whole numbers; or the id itself where there is one row."""
    listed = np.atleast_1d(np.array(given, dtype=object))
    ids = [int(one) if isinstance(one, Integral) else one for one in listed]
    if not all(isinstance(one, (str, int)) for one in ids) or not len(ids) == n == len(set(ids)):
        wants = f"a text or a whole number for each row, {n} of them and all different"
        raise ValueError(f"id must be {wants}, got {inputs.shown(given)}")
    return ids
