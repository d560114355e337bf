"""(A,B)-Prod of Sani, Neu and Lazaric (2014): a mixture of two players that never earns much less than one of them.

The benchmark is the response to the model, the other player a policy with low regret. Let x_t be what the other gains
on the benchmark in step t, J the span, so |x_t| <= J; r in (0, 1/2] and w the weight the other starts with. It keeps

    W_1 = w,    W_{t+1} = W_t (1 + (r/J) x_t),    and the benchmark always 1 - w;

the other is followed with chance s_t = W_t / (W_t + 1 - w). With V_t = W_t + 1 - w, V_{t+1} = V_t (1 + (r/J) s_t x_t).

* *To the benchmark.* s_t x_t is what is gained on it, and ln(1 + z) <= z: (r/J) sum s_t x_t >= ln V_{T+1} >= ln(1 - w).
  So at most **J ln(1/(1-w)) / r** is lost in all, whatever comes; J ln(1/(1-r)) / r <= 2 J ln 2 for w = r.
* *To the other.* V_{T+1} >= W_{T+1} = w prod (1 + (r/J) x_t), and ln(1 + z) >= z - c(r) z^2 for |z| <= r with
  c(r) = (ln(1/(1-r)) - r) / r^2, since (z - ln(1+z)) / z^2 falls in z. Hence sum (1 - s_t) x_t
  <= **J [ ln(1/w) / r + r c(r) T ]**, and its own regret is added to that.

At r = sqrt(ln T / T) / 2 the second is of order J sqrt(T ln T). Nothing is said about distributions: the other has
weight w from the first step on, so what is played differs from the response in every step, however right the model is.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from .. import inputs
from ..abilities import ability
from ..arrays import Array, astype, beside, device, first, float_type, in_float64, namespace, running_sum, total
from ..predictors import Predictor
from ..problems import DecisionProblem, action_utilities
from .contract import Policy, Respond, RespondMemory
from .hedge import Hedge


class ProdMemory(NamedTuple):
    model: RespondMemory
    safe: Any
    log_weight: Array  # [...], ln W: the weight of safe play


@dataclass(frozen=True)
class Prod(Policy):
    """(A,B)-Prod: moves from the response to a model to a safe policy, as far as that one has earned more.

    It loses next to nothing to the response, on any sequence, and sqrt(T ln T) to any fixed action. It is not a
    predictor, and it plays differently from the model's response however right the model is.

    Parameters
    ----------
    temperature
        Of the response to the model; 1/sqrt(horizon) by default.
    rate
        r above, at most 1/2: how fast the weight of safe play follows what it earns; sqrt(ln T / T) / 2 by default.
    safe
        The other policy; by default Hedge at the rate that is best for the horizon.

    >>> from lowregret import matching
    >>> from lowregret.predictors import Scheduled
    >>> player = Prod(Scheduled([[0.9, 0.1]]), matching(), horizon=400)
    >>> player.policy_sequence([1] * 400)[[0, 100, 399], 1].round(3).tolist()
    [0.031, 0.945, 1.0]
    >>> round(player.regret_bound(matching(), 400, None), 3), round(player.loss_to_model, 3)
    (0.175, 1.032)
    """

    predictor: Predictor
    problem: DecisionProblem
    horizon: int
    temperature: float | None = None
    rate: float | None = None
    safe: Policy | None = None

    def __post_init__(self) -> None:
        T = inputs.whole(self.horizon, "horizon")
        inputs.keep(self, horizon=T)
        temperature = 1 / math.sqrt(T) if self.temperature is None else self.temperature
        object.__setattr__(self, "temperature", inputs.positive(temperature, "temperature"))
        Respond(self.predictor, self.problem, temperature)  # refuses what does not fit
        rate = min(math.sqrt(math.log(max(T, 2)) / T) / 2, 0.5) if self.rate is None else self.rate
        if inputs.positive(rate, "rate") > 0.5:
            raise ValueError(f"rate must be at most 1/2, got {rate!r}")
        object.__setattr__(self, "rate", float(rate))
        safe = _tuned_hedge(self.problem, T) if self.safe is None else self.safe
        if not isinstance(safe, Policy):
            raise ValueError(f"safe must be a Policy such as Hedge, got {type(safe).__name__}")
        if safe.problem != self.problem:
            raise ValueError(f"safe was made for another problem: {safe.problem} against {self.problem}")
        object.__setattr__(self, "safe", safe)

    @cached_property
    def _model(self) -> Respond:
        return Respond(self.predictor, self.problem, self.temperature)

    @property
    def _other(self) -> Policy:
        assert self.safe is not None
        return self.safe

    @property
    def _rate(self) -> float:
        assert self.rate is not None
        return self.rate

    @property
    def loss_to_model(self) -> float:
        """What it loses at most to the response to the model, in all, on any sequence of any length."""
        return -self.problem.span * math.log1p(-self._rate) / self._rate

    def regret_bound(self, problem: DecisionProblem, horizon: int, temperature: float | None) -> float | None:
        """What it loses at most to a fixed action in the first ``horizon`` steps; None where that of ``safe`` is."""
        own = ability(self.safe, "regret_bound")
        alone = None if own is None else own(problem, horizon, temperature)
        return None if alone is None else alone + loss_to_safe(problem.span, horizon, self._rate) / horizon

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> ProdMemory:
        shape = inputs.batch_shape_of(batch_shape)
        model = self._model.start(shape, like=like)
        mixed = self._model.policy(model)  # in tensors, if the model is one of torch and ``like`` is not given
        xp, where = namespace(mixed), device(mixed)
        weight = xp.full(shape, math.log(self._rate), dtype=float_type(xp, where), device=where)
        return ProdMemory(model, self._other.start(shape, like=mixed), weight)

    def policy(self, memory: ProdMemory) -> Array:
        model, safe = self._model.policy(memory.model), self._other.policy(memory.safe)
        return self._mixed(memory.log_weight, model, safe)

    def update(self, memory: ProdMemory, token: Array) -> ProdMemory:
        weight = memory.log_weight
        token = inputs.tokens_of(token, self.problem.n_states, "token", shape=tuple(weight.shape), like=weight)
        gain = self._gains(self._model.policy(memory.model), self._other.policy(memory.safe), token)
        model, safe = self._model.update(memory.model, token), self._other.update(memory.safe, token)
        return ProdMemory(model, safe, weight + self._growth(gain))

    def policy_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.problem.n_states)
        model = self._model.policy_sequence(tokens)
        tokens = beside(tokens, model)
        safe = self._other.policy_sequence(tokens)
        growth = self._growth(self._gains(model, safe, tokens))
        return self._mixed(running_sum(growth) - growth + math.log(self._rate), model, safe)

    def _mixed(self, log_weight: Array, model: Array, safe: Array) -> Array:
        """What is played, ``[..., A]``; a logistic function of ln W: no weight is too large for it."""
        odds = (log_weight - math.log1p(-self._rate)) / 2
        follow = (0.5 + 0.5 * namespace(odds).tanh(odds))[..., None]
        return astype(in_float64(model) * (1 - follow) + in_float64(safe) * follow, model.dtype)

    def _gains(self, model: Array, safe: Array, token: Array) -> Array:
        """x_t: what safe play gains on the response to the model."""
        more_A = first(in_float64(safe) - in_float64(model))
        return total(more_A * action_utilities(self.problem, token, more_A))

    def _growth(self, gain: Array) -> Array:
        xp, J = namespace(gain), self.problem.span
        return xp.log1p(xp.clip(gain / J, -1.0, 1.0) * self._rate) if J else 0 * gain


def loss_to_safe(span: float, steps: int, rate: float) -> float:
    """J [ ln(1/r) / r + r c(r) T ], above, with w = r: what is lost at most to safe play, in all."""
    return span * (-math.log(rate) + steps * (-math.log1p(-rate) - rate)) / rate


def _tuned_hedge(problem: DecisionProblem, horizon: int) -> Hedge:
    A, J = problem.n_actions, problem.span
    return Hedge(problem, horizon, math.sqrt(8 * math.log(A) / horizon) / J if A > 1 and J > 0 else None)
