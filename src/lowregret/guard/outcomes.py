"""The guard for forecasts of a number, at the outcome itself: samples, quantiles or a density in, actions out."""

from collections.abc import Callable
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import copied
from ..certificates.realised import RealisedCertificate
from ..forecasts import Forecast
from ..predictors import draw, drawn
from ..problems import Payoff
from ..rules import OutcomeTest, Seen
from .draws import salt_of, uniforms_of
from .episodes import streams_of
from .fleet import Fleet
from .ledger import LOG, Event, Switch
from .numbers import Naming, Numbers, numbered, numbers_from, numbers_told
from .outcome_ledger import OutcomeLedger, average, blank, certificate_of, entered, happened, reopened
from .outcome_resume import made_for, read, written
from .telling import tell


class OutcomeStanding(NamedTuple):
    """Everything about such a guard that is not a setting of it: replacing it commits a step."""

    ledger: OutcomeLedger
    clock: int  # outcomes so far, over all episodes
    events: tuple[Event, ...]
    forecast: Forecast | None  # what advise was given for this step
    seen: Seen | None  # what follows from it
    numbers: Numbers | None = None  # by which each stream is known; None: by its place


class OutcomeGuard(Fleet):
    """What ``Guard(payoff, horizon)`` makes for a ``Payoff``: each step ``advise``, act, then ``observe`` the outcome.

    Parameters
    ----------
    problem
        The ``Payoff``.
    horizon
        For how many steps an episode is promised (None: unknown, with a rule that has a delta).
    rule
        ``OutcomeTest(problem, horizon)`` by default, built with ``temperature``.
    batch_shape, on_switch
        As of any guard.

    >>> import numpy as np
    >>> import lowregret as lr
    >>> payoff = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    >>> guard = lr.Guard(payoff, horizon=200)
    >>> for move in [-0.4] * 40:
    ...     guard.advise(lr.Quantiles([0.1, 0.9], [0.1, 0.8]))  # expects a rise each day
    ...     guard.observe(move, action=guard.act(seed=0))
    >>> guard.events[0].step, round(guard.share, 3)
    (21, 0.0)
    """

    _at: OutcomeStanding

    def __init__(
        self,
        problem: Payoff,
        horizon: int | None,
        *,
        rule: OutcomeTest | None = None,
        temperature: float | None = None,
        batch_shape: tuple[int, ...] = (),
        on_switch: Callable[[Any], Any] | None = None,
    ) -> None:
        self.rule = _rule_for(problem, horizon, rule, temperature)
        self.problem = self.rule.problem
        shape = inputs.batch_shape_of(batch_shape)
        self.on_switch = None if on_switch is None else inputs.function(on_switch, "on_switch", "a Switch")
        self._lock = RLock()
        self._salts: dict[tuple[int, ...], str] = {}
        self._at = OutcomeStanding(blank(self.rule, shape), 0, (), None, None)

    @property
    def horizon(self) -> int | None:
        return self.rule.horizon

    def __repr__(self) -> str:
        at = self._at
        streams = f"{at.ledger.episode.size} streams" if self.batch_shape else "one stream"
        steps = int(at.ledger.rule.step.max(initial=0))
        switches = sum(isinstance(event, Switch) for event in at.events)
        return f"Guard({self.problem}, horizon {self.horizon}: {streams}, {steps} steps, {switches} switches)"

    # Each step

    def advise(self, forecast: Forecast) -> None:
        """Take in the forecast of the next outcome: ``Samples``, ``Quantiles`` or a ``Density``; then ``act()``."""
        with self._lock:
            at = self._at
            self.rule.fits(forecast, self.batch_shape)
            over = self.rule.horizon is not None and int(at.ledger.rule.step.max(initial=0)) >= self.rule.horizon
            if over:
                raise ValueError(
                    f"the horizon of {self.rule.horizon} steps is over: restart() opens a new episode, and "
                    "OutcomeTest(payoff, None, delta=...) needs no horizon"
                )
            seen = self.rule.look(at.ledger.rule, forecast, at.clock)
            self._at = at._replace(forecast=forecast, seen=seen)

    def policy(self) -> np.ndarray:
        """The mixed action ``[..., A]`` that the certificate speaks of."""
        return copied(np.moveaxis(self._seen(self._at).played_A, 0, -1))

    def act(self, seed: int | np.random.Generator) -> Any:
        """An action drawn from ``policy``, as its place in ``problem.actions``; an int gives a fresh draw each step."""
        at = self._at
        mixed = np.moveaxis(self._seen(at).played_A, 0, -1)
        shape = mixed.shape[:-1]
        if isinstance(seed, np.random.Generator):
            uniforms = seed.random(shape)
        else:
            if shape not in self._salts:
                self._salts = {shape: salt_of(repr(made_for(self.rule, shape)))}
            seed = inputs.whole(seed, "seed", least=0, most=None)
            uniforms = uniforms_of(self._salts[shape], seed, at.clock, shape)
        return drawn(mixed.tolist(), uniforms) if shape == () else draw(mixed, uniforms)

    def observe(self, outcome: Any, action: Any = None) -> None:
        """The outcome that came, and if you like the action that was taken; the step is taken whole or not at all."""
        with self._lock:
            at, shape = self._at, self.batch_shape
            with Naming(shape, at.numbers):
                outcome = self.problem.outcomes_of(outcome, "outcome", shape=shape)
                if action is not None:
                    action = inputs.tokens_of(action, self.problem.n_actions, "action", shape=shape)
            seen = self._seen(at)
            memory, utility_A = self.rule.advance(at.ledger.rule, at.forecast, seen, outcome, at.clock)  # type: ignore[arg-type]
            ledger = entered(at.ledger, memory, np.moveaxis(seen.played_A, 0, -1), utility_A, action)
            fresh = numbered(happened(self.rule, ledger), at.numbers)
            self._at = OutcomeStanding(ledger, at.clock + 1, at.events + fresh, None, None, at.numbers)
        if fresh:
            tell(fresh, self.on_switch)

    def skip(self, step: int | None = None) -> None:
        """Goes with a lag, which a guard of a ``Payoff`` never has: a step without an outcome is left out instead."""
        raise ValueError(
            "skip() goes with a lag, and a Guard of a Payoff has none: leave the step out, it then never was"
        )

    def restart(self, streams: Any = None) -> None:
        """Open a new episode, for all streams or for some (numbers or a mask along the first batch axis)."""
        with self._lock:
            at = self._at
            mask = streams_of(streams, self.batch_shape, at.numbers)
            self._at = self._regrouped(at, reopened(self.rule, at.ledger, mask), at.numbers)
        LOG.info("new episode for %d of %d streams", int(mask.sum()), mask.size)

    # Readings

    @property
    def regret(self) -> Any:
        """The average regret ``[...]`` of the mixed policy in this episode, in utility, to the best fixed action."""
        found = average(self._at.ledger.lead_A, self._at.ledger.rule.step)
        return float(found) if self.batch_shape == () else found

    @property
    def realised_regret(self) -> Any:
        """The average regret ``[...]`` of the actions reported to ``observe``; NaN where none was in this episode."""
        ledger = self._at.ledger
        found = np.where(ledger.reported > 0, average(ledger.realised_A, ledger.reported), np.nan)
        return float(found) if self.batch_shape == () else found

    @property
    def switched(self) -> Any:
        """Which streams ``[...]`` have switched to the fallback in this episode."""
        late = self._at.ledger.rule.tripped_at > 0
        return bool(late) if self.batch_shape == () else late

    @property
    def share(self) -> Any:
        """How much of what is played next is the model's, ``[...]``: all of it until a switch."""
        found = self.rule.share(self._at.ledger.rule)
        return float(found) if self.batch_shape == () else found

    @property
    def evidence(self) -> tuple[Any, Any]:
        """The test's statistic and the threshold it must reach, now or at the switch."""
        return self.rule.evidence(self._at.ledger.rule)

    @property
    def episodes(self) -> Any:
        """How many episodes each stream has opened, ``[...]``."""
        return copied(self._at.ledger.episode)

    @property
    def events(self) -> list[Event]:
        """Every switch so far, every return, and every time a model that had returned was left again."""
        return list(self._at.events)

    @property
    def certificate(self) -> RealisedCertificate:
        """What is guaranteed, by what was paid so far; for the stream of which least is."""
        return certificate_of(self.rule, self._at.ledger)

    # Inside

    def _written(self, at: OutcomeStanding, told: Callable[[Any], Any]) -> dict[str, Any]:
        state = written(self.rule, at.ledger.episode.shape, told(at.ledger), at.clock, at.events, at.forecast)
        return {**state, **numbers_told(at.numbers, told)}

    def _read(self, d: dict[str, Any], batch_shape: tuple[int, ...]) -> OutcomeStanding:
        ledger, clock, events, forecast = read(self.rule, batch_shape, d)
        seen = None if forecast is None else self.rule.look(ledger.rule, forecast, clock)
        return OutcomeStanding(ledger, clock, events, forecast, seen, numbers_from(d.get("streams"), batch_shape))

    def _blank(self, batch_shape: tuple[int, ...]) -> OutcomeLedger:
        return blank(self.rule, batch_shape)

    def _regrouped(self, at: OutcomeStanding, ledger: OutcomeLedger, numbers: Numbers | None) -> OutcomeStanding:
        return OutcomeStanding(ledger, at.clock, at.events, None, None, numbers)

    @staticmethod
    def _seen(at: OutcomeStanding) -> Seen:
        if at.seen is None:
            raise ValueError("advise(forecast) must come before this: there is no forecast for the step")
        return at.seen


