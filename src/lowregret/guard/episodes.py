"""Episodes of a guard: opening a new one for some of its streams, and what is guaranteed over all of them."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..arrays import Array, astype, device, namespace, to_numpy
from ..certificates import Certificate
from ..certificates.realised import Run, certify_run
from ..memory import where as choose
from ..rules import Rule
from .ledger import Ledger, blank

_NEVER = "outcomes that never came"


def reopened(rule: Rule, old: Ledger, mask: np.ndarray) -> Ledger:
    """The ledger after a new episode was opened for the streams in the mask."""
    xp, where = namespace(old.lead_A), device(old.lead_A)
    fresh, chosen = blank(rule, mask.shape, like=old.lead_A), xp.asarray(mask, device=where)
    never, steps = old.missed * chosen, old.rule.step * chosen
    if rule.of_numbers:
        lost = xp.where(steps > 0, rule.worst_lead(old.lead_A), 0.0)
    else:
        lost = _most_lost(rule.certificate, steps, like=old.past_bound)
    span = getattr(stakes_of(rule), "span", 0.0)  # without a problem there is none
    return (fresh if mask.all() else choose(chosen, fresh, old))._replace(
        episode=old.episode + chosen,
        past_steps=old.past_steps + steps + never,
        past_bound=old.past_bound + lost + astype(never, old.past_bound.dtype) * span,
    )


def certificate_of(rule: Rule, ledger: Ledger) -> Certificate:
    """What is guaranteed over the episodes opened so far, for the stream of which least is.

    Outcomes that never came count at their worst.
    """
    if rule.of_numbers and not rule.untested:
        by = rule.promise(rule.lag, rule.horizon, rule.delta)  # type: ignore[attr-defined]
        return certify_run(by, _run(rule, ledger))  # type: ignore[return-value]
    given, missed = rule.certificate, to_numpy(ledger.missed)
    if missed.size and missed.max():
        given = _never_came(given, int(missed.max()))
    episodes = to_numpy(ledger.episode)
    if not episodes.size or episodes.max() == 1:
        return given
    if rule.horizon is None:
        return given.over_episodes(int(episodes.max()), given.regret_bound)
    past_steps, past_bound = to_numpy(ledger.past_steps), to_numpy(ledger.past_bound)
    average = (past_bound + rule.horizon * given.regret_bound) / (past_steps + rule.horizon)
    return given.over_episodes(int(episodes.max()), float(average.max()))


def stakes_of(rule: Rule) -> Any:
    """A problem with the span of all that may come."""
    return getattr(rule.each, "stakes", rule.problem)


def _never_came(given: Certificate, missed: int) -> Certificate:
    """The certificate where so many outcomes never came: each may have cost the span, to the model too, anywhere."""
    lost = missed * given.problem.span
    total_bounds = ("behind_model", given.behind_model), ("between", given.between)
    more = {name: None if bound is None else partial(_and_lost, bound, lost) for name, bound in total_bounds}
    more |= {
        name: None if terms is None else partial(_and_more, terms, lost)
        for name, terms in (("terms_at", given.terms_at), ("sharper", given.sharper), ("drawn", given.drawn))
    }
    given = replace(given, **more)  # type: ignore[arg-type]
    if given.horizon is None:
        return given
    return given.with_terms({**given.terms, _NEVER: lost / given.horizon}, given.horizon)


def _and_more(terms: Any, lost: float, steps: int, *fails: float) -> Any:
    return {**terms(steps, *fails), _NEVER: lost / steps}


def _and_lost(bound: Any, lost: float, *steps: int) -> float:
    return float(bound(*steps) + lost)


def _run(rule: Any, ledger: Ledger) -> Run:
    """How far each stream has come, where outcomes are numbers."""
    charges, memory = rule.charges(ledger.rule), ledger.rule
    flat = (
        np.ravel(part)
        for part in (
            *(memory.step, ledger.missed, memory.tripped_at, rule.worst_lead(ledger.lead_A), ledger.at_alarm),
            *(ledger.episode, ledger.past_steps, ledger.past_bound),
        )
    )
    return Run(charges.reshape(-1, *charges.shape[-2:]), *flat)


def _most_lost(given: Certificate, steps: Array, like: Array) -> Array:
    """For episodes that ended after ``steps`` steps: what each may have lost, by its certificate."""
    counts = to_numpy(steps)
    lost = np.zeros(counts.shape)
    for t in np.unique(counts[counts > 0]).tolist():
        lost[counts == t] = t * (given.problem.span if given.terms_at is None else given.at(t).regret_bound)
    return namespace(like).asarray(lost, dtype=like.dtype, device=device(like))
