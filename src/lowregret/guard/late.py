"""A guard whose outcomes come late: several advices wait for theirs, which come in any order within the lag.

Step t belongs to the class (t - 1) mod lag, of which at most one advice waits at a time: what a class remembers stays
as it was when the step was advised until its outcome comes. Everything here makes a new standing out of an old one.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, device, last, namespace, to_numpy
from ..certificates import Certificate
from ..problems import Known, actions_of, with_first
from ..rules import Late, Moment, Rule, late_rule
from .episodes import certificate_over, reopened
from .ledger import Event, Ledger, Switch, entered, happened, moved_to, own_copy, place_of
from .numbers import numbered
from .standing import Advice, Standing, standing


def rule_of(rule: Rule, lag: int, episode: int | None) -> Rule:
    """The rule for outcomes so late: itself for a lag of 1."""
    if inputs.whole(lag, "lag") == 1:
        return rule
    if episode is not None:
        raise ValueError(
            f"episode must be None with a lag of {lag}, got {episode}: outcomes would be due when an episode ends; "
            "restart() opens one once they have come"
        )
    return late_rule(rule, lag)


def no_step(step: Any) -> None:
    """A guard without a lag needs no step to be named."""
    if step is not None:
        raise ValueError(f"step goes with a lag, and this guard has none: it must be None, got {inputs.shown(step)}")


def with_advice(
    rule: Late, shape: tuple[int, ...], at: Standing, probs: Array, known: Known | None, step: Any
) -> tuple[Array | None, Standing]:
    """What to act on at a step, and the standing in which it waits for its outcome."""
    due = [each.step for each in at.waiting]
    step = at.advised + 1 if step is None else inputs.whole(step, "step")
    if step > at.advised + 1 or (step <= at.advised and step not in due):
        again = f", or one that waits for its outcome ({_listed(due)})" if due else ""
        raise ValueError(f"step must be the next, {at.advised + 1}{again}, got {step}")
    if step > at.advised:
        if due and due[0] <= step - rule.lag:
            raise ValueError(
                f"the outcome of step {due[0]} is missing: with a lag of {rule.lag} it must be observed, or given up "
                f"by skip(step={due[0]}), before step {step} is advised"
            )
        _refuse_past_horizon(rule, at)
    ledger = moved_to(rule, shape, at.ledger, probs, begun=at.clock > 0 or due not in ([], [step]))
    place = (step - 1) % rule.lag
    memory = rule.opened(ledger.rule, place)
    advice = None if rule.fallback_acts else rule.each.law(rule.of(memory, place), probs, known)
    waiting = [each for each in at.waiting if each.step != step] + [Advice(step, own_copy(probs), known, None)]
    return advice, at._replace(
        ledger=ledger._replace(rule=memory),
        waiting=tuple(sorted(waiting, key=lambda each: each.step)),
        advised=max(at.advised, step),
    )


def with_outcome(
    rule: Late, shape: tuple[int, ...], at: Standing, state: Any, action: Any, step: Any
) -> tuple[Standing, tuple[Event, ...]]:
    """The standing after the outcome of a step that waited for it, and what there is to tell."""
    due = _due(rule, at, step, at.waiting[:1])
    old = at.ledger
    state = rule.problem.state_names.positions(state, "state", shape=shape, like=old.lead_A)
    if action is not None:
        action = actions_of(rule.problem.action_names, action, "action", shape=shape, like=old.lead_A)
    place, each = (due.step - 1) % rule.lag, rule.each
    part = rule.of(old.rule, place)
    moment = _seen(rule, at, due)
    earned_A = last(each.leads(each.answer(part, moment), state, moment.known))
    memory = rule.joined(old.rule, place, each.advance(part, moment, state))
    ledger = entered(old, rule, memory, earned_A, state, action, None if rule.knows is None else moment.known)
    waiting = tuple(one for one in at.waiting if one.step != due.step)
    fresh = numbered(_told(rule, ledger, due.step, at.advised, len(waiting)), at.numbers)
    tripped = at.any_tripped or bool(fresh)
    return Standing(
        *(ledger, at.clock + 1, at.events + fresh, None, at.longest + 1, tripped, None, None, waiting),
        *(at.advised, at.numbers),
    ), fresh


def without_outcome(rule: Late, at: Standing, step: Any) -> Standing:
    """The standing after the outcome of a step was given up."""
    if rule.horizon is None:
        raise ValueError("skip(step) needs a horizon: where it is unknown the certificate counts on every outcome")
    due = _due(rule, at, step, at.waiting[:1])
    ledger = at.ledger._replace(rule=rule.missing(at.ledger.rule, (due.step - 1) % rule.lag))
    return at._replace(ledger=ledger, waiting=tuple(one for one in at.waiting if one.step != due.step))


def mixed_at(rule: Late, at: Standing, step: Any) -> tuple[Array, Standing, Advice]:
    """The mixed action of a step that waits, by default the last; what was seen is kept for those to come."""
    due = _due(rule, at, step, at.waiting[-1:])
    moment = _seen(rule, at, due)
    kept = tuple(one._replace(moment=moment) if one.step == due.step else one for one in at.waiting)
    part = rule.of(at.ledger.rule, (due.step - 1) % rule.lag)
    return last(with_first(rule.each.answer(part, moment))), at._replace(waiting=kept), due


def restarted(rule: Late, at: Standing, mask: np.ndarray) -> Standing:
    """The standing after a new episode was opened for the streams in the mask."""
    refuse_while_waiting(at, "restart()")
    ledger, old = reopened(rule, at.ledger, mask), at.ledger
    missed = rule.missed(old.rule) * namespace(old.lead_A).asarray(mask, device=device(old.lead_A))
    ledger = ledger._replace(
        past_steps=ledger.past_steps + missed, past_bound=ledger.past_bound + missed * rule.problem.span
    )
    return standing(ledger, at.clock, at.events, numbers=at.numbers)._replace(advised=at.advised)


def refuse_while_waiting(at: Standing, what: str) -> None:
    """What cannot be done while outcomes are due."""
    if at.waiting:
        steps = _listed(one.step for one in at.waiting)
        raise ValueError(f"{what} must wait for the outcomes of steps {steps}: observe them, or skip(step) first")


def certificate_of(rule: Late, ledger: Ledger) -> Certificate:
    """What is guaranteed over the episodes opened so far, with the outcomes that never came at their worst."""
    given, missed = rule.certificate, to_numpy(rule.missed(ledger.rule))
    if missed.size and missed.max():
        assert rule.horizon is not None
        lost = int(missed.max()) * rule.problem.span / rule.horizon
        given = given.with_terms({**given.terms, "outcomes that never came": lost}, rule.horizon)
    return certificate_over(rule, ledger, given)


def _due(rule: Late, at: Standing, step: Any, usual: tuple[Advice, ...]) -> Advice:
    """The advice of a step that waits for its outcome."""
    if step is None:
        if not usual:
            raise ValueError("advise(probs) must come before this: no step waits for its outcome")
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


def _seen(rule: Late, at: Standing, due: Advice) -> Moment:
    part = rule.of(at.ledger.rule, (due.step - 1) % rule.lag)
    return rule.each.look(part, due.probs, due.known) if due.moment is None else due.moment


def _told(rule: Late, ledger: Ledger, step: int, advised: int, waiting: int) -> tuple[Event, ...]:
    """What there is to tell of the outcome of a step, by the steps of each stream's episode."""
    fresh, memory = happened(rule, ledger), ledger.rule
    if not fresh:
        return ()
    over = to_numpy(memory.step) + to_numpy(rule.missed(memory))
    begun = advised - waiting - over  # steps before the episode
    return tuple(_dated(rule, event, step, advised, int(begun[place_of(event.stream)])) for event in fresh)


def _dated(rule: Late, event: Event, step: int, advised: int, begun: int) -> Event:
    event = event._replace(step=step - begun, known=advised - begun)
    if not isinstance(event, Switch):
        return event
    event = event._replace(rule=type(rule.each).__name__)
    if event.since is None:
        return event
    rounds, place = divmod(event.since - 1, rule.lag)  # counted as if the first step were of the first class
    return event._replace(since=rounds * rule.lag + 1 + (place - begun) % rule.lag)


def _refuse_past_horizon(rule: Late, at: Standing) -> None:
    memory = at.ledger.rule
    rule.refuse_past_horizon(memory._replace(step=memory.step + rule.missed(memory) + len(at.waiting)))


def _listed(steps: Iterable[int]) -> str:
    return ", ".join(map(str, steps))
