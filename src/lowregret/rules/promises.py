"""What the exact test promises: its certificate (statement (iv) of ``certificates.every_start``).

For laws it is known beforehand. For numbers it goes by what the bets are charged, as the run goes on.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..certificates import Certificate, switching
from ..certificates.coupled import kappa
from ..certificates.realised import Promise, RealisedCertificate, Run, certify_run
from ..certificates.switching import certify_switch, certify_untested


def certify(rule: Any) -> Certificate:
    """The certificate of an ``ExactTest``."""
    if rule.untested:
        back = rule.in_play.fallback
        return certify_untested(
            rule.stakes, rule.horizon, rule.temperature, back, getattr(back, "counts_model", rule.of_numbers)
        )
    if rule.of_numbers:
        return begun(rule)  # type: ignore[return-value]
    stakes, made, fallback = rule.stakes, (rule.prior, rule.delta, rule.temperature), rule.in_play.fallback
    exact = rule.temperature == 0 and rule.payoffs != "change"
    whom = whom_of(rule)
    given = certify_switch(
        stakes,
        rule.horizon,
        rule.temperature,
        fallback,
        before=partial(switching.before, stakes, *made, rule.n_contexts, False),
        interval=partial(switching.interval, stakes, *made),
        tv_bound=rule.delta,
        theorem=f"the exact test on {whom}" + (", unknown horizon" if rule.horizon is None else ""),
        sharper=partial(switching.before, stakes, *made, rule.n_contexts, True) if exact else None,
        counts_model=getattr(fallback, "counts_model", False),
        share=rule.prior.share,
    )
    if not rule.told:
        return given
    statement = given.statement.replace("No action leads", f"Regret is to {whom}: none leads")
    if rule.contexts is not None and hasattr(fallback, "budget"):
        statement += _worth(rule)
    return replace(
        given,
        statement=statement,
        between=given.between if rule.contexts is None else None,
    )


def of_a_run(rule: Any, lag: int, horizon: int | None, tv_bound: float) -> Promise:
    """What a run with outcomes that are numbers is certified by, where this is the rule of each class."""
    kappa_K = None if rule.temperature is None else kappa(rule.stakes, rule.prior.rates_K, rule.temperature)
    after = rule.in_play.fallback.regret_after(rule.stakes, 1, rule.temperature)
    made = rule.problem, rule.stakes.span, horizon, rule.delta, tv_bound, rule.prior, kappa_K, after
    return Promise(*made, rule.n_contexts, rule.problem.n_actions if rule.actions else 0, lag)


def begun(rule: Any) -> RealisedCertificate:
    """What is known of a run with outcomes that are numbers before its first step."""
    none = np.zeros(1, dtype=np.int64)
    run = Run(rule.charges(rule.start((1,))), none, none, none, none, none, none + 1, none, none)
    return certify_run(rule.promise(rule.lag, rule.horizon, rule.delta), run)


def pays_from(rule: Any, gain: float) -> int | None:
    """From how many of its steps on a context pays for itself; None: not by the horizon."""
    fallback = rule.in_play.fallback
    if rule.horizon is None or not hasattr(fallback, "budget"):
        raise ValueError("pays_from needs a horizon, and Recovery for a fallback")
    own = replace(fallback, contexts=1, horizon=rule.per_context(rule.horizon))
    before = switching.before(rule.stakes, rule.prior, rule.delta, rule.temperature, 1, False, rule.horizon)
    after = own.regret_after(rule.stakes, rule.horizon, rule.temperature)
    bound = partial(switching.own_bound, before, after, rule.stakes.span)
    return switching.pays_from(bound, gain, rule.horizon)


def whom_of(rule: Any) -> str:
    """All that an ``ExactTest`` compares with, in words."""
    each = "every action" if rule.contexts is None else f"an action for each of {rule.contexts} contexts"
    whom: list[str] = ([each] if rule.actions else []) + list(rule.references)
    return ", ".join(whom[:-1]) + (" or " if len(whom) > 1 else "") + whom[-1]


def _worth(rule: Any) -> str:
    gain = rule.stakes.span / 4
    found = pays_from(rule, gain)
    when = "not within the horizon" if found is None else f"from {found} steps of it on"
    return (
        f" A context whose own best action earns {gain:.4g} a step more than the best for all pays for itself {when}."
    )
