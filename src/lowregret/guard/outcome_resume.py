"""The state of a guard of outcomes as finite JSON numbers, and back."""

import math
import reprlib
from typing import Any

import numpy as np

from .. import inputs
from ..forecasts import Density, Forecast, Quantiles, Samples
from ..memory import restored
from ..rules import OutcomeTest
from .ledger import Event
from .likeness import alike
from .outcome_ledger import OutcomeLedger, blank
from .resume import event_from, event_in_json

_FORMS = {form.__name__: form for form in (Density, Quantiles, Samples)}


def made_for(rule: OutcomeTest, batch_shape: tuple[int, ...]) -> dict[str, Any]:
    """The settings: numbers and words, as JSON values."""
    payoff = rule.problem
    return {
        "rule": type(rule).__name__,
        "horizon": rule.horizon,
        "delta": rule.delta,
        "temperature": rule.temperature,
        "actions": [str(action) for action in payoff.actions],
        "low": payoff.low,
        "high": payoff.high,
        "knots": None if payoff.knots is None else payoff.knots.tolist(),
        "outcomes": [end if math.isfinite(end) else None for end in payoff.outcomes],
        "batch_shape": list(batch_shape),
    }


def _says(rule: OutcomeTest) -> dict[str, Any]:
    """What the payoffs are, where they must be known."""
    payoff = rule.problem
    ends = np.array([end for end in payoff.outcomes if math.isfinite(end)])
    return {"fn": payoff.utilities(ends if payoff.knots is None else payoff.knots).ravel().tolist()}


def written(
    rule: OutcomeTest,
    batch_shape: tuple[int, ...],
    ledger: Any,
    clock: int,
    events: tuple[Event, ...],
    forecast: Forecast | None,
) -> dict[str, Any]:
    """Where a guard stands, as JSON values; ``ledger`` as it is told."""
    return {
        "format": 1,
        "made_for": made_for(rule, batch_shape),
        "says": _says(rule),
        "ledger": ledger,
        "clock": clock,
        "events": [event_in_json(event) for event in events],
        "advised": None if forecast is None else {"form": type(forecast).__name__, **forecast.told()},
    }


def read(
    rule: OutcomeTest, batch_shape: tuple[int, ...], d: Any
) -> tuple[OutcomeLedger, int, tuple[Event, ...], Forecast | None]:
    """What ``written`` wrote for a guard like this one."""
    if not isinstance(d, dict) or d.get("format") != 1:
        raise ValueError("state_dict must be what Guard.state_dict returned (format 1)")
    mine, theirs = made_for(rule, batch_shape), d.get("made_for")
    theirs = theirs if isinstance(theirs, dict) else {}
    if theirs != mine:
        differ = [k for k in mine | theirs if k not in mine or k not in theirs or theirs[k] != mine[k]]
        each = (f"{k} ({reprlib.repr(theirs.get(k))} against {reprlib.repr(mine.get(k))})" for k in differ)
        raise ValueError(f"state_dict was made by a guard that differs in: {', '.join(each)}")
    missing = {"says", "ledger", "clock", "events", "advised"} - d.keys()
    if missing:
        raise ValueError(f"state_dict lacks {', '.join(sorted(missing))}")
    if alike(d["says"], _says(rule)):
        raise ValueError("state_dict was made by a guard that differs in: fn (its payoffs are others)")
    ledger = restored(blank(rule, batch_shape), d["ledger"], fresh=True)
    _refuse_impossible(rule, ledger)
    clock = inputs.whole(d["clock"], "clock", least=0)
    if not isinstance(d["events"], list):
        raise ValueError(f"state_dict does not fit: events must be a list, got {type(d['events']).__name__}")
    return (
        ledger,
        clock,
        tuple(event_from(values) for values in d["events"]),
        _forecast(rule, batch_shape, d["advised"]),
    )


def _forecast(rule: OutcomeTest, batch_shape: tuple[int, ...], told: Any) -> Forecast | None:
    if told is None:
        return None
    form = _FORMS.get(told.get("form", "")) if isinstance(told, dict) else None
    if form is None:
        raise ValueError(f"state_dict does not fit: advised must be a forecast, got {reprlib.repr(told)}")
    try:
        forecast = form(**{name: value for name, value in told.items() if name != "form"})
    except TypeError as error:
        raise ValueError(f"state_dict does not fit: advised is not what {form.__name__} is made of") from error
    return rule.fits(forecast, batch_shape)


def _refuse_impossible(rule: OutcomeTest, ledger: OutcomeLedger) -> None:
    """A saved ledger whose numbers no run can have led to."""
    memory = ledger.rule
    right = (memory.tripped_at >= 0) & (memory.tripped_at <= memory.step)
    right = right & (memory.turned_at >= 0) & (memory.turned_at <= memory.step)
    right = right & (ledger.reported >= 0) & (ledger.reported <= memory.step) & (ledger.episode >= 1)
    right = right & (ledger.past_steps >= 0) & (memory.experts.gap >= 0) & (memory.paid_CxK >= 0).all(axis=(-2, -1))
    if not right.all() or (rule.horizon is not None and (memory.step > rule.horizon).any()):
        raise ValueError("state_dict does not fit: no run of this guard can have led to its counts of steps")
