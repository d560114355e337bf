"""What a guard guarantees: the certificate of its settings, and that of the episodes opened so far."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..certificates import Certificate, late, switching
from ..certificates.bounds import Bound, Terms
from ..certificates.coupled import kappa
from ..certificates.realised import Promise, RealisedCertificate, Run, certify_run
from ..engine import Engine, ExactTest, Setting, prior_of
from ..engine.fallbacks import After

_NEVER = "outcomes that never came"


def certificate_of(setting: Setting) -> Certificate | None:
    """The certificate of one episode before its first step; None: it depends on the run (``certificate_of_run``)."""
    test, problem, eta, play = setting.test, setting.payoff_range, setting.temperature, setting.play
    fallback, counts_model = Certified(play.name, play.regret_after), play.counts_model
    if not setting.tests:
        if setting.lag > 1:
            fallback = fallback._replace(regret_after=partial(_in_classes, fallback.regret_after, setting.lag))
        return switching.certify_untested(problem, test.horizon, eta, fallback, counts_model)
    if type(test) is not ExactTest:
        return _no_promise(setting, 1.0, f"{type(test).__name__}, of which nothing was proved")
    if not setting.outcomes.n_states:
        return None
    if not setting.has_proved_response:
        return _no_promise(setting, test.delta, f"{type(setting.response).__name__}, of which no regret was proved")
    prior, C, whom = prior_of(setting), setting.n_contexts, str(setting.against)
    exact = eta == 0 and not setting.problem.is_changing
    unknown = ", unknown horizon" if test.horizon is None else ""
    made = prior, setting.class_delta, eta
    if setting.lag == 1:
        given = switching.certify_switch(
            problem,
            test.horizon,
            eta,
            fallback,
            before=partial(switching.before, problem, *made, C, False),
            interval=partial(switching.interval, problem, *made),
            tv_bound=test.delta,
            theorem=f"the exact test on {whom}{unknown}",
            sharper=partial(switching.before, problem, *made, C, True) if exact else None,
            counts_model=counts_model,
            share=prior.share,
        )
        given = given if C == 1 else replace(given, between=None)
    else:
        bets = late.Bettors(problem, *made, C)
        made_late = late.SwitchesLate(problem, eta, fallback, setting.lag, partial(bets.before, setting.lag, False))
        given = late.certify_late(
            made_late,
            test.horizon,
            test.delta,
            f"the exact test on {whom}, outcomes {setting.lag} steps late{unknown}",
            partial(made_late.sharpened, partial(bets.before, setting.lag, True)) if exact else None,
            partial(bets.interval, setting.lag) if test.horizon is not None and eta is not None and C == 1 else None,
            counts_model,
        )
    if whom == "every action":
        return given
    return replace(given, statement=f"Regret is to {whom}. {given.statement}")


class Certified(NamedTuple):
    """What a certificate asks of a fallback."""

    name: str
    regret_after: After


def _no_promise(setting: Setting, tv_bound: float, theorem: str) -> Certificate:
    """Where nothing is known of the regret: it is at most the span."""
    problem, horizon = setting.payoff_range, setting.test.horizon
    words = "The regret is not bounded: what it is made of carries no proof."
    trivial = partial(_span_alone, problem.span)
    return Certificate(problem.span, tv_bound, words, (), theorem, problem, horizon, trivial(1), terms_at=trivial)


def _span_alone(span: float, steps: int) -> Terms:
    return {"the span": span}


def _in_classes(each: After, lag: int, problem: Any, steps: int, temperature: float | None) -> Bound | None:
    """What fallbacks lose together, one for each class of steps that are ``lag`` apart.

    However the steps are spread over the classes, none has more than ``rounds`` of them.
    """
    rounds = -(-steps // lag)
    own = each(problem, rounds, temperature)
    if own is None:
        return None
    concave = late.concave(lambda left_N: np.minimum(own(left_N), problem.span * left_N), rounds)
    return lambda left_N: late.dealt(concave, lag, rounds, np.minimum(left_N + lag - 1, lag * rounds))


def certificate_over(engine: Engine, rows: Any) -> Certificate | RealisedCertificate:
    """What is guaranteed over the episodes opened so far, for the stream with the weakest guarantee.

    Outcomes that never came count at their worst. Past its horizon an episode keeps the bound that held up to there.
    """
    head, T = engine.head.open(rows), engine.setting.test.horizon
    given = certificate_of(engine.setting)
    if given is None:
        return _certificate_of_run(engine, rows)
    missed = int(head.missed.max(initial=0))
    if missed:
        given = _never_came(given, missed)
    if T is not None and (beyond := int((head.observed + head.missed).max(initial=0)) - T) > 0:
        past = (
            f"{beyond} steps are past the horizon: regret is promised for the first {T}, and false alarms stay bounded."
        )
        given = replace(given, statement=f"{given.statement} {past} New breaks may be noticed late: restart().")
    episodes = int(head.episode.max(initial=1))
    if episodes == 1 or T is None:
        return given.over_episodes(episodes, given.regret_bound)
    average_N = (head.past_bound + T * given.regret_bound) / (head.past_steps + T)
    return given.over_episodes(episodes, float(average_N.max()))


def lost_in_episode(engine: Engine, rows: Any) -> np.ndarray:
    """The most that each stream can have lost in total in its current episode, ``[N]``."""
    head, given, span = engine.head.open(rows), certificate_of(engine.setting), engine.setting.payoff_range.span
    if given is None:
        lost_N: np.ndarray = engine.worst_lead(head.lead_P) * (head.observed > 0)
    else:
        lost_N = np.zeros(len(rows))
        for steps in np.unique(head.observed[head.observed > 0]).astype(int).tolist():
            within = steps if given.horizon is None else min(steps, given.horizon)
            lost_N[head.observed == steps] = within * given.at(within).regret_bound + (steps - within) * span
    found: np.ndarray = lost_N + head.missed * span
    return found


def _never_came(given: Certificate, missed: int) -> Certificate:
    """The certificate with ``missed`` outcomes: each may have cost the span, to the model too, at any step."""
    lost = missed * given.problem.span
    bounds = {"behind_model": given.behind_model, "between": given.between}
    terms = {"terms_at": given.terms_at, "sharper": given.sharper, "drawn": given.drawn}
    more: dict[str, Any] = {name: bound and partial(_and_lost, bound, lost) for name, bound in bounds.items()}
    more |= {name: made and partial(_and_more, made, lost) for name, made in terms.items()}
    given = replace(given, **more)
    if given.horizon is None:
        return given
    return given.with_terms({**given.terms, _NEVER: lost / given.horizon}, given.horizon)


def _and_more(terms: Any, lost: float, steps: int, *fails: float) -> Any:
    return {**terms(steps, *fails), _NEVER: lost / steps}


def _and_lost(bound: Any, lost: float, *steps: int) -> float:
    return float(bound(*steps) + lost)


def _certificate_of_run(engine: Engine, rows: Any) -> RealisedCertificate:
    """For numbers: from the charges of the bets so far. Past its horizon, as if there were none."""
    setting, head = engine.setting, engine.head.open(rows)
    J, prior, eta = setting.payoff_range.span, prior_of(setting), setting.temperature
    horizon = setting.test.horizon
    if horizon is not None and (
        not setting.has_proved_response or (head.observed + head.missed).max(initial=0) > horizon
    ):
        horizon = None  # of the steps to come nothing is known
    by = Promise(
        setting.problem,  # type: ignore[arg-type]
        J,
        horizon,
        setting.class_delta,
        setting.test.delta,
        prior,
        None if eta is None else kappa(setting.payoff_range, prior.rates_K, eta),
        setting.play.regret_after(setting.payoff_range, 1, eta),
        setting.n_contexts,
        setting.outcomes.n_actions * bool(setting.against.contexts),
        setting.lag,
    )
    charges_NxPxK = sum(engine.of_class(rows, k)[0].charges_PxK for k in range(setting.lag))
    order = np.argsort(np.argsort(prior.rates_K))  # bets keep their rates in ascending order
    counts = (head.observed, head.missed, head.alarm, engine.worst_lead(head.lead_P), head.at_alarm)
    return certify_run(by, Run(charges_NxPxK[..., order], *counts, head.episode, head.past_steps, head.past_bound))
