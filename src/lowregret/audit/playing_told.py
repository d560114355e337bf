"""Who would have been paid what where more was known before each state than the model's law."""

import numpy as np

from ..guard import Guard
from ..problems import Scene, each_step
from ..rules import ExactTest
from .playing import Played, hedge, replayed
from .streams import Block
from .told import Told


def play_told(guard: Guard, block: Block, fallback: bool = True) -> Played:
    """``play`` with references, contexts and payoffs of the step; the references are paid as players of their own."""
    rule, problem, told = guard.rule, guard.problem, block.told or Told()
    assert isinstance(rule, ExactTest)
    assert problem is not None
    N, T = block.states_NxT.shape
    step_T, there_NxT = np.arange(1, T + 1), block.there_NxT
    scene = rule.scene(block.probs_NxTxS, told.known(problem), step_T)
    earned_PxNxT = scene.paid(block.states_NxT) * there_NxT
    A = problem.n_actions
    utility_AxNxT = earned_PxNxT[:A]
    paid = {"model": (scene.base_A * utility_AxNxT).sum(axis=0)}
    paid["guard"], share_NxT, trips_N, events = replayed(guard, block, np.arange(N), utility_AxNxT, paid["model"])
    if fallback:
        paid["fallback"] = (_fallback_alone(guard, scene, block) * utility_AxNxT).sum(axis=0)
    paid["Hedge"] = (hedge(problem, block, utility_AxNxT) * utility_AxNxT).sum(axis=0)
    for k, name in enumerate(rule.references):
        paid[f"reference {name}"] = earned_PxNxT[A + k]
    return Played(paid, utility_AxNxT.sum(axis=-1).T, share_NxT * there_NxT, trips_N, tuple(events))


def _fallback_alone(guard: Guard, scene: Scene, block: Block) -> np.ndarray:
    """What the fallback would have played from the first step on, ``[A, N, T]``; afresh with each episode."""
    own, (N, T) = guard.rule.in_play, block.states_NxT.shape
    memory, at_once, played = own.fallback.start((N,)), np.ones(N, dtype=bool), []
    for t, now in enumerate(each_step(scene, T)):
        if guard.episode is not None and t % guard.episode == 0:
            memory = own.fallback.start((N,))
        played.append(own.fallback.policy(memory, now))
        memory = own.fallback.update(memory, now, block.states_NxT[:, t], at_once)
    return np.stack(played, axis=-1)
