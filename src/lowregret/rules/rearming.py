"""Running for ever: one false alarm in N steps, a fallback for some steps after each alarm, and the test armed again.

All bettors stake the same at every step (but for those on what is played), with a head start at every start; at N in
all the alarm sounds (``certificates/for_ever.py`` has what follows from it). The fallback begins anew with each alarm.
``HOLD`` outcomes later the bettors do, and the base model is played again, whatever the fallback thought of it.
"""

from functools import cached_property
from typing import Any

from .. import inputs
from ..arrays import Array, device, last, namespace, some
from ..certificates import ForEver
from ..memory import where as choose
from ..policies import FixedShare, Recovery, SharesAmong
from ..problems import Scene
from .bets import Wealth
from .contract import Moment, RuleMemory
from .response import ResponseRule

HOLD = 256  # outcomes for which the fallback is played
HEAD_START = 0.01  # what all bettors have at a start, in units of N


class Rearms(ResponseRule):
    """What a rule with a setting ``false_alarm_every`` does about it."""

    false_alarm_every: int | None

    @property
    def rearms(self) -> bool:  # type: ignore[override]
        return self.false_alarm_every is not None

    @cached_property
    def for_ever(self) -> ForEver:
        """What is promised where it runs for ever, and how stakes are shared then."""
        if not self.rearms:
            raise AttributeError("for_ever is of rules with false_alarm_every")
        return promised(self)

    @property
    def lasts(self) -> int | None:
        """For how many steps a fallback is played at most."""
        return HOLD if self.rearms else self.horizon

    def _refuse_misfit(self, horizon: int | None) -> None:
        if self.rearms:
            refuse_fallback(self)
        super()._refuse_misfit(horizon)

    def _age(self, now: Wealth, step: Array) -> Array:
        """For how many steps the bettors have been at it, of which ``step`` is the last."""
        return now.seen[..., 0] if self.rearms else step

    def advance(self, memory: RuleMemory, moment: Moment, token: Array) -> RuleMemory:
        after = super().advance(memory, moment, token)
        return self._renewed(after) if self.rearms else after

    def _renewed(self, memory: RuleMemory) -> RuleMemory:
        """The memory after a step: who has just tripped begins the fallback, who was held for long is armed again."""
        if not some(memory.tripped_at):  # the usual case
            return memory
        late = memory.tripped_at > 0
        begins, over = late & (memory.tripped_at == memory.step), late & (memory.step - memory.tripped_at >= HOLD)
        if not some(begins | over):
            return memory
        fallback = _chosen(begins | over, self.in_play.fallback.anew(memory.fallback), memory.fallback)
        statistics = memory.statistics
        if some(over):
            again = self.blank(tuple(memory.step.shape), namespace(statistics.wealth), device(statistics.wealth))
            again = again._replace(since=again.since + memory.step[..., None, None])
            statistics = _chosen(over, again, statistics)
        return RuleMemory(fallback, memory.step, memory.tripped_at * ~over, statistics)

    def turned(self, memory: RuleMemory) -> Array | None:
        """Where the base returned with the last token (1): armed again, or by its fallback; who left it again (-1)."""
        if not self.rearms:
            return super().turned(memory)
        again, xp = (memory.statistics.seen[..., 0] == 0) & (memory.step > 0), namespace(memory.step)
        if not some(memory.tripped_at):  # no fallback is played
            return again * 1
        return xp.where(again, xp.ones_like(memory.step), super().turned(memory))


