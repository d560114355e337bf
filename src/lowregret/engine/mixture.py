"""Forecasts that run beside the model's, and their mixture.

With each state an urn discounts those before it by 1 - 1/memory. For every memory, one urn sees every state, and one
more per action sees the states that occurred while the model advised that action, so the mixture can learn that the
model is right, wrong, or right about one thing only. References take part too. The weights follow the log loss (a Bayes
mixture), and a fixed share of all weight is spread evenly each step, so that no forecast is ever lost for good. Every
context has its own urns and weights.
"""

from typing import Any

from .layout import Shapes, Views
from .responses import unit_rows
from .step import Outcome, Step


class Mixture:
    """The model, urns, references and how their weights change."""

    def __init__(self, setting: Any, memories: tuple[float, ...], share: float, trust: float | None) -> None:
        self.xp, self.setting, self.share, self.trust = setting.xp, setting, share, trust
        self.keep_M = 1 - 1 / setting.xp.asarray(memories, dtype=setting.xp.float64)
        self.size = 1 + 2 * len(memories) + len(setting.references)

    def shapes(self) -> Shapes:
        A, S, C = self.setting.outcomes.n_actions, self.setting.outcomes.n_states, self.setting.n_contexts
        return {"counts_CxRxMxS": (C, 1 + A, self.keep_M.shape[0], S), "weights_CxL": (C, self.size)}

    def start(self, memory: Views) -> None:
        memory.weights_CxL[...] = 1 / self.size if self.trust is None else (1 - self.trust) / (self.size - 1)
        if self.trust is not None:
            memory.weights_CxL[..., 0] = self.trust

    def forecasts(self, memory: Views, step: Step) -> tuple[Any, Any]:
        """Its forecast ``[N, S]``, and the forecasts of which it is a mixture ``[N, L, S]``."""
        xp, (streams, x) = self.xp, step.here
        every, advised = self._urns(memory, step)
        balls = xp.concat([every, advised], axis=1) + 1.0  # an urn begins with a ball of each state
        urns = balls / balls.sum(-1, keepdims=True)
        parts_NxLxS = xp.concat([step.forecast[:, None], urns, step.references_NxQxS], axis=1)
        return (memory.weights_CxL[streams, x][:, None] @ parts_NxLxS)[:, 0], parts_NxLxS

    def _urns(self, memory: Views, step: Step) -> tuple[Any, Any]:
        """What the urns of every step hold, ``[N, M, S]``, and those of steps in which this action was advised."""
        streams_N = self.xp.arange(step.advised_N.shape[0])
        here_NxRxMxS = memory.counts_CxRxMxS[step.here]
        return here_NxRxMxS[:, 0], here_NxRxMxS[streams_N, 1 + step.advised_N]

    def update(self, memory: Views, step: Step, outcome: Outcome) -> None:
        xp, state_N = self.xp, outcome.state_N
        streams_N = xp.arange(state_N.shape[0])
        posterior_NxL = memory.weights_CxL[step.here] * step.parts_NxLxS[streams_N, :, state_N]
        kept = (1 - self.share) / posterior_NxL.sum(-1, keepdims=True)
        memory.weights_CxL[step.here] = posterior_NxL * kept + self.share / self.size
        state_Nx1xS = unit_rows(xp, step.forecast)[state_N][:, None]
        keep_Mx1, (streams, x), row_N = self.keep_M[:, None], step.here, 1 + step.advised_N
        every, advised = self._urns(memory, step)
        memory.counts_CxRxMxS[streams, x, 0] = every * keep_Mx1 + state_Nx1xS
        memory.counts_CxRxMxS[streams_N, x, row_N] = advised * keep_Mx1 + state_Nx1xS
