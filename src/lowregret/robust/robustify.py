"""Algorithms 1 and 3: the base model until the test raises an alarm, the fallback from then on."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from .. import inputs
from ..abilities import ability
from ..arrays import Array, astype, beside, copied, detached, device, in_float64, namespace, some, to_numpy
from ..certificates import Certificate
from ..certificates.promises import WIDEST
from ..engine import OWN_TEST, Actions, Engine, ExactTest, Inputs, QuantalResponse, Recovery, Setting, Step, Test
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

    # Algorithm 1

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RobustMemory:
        shape = inputs.batch_shape_of(batch_shape)
        base = self.base.start(shape, like=like)
        probs = asked(self.base, base, shape)
        with self.engine_for(probs) as engine:
            rows = engine.start(math.prod(shape))
        return RobustMemory(base, probs, rows.reshape(*shape, engine.width))

    def predict(self, memory: RobustMemory) -> Array:
        """The base model's prediction, bit for bit, until the alarm; the fallback's from then on."""
        late = self.switched(memory)
        if not some(late):
            return copied(memory.probs)
        with self.engine_for(memory.probs) as engine:
            said = astype(self._step(engine, memory).mixture_NxS, memory.probs.dtype)
            return engine.xp.where(late[..., None], said.reshape(memory.probs.shape), memory.probs)

    def update(self, memory: RobustMemory, token: Array) -> RobustMemory:
        """One more token: the base model, the test and the fallback all learn from it."""
        shape = tuple(memory.probs.shape[:-1])
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.probs)
        with self.engine_for(memory.probs) as engine:
            number = self._age(engine, memory)
            self.within_horizon(number)
            base = self.base.update(memory.base, token)
            rows, _ = engine.observe(_flat(memory.rows), number, self._step(engine, memory), token.reshape(-1))
        return RobustMemory(base, asked(self.base, base, shape), rows.reshape(memory.rows.shape))

    def predict_sequence(self, tokens: Array) -> Array:
        return self.replaced(*self._recorded(tokens))[0]

    def alarm_times(self, tokens: Array) -> Array:
        """The number of tokens seen when each sequence ``[..., T]`` raised its alarm; T + 1 for never."""
        probs, tokens = self._recorded(tokens)
        flat_NxTxS, flat_NxT = _at_once(probs, tokens)
        with self.engine_for(probs) as engine:
            return engine.alarm_times(flat_NxTxS, flat_NxT).reshape(tokens.shape[:-1])

    def replaced(self, probs: Array, tokens: Array) -> tuple[Array, Array]:
        """The predictions ``[..., T, S]`` where the base model's are ``probs``, and the alarm times; unchecked."""
        law_NxTxS, token_NxT = _at_once(probs, tokens)
        with self.engine_for(probs) as engine:
            xp, times_N = engine.xp, engine.alarm_times(law_NxTxS, token_NxT)
            said_NxTxS = xp.asarray(probs.reshape(law_NxTxS.shape), copy=True)
            late_M = xp.asarray(np.flatnonzero(to_numpy(times_N) < tokens.shape[-1]))
            if len(late_M):  # all others are the base model's
                parts = (xp.take(part, late_M, axis=0) for part in (law_NxTxS, token_NxT, times_N))
                said_NxTxS[late_M] = xp.astype(engine.laws(*parts), probs.dtype)
        return said_NxTxS.reshape(probs.shape), times_N.reshape(tokens.shape[:-1])

    # What can be read

    def switched(self, memory: Any) -> Array:
        """Which streams ``[...]`` had an alarm, from this predictor's memory or from that of its ``respond()``."""
        return self._part(getattr(memory, "predictor", memory), "alarm") > 0

    def shares(self, memory: RobustMemory) -> Array:
        """How much of each of the base's models there is in what is predicted now, ``[..., N]``; N = 1 for one model.

        Their sum is all until an alarm; less after it, with ``Recovery`` more again where they are right again.
        """
        with self.engine_for(memory.probs) as engine:
            trusted = engine.share(_flat(memory.rows)).reshape(memory.rows.shape[:-1])[..., None]
        each = ability(self.base, "shares")
        return trusted if each is None else each(memory.base) * trusted

    def evidence(self, memory: RobustMemory) -> tuple[Array, float]:
        """The evidence against the base model ``[...]``, and that which raises an alarm."""
        with self.engine_for(memory.probs) as engine:
            return engine.evidence(_flat(memory.rows)).reshape(memory.rows.shape[:-1]), engine.needed

    @property
    def certificate(self) -> Certificate:
        """What is promised; where the base is a mixture, of each of its models too."""
        given: Certificate = self.setting.certificate
        of_models = ability(self.base, "of_models")
        if of_models is None:
            return given
        return replace(given, statement=f"{given.statement} {of_models(given.tv_bound)}")

    def respond(self, problem: DecisionProblem | None = None, temperature: float | None = None) -> Respond:
        """The policy the certificate speaks of: quantal responses at the setting's temperature.

        Where the problem is unknown, say which; the temperature is then 1/sqrt(horizon) unless given.
        """
        if self.problem is None:
            if problem is None:
                raise ValueError("respond needs a problem: this predictor was made robust for none in particular")
            return Respond(self, problem, self.temperature if temperature is None else temperature)
        if problem not in (None, self.problem) or temperature not in (None, self.temperature):
            raise ValueError("problem and temperature are the setting's own, and the certificate is for no others")
        return Respond(self, self.problem, self.temperature)

    # Inside

    def __reduce__(self) -> tuple[Any, ...]:
        return Robust, (self.base, self.setting, self.problem)

    @cached_property
    def _engines(self) -> dict[Any, Engine]:
        return {(np, None): Engine(self.setting)}

    @contextmanager
    def engine_for(self, like: Array) -> Iterator[Engine]:
        """The engine on arrays of this kind; inside, new ones are made on their device."""
        xp, where = namespace(like), device(like)
        on_device = where is not None and where.type != "cpu"
        with where if on_device else nullcontext():
            if (xp, where) not in self._engines:
                self._engines[xp, where] = Engine(self.setting.on(xp))
            yield self._engines[xp, where]

    def _step(self, engine: Engine, memory: RobustMemory) -> Step:
        return engine.advise(_flat(memory.rows), 1, Inputs(_flat(in_float64(detached(memory.probs)))))

    def _part(self, memory: RobustMemory, name: str) -> Array:
        """One part of what the engine remembers, ``[...]``."""
        with self.engine_for(memory.probs) as engine:
            return getattr(engine.head.open(_flat(memory.rows)), name).reshape(memory.rows.shape[:-1])

    def _age(self, engine: Engine, memory: RobustMemory) -> int:
        """The number of the step that comes next."""
        observed = engine.head.open(_flat(memory.rows)).observed
        return 1 + int(observed.max()) if len(observed) else 1

    def within_horizon(self, number: int) -> None:
        """Refuse the step of this number after the horizon."""
        if self.horizon is not None and number > self.horizon:
            raise ValueError(
                f"the horizon of {self.horizon} steps is over: start anew"
                + (", or take a test with horizon=None" if self.problem else "")
            )

    def _recorded(self, tokens: Array) -> tuple[Array, Array]:
        """What the base model says before each token, and the tokens beside it, both checked once."""
        tokens = inputs.sequences_of(tokens, self.n_states)
        if self.horizon is not None and tokens.shape[-1] > self.horizon:
            raise ValueError(f"tokens are longer than the horizon: {tokens.shape[-1]} steps, {self.horizon}")
        probs = asked_sequence(self.base, tokens)
        return probs, beside(tokens, probs)


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
        raise ValueError(
            f"test {type(test).__name__} is for unknown problems: problem must be None"
            if problem is not None
            else f"problem must be a DecisionProblem for {type(test).__name__}; VRegret takes None"
        )
    problem = WIDEST if problem is None else a_problem(problem)
    if fallback is None:
        fallback = test.usual_fallback(problem)
    if isinstance(fallback, Recovery) and fallback.safe is None:
        safe: Predictor = PolyaUrn(problem.n_states)
        if test.horizon is not None and equaliser(problem) is not None:
            safe = ShrunkUrn(problem, test.horizon)
        fallback = replace(fallback, safe=safe)
    if isinstance(fallback, Policy) and not isinstance(fallback, Predictor):
        raise ValueError(
            f"fallback {type(fallback).__name__} is a policy, which gives actions and no distributions over tokens: a "
            "robust predictor needs a predictor there; a Guard takes either"
        )
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
        raise ValueError("robustify takes a horizon, or a test such as ExactTest(delta, horizon), and not both")
    if test is None:
        steps = inputs.whole(horizon, "horizon")
        test = VRegret(steps) if problem is None else ExactTest(1 / max(steps, 2), steps)
    return Robust(predictor, algorithm_1(problem, test, fallback, response), problem)


def _flat(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def _at_once(probs: Array, tokens: Array) -> tuple[Array, Array]:
    T = tokens.shape[-1]
    return in_float64(detached(probs)).reshape(-1, T, probs.shape[-1]), tokens.reshape(-1, T)
