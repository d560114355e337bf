"""A guard's state as finite JSON numbers, and back: refused unless a guard like this one can have been there."""

import math
import reprlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, device, namespace, to_numpy
from ..memory import restored, saved
from ..rules import Late, Rule, RuleMemory
from .known import forecast_again, forecast_told, known_again, known_told
from .ledger import EVENTS, Event, Ledger, blank, kind_of
from .memory import Due, GuardMemory, over, standing
from .steps import due_with
from .streams import Labels, labels_from, labels_told

# What two guards must share to exchange their states: settings by name.


_PLACES = 6  # of payoffs: the same function may answer differently on another machine


def made_for(rule: Rule, batch_shape: tuple[int, ...]) -> dict[str, Any]:
    """The settings: numbers, words and tables, as JSON values."""
    return {
        **_settings_of(rule),
        "rule": type(rule).__name__,
        **_problem_told(rule),
        "fallback": _described(rule.fallback),
        "batch_shape": list(batch_shape),
    }


def _problem_told(rule: Rule) -> dict[str, Any]:
    problem: Any = rule.problem
    if problem is None:
        return {"utility": None, "names": None}
    if not rule.of_numbers:
        return {"utility": problem.utility.tolist(), "names": [list(problem.actions), list(problem.states)]}
    return {
        "actions": [str(action) for action in problem.actions],
        "low": problem.low,
        "high": problem.high,
        "knots": None if problem.knots is None else problem.knots.tolist(),
        "outcomes": [inputs.finite_or_none(end) for end in problem.outcomes],
        "fn": _payoffs_told(problem),
    }


def _payoffs_told(payoff: Any) -> list[float]:
    """What payoffs are, where they must be known."""
    ends = np.array([end for end in payoff.outcomes if math.isfinite(end)])
    told = payoff.utilities(ends if payoff.knots is None else payoff.knots)
    found: list[float] = np.round(told, _PLACES).ravel().tolist()
    return found


def _described(thing: Any) -> list[Any]:
    return [type(thing).__name__, _settings_of(thing)]


def _settings_of(thing: Any) -> dict[str, Any]:
    """The settings of a rule or a predictor that can be told in JSON; functions by their names, parts in turn."""
    names = [field.name for field in fields(thing)] if is_dataclass(thing) else []
    values = {name: getattr(thing, name) for name in names if name != "problem"}
    told = {name: _told(value) for name, value in values.items()}
    return {name: value for name, value in told.items() if value is not _UNTOLD}


_UNTOLD = object()


def _told(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, tuple):
        return [_told(part) for part in value]
    if is_dataclass(value):
        return _described(value)
    if isinstance(value, (int, float, str, list, type(None))):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__) if callable(value) else _UNTOLD


_IMPOSSIBLE = "state_dict does not fit: no run of this guard can have led to its counts of steps"


def written(rule: Rule, at: GuardMemory, told: Callable[[Any], Any] = saved) -> dict[str, Any]:
    """Where a guard with this rule stands: JSON values, arrays as they are ``told``."""
    return {
        "format": 1,
        "made_for": made_for(rule, tuple(at.ledger.episode.shape)),
        "arrays": list(kind_of(at.ledger.lead_A)),
        "ledger": told(at.ledger),
        "clock": at.clock,
        "events": [event_in_json(event) for event in at.events],
        "advised": at.advised,
        "waiting": [_due_told(due, told) for due in at.waiting],
        **labels_told(at.labels, told),
    }


def _due_told(due: Due, told: Callable[[Any], Any]) -> list[Any]:
    return [due.step, forecast_told(due.forecast, told), known_told(due.known, told)]


