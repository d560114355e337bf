"""Mixtures that never give an alarm: of what is played, or of laws, from the first step on.

``Prod`` and Hedge mix plays and promise a regret; the Bayes mixture is of laws and promises none in payoffs. Rates are
made for the horizon, which they are told. Promises are for outcomes that come at once.
"""

import math
from collections import deque
from functools import partial
from typing import Any

import numpy as np

import lowregret as lr

from ..cells import Scene, best_response
from ..monitored import Recovers
from . import Entry
from .plain import Urn

REGRET = "regret"


def hedge_rate(scene: Scene, experts: int, switches: float = 0.0) -> float:
    """sqrt(8 c / T) / J, the best for a bound of c / rate + rate J^2 T / 8, c = ln N and what switches cost."""
    return math.sqrt(8 * (math.log(max(experts, 2)) + switches) / scene.T) / (scene.problem.span or 1.0)


class Prod:
    """(A,B)-Prod of Sani, Neu and Lazaric (2014): A is Hedge over the actions or an urn, B the model.

    A's weight W grows by 1 + r x / J where A earned x more than B, B's stays 1 - W_1; W_1 = r.
    ``times``: of that paper's rate, sqrt(ln T / T) / 2.
    """

    alarmed = None

    def __init__(self, scene: Scene, urn: bool = False, times: float = 1.0) -> None:
        self.problem, T = scene.problem, max(scene.T, 2)
        self.rate = min(times * math.sqrt(math.log(T) / T) / 2, 0.5)
        self.other: Any = Urn(scene) if urn else _Hedge(scene)
        self.log_odds_R = np.full(scene.R, math.log(self.rate / (1 - self.rate)))
        self.others: deque[np.ndarray] = deque()  # what A played in the steps whose outcomes are not known yet

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        other_RxA = self.other.advise(laws_RxS)
        self.others.append(other_RxA)
        follow_Rx1 = (0.5 + 0.5 * np.tanh(self.log_odds_R / 2))[:, None]
        return follow_Rx1 * other_RxA + (1 - follow_Rx1) * best_response(self.problem, laws_RxS)

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        more_RxA = self.others.popleft() - best_response(self.problem, laws_RxS)
        gain_R = (more_RxA * self.problem.utility.T[states_R]).sum(axis=1) / (self.problem.span or 1.0)
        self.log_odds_R = self.log_odds_R + np.log1p(self.rate * np.clip(gain_R, -1, 1))
        self.other.observe(laws_RxS, states_R)


class _Hedge:
    """``policies.Hedge`` over the actions, at the rate that is best for the horizon."""

    def __init__(self, scene: Scene) -> None:
        self.hedge = lr.policies.Hedge(scene.problem, scene.T, hedge_rate(scene, scene.problem.n_actions))
        self.memory = self.hedge.start((scene.R,))

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        return np.asarray(self.hedge.policy(self.memory))

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        self.memory = self.hedge.update(self.memory, states_R)


class Bayes:
    """The best response to a Bayes mixture of two laws, the model's and an urn's.

    ``share``: of all weight, what is dealt out evenly each step; ``memory``: how many states the urn has in mind.
    """

    alarmed = None

    def __init__(self, scene: Scene, share: float = 0.0, memory: float = math.inf) -> None:
        self.problem, self.share, self.keep = scene.problem, share, 1 - 1 / memory
        self.weights_2xR = np.full((2, scene.R), 0.5)
        self.counts_RxS = np.zeros((scene.R, scene.problem.n_states))

    def _laws(self, laws_RxS: np.ndarray) -> np.ndarray:
        urn_RxS = self.counts_RxS + 1
        return np.stack([laws_RxS, urn_RxS / urn_RxS.sum(axis=1, keepdims=True)])

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        return best_response(self.problem, (self.weights_2xR[:, :, None] * self._laws(laws_RxS)).sum(axis=0))

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        cells = np.arange(len(states_R))
        likely_2xR = self.weights_2xR * self._laws(laws_RxS)[:, cells, states_R]
        self.weights_2xR = likely_2xR / likely_2xR.sum(axis=0) * (1 - self.share) + self.share / 2
        self.counts_RxS *= self.keep
        self.counts_RxS[cells, states_R] += 1


