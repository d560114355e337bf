"""The way back: what to fall back on when the model may become right again, and the safe play behind that.

delta is spent at the alarm, so what is played from then on costs nothing in distribution: returning is a question of
regret alone. A mixture of laws that contains the base model returns by itself but bounds no regret; a budget does.
"""

from dataclasses import dataclass
from typing import Any

from .. import inputs
from ..predictors import PolyaUrn, Predictor, ShrunkUrn, equaliser
from ..problems import DecisionProblem, a_problem
from .contract import Policy
from .recovering import Recovering


@dataclass(frozen=True)
class Recovery:
    """What to fall back on when the model may become right again: a mixture of laws that contains it, on a budget.

    Laws run in the shadow of the base model from the first step: its own, urns that forget, and urns that forget for
    each action it advises. After the alarm the response to their mixture is played; once that has lost more than the
    budget, a safe fallback is started and played until half of it is won back.

    Parameters
    ----------
    memories
        Of the urns: about how many tokens each remembers.
    share
        The share of all weight that is spread evenly each step, so that the mixture can follow changes.
    budget
        What the mixture may lose to any one action, in units of span * sqrt(horizon).
    safe
        What to play once the budget is spent: a predictor or, for a ``Guard``, a policy; by default a law with a good
        bound, or where best responses are played (a temperature of 0) Hedge over the actions and the model.

    >>> import numpy as np
    >>> from lowregret import matching
    >>> back = Recovery().made_for(matching(), horizon=400, temperature=0.05)
    >>> base, states = np.tile([0.1, 0.9], (100, 1)), np.array([0] * 30 + [1] * 70)
    >>> laws = back.laws_beside(base, states, np.array(5))
    >>> laws[[0, 29, 99], 1].round(2).tolist()  # the base model; mostly the urns; mostly the base model
    [0.9, 0.04, 0.9]
    """

    memories: tuple[float, ...] = (20, 200)
    share: float = 0.003
    budget: float = 0.5
    safe: Predictor | Policy | None = None

    def __post_init__(self) -> None:
        memories = tuple(self.memories) if isinstance(self.memories, (tuple, list)) else ()
        if not memories or any(inputs.positive(m, "memories") <= 1 for m in memories):
            raise ValueError(f"memories must be a tuple of numbers above 1, got {inputs.shown(self.memories)}")
        inputs.keep(
            self,
            memories=tuple(inputs.positive(m, "memories") for m in memories),
            share=inputs.probability(self.share, "share"),
            budget=inputs.positive(self.budget, "budget"),
        )
        if self.safe is not None and not isinstance(self.safe, (Predictor, Policy)):
            raise ValueError(f"safe must be a Predictor or a Policy, got {type(self.safe).__name__}")

    def made_for(self, problem: DecisionProblem, horizon: int | None, temperature: float | None) -> Recovering:
        """The fallback itself; ``temperature=None`` is the schedule for an unknown horizon."""
        if self.safe is None and temperature == 0:
            return self.in_play(problem, horizon, temperature, None, counts_model=True)
        safe = safest_law(a_problem(problem), horizon) if self.safe is None else self.safe
        return self.in_play(problem, horizon, temperature, safe)

    def in_play(
        self,
        problem: DecisionProblem,
        horizon: int | None,
        temperature: float | None,
        safe: Predictor | Policy | None,
        **told: Any,
    ) -> Recovering:
        """The fallback with this safe play (None: Hedge over all comparators); ``told``: more settings of its own."""
        return Recovering(problem, horizon, temperature, self.memories, self.share, self.budget, safe, **told)


def safest_law(problem: DecisionProblem, horizon: int | None) -> Predictor:
    """The law to play safe by: Hedge as a law where there is one, else the Polya urn."""
    if horizon is not None and equaliser(problem) is not None:
        return ShrunkUrn(problem, horizon)
    return PolyaUrn(problem.n_states)
