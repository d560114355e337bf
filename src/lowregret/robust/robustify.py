"""Algorithm 1 (and with ``VRegret`` Algorithm 3): the model until the test raises an alarm, the fallback from then on.

    for s = 1 .. t - 1:                                                 Robust.update, for each token
        pi_s       = quantal response to M0(theta^{s-1})                engine: Step.model_NxA
        pi_Hedge,s = quantal response to PolyaUrn(theta^{s-1})          engine: Step.mixed_NxA
        if Regret_s(pi) >= Regret_s(pi_Hedge) + ln A / sqrt(T) + ...:   RegretGap, or another test
            return PolyaUrn(theta^{t-1})                                Robust.predict, after an alarm
    return M0(theta^{t-1})                                              Robust.predict, before it

The paper's own, to the letter, is ``robustify(M0, problem, test=RegretGap(T, alpha), fallback=PolyaUrn(S))``. With the
default, ``ExactTest`` raises alarms sooner, and ``Recovery`` follows the model again where it is right again.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from .. import inputs
from ..abilities import ability
from ..arrays import Array, beside, copied, detached, in_float64, some, to_numpy
from ..certificates import Certificate
from ..certificates.promises import WIDEST
from ..engine import OWN_TEST, Actions, ExactTest, QuantalResponse, Recovery, Setting, Test
from ..policies import Policy, Respond
from ..predictors import (
    PolyaUrn,
    Predictor,
    ShrunkUrn,
    asked,
    asked_sequence,
    equaliser,
    has_states,
    within_window,
)
from ..problems import DecisionProblem, a_problem, same_problem
from ..rules import VRegret
from .streams import Streams


class RobustMemory(NamedTuple):
    base: Any
    probs: Array  # [..., S], what the base model predicts now: it is asked once a step
    rows: Array  # [..., W], what the test and the fallback remember (``engine/layout.py``)


@final
@dataclass(frozen=True)
class Robust(Predictor):
    """``base`` until the test raises an alarm, the fallback from then on; ``robustify`` makes it.

    >>> import lowregret as lr
    >>> mistaken = lr.predictors.Scheduled([[0.9, 0.1]])
    >>> safe = lr.robustify(mistaken, lr.matching(), horizon=100)
    >>> safe.predict_sequence([1] * 40)[[0, -1], 1].round(3).tolist()
    [0.1, 0.964]
    """

    base: Predictor
    setting: Setting
    problem: DecisionProblem | None  # None: unknown, as in Algorithm 3

    def __post_init__(self) -> None:
        inputs.of_kind(self.setting, Setting, "setting", "algorithm_1(problem, test)")
        if self.problem is not None:
            same_problem("setting was made for another problem", self.setting.problem, a_problem(self.problem))
        has_states(self.base, self.n_states, "problem" if self.problem else "test")
        if self.horizon is not None:
            within_window(self.base, self.horizon, "base")

    def __reduce__(self) -> tuple[Any, ...]:
        return Robust, (self.base, self.setting, self.problem)

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.setting.outcomes.n_states

    @property
    def horizon(self) -> int | None:
        return self.setting.test.horizon

    @property
    def temperature(self) -> float | None:
        """Of the quantal responses; None: it falls with the steps."""
        return self.setting.temperature

    @cached_property
    def streams(self) -> Streams:
        """The test and the fallback at work."""
        return Streams(self.setting)

    # Algorithm 1, token by token

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RobustMemory:
        shape = inputs.batch_shape_of(batch_shape)
        base = self.base.start(shape, like=like)
        probs = asked(self.base, base, shape)
        return RobustMemory(base, probs, self.streams.start(shape, like=probs))

    def predict(self, memory: RobustMemory) -> Array:
        """The base model's prediction, bit for bit, until the alarm; the fallback's from then on."""
        if not some(self.switched(memory)):
            return copied(memory.probs)
        return self.streams.predict(memory.rows, memory.probs)

    def update(self, memory: RobustMemory, token: Array) -> RobustMemory:
        """One more token: the base model, the test and the fallback all learn from it."""
        shape = tuple(memory.probs.shape[:-1])
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.probs)
        seen = self.streams.read(memory.rows, "observed", memory.probs)
        self.within_horizon(1 + int(seen.max()) if 0 not in shape else 1)
        base = self.base.update(memory.base, token)
        rows = self.streams.observe(memory.rows, memory.probs, token)
        return RobustMemory(base, asked(self.base, base, shape), rows)

    # Algorithm 1 on whole sequences

    def predict_sequence(self, tokens: Array) -> Array:
        return self.replaced(*self._recorded(tokens))[0]

    def alarm_times(self, tokens: Array) -> Array:
        """The number of tokens seen when each sequence ``[..., T]`` raised its alarm; T + 1 for never."""
        probs, tokens = self._recorded(tokens)
        with self.streams.engine_for(probs) as engine:
            return engine.alarm_times(*_flat(probs, tokens)).reshape(tokens.shape[:-1])

    def replaced(self, probs: Array, tokens: Array) -> tuple[Array, Array]:
        """The predictions ``[..., T, S]`` where the base model's are ``probs``, and the alarm times; unchecked."""
        probs_NxTxS, token_NxT = _flat(probs, tokens)
        with self.streams.engine_for(probs) as engine:
            xp, times_N = engine.xp, engine.alarm_times(probs_NxTxS, token_NxT)
            found_NxTxS = xp.asarray(probs.reshape(probs_NxTxS.shape), copy=True)
            late_M = xp.asarray(np.flatnonzero(to_numpy(times_N) < tokens.shape[-1]))
            if len(late_M):  # all others are the base model's
                parts = (xp.take(part, late_M, axis=0) for part in (probs_NxTxS, token_NxT, times_N))
                found_NxTxS[late_M] = xp.astype(engine.predictions(*parts), probs.dtype)
        return found_NxTxS.reshape(probs.shape), times_N.reshape(tokens.shape[:-1])

    def within_horizon(self, number: int) -> None:
        """Refuse the step of this number after the horizon."""
        if self.horizon is not None and number > self.horizon:
            raise ValueError(f"the horizon of {self.horizon} steps is over: start anew, or take a longer one")

    def _recorded(self, tokens: Array) -> tuple[Array, Array]:
        """What the base model predicts before each token, and the tokens beside it, both checked once."""
        tokens = inputs.sequences_of(tokens, self.n_states)
        if self.horizon is not None and tokens.shape[-1] > self.horizon:
            raise ValueError(f"tokens are longer than the horizon: {tokens.shape[-1]} steps, {self.horizon}")
        probs = asked_sequence(self.base, tokens)
        return probs, beside(tokens, probs)

    # What can be read

    def switched(self, memory: Any) -> Array:
        """Which streams ``[...]`` had an alarm, from this predictor's memory or from that of its ``respond()``."""
        own = getattr(memory, "predictor", memory)
        return self.streams.read(own.rows, "alarm", own.probs) > 0

    def shares(self, memory: RobustMemory) -> Array:
        """How much of each of the base's models there is in what is predicted now, ``[..., N]``; N = 1 for one model.

        Their sum is 1 until an alarm; less after it, with ``Recovery`` more again where they are right again.
        """
        with self.streams.engine_for(memory.probs) as engine:
            share = engine.share(memory.rows.reshape(-1, engine.width)).reshape(memory.rows.shape[:-1])[..., None]
        each = ability(self.base, "shares")
        return share if each is None else each(memory.base) * share

    def evidence(self, memory: RobustMemory) -> tuple[Array, float]:
        """The evidence against the base model ``[...]``, and that which raises an alarm."""
        with self.streams.engine_for(memory.probs) as engine:
            found_N = engine.evidence(memory.rows.reshape(-1, engine.width))
            return found_N.reshape(memory.rows.shape[:-1]), engine.needed

    @property
    def certificate(self) -> Certificate:
        """What is promised; where the base is a mixture, of each of its models too."""
        given: Certificate = self.setting.certificate
        of_models = ability(self.base, "of_models")
        return replace(given, statement=f"{given.statement} {of_models(given.tv_bound)}") if of_models else given

    def respond(self, problem: DecisionProblem | None = None, temperature: float | None = None) -> Respond:
        """The policy the certificate speaks of: quantal responses at the setting's temperature.

        Where the problem is unknown, say which; the temperature is then 1/sqrt(horizon) unless given.
        """
        own = self.problem or problem
        if own is None:
            raise ValueError("respond needs a problem: this predictor was made robust for none in particular")
        if self.problem and not (problem in (None, own) and temperature in (None, self.temperature)):
            raise ValueError("problem and temperature are the setting's own, and the certificate is for no others")
        return Respond(self, own, self.temperature if temperature is None else temperature)


