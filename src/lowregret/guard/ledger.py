"""What a guard remembers of each stream, and what it tells of a switch."""

import logging
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, astype, came, device, first, float_type, last, namespace, pick, to_numpy
from ..forecasts import NumberScene
from ..memory import moved
from ..problems import Scene, action_utilities
from ..rules import Rule, RuleMemory

LOG = logging.getLogger("lowregret")


class Switch(NamedTuple):
    """A stream stopped trusting its model: which, after how many steps, by which rule and by what margin.

    ``step`` is the step of the episode whose outcome made it so, ``known`` the last that had been advised by then: the
    same, but for outcomes that come late. Steps that were skipped count. The statistic is infinite where a state came
    that the model had ``excluded``, by giving it probability 0.
    """

    stream: Any  # () for a single stream, an index along one batch axis, a tuple along several
    step: int
    rule: str
    statistic: float
    threshold: float
    episode: int = 1
    action: int | None = None  # which one does better than the model, where the rule says so
    rate: float | None = None  # how boldly that was bet on: a low rate is a small but lasting difference
    since: int | None = None  # about which step of the episode the model broke
    reference: str | None = None  # or which reference does better
    context: int | None = None  # in which context that is so
    known: int | None = None  # at which step of the episode that was known; None: where nobody said
    whom: str | None = None  # what the action, the reference or the mixture that does better is called
    gain: float | None = None  # where another law was found to predict better: what acting on it earned more, a step

    @property
    def because(self) -> str:
        """Why, in words: which bettor it was, and what it found."""
        about = f"since about step {self.since}"
        if self.excluded:
            return "a state came to which the model had given probability 0"
        if self.gain is not None:
            what = "recent frequencies predict" if self.whom is None else f"{self.whom} predicts"
            them = "them" if self.whom is None else "it"
            return f"{what} better {about}, and acting on {them} earned {self.gain:.4g} a step more"
        if self.since is None:
            return "the evidence against the model reached its threshold"
        where = "" if self.context is None else f" in context {self.context}"
        return f"{self.whom} would have earned more{where} {about}"

    @property
    def excluded(self) -> bool:
        """Whether it switched because a state came to which the model had given probability 0."""
        return math.isinf(self.statistic)

    def __str__(self) -> str:
        margin = "" if self.excluded else f": evidence {self.statistic:.4g}, threshold {self.threshold:.4g}"
        return f"{_who(self)}switched after {_when(self)}: {self.because} ({self.rule}{margin})"


class Return(NamedTuple):
    """A stream trusts its model again, after a switch: the model has most of the weight in what is played."""

    stream: Any
    step: int
    share: float  # of the model in what is played next
    episode: int = 1
    known: int | None = None  # as of a ``Switch``

    def __str__(self) -> str:
        return f"{_who(self)}returned after {_when(self)}: the model has {self.share:.0%} again"


class Left(NamedTuple):
    """A stream no longer trusts a model that had returned: it has less than a quarter of the weight again."""

    stream: Any
    step: int
    share: float  # of the model in what is played next
    episode: int = 1
    known: int | None = None  # as of a ``Switch``

    def __str__(self) -> str:
        return f"{_who(self)}left again after {_when(self)}: the model has {self.share:.2g} of the weight"


Event = Switch | Return | Left
EVENTS: dict[str, type[Event]] = {"switch": Switch, "return": Return, "left": Left}


def _who(event: Event) -> str:
    return "" if isinstance(event.stream, tuple) and not event.stream else f"stream {event.stream}: "


def _when(event: Event) -> str:
    late = "" if event.known in (None, event.step) else f" (known at step {event.known})"
    return f"{event.step} steps of episode {event.episode}{late}"


