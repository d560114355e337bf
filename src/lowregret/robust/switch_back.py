"""Algorithm 1 with a way back: a policy that may return to the base model after the alarm. Off unless asked for."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, cast

from .. import certificates, inputs
from ..arrays import Array, astype, count_up, device, first, float_type, last, namespace
from ..certificates import Certificate, Terms
from ..policies import Policy, shared
from ..problems import DecisionProblem, with_first
from ..rules import ResponseRule
from .switch_once import Robust, RobustMemory


class SwitchBackMemory(NamedTuple):
    robust: RobustMemory
    weights_2: Array  # [..., 2], on the base and on the fallback; they move only after the alarm


@dataclass(frozen=True)
class SwitchBack(Policy):
    """Algorithm 1 with a way back: after the alarm a fixed share over the responses to the base and to the fallback.

    Until the alarm it plays the response to the base model, exactly. From then on it mixes actions, so it is a policy
    and not a predictor.

    Parameters
    ----------
    robust
        What it watches; its rule must have a horizon T.
    trust
        How much weight the base model keeps at the alarm.
    share
        How much weight the two exchange each step; 1/T by default.
    rate
        How fast the weights follow what the two earn; sqrt(8 ln 2 / T) / J by default.

    >>> from lowregret import PolyaUrn, Scheduled, matching, robustify
    >>> player = SwitchBack(robustify(Scheduled([[0.1, 0.9]]), matching(), 400, fallback=PolyaUrn(2)))
    >>> play = player.policy_sequence([0] * 30 + [1] * 70)[:, 1]
    >>> play[[0, 29, 99]].round(2).tolist()  # the base model, then the urn, then the base model again
    [1.0, 0.01, 1.0]
    """

    robust: Robust
    trust: float = 0.01
    share: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.robust, Robust):
            raise ValueError(f"robust must be a Robust, as robustify returns, got {type(self.robust).__name__}")
        if not isinstance(self.robust.rule, ResponseRule):
            raise ValueError(f"robust must know its problem, and {type(self.robust.rule).__name__} is for unknown ones")
        if self.robust.rule.in_play.follows:
            raise ValueError(
                "robust must fall back on something that stays, and Recovery returns by itself: give another fallback, "
                "robustify(model, problem, horizon, fallback=PolyaUrn(n_states))"
            )
        T, J = self.robust.rule.horizon, self.problem.span
        if T is None:
            raise ValueError("robust must have a horizon: switching back is tuned to it, and horizon=None is unknown")
        trust = inputs.probability(self.trust, "trust")
        share = 1 / max(T, 2) if self.share is None else self.share
        rate = math.sqrt(8 * math.log(2) / T) / (J or 1.0) if self.rate is None else self.rate
        share, rate = inputs.probability(share, "share"), inputs.positive(rate, "rate")
        inputs.keep(self, trust=trust, share=share, rate=rate)

    @property
    def problem(self) -> DecisionProblem:  # type: ignore[override]
        return self._rule.problem

    @property
    def _rule(self) -> ResponseRule:
        return cast(ResponseRule, self.robust.rule)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> SwitchBackMemory:
        robust = self.robust.start(batch_shape, like=like)
        return SwitchBackMemory(robust, self._prior(robust.rule.step))

    def policy(self, memory: SwitchBackMemory) -> Array:
        late = self.robust.rule.tripped(memory.robust.rule)
        moment = self.robust.rule.look(memory.robust.rule, memory.robust.probs)
        played = _mixed(late, memory.weights_2[..., 0], moment.base_A1, moment.fallback_A1)
        return astype(last(with_first(played)), memory.robust.probs.dtype)

    def update(self, memory: SwitchBackMemory, token: Array) -> SwitchBackMemory:
        robust = self.robust.update(memory.robust, token)
        rule = self._rule
        moment = rule.look(memory.robust.rule, memory.robust.probs)
        token = inputs.tokens_of(token, rule.n_states, "token", like=robust.rule.step)
        gain = rule.gains(moment._replace(token=token))[1]
        late = rule.tripped(memory.robust.rule)
        return SwitchBackMemory(robust, self._moved(late, memory.weights_2, gain))

    def policy_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.problem.n_states)
        rule, horizon = self._rule, tokens.shape[-1]
        probs = self.robust.base.predict_sequence(tokens)
        times = rule.trip_times(probs, tokens)
        step_T = count_up(tokens, 1, horizon + 1)
        moment = rule.moments(probs, tokens)
        gain = rule.gains(moment)[1]
        late = step_T > times[..., None]
        xp, weights_2, trusted = namespace(tokens), self._prior(times), []
        for t in range(horizon):
            trusted.append(weights_2[..., 0])
            weights_2 = self._moved(late[..., t], weights_2, gain[..., t])
        played = _mixed(late, xp.stack(trusted, axis=-1), moment.base_A1, moment.fallback_A1)
        return astype(last(with_first(played)), probs.dtype)

    @cached_property
    def certificate(self) -> Certificate:
        """The rule's, with what switching back may cost on top."""
        given = self.robust.certificate
        rate, share, before = self.rate, self.share, given.terms_at
        if before is None:
            return given
        assert rate is not None
        assert share is not None
        cost = partial(certificates.switching_back, self.problem, rate=rate, share=share, trust=self.trust)
        terms_at = partial(_with_cost, before, cost)
        statement = given.statement + " After that, what a fixed share over base and fallback costs."
        draft = replace(
            given,
            statement=statement,
            theorem=f"{given.theorem}, switching back",
            terms_at=terms_at,
            let_pass=None if given.let_pass is None else partial(_let_pass, given.let_pass, cost),
            sharper=None if given.sharper is None else partial(_with_cost, given.sharper, cost),
        )
        assert given.horizon is not None
        return draft.with_terms(terms_at(given.horizon), given.horizon)

    def _prior(self, like: Array) -> Array:
        xp, where = namespace(like), device(like)
        base = xp.full(tuple(like.shape), self.trust, dtype=float_type(xp, where), device=where)
        return xp.stack([base, 1 - base], axis=-1)

    def _moved(self, late: Array, weights_2: Array, gain: Array) -> Array:
        """The weights after the fallback gained ``gain`` on the base, where the alarm had sounded before."""
        xp = namespace(weights_2)
        assert self.rate is not None
        assert self.share is not None
        earned_2 = xp.stack([xp.zeros_like(gain), gain])
        return xp.where(late[..., None], last(shared(first(weights_2), earned_2, self.rate, self.share)), weights_2)


def _with_cost(before: Callable[[int], Terms], cost: Callable[[int], float], steps: int) -> Terms:
    return {**before(steps), "switching back": cost(steps)}


def _let_pass(before: Callable[[int], float], cost: Callable[[int], float], steps: int) -> float:
    return before(steps) + cost(steps)


def _mixed(late: Array, trust: Array, base_A1: Array, fallback_A1: Array) -> Array:
    return namespace(base_A1).where(late, trust * base_A1 + (1 - trust) * fallback_A1, base_A1)
