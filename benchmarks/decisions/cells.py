"""What is played: a stream of forecasts, and what came, with something at stake; what plays it; and how."""

import time
from typing import NamedTuple, Protocol

import numpy as np

import lowregret as lr


class Stream(NamedTuple):
    """What a model said before each step, and what came, of whoever decides by it."""

    problem: lr.DecisionProblem
    laws_TxS: np.ndarray
    states_T: np.ndarray
    lag: int = 1  # as of ``Guard``: an outcome is known before the forecast so many steps later
    right: bool = False  # whether states were drawn from the laws


class Source(NamedTuple):
    """Where streams come from. Those of one source are in one half, so that none is tuned on what it is scored on."""

    name: str
    half: str  # "training" or "scored"
    licence: str  # of the data, or "drawn"
    where: str  # package and file, or how it is drawn
    package: str = ""  # what has to be there, as of ``packages.folder``


class Scene(NamedTuple):
    """What an entrant knows beforehand: of R cells that are played side by side."""

    problem: lr.DecisionProblem
    R: int
    T: int
    lag: int


class Entrant(Protocol):
    """Something that decides beside a model, in R cells at once."""

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        """The chances with which each action is taken, ``[R, A]``, given what the model says."""

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        """What came of a step, and what the model had said of it: ``lag`` - 1 steps before the last that was advised.

        Called in the order of steps, once each; not at all for those whose outcomes come after the end.
        """

    @property
    def alarmed(self) -> np.ndarray | None:
        """Which cells have had an alarm, ``[R]``; None for an entrant that never gives one."""


class Played(NamedTuple):
    """What came of it."""

    paid_RxT: np.ndarray  # expected utility a step
    alarm_R: np.ndarray  # steps seen at the first alarm; -1 for none
    states_RxT: np.ndarray
    seconds: float


def best_response(problem: lr.DecisionProblem, laws_RxS: np.ndarray) -> np.ndarray:
    """The best action by each law, the first of equals, as ``[R, A]`` zeros and a one."""
    worth_RxA = laws_RxS @ problem.utility.T
    return np.eye(problem.n_actions)[(worth_RxA >= worth_RxA.max(axis=1, keepdims=True) - 1e-12).argmax(axis=1)]


def play(
    entrant: Entrant, scene: Scene, laws_RxTxS: np.ndarray, states_RxT: np.ndarray, adversary_R: np.ndarray
) -> Played:
    """Every step of R cells. Where ``adversary_R`` is not 0, the states are not those given but an adversary's.

    It knows the chances of the step's actions. The first (1) takes the state that makes the best fixed action's lead
    largest; the second (2) the one in which the player falls furthest behind the mean of the actions.
    """
    utility_AxS, (R, T) = scene.problem.utility, states_RxT.shape
    states_RxT, paid_RxT, alarm_R = states_RxT.copy(), np.zeros((R, T)), np.full(R, -1)
    earned_RxA, who, took = np.zeros((R, len(utility_AxS))), np.flatnonzero(adversary_R), 0.0
    for t in range(T):
        begun = time.perf_counter()
        plays_RxA = entrant.advise(laws_RxTxS[:, t])
        took += time.perf_counter() - begun
        if len(who):
            lead_WxS = (earned_RxA[who, :, None] + utility_AxS).max(axis=1)
            other_WxS = np.where(adversary_R[who, None] == 1, lead_WxS, utility_AxS.mean(axis=0))
            states_RxT[who, t] = (other_WxS - plays_RxA[who] @ utility_AxS).argmax(axis=1)
        now_RxA = utility_AxS.T[states_RxT[:, t]]
        paid_RxT[:, t] = (plays_RxA * now_RxA).sum(axis=1)
        earned_RxA += now_RxA
        known = t - scene.lag + 1
        if known >= 0:
            begun = time.perf_counter()
            entrant.observe(laws_RxTxS[:, known], states_RxT[:, known])
            took += time.perf_counter() - begun
            if entrant.alarmed is not None:
                alarm_R[(alarm_R < 0) & entrant.alarmed] = t + 1
    return Played(paid_RxT, alarm_R, states_RxT, took)
