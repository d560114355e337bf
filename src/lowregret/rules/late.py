"""Late outcomes: one test for each class of steps that are ``lag`` apart, and one alarm for all of them.

A law that is stated ``lag`` steps ahead is right given outcomes that are ``lag`` old: the product of all bets is then
no martingale, that of every ``lag``-th is (``certificates/late.py`` has the statements and their proofs). Each class
has the memory of an ordinary rule, fallback included; the alarm goes by the average of what they have.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from .. import inputs
from ..arrays import Array, at_most, device, float_type, in_float64, namespace, pick, some, total
from ..certificates import Certificate
from ..certificates.coupled import late_factor
from ..certificates.late import Bettors, SwitchesLate, certify_late
from ..certificates.realised import Promise
from ..forecasts import NumberScene
from ..policies import Policy, Recovery
from ..policies.budgets import turned
from ..predictors import Predictor
from ..problems import DecisionProblem, Known, Scene
from .bets import Suspicion
from .contract import InPlay, Knows, Moment, Rule, RuleMemory
from .exact import ExactTest, all_of_it, recorded_trips
from .promises import begun, whom_of

_EXCLUDED = 1e300  # ln E of a class in which an excluded state came, as a finite number


class LateMemory(NamedTuple):
    classes: tuple[RuleMemory, ...]  # each as of its last advice
    level_D: Array  # [..., d], ln E of each
    missed_D: Array  # [..., d], of each, outcomes that never come
    trusted: Array  # [...], whether most classes trust the base again
    turned_at: Array  # [...], outcomes seen when that last changed, 0 for never


@dataclass(frozen=True)
class Late(Rule):
    """``lag`` copies of one test, a rule for every ``lag``-th step at level delta / a_d, with one alarm.

    Its own memory counts outcomes. Where these come in the order of their steps, one at a time, it is a rule like any
    other; a guard asks for the class of a step by name.
    """

    test: ExactTest  # of one class
    classes: int
    horizon: int | None

    @property
    def each(self) -> ExactTest:
        return self.test

    @property
    def lag(self) -> int:  # type: ignore[override]
        return self.classes

    @property
    def problem(self) -> DecisionProblem:  # type: ignore[override]
        return self.each.problem

    @property
    def temperature(self) -> float | None:  # type: ignore[override]
        return self.each.temperature

    @property
    def fallback(self) -> Predictor | Policy | Recovery:  # type: ignore[override]
        return self.each.fallback

    @cached_property
    def in_play(self) -> InPlay:
        return self.each.in_play._replace(follows=False)  # it is the classes' that are told of the base

    @property
    def delta(self) -> float:
        """How likely a false alarm may be."""
        return self.each.delta * late_factor(self.lag)

    @property
    def of_numbers(self) -> bool:  # type: ignore[override]
        return self.each.of_numbers

    @property
    def n_states(self) -> int:
        return self.each.n_states

    @property
    def compares(self) -> bool:
        return self.each.compares

    @property
    def pointless(self) -> bool:
        return self.each.pointless

    @property
    def n_comparators(self) -> int:
        return self.each.n_comparators

    @property
    def knows(self) -> Knows | None:
        return self.each.knows

    def leads(self, answer_A1: Array, token: Array, known: Scene | NumberScene | None = None) -> Array:
        return self.each.leads(answer_A1, token, known)

    def worst_lead(self, lead: Array) -> Array:
        return self.each.worst_lead(lead)

    def comparator(self, index: int) -> tuple[int | None, str | None, int | None]:
        return self.each.comparator(index)

    # The class of a step

    def opened(self, memory: RuleMemory, place: int) -> RuleMemory:
        """The memory in which this class knows of the alarm, as a step of it is about to be advised."""
        part, late = memory.statistics.classes[place], self.tripped(memory)
        if not some(memory.tripped_at):
            return memory
        started = namespace(part.step).clip(part.step, 1, None) * late
        classes = memory.statistics.classes
        classes = (*classes[:place], part._replace(tripped_at=started), *classes[place + 1 :])
        return memory._replace(statistics=memory.statistics._replace(classes=classes))

    def of(self, memory: RuleMemory, place: int) -> RuleMemory:
        """What the class remembers, as of its last advice: ``each`` goes on from there."""
        part: RuleMemory = memory.statistics.classes[place]
        return part

    def joined(self, memory: RuleMemory, place: int, part: RuleMemory) -> RuleMemory:
        """The memory after one more outcome, which made this of its class; the alarm is the joint one."""
        old, xp, step = memory.statistics, namespace(memory.step), memory.step + 1
        mine = old.classes[place]
        after = self._raised(old, place, part._replace(tripped_at=mine.tripped_at))
        newly = (memory.tripped_at == 0) & self._reached(after)
        if self.each.of_numbers:
            held = self.each.charged(mine, after.classes[place], newly | (memory.tripped_at > 0))
            after = after._replace(classes=(*after.classes[:place], held, *after.classes[place + 1 :]))
        if hasattr(part.fallback, "trusted") and some(memory.tripped_at):
            count = sum(xp.astype(each.fallback.trusted, xp.int64) for each in after.classes)
            trusted = 2 * count > self.lag
            turned_at = xp.where(trusted != old.trusted, step, old.turned_at)
            after = after._replace(trusted=trusted, turned_at=turned_at)
        return RuleMemory(None, step, memory.tripped_at + step * newly, after)

    def _raised(self, old: LateMemory, place: int, part: RuleMemory) -> LateMemory:
        """The classes with this one in its place, and what it has."""
        xp = namespace(part.step)
        level = at_most(self.each.evidence(part)[0], _EXCLUDED)[..., None]
        level_D = xp.concat([old.level_D[..., :place], level, old.level_D[..., place + 1 :]], axis=-1)
        return old._replace(classes=(*old.classes[:place], part, *old.classes[place + 1 :]), level_D=level_D)

    def _reached(self, late: LateMemory) -> Array:
        return (_log_average(late.level_D) >= -math.log(self.each.delta)) & (not self.pointless)

    def missing(self, memory: RuleMemory, place: int) -> RuleMemory:
        """The memory after an outcome of this class was given up: the class stays as it was.

        Its bettors date their starts by outcomes. To tell steps, all that are missing are added: so those that began
        before this one are dated one earlier.
        """
        late, xp = memory.statistics, namespace(memory.step)
        part = self.each.missing(late.classes[place], 0)
        place_D = xp.arange(self.lag, device=device(late.missed_D)) == place
        missed_D = late.missed_D + xp.astype(place_D, late.missed_D.dtype)
        classes = (*late.classes[:place], part, *late.classes[place + 1 :])
        return memory._replace(statistics=late._replace(classes=classes, missed_D=missed_D))

    # In the order of steps

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> RuleMemory:
        shape, xp, where = inputs.batch_shape_of(batch_shape), namespace(like), device(like)
        part, count = self.each.start(shape, like=like), xp.zeros(shape, dtype=xp.int64, device=where)
        return RuleMemory(None, count, count, self._blank((part,) * self.lag, shape, xp, where))

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> LateMemory:
        count = xp.zeros(shape, dtype=xp.int64, device=where)
        part = RuleMemory(None, count, count, self.each.blank(shape, xp, where))
        return self._blank((part,) * self.lag, shape, xp, where)

    def _blank(self, classes: tuple[RuleMemory, ...], shape: tuple[int, ...], xp: Any, where: Any) -> LateMemory:
        count, no = classes[0].step, xp.zeros(shape, dtype=xp.bool, device=where)
        level_D = xp.zeros((*shape, self.lag), dtype=float_type(xp, where), device=where)
        level_D = level_D + self.each.evidence(classes[0])[0][..., None]  # what counts of a capital that is all unspent
        return LateMemory(classes, level_D, xp.zeros(level_D.shape, dtype=xp.int64, device=where), no, count)

    def moment(self, probs: Array, answer: Array | None, token: Array | None, step: Array) -> Moment:
        return self.each.moment(probs, answer, token, (step + self.lag - 1) // self.lag)

    def judge(self, statistics: LateMemory, step: Array, moment: Moment) -> tuple[LateMemory, Array]:
        """The tests alone, without what the fallbacks make of the step."""
        place = self._turn(step - 1)
        part = statistics.classes[place]
        judged, _ = self.each.judge(part.statistics, part.step + 1, moment)
        after = self._raised(statistics, place, part._replace(step=part.step + 1, statistics=judged))
        return after, self._reached(after)

    def look(self, memory: RuleMemory, probs: Array, known: Known | None = None) -> Moment:
        place = self._turn(memory.step)
        return self.each.look(self.of(self.opened(memory, place), place), probs, known)

    def fallback_answer(self, memory: RuleMemory, probs: Array) -> Array:
        place = self._turn(memory.step)
        return self.each.fallback_answer(self.of(self.opened(memory, place), place), probs)

    def advance(self, memory: RuleMemory, moment: Moment, token: Array) -> RuleMemory:
        place = self._turn(memory.step)
        memory = self.opened(memory, place)
        return self.joined(memory, place, self.each.advance(self.of(memory, place), moment, token))

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        """The tests alone, unless somebody bets on the mixtures of the classes: that takes what these make of it."""
        if self.each.likelihood:
            return all_of_it(self, moment.known, moment.token)
        return super().recorded(step_T, moment)

    def trip_times(self, probs: Any, tokens: Any, known: Known | None = None) -> Array:
        """The number of outcomes seen at the alarm, ``[...]``, where they come in the order of their steps."""
        if known is None and not self.of_numbers:
            return super().trip_times(probs, tokens)
        return recorded_trips(self, probs, tokens, known)

    def _turn(self, seen: Array) -> int:
        return int(namespace(seen).max(seen)) % self.lag if 0 not in seen.shape else 0

    # What can be read

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """ln of the average E and ln(a_d / delta); infinite once a token came that the base model had excluded."""
        level, xp = _log_average(memory.statistics.level_D), namespace(memory.step)
        level = xp.where(level >= _EXCLUDED / 2, xp.zeros_like(level) + math.inf, level)
        return level, xp.zeros_like(level) - math.log(self.each.delta)

    def suspicion(self, memory: RuleMemory) -> Suspicion | None:
        """What the richest bettor of the richest class bets on, and about since which step, missing ones included."""
        xp, late = namespace(memory.step), memory.statistics
        found = [self.each.suspicion(part) for part in late.classes]
        richest = xp.argmax(late.level_D, axis=-1)
        action, rate, since, gain = (pick(xp.stack(list(parts)), richest) for parts in zip(*found, strict=True))
        rounds = since + xp.take_along_axis(late.missed_D, richest[..., None], axis=-1)[..., 0]
        return Suspicion(action, rate, xp.clip((rounds - 1) * self.lag + 1 + richest, 1, None), gain)

    def share(self, memory: RuleMemory) -> Array:
        """How much of what is played next is the base model's: all of it until the trip, then the classes' average."""
        late = in_float64(self.tripped(memory))
        if not self.each.in_play.follows:
            return 1 - late
        fallback = self.each.in_play.fallback
        own = total([fallback.share_of_base(part.fallback) for part in memory.statistics.classes]) / self.lag
        return 1 - late * (1 - own)

    def trusted(self, memory: RuleMemory) -> Array:
        return ~self.tripped(memory) | memory.statistics.trusted

    def turned(self, memory: RuleMemory) -> Array:
        """Where most classes came to trust the base again with the last outcome (1), or no longer do (-1)."""
        return turned(memory.statistics, memory.step)

    # What is promised

    def promise(self, lag: int, horizon: int | None, tv_bound: float) -> Promise:
        return self.each.promise(lag, horizon, tv_bound)

    def charges(self, memory: RuleMemory) -> Array:
        """What the bettors of all classes were charged before an alarm, ``[..., P, K]``; of numbers."""
        return total([part.statistics.charges for part in memory.statistics.classes])

    @cached_property
    def certificate(self) -> Certificate:
        each = self.each
        if each.of_numbers:
            return begun(self)  # type: ignore[return-value]
        stakes, contexts = each.stakes, each.n_contexts
        bets = Bettors(stakes, each.prior, each.delta, each.temperature, contexts)
        before = partial(bets.before, self.lag, False)
        made = SwitchesLate(stakes, each.temperature, each.in_play.fallback, self.lag, before)
        exact = each.temperature == 0 and each.payoffs != "change"
        sharper = partial(made.sharpened, partial(bets.before, self.lag, True)) if exact else None
        theorem = f"the exact test on {whom_of(each)}, outcomes {self.lag} steps late"
        theorem += ", unknown horizon" if self.horizon is None else ""
        known = self.horizon is not None and each.temperature is not None and contexts == 1
        interval = partial(bets.interval, self.lag) if known else None
        counts = getattr(each.in_play.fallback, "counts_model", False)
        given = certify_late(made, self.horizon, self.delta, theorem, sharper, interval, counts)
        if each.told:
            to = f"regret is to {whom_of(each)}: none leads by more"
            given = replace(given, statement=given.statement.replace("no action leads by more", to))
        return given


def late_rule(rule: Rule, lag: int) -> Late:
    """The rule for outcomes so late: each class has its steps, its share of the horizon and delta / a_d.

    Where the rule's temperature is what it takes by itself, 1/sqrt(horizon), so is that of a class.
    """
    d = inputs.whole(lag, "lag", least=2)
    if not isinstance(rule, ExactTest):
        raise ValueError(
            f"lag must be 1 with this rule, got {d}: late outcomes are judged by an ExactTest, not by "
            f"{type(rule).__name__}"
        )
    if rule.untested:
        raise ValueError(f"lag must be 1 without a test, got {d}: what a mixture for each class may lose is not known")
    rounds, temperature = None, rule.temperature
    if rule.horizon is not None:
        rounds = -(-rule.horizon // d)
        if temperature == 1 / math.sqrt(rule.horizon):
            temperature = None
    each = replace(rule, horizon=rounds, delta=rule.delta / late_factor(d), temperature=temperature)
    return Late(each, d, rule.horizon)


def _log_average(level_D: Array) -> Array:
    """ln of the average of e^level."""
    xp = namespace(level_D)
    top = xp.max(level_D, axis=-1)
    return top + xp.log(xp.mean(xp.exp(level_D - top[..., None]), axis=-1))
