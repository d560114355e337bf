"""The same protection for probabilities that come from anywhere: advise, act, observe."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import blake2b
from threading import RLock
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, astype, device, namespace, to_numpy
from ..forecasts import Forecast
from ..policies import Policy, Recovery
from ..predictors import Predictor, draw, drawn
from ..problems import DecisionProblem, Payoff, by_name
from ..robust import rule_for
from ..rules import Rule, late_rule, warm_up
from .advice import Advice, acts_in, mixed_of
from .episodes import reopened
from .fleet import Fleet
from .known import known_of, knows_of
from .ledger import LOG, Event, Ledger, Switch, blank, tell
from .memory import Due, GuardMemory, over, standing
from .readings import Readings
from .resume import read, written
from .steps import advised, due_of, forgotten, numbered_step, observed, refuse_while_waiting, skipped
from .streams import Labels, Naming, named, streams_of

# Where a guard's actions are drawn from: numbers of its own for every seed, every step and every guard.


class Draws:
    """The draws of one guard, set apart from those of guards made otherwise.

    Numbers that are only put side by side as a seed can collide, with the next step's or with ``default_rng(seed)``
    itself, from which a world may have been drawn: these are digests of all that they depend on.
    """

    def __init__(self, rule: Rule, batch_shape: tuple[int, ...]) -> None:
        self._rule, self.batch_shape = rule, batch_shape

    @cached_property
    def _salt(self) -> str:
        rule, problem = self._rule, self._rule.problem
        if rule.of_numbers:
            utility = repr((problem.actions, problem.low, problem.high)).encode()  # type: ignore[union-attr]
        else:
            utility = b"" if problem is None else problem.utility.tobytes()
        made = (type(rule).__name__, rule.horizon, rule.n_states, self.batch_shape)
        return blake2b(utility + repr(made).encode(), digest_size=16).hexdigest()

    def uniforms(self, seed: int, clock: int) -> Any:
        """Those of all streams for the step after ``clock`` observations, ``[...]``."""
        return uniforms_of(self._salt, seed, clock, self.batch_shape)


def uniforms_of(salt: str, seed: int, clock: int, shape: tuple[int, ...]) -> Any:
    """Numbers of their own for each of these, from 0 up to 1."""
    words = f"lowregret.Guard.act {salt} {seed:x} {clock:x}"
    digest = blake2b(words.encode(), digest_size=16).digest()
    if shape == ():
        return (int.from_bytes(digest[:8]) >> 11) / (1 << 53)  # a generator would take longer than all the rest
    return np.random.default_rng(int.from_bytes(digest)).random(shape)


DELTA = 0.05  # how likely a model that is right may ever be left: whoever acts can have it back
_FLEET = 1 << 11  # streams: so many are worth compiling for, before the first step


class Guard(Fleet, Readings):
    """Bring your own forecasts: each step ``advise``, act, then ``observe`` what came.

    Parameters
    ----------
    problem
        What is at stake: a ``DecisionProblem``, or a ``Payoff`` where outcomes are numbers. None where others act on
        the advice, in two-state problems of their own; ``regret`` is then the largest V-regret of its advice.
    horizon
        For how many steps an episode is promised. None: unknown; a number sharpens the promise, and contexts need one.
    rule
        When to stop trusting, with settings of its own. By default an ``ExactTest`` that is built with ``delta``,
        ``temperature``, ``likelihood``, ``fallback`` and ``test``; ``VRegret(horizon)`` without a problem.
    batch_shape
        Streams guarded side by side; everything then has these leading axes.
    on_event
        Called with each ``Switch``, and each ``Return`` and ``Left`` after one, as it happens, once the step was taken.
    references
        Names of incumbents, whose forecasts ``advise`` is given beside the model's. Regret is then against the best of
        the fixed actions and them.
    contexts
        How many contexts there are, where ``advise`` is told in which a step is: a fixed action for each then counts.
    payoffs
        "scaled": ``advise`` may say how much of what the problem says is at stake in a step. "change": it may say
        what is, within the range that the problem declares.
    lag
        How late outcomes may come: the forecast of step t is stated before the outcomes of the last ``lag`` - 1 steps
        are known. Then ``advise``, ``act`` and ``observe`` take a ``step``, and outcomes may come in any order. 1 is
        the ordinary guard, which sees each outcome before the next forecast.
    delta
        How likely it may be that a model which is right is ever left in an episode: 0.05 by default, one in twenty
        (without a problem 1/horizon). None is asked for without a test.
    fallback
        What is played after an alarm; by default ``Recovery()``.
    temperature
        Of the responses to forecasts. 0 by default: the best response, as most people act, which differs from nothing
        you do today until an alarm. Above 0 a quantal response: the paper has 1/sqrt(horizon).
    likelihood
        A second bettor beside those on actions, as of ``ExactTest``; by default wherever it can be: best responses to
        laws with ``Recovery`` for a fallback.
    test
        False: no test and no switch; what is usually played after one (``Recovery``) is played from the first step on.
        That earns as much as a rule. The test buys that nothing changes while the model is right, not money; where a
        model's edge is too small for any test, as in trading an index, it loses some.
    streams
        Names of the streams along the first batch axis, where they have any; ``batch_shape`` then need not be said.

    Threads may share a guard: no call of one is lost to another's. But a step is two calls, and another thread's
    ``advise`` in between replaces yours, so share streams (``batch_shape``), or hold a lock of your own around the two.

    >>> from lowregret import matching
    >>> guard = Guard(matching(), horizon=100)
    >>> for state in [1] * 20:
    ...     advice = guard.advise([0.9, 0.1])  # a model that is sure of the wrong state
    ...     guard.observe(state, action=guard.act(seed=0))
    >>> guard.events[0].step, advice.policy.round(2).tolist()
    (4, [0.0, 1.0])

    Forecasts of a number, with a ``Payoff``:

    >>> import lowregret as lr
    >>> payoff = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    >>> guard = Guard(payoff, horizon=200)
    >>> for move in [-0.4] * 40:
    ...     advice = guard.advise(lr.Quantiles([0.1, 0.9], [0.1, 0.8]))  # expects a rise each day
    ...     guard.observe(move, action=guard.act(seed=0))
    >>> guard.events[0].step, round(guard.share, 3)
    (16, 0.0)
    """

    _at: GuardMemory  # all that it remembers: a step is done once this has been replaced, by one assignment

    def __init__(
        self,
        problem: DecisionProblem | Payoff | None,
        horizon: int | None = None,
        *,
        rule: Rule | None = None,
        fallback: Predictor | Policy | Recovery | None = None,
        temperature: float | None = None,
        batch_shape: tuple[int, ...] | None = None,
        on_event: Callable[[Event], object] | None = None,
        references: Sequence[str] = (),
        contexts: int | None = None,
        payoffs: str | None = None,
        lag: int = 1,
        streams: Sequence[str] | None = None,
        delta: float | None = None,
        likelihood: bool | None = None,
        test: bool = True,
    ) -> None:
        lag = inputs.whole(lag, "lag")
        knows = knows_of(problem, references, contexts, payoffs)
        settings = {"delta": delta, "fallback": fallback, "temperature": temperature, "likelihood": likelihood}
        settings["test"] = None if inputs.flag(test, "test") else False
        if delta is not None and not test:
            raise ValueError(f"delta is the chance of a false alarm: leave it out with test=False, got {delta}")
        if rule is None and problem is not None:
            settings = _as_people_act(problem, settings)
        made = rule_for(problem, horizon, rule, knows, **settings)
        self.rule = made if lag == 1 else late_rule(made, lag)
        self.problem = self.rule.problem
        labels = None if streams is None else Labels(named(streams), len(streams))
        shape = _shape_of(batch_shape, labels)
        self.on_event = None if on_event is None else inputs.function(on_event, "on_event", "an event")
        self._lock = RLock()
        self._drawing = Draws(self.rule, shape)
        self._at = GuardMemory(blank(self.rule, shape), labels=labels)
        if math.prod(shape) >= _FLEET:
            warm_up()

    @property
    def lag(self) -> int:
        """How late outcomes may come."""
        return self.rule.lag

    @property
    def horizon(self) -> int | None:
        return self.rule.horizon

    def __repr__(self) -> str:
        at = self._at
        rule = type(self.rule.each).__name__ + ("" if self.lag == 1 else f", lag {self.lag}")
        streams = f"{to_numpy(at.ledger.episode).size} streams" if self.batch_shape else "one stream"
        return (
            f"Guard({self.problem or 'any problem'}, {rule}, horizon {self.horizon}: {streams}, "
            f"{at.longest} steps, {sum(isinstance(event, Switch) for event in at.events)} switches)"
        )

    # Each step

    def advise(
        self,
        forecast: Any,
        *,
        references: Any = None,
        context: Array | None = None,
        payoffs: Any = None,
        scale: Array | None = None,
        step: int | None = None,
    ) -> Advice:
        """What to do in the next step, of which the model says ``forecast``: ``advice.policy`` is what to play.

        Parameters
        ----------
        forecast
            Probabilities of the states ``[..., S]``, or ``Samples`` or ``Quantiles`` of a number.
        references
            What the references say of this step, in the order of their names (or a dict by name): laws
            ``[..., N, S]``, or forecasts of a number.
        context
            In which context the step is, from 0.
        payoffs
            What is at stake in this step, ``[..., A, S]`` in the problem's own units and within its declared range; for
            numbers, another ``Payoff`` within it.
        scale
            How much of what the problem says is at stake, above 0 and at most 1.
        step
            Which step this is for, counted from 1: by default the next. One that waits for its outcome is advised anew;
            with a lag of 1, so it is by default.
        """
        told = references is not None or context is not None or payoffs is not None or scale is not None
        with self._lock:
            at, known, shape, rule = self._at, None, self.batch_shape, self.rule
            with Naming(shape, at.labels):
                forecast = self._forecast(forecast, shape)
                if told or rule.knows is not None:
                    known = known_of(rule, shape, forecast, references, context, payoffs, scale)
            step = numbered_step(rule, at, step)
            if step > at.advised and rule.horizon is not None and at.longest + len(at.waiting) >= rule.horizon:
                self._refuse_past_horizon(at)
            self._at, due = advised(rule, shape, at, forecast, known, step)
            return Advice(rule, self._at.ledger.rule, due)

    def policy(self, *, step: int | None = None) -> Array:
        """The mixed action ``[..., A]`` that the certificate speaks of: the response to the forecast.

        After a switch, what the fallback plays. ``step``: which of those that wait for their outcomes, by default the
        last that was advised.
        """
        acts_in(self.rule, "policy()")
        mixed, due = self._mixed(step)
        return mixed if self.rule.of_numbers else astype(mixed, due.forecast.dtype)

    def act(self, seed: int | np.random.Generator, *, step: int | None = None) -> Array:
        """An action drawn from ``policy``, as its position.

        An int gives a fresh draw each step and the same run each time, independent of whatever else is drawn with it
        (``default_rng(seed)``, a guard made otherwise). What repeats: at the same step, guards made alike draw the same
        with the same int, as does one that was copied or resumed. Several alike need a seed each, or one Generator.
        """
        acts_in(self.rule, "act()")
        mixed, due = self._mixed(step)
        shape = tuple(mixed.shape[:-1])
        if isinstance(seed, np.random.Generator):
            uniforms = seed.random(shape)
        else:
            uniforms = self._draws.uniforms(inputs.whole(seed, "seed", least=0, most=None), due.step - 1)
        if shape == ():
            return drawn(to_numpy(mixed).tolist(), uniforms)
        return draw(mixed, namespace(mixed).asarray(uniforms, dtype=mixed.dtype, device=device(mixed)))

    def observe(self, state: Any, action: Any = None, *, step: int | None = None, missing: Array | None = None) -> None:
        """What came, and if you like the action that was taken; ``step``: of which, by default the oldest that waits.

        States are given by their names (``problems.Names`` has the rule): numbers, where they have no others, or as
        ``problems.Positions``; outcomes that are numbers as they are. An action is what ``act`` gave, its position, or
        its name as text. Of a batch, None in place of an outcome (or
        ``missing``, a mask) gives up that stream's, as ``skip`` does; the others go on.

        The step counts as a whole or not at all: if this is interrupted, or refuses what it is given, either nothing
        has changed or everything has, ``events`` among it. ``on_event`` is called after that, once for every event
        even if it raises for one of them: the first error then comes out of here, the others as its cause. After an
        interrupt in between, ``events`` has those that it was not called with.
        """
        with self._lock:
            at, shape = self._at, self.batch_shape
            with Naming(shape, at.labels):
                self._at, fresh = observed(self.rule, shape, at, state, action, step, missing)
        if fresh:
            tell(fresh, self.on_event)

    def skip(self, step: int | None = None) -> None:
        """Give up the outcome of a step that waits for it, by default the oldest.

        The certificate adds the span for it. The chance of a false switch stays what it is only if this is decided
        before anyone could know the outcome: one that is dropped for what it was is not missing but chosen.
        """
        with self._lock:
            self._at = skipped(self.rule, self._at, step)

    # Episodes

    def restart(self, streams: Any = None) -> None:
        """Open a new episode, for all streams or for some (what they are called, or a mask along the first axis)."""
        with self._lock:
            at = self._at
            mask = streams_of(streams, self.batch_shape, at.labels)
            refuse_while_waiting(self.rule, at, "restart()")
            self._at = standing(forgotten(at)._replace(ledger=reopened(self.rule, at.ledger, mask)))
        LOG.info("new episode for %d of %d streams", int(mask.sum()), mask.size)

    def _refuse_past_horizon(self, at: GuardMemory) -> None:
        """Refuse a step of streams whose episode is over."""
        memory = at.ledger.rule
        step = namespace(memory.step).asarray(over(at), device=device(memory.step))
        self.rule.refuse_past_horizon(memory._replace(step=step))

    # Inside

    def _forecast(self, forecast: Any, shape: tuple[int, ...]) -> Array | Forecast:
        """What ``advise`` was given, checked."""
        rule = self.rule
        if rule.of_numbers:
            return rule.each.fits(forecast, shape)  # type: ignore[attr-defined]
        if type(forecast) is not np.ndarray and rule.state_names is not None:
            forecast = by_name(rule.state_names, forecast)
        return inputs.probs_of(forecast, rule.n_states, shape=shape)

    def _written(self, at: GuardMemory, told: Callable[[Any], Any]) -> dict[str, Any]:
        return written(self.rule, at, told)

    def _read(self, d: dict[str, Any], batch_shape: tuple[int, ...]) -> GuardMemory:
        return read(self.rule, batch_shape, d, self._at.labels)

    def _blank(self, batch_shape: tuple[int, ...]) -> Ledger:
        return blank(self.rule, batch_shape, like=self._at.ledger.lead_A)

    def _regrouped(self, at: GuardMemory, ledger: Ledger, labels: Labels) -> GuardMemory:
        refuse_while_waiting(self.rule, at, "add() and retire()")
        return standing(forgotten(at)._replace(ledger=ledger, labels=labels))

    @property
    def _draws(self) -> Draws:
        if self._drawing.batch_shape != self.batch_shape:
            self._drawing = Draws(self.rule, self.batch_shape)
        return self._drawing

    def _mixed(self, step: int | None) -> tuple[Array, Due]:
        """The mixed action ``[..., A]`` of a step that waits, by default the last, and that step."""
        at = self._at
        due = due_of(self.rule, at, step, at.waiting[-1:])
        return mixed_of(self.rule, at.ledger.rule, due, at.any_tripped or self.rule.untested), due


def _as_people_act(problem: DecisionProblem | Payoff, given: dict[str, Any]) -> dict[str, Any]:
    """The settings of the default rule by name: what was given, else what suits whoever acts on a forecast."""
    people = {"delta": DELTA, "temperature": 0.0}
    settings = given | {name: value for name, value in people.items() if given[name] is None}
    one = np.ndim(settings["temperature"]) == 0  # else it is refused by the rule
    laws = one and settings["temperature"] == 0 and not isinstance(problem, Payoff)
    if given["likelihood"] is None:
        mixes = given["fallback"] is None or isinstance(given["fallback"], Recovery)
        settings["likelihood"] = mixes and laws and given["test"] is not False
    return settings


def _shape_of(batch_shape: Any, labels: Labels | None) -> tuple[int, ...]:
    if batch_shape is None:
        return () if labels is None else (len(labels.held_N),)
    shape = inputs.batch_shape_of(batch_shape)
    if labels is not None and shape[:1] != (len(labels.held_N),):
        raise ValueError(f"streams must name the {len(labels.held_N)} along the first axis of batch_shape, got {shape}")
    return shape