def read(rule: Rule, batch_shape: tuple[int, ...], d: Any, labels: Labels | None) -> GuardMemory:
    """What ``written`` wrote for a guard like this one; ``labels``: its streams' names."""
    if not isinstance(d, dict) or d.get("format") != 1:
        raise ValueError("state_dict must be what Guard.state_dict returned (format 1)")
    mine, theirs = made_for(rule, batch_shape), d.get("made_for")
    theirs = theirs if isinstance(theirs, dict) else {}
    if theirs != mine:
        differ = [k for k in mine | theirs if k not in mine or k not in theirs or theirs[k] != mine[k]]
        each = (f"{k} ({reprlib.repr(theirs.get(k))} against {reprlib.repr(mine.get(k))})" for k in differ)
        raise ValueError(f"state_dict was made by a guard that differs in: {', '.join(each)}")
    missing = {"arrays", "ledger", "clock", "events", "advised", "waiting"} - d.keys()
    if missing:
        raise ValueError(f"state_dict lacks {', '.join(sorted(missing))}")
    fresh = blank(rule, batch_shape, like=_array_of_kind(d["arrays"]))
    ledger = restored(fresh, d["ledger"], fresh=True)
    _refuse_impossible(rule, ledger)
    for part in ("events", "waiting"):
        if not isinstance(d[part], list):
            raise ValueError(f"state_dict does not fit: {part} must be a list, got {type(d[part]).__name__}")
    at = GuardMemory(
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
    if not isinstance(values, list) or len(values) != 3:
        raise ValueError(f"state_dict does not fit: waiting holds {inputs.shown(values)}")
    step, forecast, known = values
    try:
        step = inputs.whole(step, "step")
        forecast = forecast_again(rule, shape, forecast, like=ledger.lead_A)
        known = known_again(rule, shape, forecast, known)
    except ValueError as error:
        raise ValueError(f"state_dict does not fit: waiting: {error}") from error
    return due_with(rule, ledger.rule, step, forecast, known)


def _refuse_impossible(rule: Rule, ledger: Ledger) -> None:
    """A saved ledger whose numbers no run can have led to."""
    step, tripped_at = to_numpy(ledger.rule.step), to_numpy(ledger.rule.tripped_at)
    reported, episode, missed = to_numpy(ledger.reported), to_numpy(ledger.episode), to_numpy(ledger.missed)
    past_steps, past_bound = to_numpy(ledger.past_steps), to_numpy(ledger.past_bound)
    right = (tripped_at >= 0) & (tripped_at <= step) & (reported >= 0) & (reported <= step) & (missed >= 0)
    right = right & (episode >= 1) & (past_steps >= 0)
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
        width = rule.in_play.width
        inputs.probs_of(answer, width, "state_dict: the fallback's probabilities", shape=step.shape)


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


def event_in_json(event: Event) -> dict[str, Any]:
    """Its kind, and its fields by name."""
    return {"event": type(event).__name__.lower(), **{name: as_json(value) for name, value in event._asdict().items()}}


def event_from(told: Any) -> Event:
    """What ``event_in_json`` told. A field that is not there has its default: it is younger than what was saved."""
    try:
        kind = EVENTS[told["event"]]
        return kind(**{name: _READ[name](value) for name, value in told.items() if name != "event"})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"state_dict does not fit: events hold {reprlib.repr(told)}") from error


def _stream(value: Any) -> Any:
    several = isinstance(value, list)
    first, *rest = value if several and value else [value]
    first = first if isinstance(first, (str, list)) else inputs.whole(first, "stream", least=0)
    index = (*([] if first == [] else [first]), *(inputs.whole(i, "stream", least=0) for i in rest))
    return index if several else index[0]


def _margin(value: Any) -> float:
    return math.inf if value is None else inputs.finite(value, "a margin")


def _some_number(value: Any) -> float | None:
    return None if value is None else inputs.finite(value, "a number")


def _some_count(value: Any) -> int | None:
    return None if value is None else inputs.whole(value, "what spoke", 0)


def _some_name(value: Any) -> str | None:
    if not isinstance(value, (str, type(None))):
        raise ValueError("reference must be a name")
    return value


_READ: dict[str, Callable[[Any], Any]] = {
    "stream": _stream,
    **dict.fromkeys(("step", "episode"), lambda value: inputs.whole(value, "step")),
    "rule": str,
    **dict.fromkeys(("statistic", "threshold"), _margin),
    "share": lambda value: inputs.not_negative(value, "share"),
    **dict.fromkeys(("rate", "gain"), _some_number),
    **dict.fromkeys(("action", "since", "context", "known"), _some_count),
    **dict.fromkeys(("reference", "whom"), _some_name),
}  # how each field of an event is read
