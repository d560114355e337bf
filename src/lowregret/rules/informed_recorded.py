"""The informed test on recorded sequences: one pass of cumulative sums, or step by step where there are contexts."""

from typing import Any

from .. import inputs
from ..arrays import Array, astype, count_up, device, first_true, namespace
from ..problems import Scene
from .moment import Known, Moment


def trip_times(rule: Any, probs: Array, tokens: Array, known: Known) -> Array:
    """When an ``InformedTest`` trips, ``[...]``, told at each step what ``known`` has in an axis of time."""
    tokens = inputs.sequences_of(tokens, rule.n_states)
    probs = inputs.probs_of(probs, rule.n_states, shape=tuple(tokens.shape))
    xp, T, axes = namespace(probs), tokens.shape[-1], tokens.ndim
    rule.refuse_longer(T)
    flat = Known(*(None if part is None else xp.reshape(part, (-1, T, *part.shape[axes:])) for part in known))
    tokens_NxT, step_T = xp.reshape(inputs.beside(tokens, probs), (-1, T)), count_up(probs, 1, T + 1)
    scene = rule.scene(xp.reshape(probs, (-1, T, rule.n_states)), flat, step_T)
    times = recorded(rule, step_T, scene, tokens_NxT)
    times = xp.full_like(times, T + 1) if rule.pointless else times
    return xp.reshape(times, tuple(tokens.shape[:-1]))


def recorded(rule: Any, step_T: Array, scene: Scene, tokens_NxT: Array) -> Array:
    """When each of the sequences trips, ``[N]``."""
    if rule.contexts is not None:
        return _step_by_step(rule, step_T, scene, tokens_NxT)
    xp, gain_NxTxPxS = namespace(scene.probs), rule.gains_in(scene)
    law_S = xp.moveaxis(astype(scene.probs, gain_NxTxPxS.dtype), -1, 0)
    gain_PxS = [xp.moveaxis(gain_NxTxPxS[:, :, p], -1, 0) for p in range(gain_NxTxPxS.shape[2])]
    return rule.bets.plain.recorded_gains(step_T, gain_PxS, law_S, tokens_NxT)


def _step_by_step(rule: Any, step_T: Array, scene: Scene, tokens_NxT: Array) -> Array:
    xp, N, alarms = namespace(scene.probs), tokens_NxT.shape[0], []
    statistics = rule.blank((N,), xp, device(scene.probs))
    for t in range(tokens_NxT.shape[1]):
        token = tokens_NxT[:, t]
        moment = Moment(None, None, None, token, scene.at(t))
        statistics, alarm = rule.judge(statistics, xp.zeros_like(token) + step_T[t], moment)
        alarms.append(alarm)
    return first_true(xp.stack(alarms, axis=-1)) + 1
