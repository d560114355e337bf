"""The same protection for probabilities that come from anywhere: advise, act, observe."""

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

import numpy as np

from .. import inputs
from ..arrays import Array, astype, device, last, namespace, to_numpy
from ..memory import moved
from ..policies import Policy
from ..predictors import Predictor, draw
from ..problems import DecisionProblem, with_first
from ..robust import rule_for
from ..rules import Moment, Rule, RuleMemory
from .before import known_of, knows_of
from .draws import Draws
from .episodes import reopened, rule_of_episodes, streams_of
from .ledger import LOG, blank, entered, happened, kind_of, own_copy, tell
from .likeness import Behaviour
from .outcomes import AtOutcomes
from .readings import Readings
from .resume import read, written
from .standing import Standing, standing


class Guard(AtOutcomes, Readings):
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
        Called with each ``Switch``, and each ``Return`` after one, as it happens, once the step has been taken.
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
        what is, within the range that the problem declares.

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
        if inputs.whole(lag, "lag") != 1:
            raise ValueError(f"lag must be 1: outcomes that come later are not yet judged, got {lag}")
        knows = knows_of(problem, references, contexts, payoffs)
        self.episode = None if episode is None else inputs.whole(episode, "episode")
        self._whole = inputs.horizon_or_none(horizon) if self.episode is not None else None  # of all episodes together
        if self.episode is None:
            self.rule = rule_for(problem, horizon, rule, fallback, temperature, knows)
        else:
            self.rule = rule_of_episodes(problem, self._whole, self.episode, rule, fallback, temperature, knows)
        self.problem = self.rule.problem
        self.batch_shape = inputs.batch_shape_of(batch_shape)
        self.on_switch = None if on_switch is None else inputs.function(on_switch, "on_switch", "a Switch")
        self._lock = RLock()
        self._draws, self._says = Draws(self.rule, self.batch_shape), Behaviour(self.rule)
        self._at = standing(blank(self.rule, self.batch_shape))

    @property
    def horizon(self) -> int | None:
        return self.rule.horizon

    def __repr__(self) -> str:
        at = self._at
        streams = f"{to_numpy(at.ledger.episode).size} streams" if self.batch_shape else "one stream"
        return (
            f"Guard({self.problem or 'any problem'}, {type(self.rule).__name__}, horizon {self.horizon}: {streams}, "
            f"{at.longest} steps, {len(at.events)} switches)"
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
            What the references say of this step, in the order of their names: laws ``[..., N, S]``, or mixed actions
            ``[..., N, A]``.
        context
            In which context the step is, from 0.
        payoffs
            What is at stake in this step, ``[..., A, S]``, in the problem's own units and within its declared range.
        scale
            How much of what the problem says is at stake, above 0 and at most 1.
        """
        if step is not None:
            raise ValueError(
                f"step goes with a lag, and this guard has none: it must be None, got {inputs.shown(step)}"
            )
        probs = inputs.probs_of(probs, self.rule.n_states, shape=self.batch_shape)
        known = None
        told = references is not None or context is not None or payoffs is not None or scale is not None
        if told or self.rule.knows is not None:
            known = known_of(self.rule, self.batch_shape, probs, references, context, payoffs, scale)
        with self._lock:
            at = self._at
            if at.longest == self.rule.horizon:
                at = self._next_episode(at)
            ledger = at.ledger
            alike = type(probs) is type(ledger.lead_A)
            if not alike or (type(probs) is not np.ndarray and device(probs) != device(ledger.lead_A)):
                if at.clock:
                    was, now = (" on ".join(kind_of(array)) for array in (ledger.lead_A, probs))
                    raise ValueError(f"probs must stay the kind of array they were, {was}, got {now}")
                ledger = moved(blank(self.rule, self.batch_shape, like=probs), ledger)
            advice = None
            if not self.rule.fallback_acts:
                advice = self.rule.law(ledger.rule, probs, known) if at.any_tripped else probs
            self._at = Standing(ledger, at.clock, at.events, own_copy(probs), at.longest, at.any_tripped, None, known)
        return advice

    def policy(self) -> Array:
        """The mixed action ``[..., A]`` that the certificate speaks of: the quantal response to the advice.

        After a switch to a policy, what that policy plays.
        """
        self._known("policy()")
        mixed, at = self._mixed()
        assert at.probs is not None
        return astype(mixed, at.probs.dtype)

    def act(self, seed: int | np.random.Generator) -> Array:
        """An action drawn from ``policy``.

        An int gives a fresh draw each step and the same run each time, independent of whatever else is drawn with it
        (``default_rng(seed)``, a guard made otherwise). What repeats: at the same step, guards made alike draw the same
        with the same int, as does one that was copied or resumed. Several alike need a seed each, or one Generator.
        """
        self._known("act()")
        mixed, at = self._mixed()
        if not isinstance(seed, np.random.Generator):
            seed = self._draws.generator(inputs.whole(seed, "seed", least=0, most=None), at.clock)
        uniforms = namespace(mixed).asarray(seed.random(self.batch_shape), dtype=mixed.dtype, device=device(mixed))
        action = draw(mixed, uniforms)
        return int(action) if self.batch_shape == () else action

    def observe(self, state: Array, action: Array | None = None, *, step: int | None = None) -> None:
        """The state that came, and if you like the action that was taken.

        The step counts as a whole or not at all: if this is interrupted, or refuses what it is given, either nothing
        has changed or everything has, ``events`` among it. ``on_switch`` is called after that, once for every switch
        even if it raises for one of them: the first error then comes out of here, the others as its cause. After an
        interrupt in between, ``events`` has the switches that it was not called with.
        """
        if step is not None:
            raise ValueError(
                f"step goes with a lag, and this guard has none: it must be None, got {inputs.shown(step)}"
            )
        with self._lock:
            at = self._at
            old = at.ledger
            if at.probs is None:
                self._seen(at)  # says so
            state = inputs.tokens_of(state, self.rule.n_states, "state", shape=self.batch_shape, like=old.lead_A)
            if action is not None:
                problem = self._known("observe(state, action)")
                action = inputs.tokens_of(action, problem.n_actions, "action", shape=self.batch_shape, like=old.lead_A)
            rule, earned_A = self._judged(at, state)
            scene = None if action is None or self.rule.knows is None else self._seen(at).known
            ledger = entered(old, self.rule, rule, earned_A, state, action, scene)
            fresh = happened(self.rule, ledger)
            any_tripped = at.any_tripped or bool(fresh)
            self._at = Standing(ledger, at.clock + 1, at.events + fresh, None, at.longest + 1, any_tripped, None)
        if fresh:
            tell(fresh, self.on_switch)

    # Episodes

    def restart(self, streams: Any = None) -> None:
        """Open a new episode, for all streams or for some (indices or a mask along the first batch axis)."""
        mask = streams_of(streams, self.batch_shape)
        with self._lock:
            at = self._at
            self._at = standing(reopened(self.rule, at.ledger, mask), at.clock, at.events)
        LOG.info("new episode for %d of %d streams", int(mask.sum()), mask.size)

    def _next_episode(self, at: Standing) -> Standing:
        """Where the guard stands once the streams whose episode is over have a new one, if it may open one."""
        over = at.ledger.rule.step == self.rule.horizon
        if self.episode is None or (self._whole is not None and at.clock >= self._whole):
            self.rule.refuse_past_horizon(at.ledger.rule)
        LOG.info("new episode for %d streams, by itself", int(over.sum()))
        return standing(reopened(self.rule, at.ledger, to_numpy(over)), at.clock, at.events)

    # Resuming

    def state_dict(self) -> dict[str, Any]:
        """Everything it remembers, as finite JSON numbers: ``load_state_dict`` resumes bit for bit."""
        at = self._at
        return written(self.rule, at, self._says(at.ledger.lead_A))

    def load_state_dict(self, d: dict[str, Any]) -> None:
        """Take up where ``state_dict`` left off; refused, and nothing changed, if it was made by another guard."""
        at = read(self.rule, self.batch_shape, d, self._says)
        with self._lock:
            self._at = at

    # Inside

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}  # a lock stays where it is

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()

    def _seen(self, at: Standing) -> Moment:
        if at.probs is None:
            raise ValueError("advise(probs) must come before this: there is no advice for the step")
        return self.rule.look(at.ledger.rule, at.probs, at.known) if at.moment is None else at.moment

    def _judged(self, at: Standing, state: Array) -> tuple[RuleMemory, Array]:
        """What the rule remembers after the state, and what each fixed action earned more than what was played."""
        memory = at.ledger.rule
        if self.batch_shape == () and not at.any_tripped and type(at.probs) is np.ndarray:
            quick = self.rule._alone(memory, at.probs, int(state), at.known)
            if quick is not None:
                return quick
        moment = self._seen(at)
        earned_A = self.rule.leads(self._answer(at, moment), state, moment.known)
        return self.rule.advance(memory, moment, state), last(earned_A)

    def _answer(self, at: Standing, moment: Moment) -> Array:
        """The answer in force: the mixed action's chances of every action but the first (or the forecast itself)."""
        return self.rule.answer(at.ledger.rule, moment) if at.any_tripped else moment.base_A1

    def _mixed(self) -> tuple[Array, Standing]:
        """The mixed action ``[..., A]``, and the standing it was made for; what was seen is kept for those to come."""
        with self._lock:
            at = self._at
            moment = self._seen(at)
            if at.moment is None:
                self._at = at._replace(moment=moment)
        return last(with_first(self._answer(at, moment))), at


def _no_step(step: Any) -> None:
    if step is not None:
        raise ValueError(f"step goes with a lag, and this guard has none: it must be None, got {inputs.shown(step)}")
