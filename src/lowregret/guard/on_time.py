"""A guard whose states come before the next law: the two halves of a step, each a new standing out of an old one."""

from typing import Any

from .. import inputs
from ..arrays import Array, last
from ..problems import actions_of, with_first
from ..rules import Moment, Rule, RuleMemory
from .ledger import Event, entered, happened
from .numbers import numbered
from .readings import acts_in
from .standing import Standing


def mixed_at(rule: Rule, at: Standing) -> tuple[Array, Standing]:
    """The mixed action ``[..., A]`` in force, and the standing that keeps what was seen for those to come."""
    moment = _seen(rule, at)
    return last(with_first(_answer(rule, at, moment))), at if at.moment is not None else at._replace(moment=moment)


def with_outcome(
    rule: Rule, shape: tuple[int, ...], at: Standing, state: Any, action: Any
) -> tuple[Standing, tuple[Event, ...]]:
    """The standing after the state that came, and what there is to tell."""
    old = at.ledger
    if at.probs is None:
        _seen(rule, at)  # says so
    state = _came(rule, state, shape, old.lead_A)
    if action is not None:
        problem = acts_in(rule.problem, "observe(state, action)")
        action = actions_of(problem.action_names, action, "action", shape=shape, like=old.lead_A)
    memory, earned_A = _judged(rule, shape, at, state)
    scene = None if action is None or rule.knows is None else _seen(rule, at).known
    ledger = entered(old, rule, memory, earned_A, state, action, scene)
    fresh = numbered(happened(rule, ledger), at.numbers)
    any_tripped = at.any_tripped or bool(fresh)
    return Standing(
        ledger, at.clock + 1, at.events + fresh, None, at.longest + 1, any_tripped, None, numbers=at.numbers
    ), fresh


def _came(rule: Rule, state: Any, shape: tuple[int, ...], like: Array) -> Array:
    """The position of the state that came, in each stream."""
    if rule.problem is None:
        return inputs.tokens_of(state, rule.n_states, "state", shape=shape, like=like)
    return rule.problem.state_names.positions(state, "state", shape=shape, like=like)


def _seen(rule: Rule, at: Standing) -> Moment:
    if at.probs is None:
        raise ValueError("advise(probs) must come before this: there is no advice for the step")
    return rule.look(at.ledger.rule, at.probs, at.known) if at.moment is None else at.moment


def _judged(rule: Rule, shape: tuple[int, ...], at: Standing, state: Array) -> tuple[RuleMemory, Array]:
    """What the rule remembers after the state, and what each fixed action earned more than what was played."""
    memory = at.ledger.rule
    moment = _seen(rule, at)
    earned_A = rule.leads(_answer(rule, at, moment), state, moment.known)
    return rule.advance(memory, moment, state), last(earned_A)


def _answer(rule: Rule, at: Standing, moment: Moment) -> Array:
    """The answer in force: the mixed action's chances of every action but the first (or the forecast itself)."""
    return rule.answer(at.ledger.rule, moment) if at.any_tripped else moment.base_A1
