"""What a guard guarantees: the certificate of its setting, over the episodes opened so far."""

from typing import Any

import numpy as np

from ..certificates import Certificate
from ..certificates.coupled import kappa
from ..certificates.promises import AsItRan
from ..certificates.realised import PaidTest, RealisedCertificate, certify_run
from ..engine import Engine, ExactTest, Setting, prior_of


def is_by_charges(setting: Setting) -> bool:
    """Whether only the charges of a run bound its regret: for bets on numbers."""
    return isinstance(setting.test, ExactTest) and not setting.outcomes.n_states


def certificate_over(engine: Engine, rows: Any) -> Certificate | RealisedCertificate:
    """What is guaranteed over the episodes opened so far, for the stream with the weakest guarantee.

    Outcomes that never came count at their worst. Past its horizon an episode keeps the bound that held up to there.
    """
    if is_by_charges(engine.setting):
        return _certificate_of_run(engine, rows)
    head, T, given = engine.head.open(rows), engine.setting.test.horizon, engine.setting.certificate
    missed = int(head.missed.max(initial=0))
    beyond = 0 if T is None else max(int((head.observed + head.missed).max(initial=0)) - T, 0)
    if missed or beyond:
        ends = beyond and not isinstance(engine.setting.test, ExactTest)  # others may be proved for the horizon alone
        promise = AsItRan(
            problem=given.problem,
            tv_bound=1.0 if ends else given.tv_bound,
            of=given.as_promise(),
            missed=missed,
            beyond=beyond,
            horizon=T,
        )
        given = promise.certificate(T)
    episodes = int(head.episode.max(initial=1))
    if episodes == 1 or T is None:
        return given.over_episodes(episodes, given.regret_bound)
    average_N = (head.past_bound + T * given.regret_bound) / (head.past_steps + T)
    return given.over_episodes(episodes, float(average_N.max()))


def lost_in_episode(engine: Engine, rows: Any) -> np.ndarray:
    """The most that each stream can have lost in total in its current episode, ``[N]``."""
    head, setting, span = engine.head.open(rows), engine.setting, engine.setting.payoff_range.span
    if is_by_charges(setting):
        lost_N: np.ndarray = engine.worst_lead(head.lead_P) * (head.observed > 0)
    else:
        lost_N, T = np.zeros(len(rows)), setting.test.horizon
        for steps in np.unique(head.observed[head.observed > 0]).astype(int).tolist():
            within = steps if T is None else min(steps, T)
            lost_N[head.observed == steps] = within * setting.certify(within).regret_bound + (steps - within) * span
    found: np.ndarray = lost_N + head.missed * span
    return found


def _certificate_of_run(engine: Engine, rows: Any) -> RealisedCertificate:
    """For numbers: from the charges of the bets so far. Past its horizon, as if there were none."""
    setting, head = engine.setting, engine.head.open(rows)
    J, prior, eta = setting.payoff_range.span, prior_of(setting), setting.temperature
    horizon = setting.test.horizon
    if horizon is not None and (
        not setting.has_proved_response or (head.observed + head.missed).max(initial=0) > horizon
    ):
        horizon = None  # of the steps to come nothing is known
    by = PaidTest(
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
    charges_NxPxK = sum(engine.of_class(rows, k).charges_PxK for k in range(setting.lag))
    order = np.argsort(np.argsort(prior.rates_K))  # bets keep their rates in ascending order
    return certify_run(by, head, charges_NxPxK[..., order], engine.worst_lead(head.lead_P))