_OF_STATES = {  # settings of a Guard of states, as they usually are
    "fallback": None,
    "episode": None,
    "references": (),
    "contexts": None,
    "payoffs": None,
    "lag": 1,
}


class AtOutcomes:
    """``Guard`` of a ``Payoff`` is an ``OutcomeGuard``."""

    def __new__(cls, problem: Any = None, *args: Any, **settings: Any) -> Any:
        if "delta" in settings:
            rule = "OutcomeTest" if isinstance(problem, Payoff) else "ExactTest"
            told = f"rule=lr.{rule}(problem, horizon, delta={inputs.shown(settings['delta'])})"
            raise TypeError(f"Guard takes no delta, its rule does: lr.Guard(problem, horizon, {told})")
        if not isinstance(problem, Payoff):
            return super().__new__(cls)
        unfit = [name for name, usual in _OF_STATES.items() if not _alike(settings.pop(name, usual), usual)]
        if unfit:
            raise ValueError(f"{unfit[0]} goes with a DecisionProblem: a Guard of a Payoff does not take it")
        return OutcomeGuard(problem, *args, **settings)


def _alike(value: Any, usual: Any) -> bool:
    return type(value) is type(usual) and bool(value == usual)


def _rule_for(problem: Any, horizon: Any, rule: Any, temperature: Any) -> OutcomeTest:
    if rule is None:
        return OutcomeTest(problem, horizon, temperature=temperature)
    if not isinstance(rule, OutcomeTest):
        raise ValueError(f"rule must be an OutcomeTest for a Payoff, got {type(rule).__name__}")
    if temperature is not None:
        raise ValueError("temperature only builds the default rule: give it to the rule itself")
    if rule.problem != problem or rule.horizon != inputs.horizon_or_none(horizon):
        raise ValueError(f"rule was made for another Payoff or horizon: {rule.problem}, {rule.horizon}")
    return rule
