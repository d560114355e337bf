"""The guard that plays best responses, has a second bettor and a way back that counts the model: one stream, in loops.

The mixture in the shadow is the model and an urn that forgets, by their likelihoods: any law known before the state
would do, nothing that is promised depends on it.
"""

import math
from dataclasses import dataclass, field

import numpy as np

import lowregret as lr
from lowregret.certificates import best_response
from lowregret.certificates.every_start import Prior
from lowregret.policies.experts import ExpertHedge


@dataclass
class Default:
    """One stream: ``step`` after ``step``; what it has earned, and what others would have."""

    problem: lr.DecisionProblem
    prior: Prior
    delta: float
    budget: float = 0.5
    t: int = 0
    trip: int = 0  # 0 for never
    alone: bool = False  # whether bets on actions alone ever reached the threshold
    lead_C: np.ndarray = field(default_factory=lambda: np.zeros(0))  # regret to the actions, and to the model

    def __post_init__(self) -> None:
        A, S, K = self.problem.n_actions, self.problem.n_states, len(self.prior.rates_K)
        self.table = best_response.pair_kappa(self.problem, self.prior.rates_K)
        self.wealth_AxK, self.ratio = np.zeros((A, K)), 0.0
        self.urn_S, self.weights_2 = np.ones(S), np.array([0.5, 0.5])
        self.rise, self.low, self.variance, self.age = 0.0, 0.0, 0.0, 0
        self.lead_C, self.since_C, self.lowest_C = np.zeros(A + 1), np.zeros(A + 1), np.zeros(A + 1)
        self.hedge, self.is_safe = ExpertHedge(A + 1, self.problem.span), False
        self.safe = self.hedge.start()

    def mixture(self, p: np.ndarray) -> np.ndarray:
        return self.weights_2 @ np.stack([p, self.urn_S / self.urn_S.sum()])

    def plays(self, p: np.ndarray) -> np.ndarray:
        """The mixed action of the next step."""
        U = self.problem.utility
        model = np.eye(len(U))[int(np.argmax(U @ p))]
        if not self.trip:
            return model
        if self.is_safe:
            weights = self.hedge.policy(self.safe)
            return weights[:-1] + weights[-1] * model
        return np.eye(len(U))[int(np.argmax(U @ self.mixture(p)))]

    def alarms_on(self, p: np.ndarray, state: int) -> bool:
        """Whether the next state, if it is this one, sounds the alarm."""
        return not self.trip and self._bets(p, state)[0]

    def _bets(self, p: np.ndarray, state: int) -> tuple:
        U, prior, t = self.problem.utility, self.prior, self.t + 1
        b, mix = int(np.argmax(U @ p)), self.mixture(p)
        x_A = U[:, state] - U[b, state]
        growth_AxK = np.exp(prior.rates_K * x_A[:, None] - self.table[:, b])
        wealth_AxK = (self.wealth_AxK + prior.weights_K(t)) * growth_AxK
        actions = wealth_AxK.sum() + prior.unspent(t)
        if p[state] == 0:
            return True, wealth_AxK, math.inf, (self.rise, self.low, self.variance, self.age), actions
        ratio = (self.ratio + prior.second_weight(t)) * mix[state] / p[state]
        d = float(x_A[int(np.argmax(U @ mix))])
        total, low, variance, age = self.rise + d, self.low, self.variance + d * d, self.age + 1
        if total <= low:
            low, variance, age = total, 0.0, 0
        rise = total - low
        together = actions + ratio + prior.second_unspent(t) >= 1 / self.delta
        heard = rise > 0 and rise >= math.sqrt(variance * (math.log(1 + t / max(age, 1)) + 2))
        alarm = actions >= 1 / self.delta or (together and heard)
        return alarm, wealth_AxK, ratio, (total, low, variance, age), actions

    def step(self, p: np.ndarray, state: int) -> None:
        U, T = self.problem.utility, self.prior.horizon
        played, model = self.plays(p) @ U[:, state], U[int(np.argmax(U @ p)), state]
        paid_C = np.append(U[:, state], model)
        self.lead_C = self.lead_C + paid_C - played
        alarm, wealth, ratio, account, actions = self._bets(p, state)
        late, self.t = self.trip > 0, self.t + 1
        if not late:
            self.wealth_AxK, self.ratio = wealth, ratio
            self.rise, self.low, self.variance, self.age = account
            self.alone |= bool(actions >= 1 / self.delta)
            self.trip = self.t if alarm else 0
        else:
            self.since_C = self.since_C + paid_C - played
            self.lowest_C = np.minimum(self.lowest_C, self.since_C)
            limit = self.budget * self.problem.span * math.sqrt(self.t if T is None else T)
            worst = (self.since_C - self.lowest_C).max()
            was, self.is_safe = self.is_safe, bool(worst > limit / 2 if self.is_safe else worst >= limit)
            self.safe = self.hedge.update(self.safe, paid_C) if was and self.is_safe else self.hedge.start()
        seen = np.eye(len(self.urn_S))[state]
        weights = self.weights_2 * [p[state], self.urn_S[state] / self.urn_S.sum()]
        self.weights_2 = 0.997 * weights / weights.sum() + 0.0015 if weights.sum() > 0 else self.weights_2
        self.urn_S = 1 + 0.95 * (self.urn_S - 1) + seen
