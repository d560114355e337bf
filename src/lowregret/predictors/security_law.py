"""The maximin law: a fallback that guarantees a payoff instead of the regret of Lemma 2.3's urn."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array
from ..problems import DecisionProblem, a_problem
from .contract import Predictor
from .tables import Scheduled, StepMemory


@dataclass(frozen=True)
class SecurityLaw(Predictor):
    """Always the same law: the one whose quantal response is the safest mixed action, maximin with an entropy term.

    mu* = argmin_mu eta ln sum_a exp(U(a, mu) / eta): the response to it earns its guarantee whatever comes, at most
    eta ln A below the value of the game. A guarantee of payoff, not of regret.

    Parameters
    ----------
    temperature, horizon
        The temperature of the responses to it, or the horizon for 1/sqrt(horizon).

    >>> from lowregret import cost_loss
    >>> safe = SecurityLaw(cost_loss(cost=1, loss=4), temperature=0.01)
    >>> round(safe.payoff_guarantee(), 3)  # protecting costs a quarter of the loss: utility 1/2
    0.5
    """

    problem: DecisionProblem
    temperature: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        a_problem(self.problem)
        if (self.temperature is None) == (self.horizon is None):
            raise ValueError(
                f"SecurityLaw needs a temperature or a horizon, one of them, got {inputs.shown(self.temperature)} and "
                f"{inputs.shown(self.horizon)}"
            )
        if self.temperature is None:
            horizon = inputs.whole(self.horizon, "horizon")
            inputs.keep(self, horizon=horizon, temperature=1 / math.sqrt(horizon))
        temperature = inputs.positive(self.temperature, "temperature")
        inputs.keep(self, temperature=temperature, _constant=Scheduled(safest_law(self.problem, temperature)[None]))

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.problem.n_states

    @property
    def law(self) -> np.ndarray:
        """The law mu*, ``[S]``."""
        return self._constant.probs_TxS[0]  # type: ignore[attr-defined]

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> StepMemory:
        return self._constant.start(batch_shape, like=like)  # type: ignore[attr-defined]

    def predict(self, memory: StepMemory) -> Array:
        return self._constant.predict(memory)  # type: ignore[attr-defined]

    def update(self, memory: StepMemory, token: Array) -> StepMemory:
        return self._constant.update(memory, token)  # type: ignore[attr-defined]

    def predict_sequence(self, tokens: Array) -> Array:
        return self._constant.predict_sequence(tokens)  # type: ignore[attr-defined]

    def law_of_counts(self, counts: Array) -> Array:
        """The same law after any counts of each state."""
        return self._constant.law_of_counts(counts)  # type: ignore[attr-defined]

    def payoff_guarantee(self, temperature: float | None = None) -> float:
        """What the quantal response to the law earns at least, in utility, in every state."""
        eta = self.temperature if temperature is None else inputs.positive(temperature, "temperature")
        return float(np.min(self.problem.respond(self.law, eta) @ self.problem.utility))

    def regret_bound(self, problem: Any, horizon: int, temperature: float | None) -> None:
        """None: an action that is safe in every state may be far from the best one in hindsight."""
        return None


def safest_law(problem: DecisionProblem, temperature: float, tolerance: float = 1e-10) -> np.ndarray:
    """argmin over laws of eta ln sum_a exp(U(a, mu) / eta), by Newton's method with a logarithmic barrier.

    Verified by its Karush-Kuhn-Tucker conditions: no state may earn the response less than the law itself does, by
    more than ``10 * tolerance``; that difference also bounds how far the value is from the minimum.
    """
    U, S = problem.utility, problem.n_states
    law, barrier = np.full(S, 1 / S), 10.0

    def value(at: np.ndarray) -> float:
        scores = U @ at / temperature
        top = float(scores.max())
        return temperature * (top + math.log(np.exp(scores - top).sum())) - barrier * float(np.log(at).sum())

    while barrier * S > tolerance / 2:
        barrier /= 10
        for _ in range(100):
            response = problem.respond(law, temperature)
            earned = response @ U
            spread = (U - earned) * law  # [A, S]: steps are measured relative to the law itself
            bent = spread.T @ (response[:, None] * spread) / temperature + barrier * np.eye(S)
            slope = law * earned - barrier
            system = np.block([[bent, law[:, None]], [law[None], np.zeros((1, 1))]])
            step = np.linalg.solve(system, np.append(-slope, 0.0))[:S]
            decrease, gap = -float(slope @ step), float(law @ earned - earned.min())
            if decrease <= 1e-3 * barrier and gap <= 2 * S * barrier:
                break
            size, now = min(1.0, 0.99 / max(float(-step.min()), 0.99)), value(law)
            # What rounding hides (1e-14) is no reason to step back.
            while value(law * (1 + size * step)) > now - 0.1 * size * decrease + 1e-14 and size > 1e-12:
                size /= 2
            law = law * (1 + size * step)
            law = law / law.sum()
    earned = problem.respond(law, temperature) @ U
    if not law @ earned - earned.min() <= 10 * tolerance:
        raise ArithmeticError(f"the maximin law of {problem} at temperature {temperature:g} was not found")
    return law
