"""When to stop trusting (Algorithm 1): each rule watches a predictor, knows what replaces it, and trips at most once.

A rule compares two quantal responses: pi_s to the base model and h_s to the fallback. Everything it needs are sums of
quantities known from (probabilities, tokens), so a recorded sequence takes one pass of cumulative sums. After token s
is seen the rule tests; the first prediction that a trip changes is the one for step s + 1.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from .. import inputs
from ..abilities import ability
from ..arrays import (
    Array,
    astype,
    copied,
    count_up,
    device,
    first_true,
    float_type,
    in_float64,
    namespace,
    row_blocks,
    to_numpy,
)
from ..certificates import Certificate
from ..policies import Policy, Recovering, Recovery
from ..predictors import Predictor, asked_sequence, said_by, vouched
from ..problems import DecisionProblem, each_step

# What a rule sees of a step and what it remembers (Algorithm 1), and what follows a trip.


class RuleMemory(NamedTuple):
    fallback: Any  # the fallback's memory: it runs from the first step
    step: Array  # [...], tokens seen
    tripped_at: Array  # [...], tokens seen when it tripped, 0 for not yet
    statistics: Any


class Moment(NamedTuple):
    """What a rule sees of one step, or of every step of a block of sequences; the short axis first."""

    base_A1: Array  # the answer to the base model: the chances of every action but the first (or state: VRegret)
    fallback_A1: Array  # the answer to the fallback, likewise (None: not asked)
    probs_S: Array  # the base model's law
    token: Array  # what came
    known: Any = None  # all that was known before it, a Scene: the exact test's


def spliced(late: Array, fallback: Array, base: Array) -> Array:
    """The fallback's law where ``late``, else the base's own, in the base's precision."""
    return namespace(base).where(late[..., None], astype(fallback, base.dtype), base)


def zeros(shape: tuple[int, ...], xp: Any, where: Any) -> Array:
    return xp.zeros(shape, dtype=float_type(xp, where), device=where)


def steps_so_far(memory: RuleMemory) -> Array:
    """Steps so far as floating-point numbers, at least 1: evidence can be asked for before the first token."""
    xp = namespace(memory.step)
    return in_float64(xp.clip(memory.step, 1, None))


# What a rule falls back on, in play (Algorithm 1): predictors, policies, and those that are told of the base.


class InPlay(NamedTuple):
    """A fallback made for the rule's problem and horizon, and how it is asked; someone else's answers are checked."""

    fallback: Any
    follows: bool  # it must be told what the base model says, and enters no evidence
    acts: bool  # it gives mixed actions [..., A], and no laws [..., S]
    width: int  # how many numbers it gives: states, or actions
    own: bool  # it is one of this package's, which need no check

    def answer(self, memory: Any, shape: tuple[int, ...]) -> Array:
        """What it says now to streams of this shape, where it goes by the states alone."""
        said = (self.fallback.policy if self.acts else self.fallback.predict)(memory)
        return said if self.own else said_by(self.fallback, said, self.width, shape)

    def answers(self, tokens: Array) -> Array:
        """What it says at every step of recorded sequences, where it goes by the tokens alone."""
        if not self.acts:
            return asked_sequence(self.fallback, tokens)
        said = self.fallback.policy_sequence(tokens)
        return said if self.own else said_by(self.fallback, said, self.width, tuple(tokens.shape))


def in_play(
    fallback: Any, problem: DecisionProblem | None, n_states: int, horizon: int | None, temperature: float | None
) -> InPlay:
    """The fallback itself, or what that recipe makes for this problem and horizon."""
    made_for = ability(fallback, "made_for")
    made = fallback if made_for is None else made_for(problem, horizon, temperature)
    follows = isinstance(made, Recovering)
    acts = made.acts if follows else not hasattr(made, "predict") and isinstance(made, Policy)
    width = problem.n_actions if acts and problem is not None else n_states
    return InPlay(made, follows, acts, width, vouched(made))


class _JudgedRows(NamedTuple):
    """Rows of recorded sequences that were judged together."""

    tokens_NxT: Array
    probs_NxTxS: Array
    answers: Array | None  # what the fallback said, if it was asked
    times_N: Array


