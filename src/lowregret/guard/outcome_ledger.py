"""What a guard of outcomes remembers of each stream, what it tells of a switch, and what that guarantees."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..certificates.realised import RealisedCertificate, before_by_charges, in_the_end
from ..memory import where as choose
from ..policies.trust import turned
from ..rules import OutcomeMemory, OutcomeTest
from .ledger import Event, Switch, name_of, turns_told


class OutcomeLedger(NamedTuple):
    """All that a guard remembers per stream."""

    rule: OutcomeMemory
    lead_A: np.ndarray  # [..., A], each fixed action's utility minus the mixed policy's, this episode
    realised_A: np.ndarray  # [..., A], the same for the actions reported to observe
    reported: np.ndarray  # [...], how many steps of this episode came with an action
    at_alarm: np.ndarray  # [...], the largest lead when the alarm sounded; 0 before
    episode: np.ndarray  # [...], from 1
    past_steps: np.ndarray  # [...], steps of the episodes before this one
    past_regret: np.ndarray  # [...], the largest leads at their ends, summed


def blank(rule: OutcomeTest, batch_shape: tuple[int, ...]) -> OutcomeLedger:
    """The ledger before the first step."""
    flat, count = np.zeros((*batch_shape, rule.problem.n_actions)), np.zeros(batch_shape, dtype=np.int64)
    nothing = np.zeros(batch_shape)
    return OutcomeLedger(rule.start(batch_shape), flat, flat, count, nothing, count + 1, count, nothing)


def entered(
    old: OutcomeLedger, memory: OutcomeMemory, played_A: np.ndarray, utility_A: np.ndarray, action: Any
) -> OutcomeLedger:
    """The ledger after one more step, checked before: what was played, what each action was paid, the action if any."""
    lead_A = old.lead_A + (utility_A - (played_A * utility_A).sum(axis=-1, keepdims=True))
    newly = memory.tripped_at == memory.step
    at_alarm = np.where(newly, lead_A.max(axis=-1), old.at_alarm)
    realised_A, reported = old.realised_A, old.reported
    if action is not None:
        own = np.take_along_axis(utility_A, np.asarray(action)[..., None], axis=-1)
        realised_A, reported = realised_A + (utility_A - own), reported + 1
    return old._replace(rule=memory, lead_A=lead_A, realised_A=realised_A, reported=reported, at_alarm=at_alarm)


def average(lead_A: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Regret a step, ``[...]``, from what each fixed action earned more."""
    return lead_A.max(axis=-1) / np.maximum(steps, 1)


def reopened(rule: OutcomeTest, old: OutcomeLedger, mask: np.ndarray) -> OutcomeLedger:
    """The ledger after a new episode was opened for the streams in the mask."""
    fresh = choose(mask, blank(rule, mask.shape), old) if mask.shape else (blank(rule, ()) if mask else old)
    lost = np.where(old.rule.step > 0, old.lead_A.max(axis=-1), 0.0)
    return fresh._replace(
        episode=old.episode + mask,
        past_steps=old.past_steps + old.rule.step * mask,
        past_regret=old.past_regret + np.where(mask, lost, 0.0),
    )


def happened(rule: OutcomeTest, ledger: OutcomeLedger) -> tuple[Event, ...]:
    """What there is to tell of the last step: streams that have just switched, returned, or been left again."""
    memory = ledger.rule
    newly, turns = memory.tripped_at == memory.step, turned(memory, memory.step)
    if not newly.any() and not turns.any():
        return ()
    (statistic, threshold), suspected = rule.evidence(memory), rule.suspicion(memory)
    fresh: list[Event] = []
    for at in map(tuple, np.argwhere(newly).tolist()):
        margin, what = (float(statistic[at]), float(threshold[at])), tuple[Any, ...]()
        if math.isfinite(margin[0]):
            what = int(suspected.comparator[at]), float(suspected.rate[at]), int(suspected.since[at])
        now, episode = int(memory.step[at]), int(ledger.episode[at])
        told = Switch(name_of(at), now, type(rule).__name__, *margin, episode, *what)
        fresh.append(told._replace(known=now))
    return (*fresh, *turns_told(turns, memory.step, rule.share(memory), ledger.episode))


def certificate_of(rule: OutcomeTest, ledger: OutcomeLedger) -> RealisedCertificate:
    """What is guaranteed over the episodes opened so far, for the stream of which least is."""
    memory, J, after = ledger.rule, rule.problem.span, rule.fallback.total_bound
    assert rule.delta is not None
    step, tripped_at, lead = (
        memory.step.reshape(-1),
        memory.tripped_at.reshape(-1),
        ledger.lead_A.max(axis=-1).reshape(-1),
    )
    late, at_alarm = tripped_at > 0, ledger.at_alarm.reshape(-1)
    paid_NxCxK = memory.paid_CxK.reshape(-1, *memory.paid_CxK.shape[-2:])
    taken = np.where(late, tripped_at - 1, step)
    before = np.minimum(np.maximum(before_by_charges(paid_NxCxK, rule.prior, rule.delta), 0.0), taken * J)
    by_now = after(np.where(late, step - tripped_at, 0))
    so_far = np.where(late, before + J + by_now, before)  # in total
    ends, stopped = so_far, None
    if rule.horizon is not None:
        T = rule.horizon
        ends = np.where(late, at_alarm + after(np.where(late, T - tripped_at, 0)), -math.inf)
        if not late.all():
            excess_CxK = (paid_NxCxK - step[:, None, None] * rule.kappa_K)[~late].max(axis=0)
            least = int(step[~late].min())
            rest = in_the_end(excess_CxK, rule.kappa_K, rule.prior, rule.delta, least, T, after, J)
            ends = np.where(late, ends, rest)
            stopped = float(np.max(lead[~late] + after(T - step[~late])) / T) if T else None
    past_steps, past = ledger.past_steps.reshape(-1), ledger.past_regret.reshape(-1)
    steps = past_steps + (step if rule.horizon is None else rule.horizon)
    bound = np.max((past + ends) / np.maximum(steps, 1), initial=0.0)
    episodes = int(ledger.episode.max(initial=1))
    over = "" if episodes == 1 else f"Over {episodes} episodes, each against its own best action. "
    return RealisedCertificate(
        regret_bound=float(min(J, bound)),
        bound_so_far=float(min(J, np.max(so_far / np.maximum(step, 1), initial=0.0))),
        regret_so_far=float(np.max(lead / np.maximum(step, 1), initial=-math.inf)) if step.size else 0.0,
        if_stopped=stopped,
        tv_bound=min(1.0, rule.delta * episodes),
        statement=over + "Until an alarm, regret is below what the bets were charged and need for one; from then on "
        "the regret at the alarm, and what the fallback loses.",
        assumptions=_assumptions(rule),
        theorem="the exact test at outcomes, by charges paid",
        problem=rule.problem,
        horizon=rule.horizon,
        steps=int(step.max(initial=0)),
        switched=int(late.sum()),
        episodes=episodes,
    )


def _assumptions(rule: OutcomeTest) -> tuple[str, ...]:
    return (
        "every step is acted on by policy()",
        "the outcome is seen after every step, whatever was done, and does not depend on the action drawn",
        "(for the bound in the end, before an alarm) later steps are charged no more than a whole law is, as with a "
        "Density; what Quantiles and Samples are charged beyond that is added as it is paid",
        "(for the TV bound only) each outcome is drawn from a law that the forecast can stand for: one with these "
        "quantiles, this density, or the law that the samples were drawn from",
    )
