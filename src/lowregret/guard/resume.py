"""A guard's state as finite JSON numbers, and back: refused unless a guard like this one can have been there."""

import math
import reprlib
from collections.abc import Callable
from typing import Any

from .. import inputs
from ..arrays import Array, device, namespace, to_numpy
from ..memory import restored, saved
from ..rules import Late, Rule
from .before import known_again
from .late_resume import advised_from, refuse_impossible_classes, waiting_from, waiting_told
from .ledger import TURNS, Event, Ledger, Switch, blank, kind_of
from .likeness import Behaviour, alike, made_for
from .numbers import numbers_from, numbers_told
from .standing import Standing, standing


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
        "advised": None if at.probs is None else told(at.probs),
        "dtype": None if at.probs is None else str(at.probs.dtype).removeprefix("torch."),
        **({} if at.known is None else {"known": told(at.known)}),
        **({"waiting": waiting_told(at, told)} if isinstance(rule, Late) else {}),
        **numbers_told(at.numbers, told),
    }


def read(rule: Rule, batch_shape: tuple[int, ...], d: Any, says: Behaviour) -> Standing:
    """What ``written`` wrote for a guard like this one; ``says`` is how it behaves."""
    if not isinstance(d, dict) or d.get("format") != 1:
        raise ValueError("state_dict must be what Guard.state_dict returned (format 1)")
    mine, theirs = made_for(rule, batch_shape), d.get("made_for")
    theirs = theirs if isinstance(theirs, dict) else {}
    if theirs != mine:
        differ = [k for k in mine | theirs if k not in mine or k not in theirs or theirs[k] != mine[k]]
        each = (f"{k} ({reprlib.repr(theirs.get(k))} against {reprlib.repr(mine.get(k))})" for k in differ)
        raise ValueError(f"state_dict was made by a guard that differs in: {', '.join(each)}")
    missing = {"says", "arrays", "ledger", "clock", "events", "advised", "dtype"} - d.keys()
    if missing:
        raise ValueError(f"state_dict lacks {', '.join(sorted(missing))}")
    fresh = blank(rule, batch_shape, like=_array_of_kind(d["arrays"]))
    unlike = alike(d["says"], says(fresh.lead_A))
    if unlike:
        parts = ", ".join(f"{part} ({type(getattr(rule, part, rule)).__name__} behaves otherwise)" for part in unlike)
        raise ValueError(f"state_dict was made by a guard that differs in: {parts}")
    ledger = restored(fresh, d["ledger"], fresh=True)
    _refuse_impossible(rule, ledger)
    clock = inputs.whole(d["clock"], "clock", least=0)
    if not isinstance(d["events"], list):
        raise ValueError(f"state_dict does not fit: events must be a list, got {type(d['events']).__name__}")
    events = tuple(event_from(values) for values in d["events"])
    probs = None
    if d["advised"] is not None:
        rule.refuse_past_horizon(ledger.rule)
        probs = advised_from(rule, batch_shape, d["advised"], d["dtype"], like=fresh.lead_A)
    known = None if probs is None else known_again(rule, batch_shape, probs, d.get("known"))
    found = standing(ledger, clock, events, probs, known, numbers_from(d.get("streams"), batch_shape))
    return waiting_from(rule, batch_shape, found, d.get("waiting")) if isinstance(rule, Late) else found


def _refuse_impossible(rule: Rule, ledger: Ledger) -> None:
    """A saved ledger whose numbers no run can have led to."""
    step, tripped_at = to_numpy(ledger.rule.step), to_numpy(ledger.rule.tripped_at)
    reported, episode = to_numpy(ledger.reported), to_numpy(ledger.episode)
    past_steps, past_bound = to_numpy(ledger.past_steps), to_numpy(ledger.past_bound)
    right = (tripped_at >= 0) & (tripped_at <= step) & (reported >= 0) & (reported <= step)
    right = right & (episode >= 1) & (past_steps >= 0) & (past_bound >= 0)
    if not right.all() or (rule.horizon is not None and (step > rule.horizon).any()):
        raise ValueError("state_dict does not fit: no run of this guard can have led to its counts of steps")
    xp, S = namespace(ledger.lead_A), rule.n_states
    even = xp.full((*step.shape, S), 1 / S, dtype=ledger.lead_A.dtype, device=device(ledger.lead_A))
    each, parts = rule, (ledger.rule,)
    if isinstance(rule, Late):
        refuse_impossible_classes(rule, ledger.rule)
        each, parts = rule.each, ledger.rule.statistics.classes
    for part in parts:
        try:
            answer = each.fallback_answer(part, even)
        except Exception as error:  # whatever a predictor does with nonsense
            raise ValueError(f"state_dict does not fit: the fallback cannot go on from its memory: {error}") from error
        inputs.probs_of(answer, rule.in_play.width, "state_dict: the fallback's probabilities", shape=step.shape)


def _array_of_kind(kind: Any) -> Array | None:
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


def as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def event_in_json(event: Event) -> list[Any]:
    return [type(event).__name__.lower(), *map(as_json, event)]


def event_from(values: Any) -> Event:
    """What ``event_in_json`` told: its kind, then its fields."""
    try:
        kind, stream, step, *more = values
        several = isinstance(stream, list)
        index = tuple(inputs.whole(i, "stream", least=0) for i in (stream if several else [stream]))
        where = index if several else index[0], inputs.whole(step, "step")
        if kind in TURNS:
            share, episode, known = more
            return TURNS[kind](
                *where, inputs.not_negative(share, "share"), inputs.whole(episode, "episode"), _or(known)
            )
        if kind != "switch":
            raise ValueError("an event is a switch, a return or left")
        rule, statistic, threshold, episode, action, rate, since, reference, context, known = more
        if reference is not None and not isinstance(reference, str):
            raise ValueError("reference must be a name")
        episode, rate = inputs.whole(episode, "episode"), None if rate is None else inputs.finite(rate, "rate")
        what: tuple[Any, ...] = _or(action), rate, _or(since), reference, _or(context), _or(known)
        statistic, threshold = (math.inf if v is None else inputs.finite(v, "a margin") for v in (statistic, threshold))
    except (TypeError, ValueError) as error:
        raise ValueError(f"state_dict does not fit: events hold {reprlib.repr(values)}") from error
    return Switch(*where, str(rule), statistic, threshold, episode, *what)


def _or(value: Any) -> int | None:
    """A whole number, or none."""
    return None if value is None else inputs.whole(value, "what spoke", 0)
