"""Algorithm 2: bounded memory. Many copies of Algorithm 1, each started at another recent step, answer on average.

A copy that has seen the last j tokens restarts everything but the base model, which keeps its true context. The
copies of age 0 .. extra_window - 1 are one more axis of a rule's memory, advanced together; each step the oldest
makes room for a new one. Until there are that many steps, the copy started first stands in for those that are missing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import certificates, inputs
from ..abilities import looks_back
from ..arrays import Array, astype, copied, device, first, hold_work_memory, in_float64, last, mix, namespace
from ..certificates import Certificate, Terms
from ..memory import where as choose
from ..policies import Policy, oldest
from ..predictors import Predictor, asked, same_states
from ..problems import DecisionProblem, a_problem, belief_with_lead, same_problem, with_first
from ..rules import ExactTest, Moment, RegretGap, ResponseRule, RuleMemory, spliced


class RestartMemory(NamedTuple):
    base: Any
    probs: Array  # [..., S], what the base model predicts now: it is asked once a step
    copies: RuleMemory  # [..., D], the copies; which slot is how old follows from the step
    step: Array  # [...], tokens seen


@dataclass(frozen=True)
class AverageRestart(Predictor, Policy):
    """A base model of bounded context, made low-regret by looking further back.

    It is a predictor and, for any number of actions, a policy: the average of its copies' quantal responses. With two
    actions it predicts a law whose quantal response is that average, the base model's own while no copy has switched.

    Parameters
    ----------
    window
        How many tokens the base model looks back (``checks.check_window`` tests that it is true).
    extra_window
        How many copies there are; the whole looks back ``window + extra_window - 1`` tokens.
    horizon
        How many steps the guarantee is for.
    alpha
        The exponent of Theorem 4.2's TV bound, extra_window**-alpha; only without ``rule``.
    rule
        What each copy runs, with horizon ``extra_window``; Theorem 4.2's by default. The TV bound is the sum over
        copies, so ``ExactTest(problem, extra_window, delta=delta / horizon)`` keeps it at delta.

    >>> from lowregret import Markov, matching
    >>> from lowregret.rules import ExactTest
    >>> alternator = Markov([[0.2, 0.8], [0.8, 0.2]], window=1)
    >>> rule = ExactTest(matching(), horizon=64, delta=0.01 / 1000)
    >>> safe = AverageRestart(alternator, matching(), 1, 64, horizon=1000, rule=rule)
    >>> safe.predict_sequence([1] * 200)[[1, -1], 1].round(2).tolist()
    [0.2, 0.61]
    """

    predictor: Predictor
    problem: DecisionProblem
    window: int
    extra_window: int
    horizon: int
    alpha: float = 1.0
    rule: ResponseRule = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        same_states(self.predictor, self.problem)
        window = inputs.whole(self.window, "window", 0)
        extra = inputs.whole(self.extra_window, "extra_window")
        horizon, alpha = inputs.whole(self.horizon, "horizon"), inputs.positive(self.alpha, "alpha")
        if window + extra > horizon:
            raise ValueError(
                f"window + extra_window must be at most the horizon {horizon}, got {window} + {extra}: "
                "with the whole past in sight there is nothing to restart, use robustify"
            )
        says = looks_back(self.predictor)
        if isinstance(says, int) and says > window:
            raise ValueError(
                f"window must be at least what {type(self.predictor).__name__} looks back, {says}, got {window}"
            )
        inputs.keep(self, window=window, extra_window=extra, horizon=horizon, alpha=alpha)
        inputs.keep(self, rule=self._rule(horizon, extra, alpha))
        self._refuse_growing_memory()

    def _rule(self, horizon: int, extra: int, alpha: float) -> ResponseRule:
        rule = self.rule
        if rule is None:  # Theorem 4.2's threshold, 8 ln T + 8 (alpha + 1) ln D under the root
            union = math.log(horizon) / math.log(extra) if extra > 1 else 0.0
            return RegretGap(self.problem, extra, alpha + union)
        if not isinstance(rule, ResponseRule):
            raise ValueError(f"rule must be a rule such as ExactTest, got {type(rule).__name__}")
        if alpha != 1:
            raise ValueError("alpha only builds the default rule: set the TV bound in the rule itself")
        same_problem("rule was made for another problem", rule.problem, self.problem)
        if rule.horizon != extra:
            raise ValueError(f"rule must have the copies' horizon, extra_window = {extra}, got {rule.horizon}")
        return rule

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
        assert self.rule.temperature is not None
        return self.rule.temperature

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RestartMemory:
        hold_work_memory()
        shape = inputs.batch_shape_of(batch_shape)
        base = self.predictor.start(shape, like=like)
        probs = asked(self.predictor, base, shape)
        xp = namespace(probs)
        copies = self.rule.start((*shape, self.extra_window), like=probs)
        return RestartMemory(base, probs, copies, xp.zeros(shape, dtype=xp.int64, device=device(probs)))

    def update(self, memory: RestartMemory, token: Array) -> RestartMemory:
        shape = tuple(memory.step.shape)
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.step)
        if bool((memory.step >= self.horizon).any()):
            raise ValueError(f"the horizon of {self.horizon} steps is over: start anew, or ask for a longer one")
        base = self.predictor.update(memory.base, token)
        copies = self.rule.advance(memory.copies, self._look(memory), token[..., None])  # one token for all of them
        fresh = self.rule.start((*shape, self.extra_window), like=memory.probs)
        step = memory.step + 1
        copies = choose(oldest(step, self.extra_window), fresh, copies)
        return RestartMemory(base, asked(self.predictor, base, shape), copies, step)

    def policy(self, memory: RestartMemory) -> Array:
        """The average of the copies' quantal responses, ``[..., A]``."""
        moment, late = self._look(memory), self.rule.tripped(memory.copies)
        xp, base_A1 = namespace(moment.base_A1), moment.base_A1
        if moment.fallback_A1 is None:  # no copy has switched
            return astype(last(with_first(base_A1[..., 0])), memory.probs.dtype)
        # Deviations are averaged, not responses: where no copy has switched, the base's own is played exactly.
        moved_A1 = xp.where(late, moment.fallback_A1 - base_A1, xp.zeros_like(base_A1))
        return astype(last(with_first(base_A1[..., 0] + xp.mean(moved_A1, axis=-1))), memory.probs.dtype)

    def predict(self, memory: RestartMemory) -> Array:
        """A law whose quantal response is the policy; the base model's own, bit for bit, while no copy has switched."""
        self._refuse_no_law()
        late = self.rule.tripped(memory.copies)
        any_late = self.switched(memory)
        if self.problem.contrast == 0 or not bool(any_late.any()):  # every law has the same response, or all agree
            return copied(memory.probs)
        xp, S = namespace(late), self.n_states
        probs_S = first(in_float64(memory.probs))[..., None]
        answers = self.rule.fallback_answer(memory.copies, memory.probs[..., None, :])
        law_S = xp.where(late, first(in_float64(answers)), probs_S)
        lead = self.temperature * _logit_of_mean(mix(self.problem.advantage, law_S)[0] / self.temperature)
        # With two states the belief is unique; with more it is the one nearest to the average of the copies' laws.
        near_S = probs_S[..., 0] if S == 2 else xp.mean(law_S, axis=-1)
        return spliced(any_late, last(belief_with_lead(self.problem.advantage[0], lead, near_S)), memory.probs)

    def predict_sequence(self, tokens: Array) -> Array:
        return super().predict_sequence(self._within_horizon(tokens))

    def policy_sequence(self, tokens: Array) -> Array:
        return super().policy_sequence(self._within_horizon(tokens))

    def switched(self, memory: RestartMemory) -> Array:
        """Which streams ``[...]`` now differ from the base model: some copy has switched."""
        return namespace(memory.step).any(self.rule.tripped(memory.copies), axis=-1)

    @property
    def certificate(self) -> Certificate:
        """The copies' certificate, over the windows in which they run."""
        given, extra, horizon = self.rule.certificate, self.extra_window, self.horizon
        inner, exact = given.terms_at, given.exact_fallback
        tv_bound = min(1.0, (horizon - 1) * given.tv_bound)
        if inner is None:
            return replace(given, horizon=horizon, regret_bound=self.problem.span, tv_bound=tv_bound, terms={})
        theorem = "Theorem 4.2, corrected" if isinstance(self.rule, RegretGap) else f"Algorithm 2, {given.theorem}"
        terms_at = partial(_over_windows, inner, extra)
        draft = replace(
            given,
            statement=f"The average of {extra} copies, each on the window it lives: {given.statement}",
            theorem=theorem,
            tv_bound=tv_bound,
            assumptions=(
                *given.assumptions,
                f"(for its own context only) the base model looks back {self.window} tokens at most; the whole "
                f"then looks back {self.looks_back}",
            ),
            terms_at=terms_at,
            exact_fallback=None if exact is None else partial(_exact_over_windows, exact, extra),
            # A copy does not speak for the intervals of the whole.
            between=None,
            sharper=None if given.sharper is None else partial(_over_windows, given.sharper, extra),
        )
        return draft.with_terms(terms_at(horizon), horizon)

    def _look(self, memory: RestartMemory) -> Moment:
        """Both responses of every copy; to the base model they all respond alike."""
        return self.rule.look(memory.copies, memory.probs[..., None, :])

    def _within_horizon(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        if tokens.shape[-1] > self.horizon:
            raise ValueError(f"tokens are longer than the horizon: {tokens.shape[-1]} steps, {self.horizon}")
        return tokens

    def _refuse_growing_memory(self) -> None:
        """Copies of different ages share one memory, so a fallback's must not grow with the past."""
        fallback = self.rule.in_play.fallback
        if self.rule.in_play.follows:  # its memory is of one size
            return
        fresh = fallback.start((1,))
        try:
            choose(np.array([True]), fresh, fallback.update(fresh, np.zeros(1, dtype=np.int64)))
        except ValueError as error:
            raise ValueError(
                f"fallback {type(fallback).__name__} keeps a memory that grows with the past, and copies of different "
                "ages must share one: take a fallback such as PolyaUrn"
            ) from error

    def _refuse_no_law(self) -> None:
        if self.problem.n_actions > 2:
            raise ValueError(
                f"predict needs a problem with at most two actions, this one has {self.problem.n_actions}: an average "
                "of responses among more is in general the response to no law. The average itself is policy(memory)"
            )
        if self.rule.fallback_acts:
            raise ValueError(
                f"predict needs a fallback that predicts, and {type(self.rule.fallback).__name__} is a policy: "
                "the average of what the copies play is policy(memory)"
            )


def window_needed(problem: DecisionProblem, regret: float, tv: float, horizon: int, window: int = 0) -> int:
    """The least ``extra_window`` that certifies this regret and TV over the horizon.

    For a base model that looks back ``window`` tokens, with ``ExactTest(problem, extra_window, delta=tv /
    horizon)`` in the copies.

    >>> from lowregret import matching
    >>> window_needed(matching(), regret=0.5, tv=0.01, horizon=10_000)
    70
    """
    a_problem(problem)
    regret, tv = inputs.positive(regret, "regret"), inputs.probability(tv, "tv")
    horizon, window = inputs.whole(horizon, "horizon"), inputs.whole(window, "window", 0)
    extra = 1
    while problem.span > regret:
        given = ExactTest(problem, extra, delta=tv / horizon).certificate
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
            raise ValueError(
                f"regret {regret:g} with TV {tv:g} cannot be certified over {horizon} steps by restarting, whatever "
                "the extra context: a longer horizon, or robustify, gives less"
            )
    return extra


def _over_windows(terms_at: Callable[[int], Terms], extra: int, steps: int) -> Terms:
    share = certificates.windows(steps, extra)
    return {name: share * value for name, value in terms_at(min(steps, extra)).items()}


def _exact_over_windows(exact: Callable[[int], float | None], extra: int, steps: int) -> float | None:
    worst = exact(min(steps, extra))
    return None if worst is None else certificates.windows(steps, extra) * worst


def _logit_of_mean(logit: Array) -> Array:
    """The logit of the average of sigmoids over the last axis; by logarithms, since probabilities saturate."""
    xp = namespace(logit)
    log_yes = xp.clip(logit, None, 0.0) - xp.log1p(xp.exp(-xp.abs(logit)))
    return _log_sum_exp(log_yes) - _log_sum_exp(log_yes - logit)


def _log_sum_exp(logs: Array) -> Array:
    xp = namespace(logs)
    peak = xp.max(logs, axis=-1)
    return peak + xp.log(xp.sum(xp.exp(logs - peak[..., None]), axis=-1))