def settle(rule: Any, horizon: int | None) -> None:
    """Keep what an ``ExactTest`` that runs for ever is made with, refused where something else was said."""
    if not rule.rearms:
        return
    every = inputs.whole(rule.false_alarm_every, "false_alarm_every", least=2)
    if horizon is not None or rule.delta not in (None, 1 / every):
        raise ValueError(
            "false_alarm_every is in place of a horizon and a delta: for ever there is no bound on the chance of any "
            f"alarm at all, got horizon {horizon} and delta {rule.delta}"
        )
    if rule.temperature not in (None, 0):
        raise ValueError(
            "false_alarm_every needs best responses, temperature=0: a quantal response gives up something in each step "
            f"for ever, got temperature {inputs.shown(rule.temperature)}"
        )
    if rule.of_numbers:
        raise ValueError(
            "false_alarm_every needs a DecisionProblem: what an interval may lose where outcomes are numbers depends "
            "on what the bets in it are charged"
        )
    if not (rule.test and rule.actions):
        raise ValueError(
            "false_alarm_every needs a test, and to compare with the actions: "
            f"got test={rule.test} and actions={rule.actions}"
        )
    if rule.internal:
        raise ValueError("false_alarm_every is of regret to fixed actions: what it promises of pairs is not known")
    inputs.keep(rule, false_alarm_every=every, delta=1 / every, temperature=0.0)


def promised(rule: Any) -> ForEver:
    """Its certificate; of intervals where fixed share is played after an alarm."""
    hold = None if isinstance(rule.fallback, Recovery) else HOLD
    return ForEver(
        rule.stakes,
        rule.false_alarm_every,
        hold=hold,
        head_start=HEAD_START,
        comparators=rule.n_comparators,
        share=0.5 if rule.likelihood else 1.0,
    )


def fixed_share(rule: Any) -> FixedShare:
    """What is played after an alarm unless it is said otherwise."""
    rate = ForEver(rule.stakes, rule.false_alarm_every, hold=HOLD, comparators=rule.n_comparators).hold_rate
    return FixedShare(rule.problem, HOLD, rate)


def refuse_fallback(rule: Any) -> None:
    """One of which nothing is known here."""
    back = rule.fallback
    known = back.safe is None or not rule.told if isinstance(back, Recovery) else back == fixed_share(rule)
    if not known:
        raise ValueError(
            "fallback must be Recovery() with false_alarm_every, or none: then fixed share is played for "
            f"{HOLD} steps after an alarm, got {inputs.shown(back)}"
        )


def in_play(rule: Any) -> SharesAmong:
    """Fixed share over all comparators."""
    return SharesAmong(rule.n_comparators, rule.fallback.rate, rule.fallback.share)


def armed(rule: Any, none: Wealth) -> Wealth:
    """What the bettors have before their first step, where they had nothing."""
    prior, backed = rule.prior, none.backed
    head_start = prior.head_start * float(prior.weights_K(1)[0])
    if rule.likelihood:
        backed = backed._replace(wealth=backed.wealth + prior.head_start * (1 - prior.share))
    begun = none.wealth + head_start, none.richest + head_start, none.since + 1
    return none._replace(wealth=begun[0], richest=begun[1], since=begun[2], backed=backed)


def staked(rule: Any, old: Wealth, now: Wealth, scene: Scene) -> Wealth:
    """What the bettors have after a step, less what was staked on comparators that gain nothing in it, whatever comes.

    The first of them is the action that is played: it can win nothing and lose nothing, so stakes on it would pile up
    until they sound an alarm of themselves. Nothing promised needs them: a stretch of steps loses as much to a
    comparator from the first step on at which that gains or loses, and there it has its stake.
    """
    xp = namespace(now.wealth)
    idle = last(xp.all(scene.gains_together(rule.actions) == 0, axis=1))[..., None]
    wealth, richest, since = (xp.where(idle, before, after) for before, after in zip(old[:3], now[:3], strict=True))
    return now._replace(wealth=wealth, richest=richest, since=since)


def refuse(rule: Any, what: str) -> None:
    """What is known of tests that trip once."""
    if rule.rearms:
        raise ValueError(f"{what} is of a test that trips once: with false_alarm_every go step by step, or backtest")


def _chosen(which: Array, yes: Any, no: Any) -> Any:
    """Per stream, one of two memories."""
    return choose(which, yes, no) if which.ndim else (yes if which else no)
