"""The guard that runs for ever, as its theorem is written: one stream, in loops."""

import math
from typing import NamedTuple

import numpy as np

import lowregret as lr
from lowregret.certificates import ForEver, best_response


class Run(NamedTuple):
    alarms: list[int]  # the steps at which they sounded, from 1
    lead_TxC: np.ndarray  # what each comparator earned more than what was played, step by step


class Stream:
    """Bets from ``head_start`` on, an alarm, fixed share over the comparators for ``hold`` steps; and again.

    Comparators are the actions, then what references would play. A bet is charged what it wins on average under the
    model's law, if that is above 1; or by its pair of actions (``pairs``).
    """

    def __init__(self, made: ForEver, pairs: bool = False) -> None:
        self.made, self.U, self.pairs = made, made.problem.utility, pairs
        self.table = best_response.pair_kappa(made.problem, made.rates_K)
        self.C, self.t, self.held = made.comparators, 0, 0
        assert self.C is not None
        self.weights_C = np.ones(self.C) / self.C
        self._arm()

    def _arm(self) -> None:
        made, C = self.made, self.C
        self.starts = [self.t + 1]
        self.parts_JxCxK = np.full((1, C, len(made.rates_K)), made.head_start * made.every * made.weight)

    @property
    def wealth(self) -> float:
        return float(self.parts_JxCxK.sum())

    @property
    def suspect(self) -> tuple[int, int]:
        """Whom the richest bettor bets on, and which start has most of its wealth: the earliest that has."""
        wealth_CxK = self.parts_JxCxK.sum(axis=0)
        c, k = np.unravel_index(np.argmax(wealth_CxK), wealth_CxK.shape)
        parts_J = self.parts_JxCxK[:, c, k]
        return int(c), self.starts[int(np.argmax(parts_J >= parts_J.max() * (1 - 1e-9)))]

    def rows(self, plays_NxA: np.ndarray | None) -> np.ndarray:
        return np.eye(len(self.U)) if plays_NxA is None else np.concatenate([np.eye(len(self.U)), plays_NxA])

    def plays(self, p: np.ndarray, plays_NxA: np.ndarray | None = None) -> np.ndarray:
        return self.weights_C @ self.rows(plays_NxA) if self.held else np.eye(len(self.U))[int(np.argmax(self.U @ p))]

    def step(
        self, p: np.ndarray, state: int, plays_NxA: np.ndarray | None = None, scale: float = 1.0
    ) -> tuple[bool, np.ndarray]:
        """Whether the alarm sounds, and what each comparator earned more than what was played."""
        made, U_CxS = self.made, scale * self.rows(plays_NxA) @ self.U
        self.t += 1
        lead_C = U_CxS[:, state] - scale * self.plays(p, plays_NxA) @ self.U[:, state]
        if self.held:
            assert made.hold is not None
            grown = self.weights_C * np.exp(made.hold_rate * U_CxS[:, state])
            self.weights_C = (1 - 1 / made.hold) * grown / grown.sum() + 1 / made.hold / len(grown)
            self.held -= 1
            if not self.held:
                self._arm()
            return False, lead_C
        b = int(np.argmax(self.U @ p))
        gain_CxS = U_CxS - U_CxS[b]
        if self.pairs:
            charge_CxK = self.table[:, b]
        else:
            mean_CxK = (p[:, None] * np.exp(gain_CxS[..., None] * made.rates_K)).sum(axis=1)
            charge_CxK = np.maximum(np.log(mean_CxK), 0.0)
        growth_CxK = np.exp(made.rates_K * gain_CxS[:, [state]] - charge_CxK)
        self.starts = [*self.starts, self.t]
        joins = np.full((1, *growth_CxK.shape), made.weight) * (gain_CxS != 0).any(axis=1)[:, None]  # no idle ones
        self.parts_JxCxK = np.concatenate([self.parts_JxCxK, joins]) * growth_CxK
        alarm = self.wealth >= made.every or p[state] == 0
        if alarm:
            assert made.hold is not None
            self.held, self.weights_C = made.hold, np.ones(len(U_CxS)) / len(U_CxS)
        return alarm, lead_C

    @property
    def evidence(self) -> float:
        return math.log(self.wealth)


def run(made: ForEver, laws_TxS: np.ndarray, states_T: np.ndarray, pairs: bool = False) -> Run:
    stream, alarms, leads = Stream(made, pairs), [], []
    for t, (p, state) in enumerate(zip(laws_TxS, states_T, strict=True), 1):
        alarm, lead_A = stream.step(p, int(state))
        alarms += [t] if alarm else []
        leads.append(lead_A)
    return Run(alarms, np.array(leads))


def hurting(made: ForEver, T: int, rng: np.random.Generator) -> tuple[Run, np.ndarray]:
    """Against an adversary that lets no alarm sound for a while, then does, and hurts fixed share as it can.

    With the states that it chose, under a model that says of all that they are as likely.
    """
    stream, alarms, leads, states = Stream(made), [], [], []
    U, S = made.problem.utility, made.problem.n_states
    tie = np.full(S, 1 / S)
    for t in range(1, T + 1):
        plays, patient = stream.plays(tie), (t // 150) % 2 == 0
        worst = int(np.argmax(U.max(axis=0) - plays @ U))
        state = worst
        if not stream.held and patient:
            kept = stream.starts, stream.parts_JxCxK, stream.t
            if stream.step(tie, worst)[0]:
                state = int(rng.integers(S))
            (stream.starts, stream.parts_JxCxK, stream.t), stream.held = kept, 0
        alarm, lead_A = stream.step(tie, state)
        alarms += [t] if alarm else []
        leads.append(lead_A)
        states.append(state)
    return Run(alarms, np.array(leads)), np.array(states)


def matching_or_rps(which: int) -> lr.DecisionProblem:
    return lr.matching() if which == 0 else lr.rock_paper_scissors()