class Ledger(NamedTuple):
    """All that a guard remembers per stream."""

    rule: RuleMemory
    lead_A: Array  # [..., A], each fixed action's utility minus the mixed policy's, this episode
    realised_A: Array  # [..., A], the same for the actions reported to observe
    reported: Array  # [...], how many steps of this episode came with an action
    missed: Array  # [...], how many of its outcomes never come
    at_alarm: Array  # [...], the regret of the episode when its alarm sounded, in total; 0 before
    episode: Array  # [...], from 1
    past_steps: Array  # [...], steps of the episodes before this one
    past_bound: Array  # [...], the most that was lost in them, by their certificates (of numbers: what was)


def kind_of(array: Array) -> tuple[str, str]:
    """Which library an array is from, and where it lives."""
    return namespace(array).__name__.removeprefix("array_api_compat."), str(device(array) or "cpu")


def own_copy(probs: Array) -> Array:
    """A copy without its gradient: the caller may fill the same array anew before the state is seen."""
    if isinstance(probs, np.ndarray):
        return probs.copy()
    return probs.detach().clone() if hasattr(probs, "detach") else probs


def blank(rule: Rule, batch_shape: tuple[int, ...], like: Array | None = None) -> Ledger:
    """The ledger before the first step; ``like`` gives the kind of array and its device."""
    xp, where = namespace(like), device(like)
    flat = xp.zeros((*batch_shape, rule.n_comparators), dtype=float_type(xp, where), device=where)
    count = xp.zeros(batch_shape, dtype=xp.int64, device=where)
    nothing = xp.zeros(batch_shape, dtype=flat.dtype, device=where)
    own = flat[..., :0] if rule.problem is None else flat  # or nobody acts
    return Ledger(rule.start(batch_shape, like=like), flat, own, count, count, nothing, count + 1, count, nothing)


def moved_to(rule: Rule, batch_shape: tuple[int, ...], old: Ledger, probs: Array, begun: bool) -> Ledger:
    """The ledger as arrays of the kind that ``probs`` is, which it may be moved to until it has ``begun``."""
    if type(probs) is type(old.lead_A) and (type(probs) is np.ndarray or device(probs) == device(old.lead_A)):
        return old
    if begun:
        was, now = (" on ".join(kind_of(array)) for array in (old.lead_A, probs))
        raise ValueError(f"probs must stay the kind of array they were, {was}, got {now}")
    ledger: Ledger = moved(blank(rule, batch_shape, like=probs), old)
    return ledger


def entered(
    old: Ledger,
    rule: Rule,
    memory: RuleMemory,
    earned_A: Array,
    outcome: Array,
    action: Array | None,
    scene: Scene | NumberScene | None,
) -> Ledger:
    """The ledger after one more step, checked before: what each comparator earned more, the action if any.

    ``scene``: what was known of the step before its outcome, where the rule is told more than a law.
    """
    lead_A = old.lead_A + earned_A
    realised_A, reported = old.realised_A, old.reported
    if action is not None:
        assert rule.problem is not None
        if scene is None:
            paid_A = action_utilities(rule.problem, outcome, old.lead_A)
            more_A = paid_A - pick(paid_A, action)
        else:
            taken_A = astype(came(action, rule.problem.n_actions), old.lead_A.dtype)
            more_A = rule.leads(taken_A[1:], outcome, scene)
        realised_A = last(first(realised_A) + more_A)
        reported = reported + 1
    return old._replace(rule=memory, lead_A=lead_A, realised_A=realised_A, reported=reported)


def average(rule: Rule, lead_A: Array, steps: Array) -> Array:
    """Regret a step, ``[...]``, from what each comparator earned more; a float for a single stream."""
    value = rule.worst_lead(lead_A) / astype(namespace(lead_A).clip(steps, 1, None), lead_A.dtype)
    return float(value) if steps.ndim == 0 else value


