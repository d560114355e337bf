"""A guard's state as finite JSON numbers, and back: refused unless a guard like this one can have been there."""

import math
import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, device, namespace, to_numpy
from ..memory import restored, saved
from ..rules import Late, Rule, RuleMemory
from .known import forecast_again, forecast_told, known_again, known_told
from .ledger import TURNS, Event, Ledger, Switch, blank, kind_of
from .likeness import Behaviour, alike, made_for
from .standing import Due, Standing, over, standing
from .steps import due_with
from .streams import Labels, labels_from, labels_told

_IMPOSSIBLE = "state_dict does not fit: no run of this guard can have led to its counts of steps"


def written(rule: Rule, at: Standing, says: dict[str, Any], told: Callable[[Any], Any] = saved) -> dict[str, Any]:
    """Where a guard with this rule, which behaves as it ``says``, stands: JSON values, arrays as they are ``told``."""
    return {
        "format": 1,
        "made_for": made_for(rule, tuple(at.ledger.episode.shape)),
        "says": says,
        "arrays": list(kind_of(at.ledger.lead_A)),
        "ledger": told(at.ledger),
        "clock": at.clock,
        "events": [event_in_json(event) for event in at.events],
        "advised": at.advised,
        "waiting": [_due_told(due, told) for due in at.waiting],
        **labels_told(at.labels, told),
    }


def _due_told(due: Due, told: Callable[[Any], Any]) -> list[Any]:
    given_up = None if due.given_up is None else told(due.given_up)
    return [due.step, forecast_told(due.forecast, told), known_told(due.known, told), given_up]


def read(rule: Rule, batch_shape: tuple[int, ...], d: Any, says: Behaviour, labels: Labels | None) -> Standing:
    """What ``written`` wrote for a guard like this one; ``says`` is how it behaves, ``labels`` its streams' names."""
    if not isinstance(d, dict) or d.get("format") != 1:
        raise ValueError("state_dict must be what Guard.state_dict returned (format 1)")
    mine, theirs = made_for(rule, batch_shape), d.get("made_for")
    theirs = theirs if isinstance(theirs, dict) else {}
    if theirs != mine:
        differ = [k for k in mine | theirs if k not in mine or k not in theirs or theirs[k] != mine[k]]
        each = (f"{k} ({reprlib.repr(theirs.get(k))} against {reprlib.repr(mine.get(k))})" for k in differ)
        raise ValueError(f"state_dict was made by a guard that differs in: {', '.join(each)}")
    missing = {"says", "arrays", "ledger", "clock", "events", "advised", "waiting"} - d.keys()
    if missing:
        raise ValueError(f"state_dict lacks {', '.join(sorted(missing))}")
    fresh = blank(rule, batch_shape, like=_array_of_kind(d["arrays"]))
    unlike = alike(d["says"], says(fresh.lead_A))
    if unlike:
        parts = ", ".join(f"{part} ({type(getattr(rule, part, rule)).__name__} behaves otherwise)" for part in unlike)
        raise ValueError(f"state_dict was made by a guard that differs in: {parts}")
    ledger = restored(fresh, d["ledger"], fresh=True)
    _refuse_impossible(rule, ledger)
    for part in ("events", "waiting"):
        if not isinstance(d[part], list):
            raise ValueError(f"state_dict does not fit: {part} must be a list, got {type(d[part]).__name__}")
    at = Standing(
        ledger,
        inputs.whole(d["clock"], "clock", least=0),
        tuple(event_from(values) for values in d["events"]),
        (),
        inputs.whole(d["advised"], "advised", least=0),
        labels_from(d.get("streams"), batch_shape, labels),
    )
    at = standing(at._replace(waiting=tuple(_due_from(rule, batch_shape, ledger, values) for values in d["waiting"])))
    steps = [due.step for due in at.waiting]
    right = steps == sorted(set(steps)) and all(at.advised - rule.lag < step <= at.advised for step in steps)
    if not right or at.advised < at.clock + len(steps):
        raise ValueError(f"state_dict does not fit: of {at.advised} steps, {at.clock} seen, {steps} cannot wait")
    if rule.horizon is not None and bool((over(at) > rule.horizon).any()):
        raise ValueError(_IMPOSSIBLE)
    return at


def _due_from(rule: Rule, shape: tuple[int, ...], ledger: Ledger, values: Any) -> Due:
    """A step that waits, as ``_due_told`` wrote it."""
    if not isinstance(values, list) or len(values) != 4:
        raise ValueError(f"state_dict does not fit: waiting holds {inputs.shown(values)}")
    step, forecast, known, given_up = values
    try:
        step = inputs.whole(step, "step")
        forecast = forecast_again(rule, shape, forecast, like=ledger.lead_A)
        known = known_again(rule, shape, forecast, known)
        given_up = None if given_up is None else np.asarray(given_up)
    except ValueError as error:
        raise ValueError(f"state_dict does not fit: waiting: {error}") from error
    if given_up is not None and (given_up.shape != shape or given_up.dtype != bool):
        raise ValueError(f"state_dict does not fit: waiting holds {inputs.shown(values)}")
    return due_with(rule, ledger.rule, step, forecast, known, given_up)


