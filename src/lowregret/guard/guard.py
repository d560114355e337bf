"""The same protection for probabilities that come from anywhere: advise, act, observe."""

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, astype, device, first, last, namespace, pick, to_numpy
from ..certificates import Certificate
from ..memory import moved
from ..policies import Policy
from ..predictors import Predictor, draw
from ..problems import DecisionProblem, action_utilities, with_first
from ..robust import rule_for
from ..rules import Moment, Rule
from .episodes import certificate_over, reopened, streams_of
from .ledger import Ledger, Switch, blank, kind_of, own_copy
from .resume import Standing, read, written

log = logging.getLogger("lowregret")


class Guard:
    """Bring your own probabilities: each step ``advise``, act, then ``observe`` the state.

    Parameters
    ----------
    problem
        What is at stake; None where others act on the advice, in two-state problems of their own. It then has no way
        to act itself, and ``regret`` is the largest V-regret of its advice.
    horizon
        For how many steps an episode is promised (None: unknown, with a rule that allows it).
    rule
        When to stop trusting; ``ExactTest(problem, horizon)`` by default, ``VRegret(horizon)`` without a problem, built
        with ``fallback`` and ``temperature``.
    batch_shape
        Streams guarded side by side; everything then has these leading axes.
    on_switch
        Called with each ``Switch`` as it happens.

    >>> from lowregret import matching
    >>> guard = Guard(matching(), horizon=100)
    >>> for state in [1] * 20:
    ...     advice = guard.advise([0.9, 0.1])  # a model that is sure of the wrong state
    ...     guard.observe(state, action=guard.act(seed=0))
    >>> guard.events[0].step, advice.round(2).tolist()
    (3, [0.05, 0.95])
    """

    _ledger: Ledger
    _longest: int  # the most steps any stream has seen in its episode
    _any_tripped: bool
    _probs: Array | None  # what advise was given for this step
    _moment: Moment | None  # both responses, once someone asked

    def __init__(
        self,
        problem: DecisionProblem | None,
        horizon: int | None,
        *,
        rule: Rule | None = None,
        fallback: Predictor | Policy | None = None,
        temperature: float | None = None,
        batch_shape: tuple[int, ...] = (),
        on_switch: Callable[[Switch], Any] | None = None,
    ) -> None:
        self.rule = rule_for(problem, horizon, rule, fallback, temperature)
        self.problem = self.rule.problem
        self.batch_shape = inputs.batch_shape_of(batch_shape)
        if on_switch is not None and not callable(on_switch):
            raise ValueError(f"on_switch must be a function of a Switch, got {on_switch!r}")
        self.on_switch = on_switch
        self._events: list[Switch] = []
        self._clock = 0  # observations so far, over all episodes
        self._ledger = blank(self.rule, self.batch_shape)
        self._settle()

    @property
    def horizon(self) -> int | None:
        return self.rule.horizon

    def __repr__(self) -> str:
        episodes = to_numpy(self._ledger.episode)
        streams = f"{episodes.size} streams" if self.batch_shape else "one stream"
        return (
            f"Guard({self.problem or 'any problem'}, {type(self.rule).__name__}, horizon {self.horizon}: {streams}, "
            f"{self._longest} steps, {len(self._events)} switches)"
        )

    # Each step

    def advise(self, probs: Array) -> Array | None:
        """The probabilities to act on: yours until the stream has switched, the fallback's from then on.

        With a policy for a fallback there are none to act on after a switch, so none are given at all: None, always.
        Act through ``policy()`` or ``act()``.
        """
        probs = inputs.probs_of(probs, self.rule.n_states, shape=self.batch_shape)
        if self._longest == self.horizon:
            self.rule.refuse_past_horizon(self._ledger.rule)
        ledger = self._ledger
        if type(probs) is not type(ledger.lead_A) or device(probs) != device(ledger.lead_A):
            if self._clock:
                was, now = (" on ".join(kind_of(array)) for array in (ledger.lead_A, probs))
                raise ValueError(f"probs must stay the kind of array they were, {was}, got {now}")
            self._ledger = moved(blank(self.rule, self.batch_shape, like=probs), ledger)
        self._probs, self._moment = own_copy(probs), None
        if self.rule.fallback_acts:
            return None
        if not self._any_tripped:
            return probs
        return self.rule.law(self._ledger.rule, probs)

    def policy(self) -> Array:
        """The mixed action ``[..., A]`` that the certificate speaks of: the quantal response to the advice.

        After a switch to a policy, what that policy plays.
        """
        self._known("policy()")
        mixed = last(with_first(self._chances()))
        assert self._probs is not None
        return astype(mixed, self._probs.dtype)

    def act(self, seed: int | np.random.Generator) -> Array:
        """An action drawn from ``policy``. The same int gives a fresh draw each step, and the same run each time."""
        self._known("act()")
        if not isinstance(seed, np.random.Generator):
            seed = np.random.default_rng((inputs.whole(seed, "seed", least=0), self._clock))
        mixed = last(with_first(self._chances()))
        uniforms = namespace(mixed).asarray(seed.random(self.batch_shape), dtype=mixed.dtype, device=device(mixed))
        action = draw(mixed, uniforms)
        return int(action) if self.batch_shape == () else action

    def observe(self, state: Array, action: Array | None = None) -> None:
        """The state that came, and if you like the action that was taken."""
        moment = self._seen()
        state = inputs.tokens_of(state, self.rule.n_states, "state", shape=self.batch_shape, like=self._ledger.lead_A)
        old, problem = self._ledger, self.problem
        if action is not None:
            problem = self._known("observe(state, action)")
            action = inputs.tokens_of(action, problem.n_actions, "action", shape=self.batch_shape, like=old.lead_A)
        lead_A = last(first(old.lead_A) + self.rule.leads(self._chances(), state))
        realised_A, reported = old.realised_A, old.reported
        if action is not None:
            assert problem is not None
            earned_A = action_utilities(problem, state, old.lead_A)
            realised_A = last(first(realised_A) + (earned_A - pick(earned_A, action)))
            reported = reported + 1
        rule = self.rule.advance(old.rule, moment, state)
        self._ledger = old._replace(rule=rule, lead_A=lead_A, realised_A=realised_A, reported=reported)
        self._probs = self._moment = None
        self._longest += 1
        self._clock += 1
        newly = rule.tripped_at == rule.step
        if bool(newly if newly.ndim == 0 else newly.any()):
            self._any_tripped = True
            self._report(to_numpy(newly))

    # Episodes

    def restart(self, streams: Any = None) -> None:
        """Open a new episode, for all streams or for some (indices or a mask along the first batch axis)."""
        mask = streams_of(streams, self.batch_shape)
        self._ledger = reopened(self.rule, self._ledger, mask)
        self._settle()
        log.info("new episode for %d of %d streams", int(mask.sum()), mask.size)

    @property
    def episodes(self) -> Array:
        """How many episodes each stream has opened, ``[...]``."""
        return self._ledger.episode

    # How it went

    @property
    def regret(self) -> Array:
        """The average regret ``[...]`` of the mixed policy in this episode, against the best fixed action.

        Without a problem: the largest V-regret of the advice, over the rule's tips.
        """
        return self._average(self._ledger.lead_A, self._ledger.rule.step)

    @property
    def realised_regret(self) -> Array:
        """The average regret ``[...]`` of the actions reported to ``observe``, over the steps that came with one.

        NaN where none was reported in this episode.
        """
        self._known("realised_regret")
        steps = self._ledger.reported
        average = self._average(self._ledger.realised_A, steps)
        if self.batch_shape == ():
            return average if int(steps) else math.nan
        return namespace(steps).where(steps > 0, average, math.nan)

    @property
    def switched(self) -> Array:
        """Which streams ``[...]`` have switched to the fallback in this episode."""
        late = self.rule.tripped(self._ledger.rule)
        return bool(late) if self.batch_shape == () else late

    @property
    def evidence(self) -> tuple[Array, Array]:
        """The rule's statistic and the threshold it must reach, now: how close each stream is to a switch."""
        return self.rule.evidence(self._ledger.rule)

    @property
    def events(self) -> list[Switch]:
        """Every switch so far."""
        return list(self._events)

    @property
    def certificate(self) -> Certificate:
        """What is guaranteed over the episodes opened so far, for the stream of which least is."""
        return certificate_over(self.rule, self._ledger)

    # Resuming

    def state_dict(self) -> dict[str, Any]:
        """Everything it remembers, as finite JSON numbers: ``load_state_dict`` resumes bit for bit."""
        return written(self.rule, Standing(self._ledger, self._clock, self._events, self._probs))

    def load_state_dict(self, d: dict[str, Any]) -> None:
        """Take up where ``state_dict`` left off; refused, and nothing changed, if it was made by another guard."""
        self._ledger, self._clock, self._events, probs = read(self.rule, self.batch_shape, d)
        self._settle()
        self._probs = probs

    # Inside

    def _settle(self) -> None:
        """What is derived from the ledger, so that a step need not ask the arrays; advice given before is void."""
        rule = self._ledger.rule
        self._longest = int(rule.step.max()) if 0 not in self.batch_shape else 0
        self._any_tripped = bool((rule.tripped_at > 0).any())
        self._probs = self._moment = None

    def _seen(self) -> Moment:
        if self._probs is None:
            raise ValueError("advise(probs) must come before this: there is no advice for the step")
        if self._moment is None:
            self._moment = self.rule.look(self._ledger.rule, self._probs)
        return self._moment

    def _known(self, what: str) -> DecisionProblem:
        """The problem, for what cannot be done without one."""
        if self.problem is None:
            raise ValueError(
                f"{what} needs a decision problem, and this guard was made for none in particular: whoever acts does "
                "so on what advise(probs) returns; Guard(problem, horizon) acts itself"
            )
        return self.problem

    def _chances(self) -> Array:
        """The answer in force: the mixed action's chances of every action but the first (or the forecast itself)."""
        moment = self._seen()
        return self.rule.answer(self._ledger.rule, moment) if self._any_tripped else moment.base_A1

    def _report(self, newly: np.ndarray) -> None:
        statistic, threshold = map(to_numpy, self.rule.evidence(self._ledger.rule))
        step, episode = to_numpy(self._ledger.rule.step), to_numpy(self._ledger.episode)
        fresh = []
        for at in map(tuple, np.argwhere(newly).tolist()):
            stream = at[0] if len(at) == 1 else at
            margin = float(statistic[at]), float(threshold[at])
            fresh.append(Switch(stream, int(step[at]), type(self.rule).__name__, *margin, int(episode[at])))
        self._events.extend(fresh)
        for event in fresh:
            log.info("%s", event)
            if self.on_switch is not None:
                self.on_switch(event)

    def _average(self, lead_A: Array, steps: Array) -> Array:
        xp = namespace(lead_A)
        value = xp.max(lead_A, axis=-1) / astype(xp.clip(steps, 1, None), lead_A.dtype)
        return float(value) if self.batch_shape == () else value