def happened(rule: Rule, ledger: Ledger, silent: np.ndarray | None = None) -> tuple[Event, ...]:
    """What there is to tell of the last step: streams that have just switched, returned, or been left again.

    ``silent``: streams that had no outcome.
    """
    memory = ledger.rule
    if rule.untested or (memory.step.ndim == 0 and not memory.tripped_at):
        return ()  # one stream, and the usual case
    newly = just_tripped(memory)
    fresh: tuple[Event, ...] = ()
    if bool(newly if newly.ndim == 0 else newly.any()):
        told = to_numpy(newly)
        fresh = _switches(rule, ledger, told if silent is None else told & ~silent)
    turned = rule.turned(memory)
    if turned is not None and bool(turned if turned.ndim == 0 else turned.any()):
        told = to_numpy(turned) if silent is None else to_numpy(turned) * ~silent
        fresh += turns_told(told, to_numpy(memory.step), to_numpy(rule.share(memory)), to_numpy(ledger.episode))
    return fresh


def just_tripped(memory: RuleMemory) -> Array:
    """Which streams ``[...]`` tripped with their last outcome."""
    return (memory.tripped_at == memory.step) & (memory.tripped_at > 0)


def turns_told(turns: np.ndarray, step: np.ndarray, share: np.ndarray, episode: np.ndarray) -> tuple[Event, ...]:
    """Returns, and models that were left again."""
    fresh = []
    for at in map(tuple, np.argwhere(turns).tolist()):
        now, kind = int(step[at]), Return if turns[at] > 0 else Left
        fresh.append(kind(name_of(at), now, float(share[at]), int(episode[at]), known=now))
    return tuple(fresh)


def _switches(rule: Rule, ledger: Ledger, newly: np.ndarray) -> tuple[Switch, ...]:
    statistic, threshold = map(to_numpy, rule.evidence(ledger.rule))
    step, episode = to_numpy(ledger.rule.step), to_numpy(ledger.episode)
    suspicion = rule.suspicion(ledger.rule)
    suspected = None if suspicion is None else [to_numpy(part) for part in suspicion]
    fresh = []
    for at in map(tuple, np.argwhere(newly).tolist()):
        margin, now = (float(statistic[at]), float(threshold[at])), int(step[at])
        told = Switch(name_of(at), now, type(rule.each).__name__, *margin, int(episode[at]), known=now)
        if suspected is not None and math.isfinite(margin[0]):
            told = _blamed(rule, told, [part[at].item() for part in suspected])
        fresh.append(told)
    return tuple(fresh)


def _blamed(rule: Rule, told: Switch, suspected: list[float]) -> Switch:
    """The event with what speaks most against the model."""
    which, rate, since, gain = suspected
    if which < 0:  # no comparator: another law
        gained = float(rule.problem.regret_in_payoffs(gain))  # type: ignore[union-attr]
        others = rule.knows.references if rule.knows is not None else ()
        whom = f"a mixture of recent frequencies and {', '.join(others)}" if others else None
        return told._replace(since=int(since), gain=gained, whom=whom)
    action, reference, context = rule.comparator(int(which))
    whom = reference
    if action is not None and rule.problem is not None:
        whom = f"action {rule.problem.actions[action]}"
    told = told._replace(action=action, rate=float(rate), since=int(since))
    return told._replace(reference=reference, context=context, whom=whom)


def name_of(at: tuple[int, ...]) -> Any:
    return at[0] if len(at) == 1 else at


def place_of(stream: Any) -> tuple[int, ...]:
    """Where a stream so named stands."""
    return stream if isinstance(stream, tuple) else (stream,)


# Telling of a step that was taken: every event is told, whatever comes of the others.


def later(event: Event) -> None:
    """In place of ``on_event`` while several steps are taken as one: they are told of once all of them are."""


def tell(fresh: tuple[Event, ...], on_event: Callable[[Event], object] | None) -> None:
    """Log what happened and call ``on_event`` with each, whatever it does with the others."""
    errors = []
    if on_event is later:
        return
    for event in fresh:
        try:
            LOG.info("%s", event)
            if on_event is not None:
                on_event(event)
        except Exception as error:  # whatever a caller's function does
            errors.append(error)
    if len(errors) > 1:
        raise errors[0] from ExceptionGroup("on_event raised for other events too", errors[1:])
    if errors:
        raise errors[0]
