"""Algorithm 2: bounded memory. Copies of Algorithm 1, each started at another recent step, answer on average.

With L the tokens that the base model looks back, D more for the whole and L' = L + D:

    run Algorithm 1 on M0 with horizon D                                AverageRestart.copy
    for m = L + 1 .. L':  mu_m = its output on theta_m .. theta_{L'}    a copy for each m, advanced by `update`
    choose mu whose quantal response is the average over m              `policy` is that average, `predict` is mu
           of the quantal responses to mu_m

A copy restarts everything but the base model, which keeps its true context. The copies are one more axis of the
engine's rows; each step the oldest makes room for a new one. Until there are that many steps, the copy started first
stands in for those that are missing.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, final

from .. import certificates, inputs
from ..abilities import looks_back
from ..arrays import Array, astype, copied, device, first, in_float64, last, mix, namespace
from ..certificates import Certificate
from ..certificates.promises import OverWindows
from ..engine import ExactTest, QuantalResponse, Test
from ..policies import Policy, oldest
from ..predictors import Predictor, asked, same_states
from ..problems import DecisionProblem, a_problem, belief_with_lead
from ..rules import RegretGap
from .robustify import Robust, algorithm_1


class RestartMemory(NamedTuple):
    base: Any
    probs: Array  # [..., S], what the base model predicts now: it is asked once a step
    copies: Array  # [..., D, W], what the test and the fallback of each copy remember
    step: Array  # [...], tokens seen


@final
@dataclass(frozen=True)
class AverageRestart(Predictor, Policy):
    """A base model of bounded context, made low-regret by looking further back.

    It is a predictor and, for any number of actions, a policy: the average of its copies' quantal responses. With two
    actions it predicts a distribution whose quantal response is that average, the base model's own while no copy has
    had an alarm.

    Parameters
    ----------
    window
        How many tokens the base model looks back (``checks.check_window`` tests that it is true).
    extra_window
        How many copies there are; the whole looks back ``window + extra_window - 1`` tokens.
    horizon
        How many steps the guarantee is for.
    test
        What each copy runs, with horizon ``extra_window``; Theorem 4.2's by default, at a TV of 1/extra_window. The TV
        bound is the sum over copies, so ``ExactTest(delta / horizon, extra_window)`` keeps it at delta.
    fallback, response
        As in ``robustify``.

    >>> import lowregret as lr
    >>> alternator = lr.Markov([[0.2, 0.8], [0.8, 0.2]], window=1)
    >>> safe = AverageRestart(alternator, lr.matching(), 1, 64, horizon=1000, test=lr.ExactTest(0.01 / 1000, 64))
    >>> safe.predict_sequence([1] * 200)[[1, -1], 1].round(2).tolist()
    [0.2, 0.61]
    """

    predictor: Predictor
    problem: DecisionProblem
    window: int
    extra_window: int
    horizon: int
    test: Test = field(default=None, kw_only=True)  # type: ignore[assignment]
    fallback: Any = field(default=None, kw_only=True)
    response: QuantalResponse = field(default=QuantalResponse(), kw_only=True)

    def __post_init__(self) -> None:
        same_states(self.predictor, a_problem(self.problem))
        window, extra = inputs.whole(self.window, "window", 0), inputs.whole(self.extra_window, "extra_window")
        horizon, says = inputs.whole(self.horizon, "horizon"), looks_back(self.predictor) or 0
        if window + extra > horizon:
            raise ValueError(
                f"window + extra_window must be at most the horizon {horizon}, got {window} + {extra}: "
                "with the whole past in sight there is nothing to restart, use robustify"
            )
        if says > window:
            raise ValueError(f"window must be {says} or more, as far as {type(self.predictor).__name__} looks back")
        test = theorem_4_2(horizon, extra) if self.test is None else self.test
        inputs.keep(self, window=window, extra_window=extra, horizon=horizon, test=test)
        if self.copy.horizon != extra:
            raise ValueError(f"test must have the copies' horizon, extra_window = {extra}, got {test.horizon}")

    @cached_property
    def copy(self) -> Robust:
        """One of the copies: Algorithm 1 on the base model."""
        setting = algorithm_1(self.problem, self.test, self.fallback, self.response)
        return Robust(self.predictor, setting, self.problem)

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.problem.n_states

    @property
    def looks_back(self) -> int:
        """How many tokens what it says depends on."""
        return self.window + self.extra_window - 1

    @property
    def temperature(self) -> float:
        """Of the quantal responses: the copies', 1/sqrt(extra_window) by default."""
        assert self.copy.temperature is not None
        return self.copy.temperature

    # Algorithm 2

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RestartMemory:
        shape = inputs.batch_shape_of(batch_shape)
        base = self.predictor.start(shape, like=like)
        probs = asked(self.predictor, base, shape)
        xp, where = namespace(probs), device(probs)
        copies = self.copy.streams.start((*shape, self.extra_window), like=probs)
        return RestartMemory(base, probs, copies, xp.zeros(shape, dtype=xp.int64, device=where))

    def update(self, memory: RestartMemory, token: Array) -> RestartMemory:
        """Every copy learns from the token, and the oldest starts anew; the base model goes on."""
        shape, xp = tuple(memory.step.shape), namespace(memory.step)
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.step)
        if bool((memory.step >= self.horizon).any()):
            raise ValueError(f"the horizon of {self.horizon} steps is over: start anew, or take a longer one")
        base = self.predictor.update(memory.base, token)
        each = xp.broadcast_to(token[..., None], memory.copies.shape[:-1])
        copies, step = self.copy.streams.observe(memory.copies, self._each(memory), each), memory.step + 1
        fresh = self.copy.streams.start((), like=memory.probs)
        copies = xp.where(oldest(step, self.extra_window)[..., None], fresh, copies)
        return RestartMemory(base, asked(self.predictor, base, shape), copies, step)

    def policy(self, memory: RestartMemory) -> Array:
        """The average of the copies' quantal responses, ``[..., A]``."""
        step, shape = self.copy.streams.step(memory.copies, self._each(memory)), memory.copies.shape[:-1]
        model, played = (part.reshape(*shape, self.problem.n_actions) for part in (step.model_NxA, step.policy_NxA))
        # Deviations are averaged, not responses: where no copy has switched, the base's own is played exactly.
        mixed = model[..., 0, :] + namespace(played).mean(played - model, axis=-2)
        return astype(mixed, memory.probs.dtype)

    def predict(self, memory: RestartMemory) -> Array:
        """A distribution whose quantal response is the policy; the base model's own while no copy has switched."""
        if self.problem.n_actions > 2:
            raise ValueError(
                f"predict needs a problem with at most two actions, this one has {self.problem.n_actions}: the average "
                "of responses among more may be the response to no forecast. It is policy(memory)"
            )
        xp, probs = namespace(memory.probs), memory.probs
        if self.problem.contrast == 0:  # every distribution has the same response
            return copied(probs)
        mu_SxD = first(self.copy.streams.predict(memory.copies, self._each(memory)))
        lead = self.temperature * _logit_of_mean(mix(self.problem.advantage, mu_SxD)[0] / self.temperature)
        # With two states the belief is unique; with more it is the one nearest to their average.
        near_S = first(in_float64(probs)) if self.n_states == 2 else xp.mean(mu_SxD, axis=-1)
        mu = last(belief_with_lead(self.problem.advantage[0], lead, near_S))
        return xp.where(self.switched(memory)[..., None], astype(mu, probs.dtype), probs)

    def predict_sequence(self, tokens: Array) -> Array:
        return super().predict_sequence(self._within_horizon(tokens))

    def policy_sequence(self, tokens: Array) -> Array:
        return super().policy_sequence(self._within_horizon(tokens))

    def switched(self, memory: RestartMemory) -> Array:
        """Which streams ``[...]`` now differ from the base model: some copy had an alarm."""
        alarm = self.copy.streams.read(memory.copies, "alarm", memory.probs)
        return namespace(alarm).any(alarm > 0, axis=-1)

    @property
    def certificate(self) -> Certificate:
        """The copies' certificate, over the windows in which they run."""
        copy = self.copy.setting.certificate.as_promise()
        tv_bound = min(1.0, (self.horizon - 1) * copy.tv_bound)
        promise = OverWindows(
            problem=self.problem, tv_bound=tv_bound, of=copy, length=self.extra_window, window=self.window
        )
        return promise.certificate(self.horizon)

    def _each(self, memory: RestartMemory) -> Array:
        """What the base model predicts, for every copy ``[..., D, S]``."""
        probs = in_float64(memory.probs)[..., None, :]
        return namespace(probs).broadcast_to(probs, (*memory.copies.shape[:-1], self.n_states))

    def _within_horizon(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        if tokens.shape[-1] > self.horizon:
            raise ValueError(f"tokens are longer than the horizon: {tokens.shape[-1]} steps, {self.horizon}")
        return tokens


def theorem_4_2(horizon: int, extra_window: int, alpha: float = 1.0) -> RegretGap:
    """The copies' test in Theorem 4.2: a threshold of sqrt(8 ln T + 8 (alpha + 1) ln D), for a TV of D**-alpha."""
    union = math.log(horizon) / math.log(extra_window) if extra_window > 1 else 0.0
    return RegretGap(extra_window, alpha + union)


def window_needed(problem: DecisionProblem, regret: float, tv: float, horizon: int, window: int = 0) -> int:
    """The least ``extra_window`` that certifies this regret and TV over the horizon.

    For a base model that looks back ``window`` tokens, with ``ExactTest(tv / horizon, extra_window)`` in the copies.

    >>> from lowregret import matching
    >>> window_needed(matching(), regret=0.5, tv=0.01, horizon=10_000)
    70
    """
    a_problem(problem)
    regret, tv = inputs.positive(regret, "regret"), inputs.probability(tv, "tv")
    horizon, window = inputs.whole(horizon, "horizon"), inputs.whole(window, "window", 0)
    extra = 1
    while problem.span > regret:
        given = algorithm_1(problem, ExactTest(tv / horizon, extra)).certificate
        one_copy = sum(given.terms.values())
        if certificates.windows(horizon, extra) * one_copy <= regret:
            break
        # What a copy may lose in all grows with its life, so a longer one loses a step at least one_copy * extra / D,
        # and the bound for D is at least (T + D - 1) / T of that: no D that leaves this above the regret will do.
        slope = one_copy * extra / horizon
        if slope >= regret:
            extra = horizon + 1
        else:
            extra = max(extra + 1, math.ceil(slope * (horizon - 1) / (regret - slope) * (1 - 1e-12)))
        if extra + window > horizon:
            raise ValueError(f"regret {regret:g} with TV {tv:g} cannot be certified over {horizon} steps by restarting")
    return extra


def _logit_of_mean(logit: Array) -> Array:
    """The logit of the average of sigmoids over the last axis; by logarithms, since probabilities saturate."""
    xp = namespace(logit)
    log_yes = xp.clip(logit, None, 0.0) - xp.log1p(xp.exp(-xp.abs(logit)))
    return _log_sum_exp(log_yes) - _log_sum_exp(log_yes - logit)


def _log_sum_exp(logs: Array) -> Array:
    xp = namespace(logs)
    peak = xp.max(logs, axis=-1)
    return peak + xp.log(xp.sum(xp.exp(logs - peak[..., None]), axis=-1))
