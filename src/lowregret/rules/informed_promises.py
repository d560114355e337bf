"""What the informed test promises: its certificate, and from when on a context pays for itself."""

from dataclasses import replace
from functools import partial
from typing import Any

from ..certificates import Certificate, over_contexts
from ..certificates.switching import certify_switch


def certificate_of(rule: Any) -> Certificate:
    """Statement (iv) for an ``InformedTest``."""
    stakes, made = rule.stakes, (rule.bets.prior, rule.delta, rule.temperature)
    exact = rule.temperature is not None and rule.payoffs == "scaled"
    given = certify_switch(
        stakes,
        rule.horizon,
        rule.temperature,
        rule.in_play.fallback,
        before=partial(over_contexts.before, stakes, *made, rule.rows, False),
        interval=partial(over_contexts.interval, stakes, *made),
        tv_bound=rule.delta,
        theorem=f"the exact test on {_whom(rule)}" + (", unknown horizon" if rule.horizon is None else ""),
        sharper=partial(over_contexts.before, stakes, *made, rule.rows, True) if exact else None,
    )
    statement = given.statement.replace("No action leads", f"Regret is to {_whom(rule)}: none leads")
    if rule.contexts is not None:
        statement += _worth(rule)
    return replace(
        given,
        statement=statement,
        temperature=None,  # limits are known for the plain test only
        between=given.between if rule.contexts is None else None,
    )


def pays_from(rule: Any, gain: float) -> int | None:
    """From how many of its steps on what may be lost in a context is less than ``gain`` a step."""
    fallback = rule.in_play.fallback
    if rule.horizon is None or not hasattr(fallback, "budget"):
        raise ValueError("pays_from needs a horizon, and Recovery for a fallback")
    own = replace(fallback, contexts=1, horizon=-(-rule.horizon // rule.rows))
    made = rule.stakes, rule.bets.prior, rule.delta, rule.temperature
    before = over_contexts.before(*made, 1, False, rule.horizon)
    after = own.regret_after(rule.stakes, rule.horizon, rule.temperature)
    return over_contexts.pays_from(
        partial(over_contexts.own_bound, before, after, rule.stakes.span), gain, rule.horizon
    )


def _whom(rule: Any) -> str:
    each = "every action" if rule.contexts is None else f"an action for each of {rule.contexts} contexts"
    whom = ([each] if rule.actions else []) + list(rule.references)
    return ", ".join(whom[:-1]) + (" or " if len(whom) > 1 else "") + whom[-1]


def _worth(rule: Any) -> str:
    gain = rule.stakes.span / 4
    found = pays_from(rule, gain)
    when = "not within the horizon" if found is None else f"from {found} steps of it on"
    return (
        f" A context whose own best action earns {gain:.4g} a step more than the best for all pays for itself {when}."
    )
