"""The same protection for probabilities that come from anywhere: advise, act, observe."""

import math
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, astype, device, namespace, to_numpy
from ..policies import Policy
from ..predictors import Predictor, draw, drawn
from ..problems import DecisionProblem, by_name
from ..robust import rule_for
from ..rules import Late, Rule, warm_up
from . import late, on_time
from .before import declared_now, known_of, knows_of
from .draws import Draws
from .episodes import reopened, rule_of_episodes, streams_of
from .fleet import Fleet
from .ledger import LOG, Ledger, Switch, blank, moved_to, own_copy
from .likeness import Behaviour
from .numbers import Naming, Numbers
from .outcomes import AtOutcomes
from .readings import Readings
from .resume import read, written
from .standing import Standing, standing
from .telling import tell

_FLEET = 1 << 11  # streams: so many are worth compiling for, before the first step


class Guard(AtOutcomes, Fleet, Readings):
    """Bring your own probabilities: each step ``advise``, act, then ``observe`` the state.

    Parameters
    ----------
    problem
        What is at stake: a ``DecisionProblem``, or a ``Payoff`` (see ``OutcomeGuard``). None where others act on the
        advice, in two-state problems of their own; ``regret`` is then the largest V-regret of its advice.
    horizon
        For how many steps an episode is promised (None: unknown, with a rule that allows it).
    rule
        When to stop trusting; ``ExactTest(problem, horizon)`` by default, ``VRegret(horizon)`` without a problem, built
        with ``fallback`` and ``temperature``.
    batch_shape
        Streams guarded side by side; everything then has these leading axes.
    on_switch
        Called with each ``Switch``, and each ``Return`` and ``Left`` after one, as it happens, once the step was taken.
    episode
        Open a new episode by itself after so many steps. The horizon is then for all of them together, and the chance
        of a false switch is shared evenly among them; a rule of your own must have ``episode`` as its horizon, and its
        delta counts once an episode.
    references
        Names of incumbents, whose laws (or mixed actions) ``advise`` is given beside the model's. Regret is then
        against the best of the fixed actions and them.
    contexts
        How many contexts there are, where ``advise`` is told in which a step is: a fixed action for each then counts.
    payoffs
        "scaled": ``advise`` may say how much of what the problem says is at stake in a step. "change": it may say
        what is, within the range that the problem declares. The first ``advise`` may declare it as well.
    lag
        How late outcomes may come: the law of step t is stated before the outcomes of the last ``lag`` - 1 steps are
        known. Then ``advise``, ``act`` and ``observe`` take a ``step``, and outcomes may come in any order. 1 is the
        ordinary guard, which sees each state before the next law.

    Threads may share a guard: no call of one is lost to another's. But a step is two calls, and another thread's
    ``advise`` in between replaces yours, so share streams (``batch_shape``), or hold a lock of your own around the two.

    >>> from lowregret import matching
    >>> guard = Guard(matching(), horizon=100)
    >>> for state in [1] * 20:
    ...     advice = guard.advise([0.9, 0.1])  # a model that is sure of the wrong state
    ...     guard.observe(state, action=guard.act(seed=0))
    >>> guard.events[0].step, advice.round(2).tolist()
    (5, [0.06, 0.94])
    """

    _at: Standing  # all that it remembers: a step is done once this has been replaced, by one assignment

    def __init__(
        self,
        problem: DecisionProblem | None,
        horizon: int | None,
        *,
        rule: Rule | None = None,
        fallback: Predictor | Policy | None = None,
        temperature: float | None = None,
        batch_shape: tuple[int, ...] = (),
        on_switch: Callable[[Any], Any] | None = None,
        episode: int | None = None,
        references: Sequence[str] = (),
        contexts: int | None = None,
        payoffs: str | None = None,
        lag: int = 1,
    ) -> None:
        self.lag = inputs.whole(lag, "lag")
        self._usual = None if rule is not None else (problem, horizon, fallback, temperature, episode, lag)
        knows = knows_of(problem, references, contexts, payoffs)
        self.episode = None if episode is None else inputs.whole(episode, "episode")
        self._whole = inputs.horizon_or_none(horizon) if self.episode is not None else None  # of all episodes together
        if self.episode is None:
            self.rule = rule_for(problem, horizon, rule, fallback, temperature, knows)
        else:
            self.rule = rule_of_episodes(problem, self._whole, self.episode, rule, fallback, temperature, knows)
        self.rule = late.rule_of(self.rule, self.lag, self.episode)
        self._late = self.rule if isinstance(self.rule, Late) else None
        self.problem = self.rule.problem
        shape = inputs.batch_shape_of(batch_shape)
        self.on_switch = None if on_switch is None else inputs.function(on_switch, "on_switch", "a Switch")
        self._lock = RLock()
        self._drawing, self._says = Draws(self.rule, shape), Behaviour(self.rule)
        self._at = standing(blank(self.rule, shape))
        if math.prod(shape) >= _FLEET:
            warm_up()

    @property
    def horizon(self) -> int | None:
        return self.rule.horizon

    def __repr__(self) -> str:
        at = self._at
        rule = type(self.rule).__name__ if self._late is None else f"{type(self._late.each).__name__}, lag {self.lag}"
        streams = f"{to_numpy(at.ledger.episode).size} streams" if self.batch_shape else "one stream"
        return (
            f"Guard({self.problem or 'any problem'}, {rule}, horizon {self.horizon}: {streams}, "
            f"{at.longest} steps, {sum(isinstance(event, Switch) for event in at.events)} switches)"
        )

    # Each step

    def advise(
        self,
        probs: Array,
        *,
        references: Array | None = None,
        context: Array | None = None,
        payoffs: Array | None = None,
        scale: Array | None = None,
        step: int | None = None,
    ) -> Array | None:
        """The probabilities to act on: yours until the stream has switched, the fallback's from then on.

        With a policy for a fallback there are none to act on after a switch, so none are given at all: None, always.
        Act through ``policy()`` or ``act()``.

        Parameters
        ----------
        references
            What the references say of this step, in the order of their names (or a dict by name): laws
            ``[..., N, S]``, or mixed actions ``[..., N, A]``.
        context
            In which context the step is, from 0.
        payoffs
            What is at stake in this step, ``[..., A, S]``, in the problem's own units and within its declared range.
        scale
            How much of what the problem says is at stake, above 0 and at most 1.
        step
            Which step this is for, counted from 1 (with a ``lag``): by default the next; one that waits for its
            outcome is advised anew.
        """
        if self._late is None:
            late.no_step(step)
        told = references is not None or context is not None or payoffs is not None or scale is not None
        with self._lock:
            at, known, shape, rule, more = self._at, None, self.batch_shape, self.rule, None
            with Naming(shape, at.numbers):
                if type(probs) is not np.ndarray and rule.problem is not None:
                    probs = by_name(rule.problem.state_names, probs)
                probs = inputs.probs_of(probs, rule.n_states, shape=shape)
                if told and rule.knows is None and (more := declared_now(self, payoffs, scale)) is not None:
                    rule, at = more["rule"], more["_at"]
                if told or rule.knows is not None:
                    known = known_of(rule, shape, probs, references, context, payoffs, scale)
            if more is not None:
                self.__dict__.update(more)
            if self._late is not None:
                advice, self._at = late.with_advice(self._late, shape, at, probs, known, step)
                return advice
            if at.longest == self.rule.horizon:
                at = self._next_episode(at)
            ledger = at.ledger
            if type(probs) is not np.ndarray or type(ledger.lead_A) is not np.ndarray:
                ledger = moved_to(self.rule, shape, ledger, probs, begun=at.clock > 0)
            advice = None
            if not self.rule.fallback_acts:
                advice = self.rule.law(ledger.rule, probs, known) if at.any_tripped else probs
            self._at = Standing(
                *(ledger, at.clock, at.events, own_copy(probs), at.longest, at.any_tripped, None, known),
                numbers=at.numbers,
            )
        return advice

    def policy(self, *, step: int | None = None) -> Array:
        """The mixed action ``[..., A]`` that the certificate speaks of: the quantal response to the advice.

        After a switch to a policy, what that policy plays. ``step``: which of those that wait for their outcomes, by
        default the last that was advised.
        """
        self._known("policy()")
        mixed, probs, _ = self._mixed(step)
        return astype(mixed, probs.dtype)

    def act(self, seed: int | np.random.Generator, *, step: int | None = None) -> Array:
        """An action drawn from ``policy``.

        An int gives a fresh draw each step and the same run each time, independent of whatever else is drawn with it
        (``default_rng(seed)``, a guard made otherwise). What repeats: at the same step, guards made alike draw the same
        with the same int, as does one that was copied or resumed. Several alike need a seed each, or one Generator.
        """
        self._known("act()")
        mixed, _, clock = self._mixed(step)
        shape = tuple(mixed.shape[:-1])
        if isinstance(seed, np.random.Generator):
            uniforms = seed.random(shape)
        else:
            uniforms = self._draws.uniforms(inputs.whole(seed, "seed", least=0, most=None), clock)
        if shape == ():
            return drawn(to_numpy(mixed).tolist(), uniforms)
        return draw(mixed, namespace(mixed).asarray(uniforms, dtype=mixed.dtype, device=device(mixed)))

    def observe(self, state: Array, action: Array | None = None, *, step: int | None = None) -> None:
        """The state that came, and if you like the action that was taken; ``step``: of which, by default the oldest.

        States are given by their names (``problems.Names`` has the rule): numbers, where they have no others, or as
        ``problems.Positions``. An action is what ``act`` gave, its position, or its name as text.

        The step counts as a whole or not at all: if this is interrupted, or refuses what it is given, either nothing
        has changed or everything has, ``events`` among it. ``on_switch`` is called after that, once for every switch
        even if it raises for one of them: the first error then comes out of here, the others as its cause. After an
        interrupt in between, ``events`` has the switches that it was not called with.
        """
        with self._lock:
            at, shape = self._at, self.batch_shape
            with Naming(shape, at.numbers):
                if self._late is not None:
                    self._at, fresh = late.with_outcome(self._late, shape, at, state, action, step)
                else:
                    late.no_step(step)
                    self._at, fresh = on_time.with_outcome(self.rule, shape, at, state, action)
        if fresh:
            tell(fresh, self.on_switch)

    def skip(self, step: int | None = None) -> None:
        """Give up the outcome of a step that waits for it (by default the oldest); for guards with a lag.

        The certificate adds the span for it. The chance of a false switch stays what it is only if this is decided
        before anyone could know the state: an outcome that is dropped for what it was is not missing but chosen.
        """
        if self._late is None:
            raise ValueError("skip() goes with a lag, and this guard has none: leave the step out, it then never was")
        with self._lock:
            self._at = late.without_outcome(self._late, self._at, step)

    # Episodes

    def restart(self, streams: Any = None) -> None:
        """Open a new episode, for all streams or for some (numbers or a mask along the first batch axis)."""
        with self._lock:
            at = self._at
            mask = streams_of(streams, self.batch_shape, at.numbers)
            if self._late is not None:
                self._at = late.restarted(self._late, at, mask)
            else:
                self._at = standing(reopened(self.rule, at.ledger, mask), at.clock, at.events, numbers=at.numbers)
        LOG.info("new episode for %d of %d streams", int(mask.sum()), mask.size)

    def _next_episode(self, at: Standing) -> Standing:
        """Where the guard stands once the streams whose episode is over have a new one, if it may open one."""
        ledger = at.ledger
        over = ledger.rule.step == self.rule.horizon
        seen = ledger.past_steps + ledger.rule.step  # of its own, since the stream was added
        if self.episode is None or (self._whole is not None and bool((over & (seen >= self._whole)).any())):
            self.rule.refuse_past_horizon(ledger.rule)
        LOG.info("new episode for %d streams, by itself", int(over.sum()))
        return standing(reopened(self.rule, ledger, to_numpy(over)), at.clock, at.events, numbers=at.numbers)

    # Inside

    def _written(self, at: Standing, told: Callable[[Any], Any]) -> dict[str, Any]:
        return written(self.rule, at, self._says(at.ledger.lead_A), told)

    def _read(self, d: dict[str, Any], batch_shape: tuple[int, ...]) -> Standing:
        return read(self.rule, batch_shape, d, self._says)

    def _blank(self, batch_shape: tuple[int, ...]) -> Ledger:
        return blank(self.rule, batch_shape, like=self._at.ledger.lead_A)

    def _regrouped(self, at: Standing, ledger: Ledger, numbers: Numbers) -> Standing:
        late.refuse_while_waiting(at, "add() and retire()")
        return standing(ledger, at.clock, at.events, numbers=numbers)._replace(advised=at.advised)

    def _over(self, at: Standing) -> Array:
        seen = at.ledger.rule
        return seen.step if self._late is None else seen.step + self._late.missed(seen)

    @property
    def _draws(self) -> Draws:
        if self._drawing.batch_shape != self.batch_shape:
            self._drawing = Draws(self.rule, self.batch_shape)
        return self._drawing

    def _mixed(self, step: int | None) -> tuple[Array, Array, int]:
        """The mixed action ``[..., A]``, the law it is for, and the steps before; what was seen is kept."""
        with self._lock:
            if self._late is not None:
                mixed, self._at, due = late.mixed_at(self._late, self._at, step)
                return mixed, due.probs, due.step - 1
            late.no_step(step)
            mixed, self._at = on_time.mixed_at(self.rule, self._at)
            return mixed, self._at.probs, self._at.clock
