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
from .ledger import Ledger, Return, Switch, blank, kind_of
from .likeness import Behaviour, alike, in_full, loaded_by, made_for
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
    mine, (theirs, is_early) = made_for(rule, batch_shape), in_full(d)
    if theirs != mine:
        differ = [k for k in mine | theirs if k not in mine or k not in theirs or theirs[k] != mine[k]]
        each = (f"{k} ({reprlib.repr(theirs.get(k))} against {reprlib.repr(mine.get(k))})" for k in differ)
        raise ValueError(f"state_dict was made by a guard that differs in: {', '.join(each)}{loaded_by(theirs, mine)}")
    needed = {"arrays", "ledger", "clock", "events", "advised", "dtype"} | (set() if is_early else {"says"})
    missing = needed - d.keys()
    if missing:
        raise ValueError(f"state_dict lacks {', '.join(sorted(missing))}")
    fresh = blank(rule, batch_shape, like=_array_of_kind(d["arrays"]))
    unlike = [] if is_early else alike(d["says"], says(fresh.lead_A))
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


def event_in_json(event: Switch | Return) -> list[Any]:
    told = event if isinstance(event, Return) or event[9:] != (None, None) else event[:9]  # as states always were
    values = [as_json(v) for v in told]
    return ["return", *values] if isinstance(event, Return) else values


def event_from(values: Any) -> Switch | Return:
    if isinstance(values, list) and values[:1] == ["return"]:
        return _return_from(values)
    try:
        stream, step, rule, statistic, threshold, episode, *what = values
        if what:
            action, rate, since, reference, context = [*what, None, None] if len(what) == 3 else what
            if reference is not None and not isinstance(reference, str):
                raise ValueError("reference must be a name")
            whole = (None if n is None else inputs.whole(n, "what spoke", 0) for n in (action, since, context))
            action, since, context = whole
            what = [action, None if rate is None else inputs.finite(rate, "rate"), since, reference, context]
        several = isinstance(stream, list)
        index = tuple(inputs.whole(i, "stream", least=0) for i in (stream if several else [stream]))
        step, episode = inputs.whole(step, "step"), inputs.whole(episode, "episode")
        statistic, threshold = (math.inf if v is None else inputs.finite(v, "a margin") for v in (statistic, threshold))
    except (TypeError, ValueError) as error:
        raise ValueError(f"state_dict does not fit: events hold {reprlib.repr(values)}") from error
    return Switch(index if several else index[0], step, str(rule), statistic, threshold, episode, *what)


def _return_from(values: list[Any]) -> Return:
    try:
        _, stream, step, share, episode = values
        several = isinstance(stream, list)
        index = tuple(inputs.whole(i, "stream", least=0) for i in (stream if several else [stream]))
        numbers = inputs.whole(step, "step"), inputs.not_negative(share, "share"), inputs.whole(episode, "episode")
    except (TypeError, ValueError) as error:
        raise ValueError(f"state_dict does not fit: events hold {reprlib.repr(values)}") from error
    return Return(index if several else index[0], *numbers)
