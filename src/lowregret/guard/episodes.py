"""Episodes of a guard: opening a new one for some of its streams, and what is guaranteed over all of them."""

from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, device, namespace, to_numpy
from ..certificates import Certificate
from ..memory import where as choose
from ..problems import DecisionProblem
from ..robust import informed_for, rule_for
from ..rules import ExactTest, Knows, Rule
from .ledger import Ledger, blank
from .numbers import Numbers, places_of


def rule_of_episodes(
    problem: DecisionProblem | None,
    horizon: int | None,
    episode: int,
    rule: Rule | None,
    fallback: Any,
    temperature: Any,
    knows: Knows | None = None,
) -> Rule:
    """The rule of each of the episodes that make up the horizon; by default they share 1/horizon evenly."""
    if rule is None and problem is not None:
        if horizon is None:
            raise ValueError(
                "horizon=None with episodes that open by themselves needs a rule that says how likely a false switch "
                f"may be in each: rule=ExactTest(problem, {episode}, delta=...)"
            )
        delta = 1 / max(horizon, 2) / -(-horizon // episode)
        if knows is not None:
            return informed_for(problem, episode, delta, knows, fallback, temperature)
        return ExactTest(problem, episode, delta=delta, fallback=fallback, temperature=temperature)
    return rule_for(problem, episode, rule, fallback, temperature, knows)


def streams_of(streams: Any, batch_shape: tuple[int, ...], numbers: Numbers | None) -> np.ndarray:
    """All streams for None, else those meant by numbers or a mask along the first batch axis: a mask of the batch."""
    if streams is None:
        return np.ones(batch_shape, dtype=bool)
    if batch_shape == ():
        raise ValueError("streams needs a guard with a batch axis: restart() takes none here")
    mask, n = np.zeros(batch_shape, dtype=bool), batch_shape[0]
    index = np.atleast_1d(to_numpy(inputs.array_of(streams, "streams")))
    if index.size == 0:
        index = index.astype(np.int64)
    if index.dtype != bool:
        index = places_of(index, n, numbers)
    elif index.shape != (n,):
        raise ValueError(f"streams is a mask of shape {index.shape}, the guard has {n} along its first axis")
    mask[index] = True
    return mask


def reopened(rule: Rule, old: Ledger, mask: np.ndarray) -> Ledger:
    """The ledger after a new episode was opened for the streams in the mask."""
    fresh = blank(rule, mask.shape, like=old.lead_A)
    chosen = namespace(old.lead_A).asarray(mask, device=device(old.lead_A))
    steps = old.rule.step * chosen
    return (fresh if mask.all() else choose(chosen, fresh, old))._replace(
        episode=old.episode + chosen,
        past_steps=old.past_steps + steps,
        past_bound=old.past_bound + _most_lost(rule.certificate, steps, like=old.past_bound),
    )


def certificate_over(rule: Rule, ledger: Ledger, given: Certificate) -> Certificate:
    """What is guaranteed over the episodes opened so far, for the stream of which least is, ``given`` that of one."""
    episodes = to_numpy(ledger.episode)
    if not episodes.size or episodes.max() == 1:
        return given
    if rule.horizon is None:
        return given.over_episodes(int(episodes.max()), given.regret_bound)
    past_steps, past_bound = to_numpy(ledger.past_steps), to_numpy(ledger.past_bound)
    average = (past_bound + rule.horizon * given.regret_bound) / (past_steps + rule.horizon)
    return given.over_episodes(int(episodes.max()), float(average.max()))


def _most_lost(given: Certificate, steps: Array, like: Array) -> Array:
    """For episodes that ended after ``steps`` steps: what each may have lost, by its certificate."""
    counts = to_numpy(steps)
    lost = np.zeros(counts.shape)
    for t in np.unique(counts[counts > 0]).tolist():
        lost[counts == t] = t * (given.problem.span if given.terms_at is None else given.at(t).regret_bound)
    return namespace(like).asarray(lost, dtype=like.dtype, device=device(like))
