"""Algorithms 1 and 3: a predictor that is the base model until the rule trips, the fallback from then on."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .. import inputs
from ..abilities import ability
from ..arrays import Array, beside
from ..certificates import Certificate
from ..policies import Recovery, Respond
from ..predictors import Predictor, asked, asked_sequence, has_states, same_states, within_window
from ..problems import DecisionProblem, same_problem
from ..rules import ExactTest, Rule, RuleMemory, VRegret


class RobustMemory(NamedTuple):
    base: Any
    probs: Array  # [..., S], what the base model predicts now: it is asked once a step
    rule: RuleMemory


@dataclass(frozen=True)
class Robust(Predictor):
    """``base`` until ``rule`` trips, the rule's fallback from then on; a predictor like any other.

    >>> from lowregret import matching
    >>> from lowregret.rules import ExactTest
    >>> from lowregret.predictors import Scheduled
    >>> mistaken = Scheduled([[0.9, 0.1]])
    >>> safe = Robust(mistaken, ExactTest(matching(), horizon=100))
    >>> safe.predict_sequence([1] * 40)[[0, -1], 1].round(3).tolist()
    [0.1, 0.964]
    """

    base: Predictor
    rule: Rule

    def __post_init__(self) -> None:
        if not isinstance(self.rule, Rule):
            raise ValueError(f"rule must be a Rule such as ExactTest, got {type(self.rule).__name__}")
        if self.rule.problem is None:
            has_states(self.base, self.rule.n_states, f"rule {type(self.rule).__name__}")
        else:
            same_states(self.base, self.rule.problem)
        if self.rule.horizon is not None:
            within_window(self.base, self.rule.horizon, "base")
        if self.rule.temperature == 0:
            raise ValueError(
                "temperature must be above 0 for a robust predictor: its laws are answered at random, and those of a "
                "fallback that is answered by its best response may lose every step; a Guard takes 0"
            )
        if self.rule.fallback_acts:
            raise ValueError(
                f"rule falls back on the policy {type(self.rule.fallback).__name__}, which gives actions and no laws "
                "over tokens: a robust predictor needs a predictor there; a Guard takes either"
            )

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.rule.n_states

    @property
    def certificate(self) -> Certificate:
        """What is guaranteed; where the base is a mixture, of each of its models too."""
        given, of_models = self.rule.certificate, ability(self.base, "of_models")
        if of_models is None:
            return given
        return replace(given, statement=f"{given.statement} {of_models(given.tv_bound)}")

    def respond(self, problem: DecisionProblem | None = None, temperature: float | None = None) -> Respond:
        """The policy the certificate speaks of: quantal responses at the rule's temperature.

        Where the rule knows no problem, say which; the temperature is then 1/sqrt(horizon) unless given.
        """
        known = self.rule.problem
        if known is None:
            if problem is None:
                raise ValueError("respond needs a problem: this predictor was made robust for none in particular")
            return Respond(self, problem, self.rule.temperature if temperature is None else temperature)
        if problem not in (None, known) or temperature not in (None, self.rule.temperature):
            raise ValueError("problem and temperature are the rule's own, and the certificate is for no others")
        return Respond(self, known, self.rule.temperature)

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RobustMemory:
        shape = inputs.batch_shape_of(batch_shape)
        base = self.base.start(shape, like=like)
        probs = asked(self.base, base, shape)
        return RobustMemory(base, probs, self.rule.start(shape, like=probs))

    def predict(self, memory: RobustMemory) -> Array:
        return self.rule.law(memory.rule, memory.probs)

    def update(self, memory: RobustMemory, token: Array) -> RobustMemory:
        shape = tuple(memory.rule.step.shape)
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.rule.step)
        self.rule.refuse_past_horizon(memory.rule)
        base = self.base.update(memory.base, token)
        moment = self.rule.look(memory.rule, memory.probs)
        return RobustMemory(base, asked(self.base, base, shape), self.rule.advance(memory.rule, moment, token))

    def predict_sequence(self, tokens: Array) -> Array:
        return self.rule.replaced(*self._recorded(tokens))[0]

    def switched(self, memory: Any) -> Array:
        """Which streams ``[...]`` have switched, from this predictor's memory or from that of its ``respond()``."""
        return self.rule.tripped(getattr(memory, "predictor", memory).rule)

    def shares(self, memory: RobustMemory) -> Array:
        """How much of each of the base's models there is in what is predicted now, ``[..., N]``; N = 1 for one model.

        Their sum is all until a switch; less after it, with ``Recovery`` more again where they are right again.
        """
        trusted, each = self.rule.share(memory.rule)[..., None], ability(self.base, "shares")
        return trusted if each is None else each(memory.base) * trusted

    def trip_times(self, tokens: Array) -> Array:
        """The number of tokens seen when each sequence ``[..., T]`` switched; T + 1 for never."""
        return self.rule.first_trips(*self._recorded(tokens))

    def _recorded(self, tokens: Array) -> tuple[Array, Array]:
        """What the base model says before each token, and the tokens beside it, both checked once."""
        tokens = inputs.sequences_of(tokens, self.n_states)
        self.rule.refuse_longer(tokens.shape[-1])
        probs = asked_sequence(self.base, tokens)
        return probs, beside(tokens, probs)


def robustify(
    predictor: Predictor,
    problem: DecisionProblem | None,
    horizon: int | None,
    *,
    rule: Rule | None = None,
    fallback: Predictor | Recovery | None = None,
    temperature: float | None = None,
) -> Robust:
    """A predictor that predicts as ``predictor`` does while the world behaves as it says, and has low regret always.

    Parameters
    ----------
    problem
        What is at stake; None where others act on the forecasts, in problems of their own with two states.
    horizon
        How many steps the guarantee is for; None is unknown, and then ``rule`` must be given.
    rule
        When to stop trusting; ``ExactTest(problem, horizon)`` by default, ``VRegret(horizon)`` without a problem.
    fallback, temperature
        Passed to the default rule; not together with ``rule``.

    >>> from lowregret import PolyaUrn, matching
    >>> from lowregret.predictors import Scheduled
    >>> safe = robustify(Scheduled([[0.9, 0.1]]), matching(), horizon=1000)
    >>> safe.trip_times([[0] * 100, [1] * 100]).tolist()
    [101, 6]
    """
    return Robust(predictor, rule_for(problem, horizon, rule, fallback=fallback, temperature=temperature))


def rule_for(problem: DecisionProblem | None, horizon: int | None, rule: Rule | None, **settings: Any) -> Rule:
    """The rule itself if it fits, else the default one with these ``settings``; None for those that nobody gave."""
    given = {name: value for name, value in settings.items() if value is not None}
    if problem is None and rule is None:
        if "temperature" in given:
            raise ValueError("temperature goes with a problem: certificate.for_problem(problem, temperature) takes it")
        return VRegret(horizon, **given)  # type: ignore[arg-type]
    if rule is None:
        return ExactTest(problem, horizon, **given)  # type: ignore[arg-type]
    if not isinstance(rule, Rule):
        raise ValueError(f"rule must be a Rule such as ExactTest, got {type(rule).__name__}")
    if given:
        names = ", ".join(sorted(given))
        raise ValueError(f"{names} only build the default rule: give them to the rule itself")
    if rule.problem != problem:
        if rule.problem is None:
            raise ValueError(f"rule {type(rule).__name__} is for unknown problems: problem must be None, got {problem}")
        same_problem("rule was made for another problem", rule.problem, problem)
    if rule.horizon != horizon:
        raise ValueError(f"rule was made for another horizon: {rule.horizon} against {horizon}")
    return rule