class _Experts:
    """The response to the model, and the actions; or the response to the mixture of laws in ``Recovery``."""

    alarmed = None

    def __init__(self, scene: Scene, mixture: bool) -> None:
        self.problem, self.experts = scene.problem, 2 if mixture else 1 + scene.problem.n_actions
        self.mixture = Recovers(scene) if mixture else None
        self.waiting: deque[np.ndarray] = deque()  # the plays of the steps whose outcomes are not known yet
        self.nowhere_R = np.zeros(scene.R, dtype=bool)

    def plays(self, laws_RxS: np.ndarray) -> np.ndarray:
        """What each expert plays, ``[R, N, A]``."""
        R, A = len(laws_RxS), self.problem.n_actions
        others = (
            np.broadcast_to(np.eye(A), (R, A, A)) if self.mixture is None else self.mixture.advise(laws_RxS)[:, None]
        )
        plays_RxNxA = np.concatenate([best_response(self.problem, laws_RxS)[:, None], others], axis=1)
        self.waiting.append(plays_RxNxA)
        return plays_RxNxA

    def paid(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> np.ndarray:
        """What each of them was paid, ``[R, N]``."""
        if self.mixture is not None:
            self.mixture.observe(laws_RxS, states_R, self.nowhere_R)
        return (self.waiting.popleft() @ self.problem.utility.T[states_R][:, :, None])[:, :, 0]


class AdaHedge(_Experts):
    """AdaHedge over them."""

    def __init__(self, scene: Scene, mixture: bool) -> None:
        super().__init__(scene, mixture)
        self.hedge = lr.policies.AdaHedge(
            lr.DecisionProblem(np.zeros((self.experts, 1)))
        )  # its actions are the experts
        self.memory = self.hedge.start((scene.R,))

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        return (np.asarray(self.hedge.policy(self.memory))[:, None] @ self.plays(laws_RxS))[:, 0]

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        self.memory = self.hedge.paid(self.memory, self.paid(laws_RxS, states_R))


class FixedShare(_Experts):
    """Fixed share over them; a share of 1/T and the rate that is best against one expert, as of ``FixedShare``."""

    def __init__(self, scene: Scene, mixture: bool, share: float | None = None, times: float = 1.0) -> None:
        super().__init__(scene, mixture)
        N = self.experts
        self.share = 1 / max(scene.T, 2) if share is None else share
        switches = -(scene.T - 1) * math.log1p(-self.share * (N - 1) / N)
        self.rate = times * hedge_rate(scene, N, switches)
        self.weights_NxR = np.full((N, scene.R), 1 / N)

    def advise(self, laws_RxS: np.ndarray) -> np.ndarray:
        return (self.weights_NxR.T[:, None] @ self.plays(laws_RxS))[:, 0]

    def observe(self, laws_RxS: np.ndarray, states_R: np.ndarray) -> None:
        paid_NxR = self.paid(laws_RxS, states_R).T
        self.weights_NxR = np.asarray(lr.policies.shared(self.weights_NxR, paid_NxR, self.rate, self.share))


SHARES: tuple[dict[str, Any], ...] = ({}, {"times": 3}, {"share": 0.01}, {"share": 0.01, "times": 3})

ENTRANTS = {
    "(A,B)-Prod": Entry(Prod, ({}, {"urn": True}, {"times": 3}, {"urn": True, "times": 3}), promise=REGRET),
    "Bayes mixture of the model and an urn": Entry(
        Bayes, ({}, {"share": 0.003}, {"share": 0.003, "memory": 50}, {"share": 0.03, "memory": 50})
    ),
    "AdaHedge over the model and actions": Entry(partial(AdaHedge, mixture=False), promise=REGRET),
    "AdaHedge over the model and a mixture": Entry(partial(AdaHedge, mixture=True)),
    "fixed share over the model and actions": Entry(partial(FixedShare, mixture=False), SHARES, promise=REGRET),
    "fixed share over the model and a mixture": Entry(partial(FixedShare, mixture=True), SHARES),
}
