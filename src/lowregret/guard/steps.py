"""A step of a guard: it is advised, waits for its outcome, and is judged or given up. Each makes a new standing.

Outcomes may come late, in any order within the lag. Step t belongs to the class (t - 1) mod lag, of which at most one
step waits at a time: what a class remembers stays as it was when the step was advised until its outcome comes. With a
lag of 1, the ordinary case, there is one class.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, device, last, namespace, to_numpy
from ..memory import where as choose
from ..problems import Known, Positions, actions_of
from ..rules import Rule, RuleMemory
from .advice import acts_in, answer_of
from .ledger import Event, Ledger, Switch, entered, happened, just_tripped, moved_to, own_copy, place_of
from .memory import Due, GuardMemory, over
from .streams import relabelled


def numbered_step(rule: Rule, at: GuardMemory, step: int | None) -> int:
    """Which step is advised: by default the next, or with a lag of 1 the one that waits, anew."""
    due = [each.step for each in at.waiting]
    if step is None:
        return due[0] if due and rule.lag == 1 else at.advised + 1
    step = inputs.whole(step, "step")
    if step > at.advised + 1 or (step <= at.advised and step not in due):
        again = f", or one that waits for its outcome ({_listed(due)})" if due else ""
        raise ValueError(f"step must be the next, {at.advised + 1}{again}, got {step}")
    if step > at.advised and rule.lag == 1 and due:
        raise ValueError(f"the outcome of step {due[0]} must come before step {step} is advised, or skip() gives it up")
    return step


def advised(
    rule: Rule, shape: tuple[int, ...], at: GuardMemory, forecast: Any, known: Known | None, step: int
) -> tuple[GuardMemory, Due]:
    """The standing in which a step waits for its outcome."""
    others = tuple(each for each in at.waiting if each.step != step)
    if step > at.advised and others and others[0].step <= step - rule.lag:
        raise ValueError(
            f"the outcome of step {others[0].step} is missing: with a lag of {rule.lag} it must be observed, or given "
            f"up by skip(step={others[0].step}), before step {step} is advised"
        )
    ledger = at.ledger
    if not rule.of_numbers and (type(forecast) is not np.ndarray or type(ledger.lead_A) is not np.ndarray):
        ledger = moved_to(rule, shape, ledger, forecast, begun=at.clock > 0 or bool(others))
    place = (step - 1) % rule.lag
    memory = rule.opened(ledger.rule, place) if at.any_tripped else ledger.rule
    kept = forecast if rule.of_numbers else own_copy(forecast)
    due = due_with(rule, memory, step, kept, known)
    waiting = (due,) if not others else tuple(sorted((*others, due), key=lambda each: each.step))
    if memory is not ledger.rule:
        ledger = ledger._replace(rule=memory)
    return at._replace(ledger=ledger, waiting=waiting, advised=max(at.advised, step)), due


def observed(
    rule: Rule, shape: tuple[int, ...], at: GuardMemory, outcome: Any, action: Any, step: int | None, missing: Any
) -> tuple[GuardMemory, tuple[Event, ...]]:
    """The standing after the outcome of a step that waited for it, and what there is to tell."""
    due = due_of(rule, at, step, at.waiting[:1])
    old = at.ledger
    came, none = _came(rule, outcome, shape, old.lead_A, missing)
    if action is not None:
        names = acts_in(rule, "observe(state, action)").action_names
        action = actions_of(names, action, "action", shape=shape, like=old.lead_A)
    if none is not None and none.all():
        return skipped(rule, at, due.step), ()
    place, each, known = (due.step - 1) % rule.lag, rule.each, due.moment.known
    earned_A = last(each.leads(answer_of(rule, old.rule, due, at.any_tripped or rule.untested), came, known))
    memory = rule.joined(old.rule, place, each.advance(rule.of(old.rule, place), due.moment, came))
    told_more = rule.of_numbers or rule.knows is not None
    ledger = entered(old, rule, memory, earned_A, came, action, known if told_more else None)
    waiting = tuple(one for one in at.waiting if one is not due)
    if none is not None:
        ledger = choose(_like(none, old.lead_A), _without(rule, old, place), ledger)
    fresh = happened(rule, ledger, none)
    if any(isinstance(event, Switch) for event in fresh):
        xp, worst = namespace(ledger.lead_A), rule.worst_lead(ledger.lead_A)
        ledger = ledger._replace(at_alarm=xp.where(just_tripped(ledger.rule), worst, ledger.at_alarm))
    after = at._replace(
        ledger=ledger,
        clock=at.clock + 1,
        waiting=waiting,
        longest=at.longest + 1,
        any_tripped=at.any_tripped or bool(fresh),
    )
    if fresh:
        fresh = relabelled(_dated(rule, after, fresh, due.step), at.labels)
        after = after._replace(events=at.events + fresh)
    return after, fresh


def skipped(rule: Rule, at: GuardMemory, step: int | None) -> GuardMemory:
    """The standing after the outcome of a step was given up."""
    due = due_of(rule, at, step, at.waiting[:1])
    waiting = tuple(one for one in at.waiting if one is not due)
    ledger = _without(rule, at.ledger, (due.step - 1) % rule.lag)
    return at._replace(ledger=ledger, waiting=waiting, longest=at.longest + 1)


def due_of(rule: Rule, at: GuardMemory, step: int | None, usual: tuple[Due, ...]) -> Due:
    """The step of this number that waits for its outcome."""
    if step is None:
        if not usual:
            raise ValueError("advise(forecast) must come before this: no step waits for its outcome")
        return usual[0]
    step = inputs.whole(step, "step")
    for one in at.waiting:
        if one.step == step:
            return one
    wait = f"; those that wait: {_listed(one.step for one in at.waiting)}" if at.waiting else "; none waits"
    if step > at.advised:
        raise ValueError(f"step {step} has not been advised: the last was {at.advised}{wait}")
    if step <= at.advised - rule.lag:
        raise ValueError(
            f"step {step} is over: with a lag of {rule.lag} its outcome was seen, or given up, before step "
            f"{step + rule.lag} was advised{wait}"
        )
    raise ValueError(f"the outcome of step {step} has been seen already, or was given up{wait}")


def refuse_while_waiting(rule: Rule, at: GuardMemory, what: str) -> None:
    """What cannot be done while outcomes are due late; a single one is forgotten instead."""
    if at.waiting and rule.lag > 1:
        steps = _listed(one.step for one in at.waiting)
        raise ValueError(f"{what} must wait for the outcomes of steps {steps}: observe them, or skip(step) first")


def forgotten(at: GuardMemory) -> GuardMemory:
    """The standing without the step that waits for its outcome: it never was."""
    return at._replace(waiting=(), advised=at.advised - len(at.waiting))


def due_with(rule: Rule, memory: RuleMemory, step: int, forecast: Any, known: Known | None) -> Due:
    """A step that waits, with what follows from what was said of it and from what its class remembers."""
    moment = rule.each.look(rule.of(memory, (step - 1) % rule.lag), forecast, known)
    return Due(step, forecast, known, moment)


def _without(rule: Rule, old: Ledger, place: int) -> Ledger:
    return old._replace(rule=rule.missing(old.rule, place), missed=old.missed + 1)


def _like(mask: np.ndarray, like: Array) -> Array:
    return namespace(like).asarray(mask, device=device(like))


def _came(
    rule: Rule, outcome: Any, shape: tuple[int, ...], like: Array, missing: Any
) -> tuple[Array, np.ndarray | None]:
    """The outcome that came in each stream, and where none did (None: nowhere)."""
    none = _missing(outcome, shape, missing)
    if none is not None:
        outcome = _filled(rule, outcome, none)
    if rule.of_numbers:
        return rule.problem.outcomes_of(outcome, "outcome", shape=shape), none  # type: ignore[union-attr]
    names = rule.state_names
    if names is None:
        return inputs.tokens_of(outcome, rule.n_states, "state", shape=shape, like=like), none
    return names.positions(outcome, "state", shape=shape, like=like), none


def _missing(outcome: Any, shape: tuple[int, ...], missing: Any) -> np.ndarray | None:
    """Where there is no outcome: None among them, masked, or in the mask that was given."""
    if missing is not None:
        mask = to_numpy(inputs.array_of(missing, "missing"))
        if mask.shape != shape or mask.dtype != bool:
            raise ValueError(f"missing must be a mask of shape {shape}, got {inputs.shown(missing)}")
        return mask if mask.any() else None
    if isinstance(outcome, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(outcome)
    elif shape and (isinstance(outcome, (list, tuple)) or getattr(getattr(outcome, "dtype", None), "kind", "") == "O"):
        mask = np.array([one is None for one in np.ravel(np.array(outcome, dtype=object))]).reshape(-1)
        mask = mask.reshape(shape) if mask.size == math.prod(shape) else mask[:0]
    else:
        return None
    return mask if mask.shape == shape and mask.any() else None


def _filled(rule: Rule, outcome: Any, none: np.ndarray) -> Any:
    """Outcomes with some that are possible where there are none."""
    if none.all():
        return _any_outcome(rule, none.shape)
    if isinstance(outcome, Positions):
        return Positions(_filled(rule, outcome.at, none))
    values = np.array(outcome, dtype=object) if isinstance(outcome, (list, tuple)) else outcome
    values = values if isinstance(values, np.ma.MaskedArray) else to_numpy(inputs.array_of(values, "outcomes"))
    if values.shape != none.shape:
        raise ValueError(f"outcomes must have shape {none.shape}, missing ones among them, got {values.shape}")
    if (np.ma.getmaskarray(values) & ~none).any():
        raise ValueError("outcomes are masked that missing= does not name: say it in one way, or in both alike")
    values = np.ma.getdata(values)
    values = np.where(none, values[~none][0], values)
    return values.tolist() if values.dtype == object else values


def _any_outcome(rule: Rule, shape: tuple[int, ...]) -> Any:
    if rule.of_numbers:
        ends = [end for end in rule.problem.outcomes if np.isfinite(end)]  # type: ignore[union-attr]
        return np.full(shape, ends[0] if ends else 0.0)
    if rule.state_names is None:
        return np.zeros(shape, dtype=np.int64)
    return Positions(np.zeros(shape, dtype=np.int64))


def _dated(rule: Rule, at: GuardMemory, fresh: tuple[Event, ...], step: int) -> tuple[Event, ...]:
    """Events of the outcome of a step, by the steps of each stream's episode."""
    begun = at.advised - over(at)  # steps before the episode
    missed = to_numpy(at.ledger.missed)
    found = []
    for event in fresh:
        place = place_of(event.stream)
        before = int(begun[place])
        event = event._replace(step=step - before, known=at.advised - before)
        if isinstance(event, Switch) and event.since is not None:
            since = event.since + int(missed[place])
            # With a lag the rule dates the start by its class and the class's round, as if the episode's first step
            # were of class 0. That step is of class ``before % lag``, so the turn within a round is counted from there.
            if rule.lag > 1:
                rounds, turn = divmod(event.since - 1, rule.lag)
                since = rounds * rule.lag + 1 + (turn - before) % rule.lag
            event = event._replace(since=since)
        found.append(event)
    return tuple(found)


def _listed(steps: Iterable[int]) -> str:
    return ", ".join(map(str, steps))
