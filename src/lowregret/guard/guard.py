"""A guard for forecasts that come one at a time: ``advise``, act, then ``observe`` the outcome."""

import json
import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from .. import arrays, files, inputs
from ..certificates import Certificate
from ..certificates.realised import RealisedCertificate
from ..engine import (
    OWN_TEST,
    Actions,
    BestResponse,
    Comparators,
    Engine,
    ExactTest,
    Inputs,
    Response,
    Setting,
    Test,
)
from ..engine.fallbacks import Fallback
from ..engine.loop import Loop, form_of
from ..policies.contract import Policy
from ..predictors import Predictor, drawn
from ..problems import DecisionProblem, Payoff
from . import promises, state
from .advice import Advice, own, plain
from .events import LOG, Alarm, Event, OutcomeGivenUp, OutcomeIgnored, announce, events_of
from .reading import Reading
from .state import PendingStep, State

_FLEET_STEPS = 1 << 6  # that each stream of a fleet is taken to run for, at least
_KEPT = np.zeros(1, dtype=bool)  # one stream, in which a step counts


class Guard:
    """Bring your own forecasts: in each step ``advise``, act, then ``observe`` the outcome.

    Until an alarm the response to the model's forecast is advised, as you would act on it anyway. Bets against the
    model raise the alarm; from then on the fallback is played.

    Parameters
    ----------
    problem
        What is at stake: a ``DecisionProblem``, or a ``Payoff`` where outcomes are numbers.
    against
        Whom regret is measured against: every action, by default; ``Actions(per=...)`` a fixed action for each context;
        ``Actions() + References("desk")`` others who forecast, too.
    test
        When to stop acting on the model: ``ExactTest(delta, horizon)``, or ``NoTest()``. What the test adds is that
        nothing changes while the model is right; playing the fallback from the first step on often earns as much.
    fallback
        What is played after an alarm: ``Recovery()`` by default, ``UseReference(name)``, or a policy such as
        ``policies.AdaHedge(problem)``.
    response
        How forecasts are acted on: ``BestResponse()``, or ``QuantalResponse(temperature)`` as in the paper.
    lag
        How late outcomes may come: each forecast is made before the outcomes of the last ``lag`` - 1 steps are known.
        Outcomes may come in any order.
    streams
        How many streams are guarded side by side, or their names; then everything has a first axis of streams.
    on_event
        Called with each event after the step was taken. An exception in it is logged, and nothing is lost.

    Threads may share a guard, but a step is two calls: give each thread streams of its own, or hold a lock around both.

    >>> from lowregret import matching
    >>> guard = Guard(matching(), test=ExactTest(horizon=100))
    >>> for state in [1] * 20:
    ...     advice = guard.advise([0.9, 0.1])  # a model that is sure of the wrong state
    ...     guard.observe(state, action=guard.act(seed=0))
    >>> guard.events[0].step, advice.policy.tolist()
    (4, [0.0, 1.0])
    """

    def __init__(
        self,
        problem: DecisionProblem | Payoff,
        *,
        against: Comparators = Actions(),  # noqa: B008 - values that never change
        test: Test = ExactTest(),  # noqa: B008
        fallback: Fallback | Policy | Predictor | None = None,
        response: Response = BestResponse(),  # noqa: B008
        lag: int = 1,
        streams: int | Sequence[str] | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        self.on_event = None if on_event is None else inputs.function(on_event, "on_event", "an event")
        inputs.of_kind(test, Test, "test", OWN_TEST)
        fallback = test.usual_fallback(problem) if fallback is None else fallback
        self.setting = Setting(problem, against, test, fallback, response, inputs.whole(lag, "lag"))
        self.is_alone, self._named = streams is None, not isinstance(streams, (int, np.integer, type(None)))
        called: tuple[str | int, ...] = (0,)
        if self._named:
            called = inputs.names_of(streams, "streams")
        elif streams is not None:
            called = tuple(range(inputs.whole(streams, "streams", 0)))
        self._saved: bytes | None = None  # the digest of what was last loaded or saved
        self._make(len(called))
        self._state = State(self.engine.start(len(called)), called, len(called))

    def _make(self, n: int) -> None:
        """What n streams run on: the compiled loop if it is ready, and arrays else, even if it is compiled later."""
        s = self.setting
        self.lock, self.engine, self._reading = RLock(), Engine(s), Reading(s)
        self._n_actions, self._n_states = s.outcomes.n_actions, s.outcomes.n_states
        self._form = form_of(self.engine, n * _FLEET_STEPS)
        informed = bool(s.references or s.against.contexts or s.problem.is_changing)
        numbered = isinstance(s.problem, DecisionProblem) and s.problem.state_names.unnamed
        plain = self.is_alone and numbered and not informed
        self._quick = self._form if plain and isinstance(self._form, Loop) else None

    problem = property(lambda self: self.setting.problem)
    against = property(lambda self: self.setting.against)
    test = property(lambda self: self.setting.test)
    fallback = property(lambda self: self.setting.fallback)
    response = property(lambda self: self.setting.response)
    lag = property(lambda self: self.setting.lag)

    @property
    def note(self) -> Any:
        """Whatever JSON you want kept with the guard, through saving, too."""
        return self._state.note

    @note.setter
    def note(self, value: Any) -> None:
        json.dumps(value)  # or it could not be saved
        with self.lock:
            self._state = self._state.changed(note=value)

    def fork(self, n: int) -> "Guard":
        """A guard of n streams, all in the state of this one before its next step: to look without taking a step."""
        fork = self.fresh(n)
        rows = np.repeat(self._state.rows_NxW[:1], n, axis=0)
        fork._state = fork._state._replace(rows_NxW=rows, advised=self._state.advised)
        return fork

    def fresh(self, streams: int | Sequence[str] | None = None) -> "Guard":
        """A guard with the same settings before its first step, for as many streams."""
        problem, against, test, fallback, response, lag = self.setting.parts
        return Guard(
            problem, against=against, test=test, fallback=fallback, response=response, lag=lag, streams=streams
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """() for a single stream, else (N,)."""
        return () if self.is_alone else (len(self._state.streams),)

    def __repr__(self) -> str:
        alarms = sum(isinstance(event, Alarm) for event in self._state.events)
        many = "one stream" if self.is_alone else f"{len(self._state.streams)} streams"
        return f"Guard({self.problem}, {self.test}: {many}, {self._state.advised} steps, {alarms} alarms)"

    # Each step

    def advise(
        self,
        forecast: Any,
        *,
        context: Any = None,
        references: Any = None,
        scale: Any = None,
        payoffs: Any = None,
        step: int | None = None,
    ) -> Advice:
        """What to do in the next step, given the model's ``forecast``: ``advice.policy`` is what to play.

        If ``lag`` steps already wait for their outcomes, the oldest is given up, with an event.

        Parameters
        ----------
        forecast
            Probabilities of the states ``[..., S]``, or ``Quantiles`` or ``Samples`` of a number.
        context
            In which of the contexts of ``against`` the step is.
        references
            The forecasts of the references: a dict by name, or a list in their order.
        scale
            How much of what the problem says is at stake in this step, above 0 and at most 1.
        payoffs
            What is at stake in this step, if the problem is ``changing``: ``[..., A, S]``, or a ``Payoff``.
        step
            Which step this is for, counted from 1: by default the next, or with a lag of 1 the one that waits for its
            outcome, if there is one. A step that waits is advised anew.
        """
        plain = context is references is scale is payoffs is step is None
        if plain and self._quick is not None and type(forecast) is np.ndarray:
            advice = self._advise_quickly(self._quick, forecast)
            if advice is not None:
                return advice
        with self.lock:
            now = self._state
            number = self._number(now, step)
            try:
                given = self._reading.inputs(self.shape, forecast, references, context, scale, payoffs)
            except ValueError as error:
                raise self._placed(error) from None
            rows, fresh, kept = now.rows_NxW, tuple[Event, ...](), list[PendingStep]()
            dropped_N = np.zeros(len(rows), dtype=bool)
            for one in now.waiting:
                if one.number == number:  # it is advised anew
                    dropped_N = one.dropped_N
                elif one.number > number - self.lag:
                    kept.append(one)
                else:
                    fresh += self._lost(OutcomeGivenUp, now, one.number, number, ~one.dropped_N)
                    rows = self._skipped(rows, one)
            pending = PendingStep(number, given, dropped_N, self._form.advise(rows, number, given))
            waiting = tuple(sorted([*kept, pending], key=lambda one: one.number))
            self._state = now.changed(fresh, rows_NxW=rows, advised=max(now.advised, number), waiting=waiting)
        announce(fresh, self.on_event)
        return Advice(self.engine, rows, self.is_alone, pending)

    def _advise_quickly(self, loop: Loop, forecast_S: np.ndarray) -> Advice | None:
        """The usual case, one stream in the compiled loop; None: it is another case."""
        with self.lock:
            now = self._state
            fits = forecast_S.dtype == np.float64 and forecast_S.flags.carray and forecast_S.shape == (self._n_states,)
            if not fits or (now.waiting and self.lag > 1):
                return None
            number = now.waiting[0].number if now.waiting else now.advised + 1
            action, step = loop.advise_one(now.rows_NxW[0], number, forecast_S)
            if action < 0:  # these are no probabilities
                return None
            pending = PendingStep(number, Inputs(forecast_S[None].copy()), _KEPT, step)
            self._state = State(
                now.rows_NxW, now.streams, now.given, number, (pending,), now.events, now.changes + 1, now.note
            )
        return Advice(self.engine, now.rows_NxW, self.is_alone, pending)

    def _observe_quickly(self, loop: Loop, state: int, action: Any) -> bool:
        """The same for an outcome; False: it is another case."""
        now = self._state
        known = action is None or (type(action) is int and 0 <= action < self._n_actions)
        if len(now.waiting) != 1 or not known or not 0 <= state < self._n_states:
            return False
        pending = now.waiting[0]
        if pending.dropped_N[0]:
            return False
        rows, taken = now.rows_NxW.copy(), -1 if action is None else action
        if loop.observe_one(rows[0], pending.number, pending.step, state, taken):
            return False  # there is an event
        self._state = State(rows, now.streams, now.given, now.advised, (), now.events, now.changes + 1, now.note)
        return True

    def _number(self, now: State, step: int | None) -> int:
        """Which step is advised."""
        waits = self.waiting
        if step is None:
            return waits[0] if waits and self.lag == 1 else now.advised + 1
        step = inputs.whole(step, "step")
        if step != now.advised + 1 and step not in waits:
            again = f", or one that waits for its outcome ({', '.join(map(str, waits))})" if waits else ""
            raise ValueError(f"step must be the next, {now.advised + 1}{again}, got {step}")
        return step

    def _lost(
        self, kind: type[OutcomeGivenUp | OutcomeIgnored], now: State, step: int, known: int, streams_N: np.ndarray
    ) -> tuple[Event, ...]:
        """An event for each of these streams, by the steps of its episode."""
        head, names = self.engine.head.open(now.rows_NxW), (None,) if self.is_alone else now.streams
        at = [(n, int(head.begun[n]), int(head.episode[n])) for n in np.flatnonzero(streams_N).tolist()]
        return tuple(kind(names[n], step - begun, known - begun, episode) for n, begun, episode in at)

    def _placed(self, error: ValueError) -> ValueError:
        """A refusal of one entry of several streams, with the stream."""
        index = getattr(error, "index", ())
        return error if self.is_alone or not index else ValueError(f"{error} (stream {self._state.streams[index[0]]})")

    def _waiting(self, step: int | None, last: bool) -> PendingStep:
        """The step of this number that waits for its outcome, by default the last or the oldest."""
        waiting = self._state.waiting
        if not waiting:
            raise ValueError("advise(forecast) must come first: no step waits for its outcome")
        if step is None:
            return waiting[-1 if last else 0]
        for one in waiting:
            if one.number == step:
                return one
        raise ValueError(f"step {step} waits for no outcome; those that do: {', '.join(map(str, self.waiting))}")

    @property
    def waiting(self) -> list[int]:
        """The numbers of the steps that wait for their outcomes, the oldest first."""
        return [one.number for one in self._state.waiting]

    def advice(self, *, step: int | None = None) -> Advice:
        """What was advised in a step that waits for its outcome, by default the last."""
        return Advice(self.engine, self._state.rows_NxW, self.is_alone, self._waiting(step, last=True))

    def policy(self, *, step: int | None = None) -> np.ndarray:
        """The mixed action ``[..., A]`` of a step that waits for its outcome, by default the last that was advised."""
        return own(self._waiting(step, last=True).step.policy_NxA, self.is_alone)

    def act(self, seed: int | np.random.Generator, *, step: int | None = None) -> Any:
        """An action drawn from ``policy``, as its position.

        An int gives a fresh draw at each step and the same run each time, independent of other uses of that seed.
        Guards with the same settings draw alike with the same int: give each its own seed, or all one Generator.
        """
        pending = self._waiting(step, last=True)
        mixed_NxA = pending.step.policy_NxA
        if isinstance(seed, np.random.Generator):
            uniform_N = seed.random(len(mixed_NxA))
        else:
            seed = seed if type(seed) is int and seed >= 0 else inputs.whole(seed, "seed", least=0, most=None)
            mixed_A = mixed_NxA[0].tolist() if self.is_alone else []
            if 1.0 in mixed_A:
                return mixed_A.index(1.0)  # which any draw would give
            digests = self._salted.copy()
            digests.update(b"%d %d" % (seed, pending.number))
            digest = digests.digest()
            if mixed_A:  # a generator would take longer than all the rest
                return drawn(mixed_A, (int.from_bytes(digest[:8]) >> 11) / (1 << 53))
            uniform_N = np.random.default_rng(int.from_bytes(digest)).random(len(mixed_NxA))
        if self.is_alone:
            return drawn(mixed_NxA[0].tolist(), uniform_N[0])
        below_NxA = np.cumsum(mixed_NxA[:, :-1], axis=1)
        return (uniform_N[:, None] * mixed_NxA.sum(axis=1, keepdims=True) >= below_NxA).sum(axis=1)

    @cached_property
    def _salted(self) -> Any:
        """Makes the draws of guards with different settings differ."""
        return blake2b(repr(state.settings_of(self.setting, str(self.is_alone))).encode(), digest_size=16)

    def observe(self, outcome: Any, action: Any = None, *, step: int | None = None, missing: Any = None) -> None:
        """The outcome, and if you like the action that was taken; ``step``: of which, by default the oldest that waits.

        States are given by their names (``problems.Names`` has the rule): numbers, where they have no others, or as
        ``problems.Positions``; outcomes that are numbers as they are. An action is what ``act`` gave, its position, or
        its name as text. Of several streams, None in place of an outcome (or ``missing``, a mask) gives up that
        stream's, as ``skip`` does; the others go on. An outcome of a step that no longer waits is ignored, with an
        event.

        The step counts as a whole or not at all.
        """
        with self.lock:
            usual = type(outcome) is int and step is missing is None
            if usual and self._quick is not None and self._observe_quickly(self._quick, outcome, action):
                return
            now = self._state
            if step is not None and inputs.whole(step, "step") <= now.advised and step not in self.waiting:
                fresh = self._lost(OutcomeIgnored, now, step, now.advised, np.ones(len(now.streams), dtype=bool))
                self._state = now.changed(fresh)
            else:
                pending = self._waiting(step, last=False)
                try:
                    found, mask = self._reading.outcome(self.shape, outcome, missing)
                    taken = self._reading.action(self.shape, action)
                except ValueError as error:
                    raise self._placed(error) from None
                dropped_N, drops = pending.dropped_N, pending.dropped_N.any()
                if drops:
                    mask = dropped_N if mask is None else mask | dropped_N
                rows, signals = self._form.observe(now.rows_NxW, pending.number, pending.step, found, mask, taken)
                if drops:  # as if it had never been advised in these streams
                    rows[dropped_N] = now.rows_NxW[dropped_N]
                names = (None,) if self.is_alone else now.streams
                fresh = events_of(self.engine, rows, signals, pending.number, now.advised, names)
                self._state = now.changed(fresh, rows_NxW=rows, waiting=now.but(pending))
        announce(fresh, self.on_event)

    def skip(self, step: int | None = None) -> None:
        """Give up the outcome of a step that waits for it, by default the oldest.

        The certificate adds the span for it. The bound on false alarms holds only if this is decided before anyone
        could know the outcome: an outcome dropped for what it was is not missing but selected.
        """
        with self.lock:
            now, pending = self._state, self._waiting(step, last=False)
            self._state = now.changed(rows_NxW=self._skipped(now.rows_NxW, pending), waiting=now.but(pending))

    def _skipped(self, rows_NxW: np.ndarray, pending: PendingStep) -> np.ndarray:
        """The rows without the outcome of this step, but for streams in which it no longer counts."""
        skipped: np.ndarray = self.engine.skip(rows_NxW)
        skipped[pending.dropped_N] = rows_NxW[pending.dropped_N]
        return skipped

    # Episodes and streams

    def restart(self, streams: Any = None) -> None:
        """Open a new episode, for all streams or for some (what they are called, or a mask): after a retrain, say.

        Steps that wait for their outcomes no longer count in these streams.
        """
        with self.lock:
            now = self._state
            chosen_N = self._places(now, streams)
            waiting = tuple(one._replace(dropped_N=one.dropped_N | chosen_N) for one in now.waiting)
            waiting = tuple(one for one in waiting if not one.dropped_N.all())
            lost_N = promises.lost_in_episode(self.engine, now.rows_NxW)
            fresh = self.engine.start(len(now.streams))
            head, old = self.engine.head.open(fresh), self.engine.head.open(now.rows_NxW)
            head.episode[:] = old.episode + 1
            head.begun[:] = now.advised
            head.past_steps[:] = old.past_steps + old.observed + old.missed
            head.past_bound[:] = old.past_bound + lost_N
            rows = np.where(chosen_N[:, None], fresh, now.rows_NxW)
            self._state = now.changed(rows_NxW=rows, waiting=waiting)
        LOG.info("new episode for %d of %d streams", int(chosen_N.sum()), chosen_N.size)

    def add(self, streams: int | Sequence[str] = 1) -> list[str | int]:
        """New streams at the end, each before its own first step: how many, or their names.

        Returns what they are called.
        """
        with self.lock:
            now = self._fleet("add()")
            if self._named:
                fresh: list[str | int] = list(inputs.names_of(streams, "add(names)"))
                inputs.names_of([*now.streams, *fresh], "streams")
            else:
                fresh = list(range(now.given, now.given + inputs.whole(streams, "add(n)", least=0)))
            index_N = np.array([*range(len(now.streams)), *[-1] * len(fresh)], dtype=np.int64)
            called = (*now.streams, *fresh)
            self._state = state.regrouped(self._form, now, index_N, called, now.given + len(fresh))
        LOG.info("%d streams added to %d", len(fresh), len(now.streams))
        return fresh

    def retire(self, streams: Any) -> list[str | int]:
        """End some streams, by name or mask, and return their names. The others keep theirs.

        Past events of retired streams stay in ``events``; the certificate covers those that remain.
        """
        with self.lock:
            now = self._fleet("retire()")
            gone_N = self._places(now, streams)
            kept_N = np.flatnonzero(~gone_N)
            self._state = state.regrouped(self._form, now, kept_N, [now.streams[n] for n in kept_N], now.given)
        LOG.info("%d of %d streams retired", int(gone_N.sum()), len(gone_N))
        return [now.streams[n] for n in np.flatnonzero(gone_N)]

    def _fleet(self, what: str) -> State:
        if self.is_alone:
            raise ValueError(f"{what} needs a guard of several streams: Guard(problem, streams=...)")
        # Without a lag, a step that was only advised is forgotten: it would have to be advised anew for all streams.
        return self._state if self.lag > 1 else self._state._replace(waiting=())

    def _places(self, now: State, streams: Any) -> np.ndarray:
        """A mask ``[N]`` of the streams that are called so."""
        n = len(now.streams)
        if streams is None:
            return np.ones(n, dtype=bool)
        given = arrays.to_numpy(inputs.array_of(streams, "streams"))
        if given.dtype == bool:
            if given.shape != (n,):
                raise ValueError(f"streams is a mask of shape {given.shape}, the guard has {n}")
            return given
        listed = np.atleast_1d(given).tolist()
        if unknown := [name for name in listed if name not in now.streams]:
            raise ValueError(f"streams must be among {inputs.shown(list(now.streams))}, got {inputs.shown(unknown[0])}")
        return np.isin(np.array(now.streams), listed)

    # What can be read

    @property
    def streams(self) -> list[str | int]:
        """The name of each stream, or its number."""
        return list(self._state.streams)

    @property
    def events(self) -> list[Event]:
        """Everything that happened so far, in its order; of outcomes given up or ignored, the last hundred."""
        return list(self._state.events)

    def _head(self, part: str) -> np.ndarray:
        found: np.ndarray = getattr(self.engine.head.open(self._state.rows_NxW), part)
        return found

    @property
    def steps(self) -> Any:
        """How many steps of its episode are over for each stream: the outcome was observed, or given up."""
        return plain((self._head("observed") + self._head("missed")).astype(np.int64), self.is_alone)

    @property
    def episodes(self) -> Any:
        """How many episodes each stream has opened."""
        return plain(self._head("episode").astype(np.int64), self.is_alone)

    @property
    def regret(self) -> Any:
        """The average regret of the mixed policy in this episode, to the best of those that ``against`` names."""
        total_N = self.engine.worst_lead(self._head("lead_P"))
        return plain(total_N / np.maximum(self._head("observed"), 1), self.is_alone)

    @property
    def realised_regret(self) -> Any:
        """The average regret of the actions reported to ``observe``, over the steps with one; NaN: none had."""
        reported_N = self._head("reported")
        total_N = self.engine.worst_lead(self._head("realised_P"))
        return plain(np.where(reported_N > 0, total_N / np.maximum(reported_N, 1), math.nan), self.is_alone)

    @property
    def switched(self) -> Any:
        """Which streams have had an alarm in this episode."""
        return plain(self._head("alarm") > 0, self.is_alone)

    @property
    def evidence(self) -> tuple[Any, float]:
        """ln of what the bets against the model have grown to, and the threshold for an alarm.

        Infinite once a state occurred to which the model had given probability 0.
        """
        found = plain(self.engine.evidence(self._state.rows_NxW), self.is_alone)
        return found, self.engine.needed

    @property
    def share(self) -> Any:
        """How much of what is played next is the model's: all of it until an alarm; less after it, or none."""
        return plain(self.engine.share(self._state.rows_NxW), self.is_alone)

    @property
    def certificate(self) -> Certificate | RealisedCertificate:
        """What is guaranteed over the episodes opened so far, for the stream with the weakest guarantee.

        Where outcomes are numbers, a ``RealisedCertificate``, from the charges of the bets so far.
        """
        return self.certificate_of(self._state.rows_NxW)

    def certificate_of(self, rows_NxW: np.ndarray) -> Certificate | RealisedCertificate:
        """The same of other rows of the engine."""
        return promises.certificate_over(self.engine, rows_NxW)

    # Saving

    @cached_property
    def _settings(self) -> dict[str, Any]:
        streams = "one" if self.is_alone else "named" if self._named else "numbered"
        return state.settings_of(self.setting, streams)

    def dumps(self) -> bytes:
        """Everything it remembers, as bytes for a file or a row of a database."""
        return state.dumps(self._state, self._settings)

    def loads(self, data: bytes) -> None:
        """Take up where ``dumps`` left off, bit for bit, with the streams that there were then.

        Refused, and nothing changed, if the bytes are of a guard with other settings, or were cut short or changed.
        """
        with self.lock:
            self._state = state.loads(data, self._form, self._settings)
            self._saved = state.digest_of(data)

    def save(self, path: str | Path) -> None:
        """``dumps`` as a file, written whole or not at all.

        Refused where the file is not the one that was last loaded or saved: another process has gone on from it.
        """
        path = Path(path)
        with self.lock:
            if path.exists() and state.digest_of(path.read_bytes()) != self._saved:
                raise ValueError(f"{path} is not as this guard last loaded or saved it: load it, or save elsewhere")
            data = state.dumps(self._state, self._settings)
            files.replace(path, data)
            self._saved = state.digest_of(data)

    def load(self, path: str | Path) -> None:
        """Take up where ``save`` left off; refused, and nothing changed, as by ``loads``."""
        data = Path(path).read_bytes()
        try:
            self.loads(data)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def __deepcopy__(self, memo: Any) -> "Guard":
        return copy(self)  # what it remembers is a value; what it calls is not its own

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("setting", "on_event", "is_alone", "_named", "_saved", "_state")}

    def __setstate__(self, held: dict[str, Any]) -> None:
        self.__dict__.update(held)
        now = self._state
        self._make(len(now.streams))
        if now.waiting:  # advised where there was a compiled loop, perhaps, and here is none
            every_N = np.arange(len(now.streams))
            waiting = state.regrouped(self._form, now, every_N, now.streams, now.given).waiting
            self._state = now._replace(waiting=waiting)