def algorithm_1(
    problem: DecisionProblem | None,
    test: Test,
    fallback: Any = None,
    response: QuantalResponse = QuantalResponse(),  # noqa: B008 - a value that never changes
) -> Setting:
    """What a robust predictor is made of beside its base model; with ``VRegret`` and no problem, Algorithm 3."""
    inputs.of_kind(test, Test, "test", OWN_TEST)
    inputs.of_kind(response, QuantalResponse, "response", "QuantalResponse(temperature)")
    if isinstance(test, VRegret) != (problem is None):
        wants = "None" if problem is not None else "a DecisionProblem"
        raise ValueError(f"problem must be {wants} for {type(test).__name__}: VRegret alone is for unknown problems")
    problem = WIDEST if problem is None else a_problem(problem)
    if fallback is None:
        fallback = test.usual_fallback(problem)
    if isinstance(fallback, Recovery) and fallback.safe is None:
        safe: Predictor = PolyaUrn(problem.n_states)
        if test.horizon is not None and equaliser(problem) is not None:
            safe = ShrunkUrn(problem, test.horizon)
        fallback = replace(fallback, safe=safe)
    if isinstance(fallback, Policy) and not isinstance(fallback, Predictor):
        raise ValueError(f"fallback {type(fallback).__name__} is a policy: it must be a predictor; a Guard takes both")
    return Setting(problem, Actions(), test, fallback, response)