def _refuse_impossible(rule: Rule, ledger: Ledger) -> None:
    """A saved ledger whose numbers no run can have led to."""
    step, tripped_at = to_numpy(ledger.rule.step), to_numpy(ledger.rule.tripped_at)
    reported, episode, missed = to_numpy(ledger.reported), to_numpy(ledger.episode), to_numpy(ledger.missed)
    past_steps, past_bound = to_numpy(ledger.past_steps), to_numpy(ledger.past_bound)
    right = (tripped_at >= 0) & (tripped_at <= step) & (reported >= 0) & (reported <= step) & (missed >= 0)
    right = right & (episode >= 1) & (past_steps >= 0) & (to_numpy(ledger.gap) >= 0)
    right = right if rule.of_numbers else right & (past_bound >= 0)
    if not right.all() or (rule.horizon is not None and (step + missed > rule.horizon).any()):
        raise ValueError(_IMPOSSIBLE)
    each, parts = rule.each, (ledger.rule,)
    if isinstance(rule, Late):
        _refuse_impossible_classes(rule, ledger.rule)
        parts = ledger.rule.statistics.classes
    if rule.of_numbers:
        for part in parts:
            _refuse_impossible_numbers(part)
        return
    xp, S = namespace(ledger.lead_A), rule.n_states
    even = xp.full((*step.shape, S), 1 / S, dtype=ledger.lead_A.dtype, device=device(ledger.lead_A))
    for part in parts:
        try:
            answer = each.fallback_answer(part, even)
        except Exception as error:  # whatever a predictor does with nonsense
            raise ValueError(f"state_dict does not fit: the fallback cannot go on from its memory: {error}") from error
        inputs.probs_of(answer, rule.in_play.width, "state_dict: the fallback's probabilities", shape=step.shape)


def _refuse_impossible_numbers(part: RuleMemory) -> None:
    """The same of what is remembered where outcomes are numbers."""
    turned_at: Any = getattr(part.fallback, "turned_at", part.step)
    rows = getattr(part.fallback, "rows", None)
    right = (turned_at >= 0).all() and (turned_at <= part.step).all() and (part.statistics.charges >= 0).all()
    if not right or (rows is not None and (rows.gap < 0).any()):
        raise ValueError(_IMPOSSIBLE)


def _refuse_impossible_classes(rule: Late, memory: RuleMemory) -> None:
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


def _array_of_kind(kind: Any) -> Array | None:
    """An array such as ``kind_of`` described."""
    if kind == ["numpy", "cpu"]:
        return None
    if not isinstance(kind, list) or len(kind) != 2 or kind[0] != "torch" or not isinstance(kind[1], str):
        raise ValueError(f"state_dict does not fit: arrays must be ['numpy', 'cpu'] or ['torch', device], got {kind!r}")
    import torch

    try:
        return torch.zeros(0, device=kind[1])
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"state_dict does not fit: arrays were on {kind[1]!r}, which is not here") from error


def as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return inputs.finite_or_none(value) if isinstance(value, float) else value


def event_in_json(event: Event) -> list[Any]:
    return [type(event).__name__.lower(), *map(as_json, event)]


def event_from(values: Any) -> Event:
    """What ``event_in_json`` told: its kind, then its fields."""
    try:
        kind, stream, step, *more = values
        several = isinstance(stream, list)
        first, *rest = stream if several and stream else [stream]
        first = first if isinstance(first, (str, list)) else inputs.whole(first, "stream", least=0)
        index = (*([] if first == [] else [first]), *(inputs.whole(i, "stream", least=0) for i in rest))
        where = index if several else index[0], inputs.whole(step, "step")
        if kind in TURNS:
            share, episode, known = more
            return TURNS[kind](
                *where, inputs.not_negative(share, "share"), inputs.whole(episode, "episode"), _or(known)
            )
        if kind != "switch":
            raise ValueError("an event is a switch, a return or left")
        rule, statistic, threshold, episode, action, rate, since, reference, context, known, whom, gain, says = more
        if not all(isinstance(name, (str, type(None))) for name in (reference, whom, says)):
            raise ValueError("reference must be a name")
        gain = None if gain is None else inputs.finite(gain, "gain")
        episode, rate = inputs.whole(episode, "episode"), None if rate is None else inputs.finite(rate, "rate")
        what: tuple[Any, ...] = _or(action), rate, _or(since), reference, _or(context), _or(known), whom, gain, says
        statistic, threshold = (math.inf if v is None else inputs.finite(v, "a margin") for v in (statistic, threshold))
    except (TypeError, ValueError) as error:
        raise ValueError(f"state_dict does not fit: events hold {reprlib.repr(values)}") from error
    return Switch(*where, str(rule), statistic, threshold, episode, *what)


def _or(value: Any) -> int | None:
    """A whole number, or none."""
    return None if value is None else inputs.whole(value, "what spoke", 0)
