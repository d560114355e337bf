"""Low internal regret: Hedge over pairs of actions, played at a fixed point (Stoltz and Lugosi, 2005).

The pair (a, b) stands for "b whenever a is played": from a mixed action pi it makes pi with a's chance given to b. Let
w be weights over all pairs. Some pi is what the average of these makes of pi itself,

    sum_ab w_ab (pi with a's chance given to b) = pi,

the law at which a chain rests that goes from a to b at rate w_ab. Where that is played, the average of what the pairs
are paid is what is earned, so what a pair gains in all is what Hedge over pairs loses to it: F(n) = J (1 + sqrt(1 +
n ln K)) for K pairs under AdaHedge, since in each state all are paid within J of each other. Others who always play the
same, whatever pi is, may be among the experts: to them the chain goes from anywhere, at their weight.

No law stands for this play, not even one that is answered at random: where an action earns .1 less than another in
every state, all quantal responses play the two in one ratio, and these weights begin with both alike.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from .. import inputs
from ..arrays import Array, astype, device, first, in_float64, last, namespace, total
from ..problems import DecisionProblem, a_problem, action_utilities, pairs_of, swaps
from .contract import Policy
from .experts import ExpertHedge, ExpertMemory

_LEAST = 1e-30  # a rate is no less, so that the chain rests at one law alone: too little to be seen in what is played


@dataclass(frozen=True)
class StoltzLugosi(Policy):
    """Hedge over pairs of actions that sets its own rate, at its fixed point: what keeps internal regret low.

    >>> from lowregret import rock_paper_scissors
    >>> player = StoltzLugosi(rock_paper_scissors())
    >>> player.policy_sequence([0, 0, 0, 0])[:, 1].round(3).tolist()  # against rock, paper
    [0.333, 0.837, 0.984, 0.999]
    >>> round(player.internal_bound(1000) / 1000, 4)
    0.0867
    """

    problem: DecisionProblem

    def __post_init__(self) -> None:
        a_problem(self.problem)

    @cached_property
    def _pairs(self) -> ExpertHedge:
        return ExpertHedge(len(pairs_of(self.problem.n_actions)), self.problem.span)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> ExpertMemory:
        return self._pairs.start(batch_shape, like)

    def policy(self, memory: ExpertMemory) -> Array:
        return last(resting(first(self._pairs.policy(memory)), self.problem.n_actions))

    def update(self, memory: ExpertMemory, token: Array) -> ExpertMemory:
        token = inputs.tokens_of(token, self.problem.n_states, "token", shape=tuple(memory.gap.shape), like=memory.gap)
        earned_A = action_utilities(self.problem, token, memory.lead_N)
        return self._pairs.update(memory, last(swaps(earned_A, first(self.policy(memory)))))

    def internal_bound(self, steps: int) -> float:
        """The most that any pair gains, in all over this many steps."""
        return float(self._pairs.total_bound(inputs.whole(steps, "steps")))

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float:
        """What it loses at most to a fixed action b, a step: the gains of the A - 1 pairs that end with b add up."""
        most = (problem.n_actions - 1) * StoltzLugosi(problem).internal_bound(horizon) / horizon
        return min(problem.span, most)


def resting(weights_P: Array, n_actions: int, others_A: Array | None = None) -> Array:
    """The mixed action ``[A, ...]`` that these weights of pairs ``[P, ...]`` leave as it is.

    ``others_A``: what the experts beside the pairs play, times their weights, ``[A, ...]``. States are taken out of the
    chain one after the other, the ways through them added to those around them: nothing is ever subtracted.
    """
    xp, A, shape = namespace(weights_P), n_actions, tuple(weights_P.shape[1:])
    padded = in_float64(weights_P)
    padded = xp.concat([padded, xp.zeros_like(padded[:1])])
    places = xp.asarray(_places(A), device=device(weights_P))
    rate_AxA = xp.reshape(xp.take(padded, places, axis=0), (A, A, *shape)) + _LEAST
    if others_A is not None:
        rate_AxA = rate_AxA + others_A[None]
    ways = []
    while rate_AxA.shape[0] > 1:
        away = rate_AxA[-1, :-1]
        ways.append(rate_AxA[:-1, -1] / total(away))
        rate_AxA = rate_AxA[:-1, :-1] + ways[-1][:, None] * away[None]
    rests_A = xp.ones_like(padded[:1])
    for into in reversed(ways):
        rests_A = xp.concat([rests_A, total(rests_A * into)[None]])
        rests_A = rests_A / total(rests_A)
    return astype(rests_A, weights_P.dtype)


@cache
def _places(n_actions: int) -> np.ndarray:
    """The place of the rate from a to b among the weights of pairs, row after row; from a to a, after all of them."""
    pairs = pairs_of(n_actions)
    place = {pair: at for at, pair in enumerate(pairs)}
    return np.array([place.get((a, b), len(pairs)) for a in range(n_actions) for b in range(n_actions)])
