"""The guard that runs for ever, as its theorem is written: one stream, in loops."""

from typing import NamedTuple

import numpy as np

import lowregret as lr
from lowregret.certificates import ForEver, best_response


class Run(NamedTuple):
    alarms: list[int]  # the steps at which they sounded, from 1
    lead_TxA: np.ndarray  # what each action earned more than what was played, step by step


class Stream:
    """Bets by pair charges from ``head_start`` on, an alarm, fixed share over the actions for ``hold`` steps; again."""

    def __init__(self, made: ForEver) -> None:
        self.made, self.U = made, made.problem.utility
        self.table = best_response.pair_kappa(made.problem, made.rates_K)
        self.held, self.weights_A = 0, np.ones(len(self.U)) / len(self.U)
        self._arm()

    def _arm(self) -> None:
        made = self.made
        self.wealth_AxK = np.full((len(self.U), len(made.rates_K)), made.head_start * made.every * made.weight)

    def plays(self, p: np.ndarray) -> np.ndarray:
        return self.weights_A if self.held else np.eye(len(self.U))[int(np.argmax(self.U @ p))]

    def step(self, p: np.ndarray, state: int) -> tuple[bool, np.ndarray]:
        """Whether the alarm sounds, and what each action earned more than what was played."""
        made, U = self.made, self.U
        lead_A = U[:, state] - self.plays(p) @ U[:, state]
        if self.held:
            assert made.hold is not None
            grown = self.weights_A * np.exp(made.hold_rate * U[:, state])
            self.weights_A = (1 - 1 / made.hold) * grown / grown.sum() + 1 / made.hold / len(U)
            self.held -= 1
            if not self.held:
                self._arm()
            return False, lead_A
        b = int(np.argmax(U @ p))
        growth = np.exp(made.rates_K * (U[:, state] - U[b, state])[:, None] - self.table[:, b])
        self.wealth_AxK = (self.wealth_AxK + made.weight) * growth
        alarm = bool(self.wealth_AxK.sum() >= made.every or p[state] == 0)
        if alarm:
            assert made.hold is not None
            self.held, self.weights_A = made.hold, np.ones(len(U)) / len(U)
        return alarm, lead_A


def run(made: ForEver, laws_TxS: np.ndarray, states_T: np.ndarray) -> Run:
    stream, alarms, leads = Stream(made), [], []
    for t, (p, state) in enumerate(zip(laws_TxS, states_T, strict=True), 1):
        alarm, lead_A = stream.step(p, int(state))
        alarms += [t] if alarm else []
        leads.append(lead_A)
    return Run(alarms, np.array(leads))


def hurting(made: ForEver, T: int, rng: np.random.Generator) -> Run:
    """Against an adversary that lets no alarm sound for a while, then does, and hurts fixed share as it can."""
    stream, alarms, leads = Stream(made), [], []
    U, S = made.problem.utility, made.problem.n_states
    tie = np.full(S, 1 / S)
    for t in range(1, T + 1):
        plays, patient = stream.plays(tie), (t // 150) % 2 == 0
        worst = int(np.argmax(U.max(axis=0) - plays @ U))
        state = worst
        if not stream.held and patient:
            kept = stream.wealth_AxK.copy()
            if stream.step(tie, worst)[0]:
                state = int(rng.integers(S))
            stream.wealth_AxK, stream.held = kept, 0
        alarm, lead_A = stream.step(tie, state)
        alarms += [t] if alarm else []
        leads.append(lead_A)
    return Run(alarms, np.array(leads))


def matching_or_rps(which: int) -> lr.DecisionProblem:
    return lr.matching() if which == 0 else lr.rock_paper_scissors()
