"""Late outcomes: one test for each class of steps that are ``lag`` apart, and one alarm for all of them.

A law that is stated ``lag`` steps ahead is right given outcomes that are ``lag`` old: the product of all bets is then
no martingale, that of every ``lag``-th is (``certificates/late.py`` has the statements and their proofs). Each class has
the memory of an ordinary rule, fallback included; the alarm goes by the average of what they have.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import Array, device, float_type, namespace
from ..certificates import Certificate
from ..certificates.coupled import late_factor
from ..certificates.late import SwitchesLate, before_late_alarm, late_assumptions
from .contract import Rule
from .every_start import Bets, Suspicion
from .exact import ExactTest, charged
from .in_play import InPlay
from .moment import Moment, RuleMemory

_EXCLUDED = 1e300  # ln E of a class in which an excluded state came, as a finite number


class LateMemory(NamedTuple):
    classes: tuple[RuleMemory, ...]  # each as of its last advice
    level_D: Array  # [..., d], ln E of each
    missed: Array  # [...], outcomes that never come
    trusts: Array  # [...], whether most classes trust the base again
    returned_at: Array  # [...], outcomes seen when they last came to, 0 for never


@dataclass(frozen=True)
class Late(Rule):
    """``lag`` copies of ``each``, a rule for every ``lag``-th step at level delta / a_d, with one alarm.

    Its own memory counts outcomes. Where these come in the order of their steps, one at a time, it is a rule like any
    other; a guard asks for the class of a step by name.
    """

    each: ExactTest
    lag: int
    horizon: int | None

    @property
    def problem(self) -> Any:  # type: ignore[override]
        return self.each.problem

    @property
    def temperature(self) -> float | None:  # type: ignore[override]
        return self.each.temperature

    @property
    def fallback(self) -> Any:  # type: ignore[override]
        return self.each.fallback

    @cached_property
    def in_play(self) -> InPlay:
        return self.each.in_play

    @property
    def name(self) -> str:
        return self.each.name

    @property
    def delta(self) -> float:
        """How likely a false alarm may be."""
        return self.each.delta * late_factor(self.lag)

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

    def leads(self, answer_A1: Array, token: Array) -> Array:
        return self.each.leads(answer_A1, token)

    # The class of a step

    def opened(self, memory: RuleMemory, place: int) -> RuleMemory:
        """The memory in which this class knows of the alarm, as a step of it is about to be advised."""
        part, late = memory.statistics.classes[place], self.tripped(memory)
        if not bool(late.any()):
            return memory
        started = namespace(part.step).clip(part.step, 1, None) * late
        return _with(memory, place, part._replace(tripped_at=started))

    def of(self, memory: RuleMemory, place: int) -> RuleMemory:
        """What the class remembers, as of its last advice: ``each`` goes on from there."""
        return memory.statistics.classes[place]

    def joined(self, memory: RuleMemory, place: int, part: RuleMemory) -> RuleMemory:
        """The memory after one more outcome, which made this of its class; the alarm is the joint one."""
        old, xp = memory.statistics, namespace(memory.step)
        part = part._replace(tripped_at=old.classes[place].tripped_at)
        level = xp.clip(self.each.evidence(part)[0], None, _EXCLUDED)
        level_D = xp.concat([old.level_D[..., :place], level[..., None], old.level_D[..., place + 1 :]], axis=-1)
        step = memory.step + 1
        reached = _log_average(level_D) >= -math.log(self.each.delta)
        newly = (memory.tripped_at == 0) & (reached & (not self.pointless))
        after = old._replace(classes=_put(old.classes, place, part), level_D=level_D)
        if self.in_play.follows:
            count = sum(xp.astype(each.fallback.trusted, xp.int64) for each in after.classes)
            trusts = 2 * count > self.lag
            returned_at = xp.where(trusts & ~old.trusts, step, old.returned_at)
            after = after._replace(trusts=trusts, returned_at=returned_at)
        return RuleMemory(None, step, memory.tripped_at + step * newly, after)

    def missing(self, memory: RuleMemory) -> RuleMemory:
        """The memory after an outcome was given up: its class stays as it was."""
        late = memory.statistics
        return memory._replace(statistics=late._replace(missed=late.missed + 1))

    def missed(self, memory: RuleMemory) -> Array:
        return memory.statistics.missed

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
        return LateMemory(classes, level_D, count, no, count)

    def moment(self, probs: Array, answer: Array | None, token: Array | None, step: Array) -> Moment:
        return self.each.moment(probs, answer, token, (step + self.lag - 1) // self.lag)

    def judge(self, statistics: LateMemory, step: Array, moment: Moment) -> tuple[LateMemory, Array]:
        """The tests alone, without what the fallbacks make of the step."""
        place = self._turn(step - 1)
        part = statistics.classes[place]
        judged, _ = self.each.judge(part.statistics, part.step + 1, moment)
        before = RuleMemory(None, step - 1, 0 * step, statistics)
        after = self._raised(before, place, part._replace(step=part.step + 1, statistics=judged))
        return after, self._reached(after)

    def look(self, memory: RuleMemory, probs: Array) -> Moment:
        place = self._turn(memory.step)
        return self.each.look(self.of(self.opened(memory, place), place), probs)

    def fallback_answer(self, memory: RuleMemory, probs: Array) -> Array:
        place = self._turn(memory.step)
        return self.each.fallback_answer(self.of(self.opened(memory, place), place), probs)

    def advance(self, memory: RuleMemory, moment: Moment, token: Array) -> RuleMemory:
        place = self._turn(memory.step)
        memory = self.opened(memory, place)
        return self.joined(memory, place, self.each.advance(self.of(memory, place), moment, token))

    def _turn(self, seen: Array) -> int:
        return int(namespace(seen).max(seen)) % self.lag if 0 not in seen.shape else 0