class Rule(ABC):
    """What all rules share: a fallback that runs from the first step on, and a trip that is one-way.

    Those that know the decision problem are ``ResponseRule``. ``VRegret`` does not, so that its ``problem`` is None.
    """

    problem: DecisionProblem | None
    horizon: int | None
    temperature: float | None
    fallback: Predictor | Policy | Recovery

    # What a rule must say of itself.

    @property
    @abstractmethod
    def n_states(self) -> int:
        """How many states it watches."""

    @property
    def cells(self) -> int:
        """How many numbers it keeps of a stream, where they may be more than the steps."""
        return 1

    @property
    def compares(self) -> bool:
        """Whether its alarm depends on what the fallback says; else recorded sequences are judged without asking it."""
        return True

    @property
    def tells_fallback(self) -> bool:
        """Whether the fallback is told what the base model says, as ``Recovery`` must be."""
        return False

    @property
    @abstractmethod
    def pointless(self) -> bool:
        """Whether nothing is at stake: then it never trips."""

    @property
    @abstractmethod
    def n_comparators(self) -> int:
        """How many fixed answers regret is measured against."""

    @abstractmethod
    def leads(self, answer_A1: Array, token: Array) -> Array:
        """What each of them earned more in a step than the given answer, ``[n_comparators, ...]``, unchecked."""

    def worst_lead(self, lead: Array) -> Array:
        """The regret ``[...]`` of sums of leads ``[..., n_comparators]``."""
        return namespace(lead).max(lead, axis=-1)

    @abstractmethod
    def moment(self, probs: Array, answer: Array | None, token: Array | None, step: Array) -> Moment:
        """What the rule sees of a step; ``answer`` is the fallback's law, or its mixed action (None: not asked)."""

    @property
    @abstractmethod
    def certificate(self) -> Certificate:
        """What a predictor robustified by this rule guarantees."""

    # The three hooks that make a rule.

    @abstractmethod
    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> Any:
        """The statistics before the first token: None, or a tuple of arrays led by the batch shape."""

    @abstractmethod
    def judge(self, statistics: Any, step: Array, moment: Moment) -> tuple[Any, Array]:
        """The statistics after one more step, the ``step``-th, and whether the rule trips there."""

    @abstractmethod
    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """The statistic and the threshold it must reach, now."""

    def suspicion(self, memory: RuleMemory) -> Any:
        """What speaks most against the base model: the action, the rate, since when. None where a rule cannot say."""
        return None

    def trusted(self, memory: RuleMemory) -> Array:
        """Where the base model is played as it is, or has returned after a trip and not gone again, ``[...]``."""
        back = getattr(memory.fallback, "trusted", None)
        return ~self.tripped(memory) if back is None else ~self.tripped(memory) | back

    def turned(self, memory: RuleMemory) -> Array | None:
        """Where the base returned with the last token, after a trip (1), or was left again (-1); None: never."""
        return self.in_play.fallback.turned(memory.fallback) if self.in_play.follows else None

    # And a fourth where there is a faster way than step by step.

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        """For a block of recorded sequences from the first step on: when the rule trips, ``[N]``; T + 1 for never."""
        xp, statistics, alarms, T = namespace(moment.token), None, [], moment.token.shape[-1]
        scenes: Any = [None] * T if moment.known is None else each_step(moment.known, T)
        for t, scene in enumerate(scenes):
            parts: Any = (None if part is None else part[..., t] for part in moment[:4])
            now = Moment(*parts)._replace(known=scene)
            if t == 0:
                statistics = self.blank(tuple(now.token.shape), xp, device(now.token))
            statistics, alarm = self.judge(statistics, xp.zeros_like(now.token) + step_T[t], now)
            alarms.append(alarm)
        return first_true(xp.stack(alarms, axis=-1)) + 1

    # What follows from it.

    @cached_property
    def in_play(self) -> InPlay:
        """The fallback as it is played."""
        return in_play(self.fallback, self.problem, self.n_states, self.horizon, self.temperature)

    @property
    def fallback_acts(self) -> bool:
        """Whether the fallback is a policy, which gives mixed actions and no laws."""
        return self.in_play.acts

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RuleMemory:
        """The memory before the first token."""
        shape, xp, where = inputs.batch_shape_of(batch_shape), namespace(like), device(like)
        zeros = xp.zeros(shape, dtype=xp.int64, device=where)
        return RuleMemory(self.in_play.fallback.start(shape, like=like), zeros, zeros, self.blank(shape, xp, where))

    def update(self, memory: RuleMemory, probs: Array, token: Array) -> RuleMemory:
        """The memory after the base model gave ``probs`` ``[..., S]`` and ``token`` ``[...]`` came."""
        shape = tuple(memory.step.shape)
        probs = inputs.probs_of(probs, self.n_states, shape=shape)
        if namespace(probs) is not namespace(memory.step) or device(probs) != device(memory.step):
            raise ValueError(f"probs must be the kind of array the memory was started with, got {type(probs).__name__}")
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.step)
        self.refuse_past_horizon(memory)
        return self.advance(memory, self.look(memory, probs), token)

    def look(self, memory: RuleMemory, probs: Array) -> Moment:
        """Both answers, before the token is known; unchecked. One that nobody has asked for yet is left out."""
        return self.moment(probs, self.fallback_answer(memory, probs), None, memory.step + 1)

    def fallback_answer(self, memory: RuleMemory, probs: Array) -> Array:
        """What the fallback says beside ``probs``: a law ``[..., S]``, or a mixed action ``[..., A]`` where it acts."""
        return self.in_play.answer(memory.fallback, tuple(probs.shape[:-1]))

    def law(self, memory: RuleMemory, probs: Array) -> Array:
        """The law in force: the base's, ``probs``, until the trip, the fallback's from then on (if it states one)."""
        if self.fallback_acts:
            return copied(probs)
        return spliced(self.tripped(memory), self.fallback_answer(memory, probs), probs)

    def answer(self, memory: RuleMemory, moment: Moment) -> Array:
        """The answer in force, likewise: the chances of every action but the first (or the forecast: VRegret)."""
        base_A1, fallback_A1 = moment.base_A1, moment.fallback_A1
        return base_A1 if fallback_A1 is None else namespace(base_A1).where(self.tripped(memory), fallback_A1, base_A1)

    def advance(self, memory: RuleMemory, moment: Moment, token: Array) -> RuleMemory:
        """``update`` without its checks, from what ``look`` saw; an axis of length 1 stands for streams that agree."""
        step, wide = memory.step + 1, token
        if token.shape != step.shape:
            wide = namespace(token).broadcast_to(token, step.shape)
        fallback = self._fallback_after(memory, moment, wide)
        statistics, alarm = self.judge(memory.statistics, step, moment._replace(token=token))
        if self.pointless:
            alarm = alarm & False
        newly = (memory.tripped_at == 0) & alarm
        return RuleMemory(fallback, step, memory.tripped_at + step * newly, statistics)

    def _fallback_after(self, memory: RuleMemory, moment: Moment, token: Array) -> Any:
        """The fallback's memory after the token."""
        return self.in_play.fallback.update(memory.fallback, token)

    def tripped(self, memory: RuleMemory) -> Array:
        """Which streams play the fallback, ``[...]``: those that have switched to it."""
        return memory.tripped_at > 0

    def share(self, memory: RuleMemory) -> Array:
        """How much of what is played next is the base model's, ``[...]``: all of it until the trip."""
        return 1 - in_float64(self.tripped(memory))

    def trip_times(self, probs: Array, tokens: Array) -> Array:
        """The number of tokens seen when the rule tripped, ``[...]``; T + 1 for never."""
        probs = inputs.array_of(probs, "probs")
        tokens = inputs.array_of(tokens, "tokens")
        if namespace(tokens) is not namespace(probs) or device(tokens) != device(probs):
            tokens = inputs.tokens_of(tokens, self.n_states, like=probs)  # checked before it is moved
        elif not tokens.ndim or 0 in tokens.shape:
            inputs.sequences_of(tokens, self.n_states)
        if tokens.ndim:
            self.refuse_longer(tokens.shape[-1])
        if tuple(probs.shape) != (*tokens.shape, self.n_states):
            fits = f"{(*tokens.shape, self.n_states)}, for tokens of shape {tuple(tokens.shape)}"
            raise ValueError(f"probs must have shape {fits}, got {tuple(probs.shape)}")
        return self.first_trips(probs, tokens, check=True)

    def first_trips(self, probs: Array, tokens: Array, check: bool = False) -> Array:
        """``trip_times``, block by block; the values are checked where they are about to be used, or not at all."""
        if check and (tokens.ndim == 0 or 0 in tokens.shape):
            inputs.sequences_of(tokens, self.n_states)
        xp = namespace(tokens)
        found = [xp.zeros(0, dtype=xp.int64, device=device(tokens))]
        found += [block.times_N for block in self._blocks(probs, tokens, check)]
        return xp.reshape(xp.concat(found), tuple(tokens.shape[:-1]))

    def replaced(self, probs: Array, tokens: Array) -> tuple[Array, Array]:
        """The base's laws ``[..., T, S]`` with the fallback's from each trip on, and the trip times; unchecked."""
        xp, horizon, laws, tripped = namespace(probs), tokens.shape[-1], [], False
        times = [xp.zeros(0, dtype=xp.int64, device=device(tokens))]
        for block in self._blocks(probs, tokens, check=False):
            law_NxTxS = block.probs_NxTxS
            late_NxT = count_up(tokens, 0, horizon) >= block.times_N[..., None]
            if bool(late_NxT.any()):
                tripped = True
                answers = self.fallback_answers(block.tokens_NxT) if block.answers is None else block.answers
                law_NxTxS = spliced(late_NxT, answers, law_NxTxS)
            laws.append(law_NxTxS)
            times.append(block.times_N)
        probs = xp.reshape(laws[0] if len(laws) == 1 else xp.concat(laws), tuple(probs.shape)) if tripped else probs
        return probs, xp.reshape(xp.concat(times), tuple(tokens.shape[:-1]))

    def _blocks(self, probs: Array, tokens: Array, check: bool) -> Iterator["_JudgedRows"]:
        """Rows of recorded sequences, few enough at a time that memory stays linear, with their trip times."""
        xp, horizon = namespace(tokens), tokens.shape[-1]
        tokens_NxT = xp.reshape(tokens, (-1, horizon))
        probs_NxTxS = xp.reshape(probs, (-1, horizon, self.n_states))
        step_T = count_up(tokens, 1, horizon + 1)
        for rows in row_blocks(tokens_NxT.shape[0], max(horizon, self.cells), tokens):
            block, base = tokens_NxT[rows], probs_NxTxS[rows]
            if check:
                at = f", from sequence {rows.start} on," if rows.start else ""  # what is wrong is counted from there
                block = inputs.tokens_of(block, self.n_states, f"tokens{at}")
                base = inputs.probs_of(base, self.n_states, f"probs{at}")
            answers = self.fallback_answers(block) if self.compares else None
            times = self.recorded(step_T, self.moment(base, answers, block, step_T))
            yield _JudgedRows(block, base, answers, xp.full_like(times, horizon + 1) if self.pointless else times)

    def fallback_answers(self, tokens: Array) -> Array:
        """What the fallback says at every step of recorded sequences: laws, or mixed actions if it acts; unchecked."""
        return self.in_play.answers(tokens)

    def moments(self, probs: Array, tokens: Array) -> Moment:
        """Both answers at every step of recorded sequences; unchecked."""
        return self.moment(probs, self.fallback_answers(tokens), tokens, count_up(tokens, 1, tokens.shape[-1] + 1))

    def refuse_longer(self, steps: int) -> None:
        """Recorded sequences end with the horizon at the latest."""
        if self.horizon is not None and steps > self.horizon:
            raise ValueError(f"tokens are longer than the rule's horizon: {steps} steps, {self.horizon}")

    def refuse_past_horizon(self, memory: RuleMemory) -> None:
        """A horizon is a promise: there is no step after it."""
        if self.horizon is None or not memory.step.size:
            return
        over = memory.step >= self.horizon
        if bool(over.any()):
            which = "" if over.ndim == 0 else f" for {int(over.sum())} of {to_numpy(over).size} streams"
            raise ValueError(
                f"the horizon of {self.horizon} steps is over{which}: start anew"
                + ("" if self.problem is None else ", or take a rule with horizon=None and a delta")
            )