def robustify(
    predictor: Predictor,
    problem: DecisionProblem | None,
    horizon: int | None = None,
    *,
    test: Test | None = None,
    fallback: Predictor | Recovery | None = None,
    response: QuantalResponse = QuantalResponse(),  # noqa: B008 - a value that never changes
) -> Robust:
    """A predictor that predicts as ``predictor`` does while the world behaves as it says, and has low regret always.

    Parameters
    ----------
    problem
        What is at stake; None where others act on the forecasts, in problems of their own with two states.
    horizon
        How many steps the guarantee is for: short for ``test=ExactTest(1 / horizon, horizon)``, or ``VRegret(horizon)``
        without a problem.
    test
        When to stop trusting: ``ExactTest``, or the paper's ``RegretGap``, ``RegretRate`` and ``VRegret``.
    fallback
        What to predict after an alarm: ``Recovery()`` by default, the Polya urn with the paper's tests.
    response
        How predictions are acted on.

    >>> import lowregret as lr
    >>> safe = robustify(lr.predictors.Scheduled([[0.9, 0.1]]), lr.matching(), horizon=1000)
    >>> safe.alarm_times([[0] * 100, [1] * 100]).tolist()
    [101, 6]
    """
    if (horizon is None) == (test is None):
        got = "neither" if test is None else "both"
        raise ValueError(f"robustify takes either a horizon or a test such as ExactTest(delta, horizon), got {got}")
    if test is None:
        steps = inputs.whole(horizon, "horizon")
        test = VRegret(steps) if problem is None else ExactTest(1 / max(steps, 2), steps)
    return Robust(predictor, algorithm_1(problem, test, fallback, response), problem)


def _flat(probs: Array, tokens: Array) -> tuple[Array, Array]:
    """Sequences in one axis, in the precision of the engine."""
    T = tokens.shape[-1]
    return in_float64(detached(probs)).reshape(-1, T, probs.shape[-1]), tokens.reshape(-1, T)
