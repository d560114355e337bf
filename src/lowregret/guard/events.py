"""The events of a guard: an alarm, a return, a model that was dropped again, an outcome given up or ignored."""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np

from ..engine import Engine, Signals, Suspect, Trace

LOG = logging.getLogger("lowregret")


class Alarm(NamedTuple):
    """A test has raised an alarm: from here on the fallback is played.

    ``step`` is the step of the episode whose outcome raised it, ``known`` the last step advised by then: they differ
    only where outcomes come late. Steps that were given up count. The evidence is infinite where a state occurred to
    which the model had given probability 0.
    """

    stream: Any  # its name or number; None: the only one
    step: int
    known: int
    evidence: float
    threshold: float
    episode: int = 1
    action: int | None = None  # the action that does better than the model
    reference: str | None = None  # or the reference
    context: int | None = None  # in which context that is so
    whom: str | None = None  # what that is called
    rate: float | None = None  # how boldly it was bet on: a low rate is a small but lasting difference
    since: int | None = None  # about which step of the episode the model broke
    gain: float | None = None  # where a mixture of forecasts predicts better: what acting on it earned more per step

    @property
    def excluded(self) -> bool:
        """Whether a state occurred to which the model had given probability 0."""
        return math.isinf(self.evidence)

    @property
    def because(self) -> str:
        """Why, in words."""
        about = f"since about step {self.since}"
        if self.excluded:
            return "a state occurred to which the model had given probability 0"
        if self.since is None:
            return "the evidence against the model reached its threshold"
        if self.gain is not None:
            what, them = (
                ("recent frequencies predict", "them") if self.whom is None else (f"{self.whom} predicts", "it")
            )
            return f"{what} better {about}, and acting on {them} earned {self.gain:.4g} more per step"
        where = "" if self.context is None else f" in context {self.context}"
        return f"{self.whom} would have earned more{where} {about}"

    def __str__(self) -> str:
        margin = "" if self.excluded else f" (evidence {self.evidence:.4g}, threshold {self.threshold:.4g})"
        return f"{_when(self)}: alarm, {self.because}{margin}"


class Return(NamedTuple):
    """The model has most of the weight again in what is played."""

    stream: Any
    step: int
    known: int
    share: float  # of the model in what is played next
    episode: int = 1

    def __str__(self) -> str:
        return f"{_when(self)}: the model is back, with {self.share:.0%} of the weight"


class ModelDropped(NamedTuple):
    """A model that had returned has less than a quarter of the weight again."""

    stream: Any
    step: int
    known: int
    share: float
    episode: int = 1

    def __str__(self) -> str:
        return f"{_when(self)}: the model is dropped again, with {self.share:.0%} of the weight"


class OutcomeGivenUp(NamedTuple):
    """A step was given up without its outcome, since ``lag`` later steps had been advised."""

    stream: Any
    step: int
    known: int
    episode: int = 1

    def __str__(self) -> str:
        return f"{_when(self)}: its outcome did not arrive and was given up"


class OutcomeIgnored(NamedTuple):
    """An outcome arrived for a step that no longer waits: it was observed before, given up, or of an earlier episode.

    Steps are counted from the beginning of this episode: one of an earlier episode is 0 or below.
    """

    stream: Any
    step: int
    known: int
    episode: int = 1

    def __str__(self) -> str:
        return f"{_when(self)}: an outcome arrived that no longer counts"


Event = Alarm | Return | ModelDropped | OutcomeGivenUp | OutcomeIgnored
KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


def _when(event: Event) -> str:
    who = "" if event.stream is None else f"stream {event.stream}, "
    late = "" if event.known == event.step else f" (known at step {event.known})"
    when = f"step {event.step}{late}" if event.step > 0 else "a step before it"
    return f"{who}episode {event.episode}, {when}"


def events_of(
    engine: Engine, rows: np.ndarray, signals: Signals, number: int, advised: int, names: Sequence[Any]
) -> tuple[Event, ...]:
    """The events of the outcome of step ``number``, by the steps of each stream's episode."""
    happened_N = signals.alarm_N | (signals.turned_N != 0)
    if not happened_N.any():
        return ()
    found, head, shares, evidence = list[Event](), engine.head.open(rows), engine.share(rows), engine.evidence(rows)
    for n in np.flatnonzero(happened_N).tolist():
        begun = int(head.begun[n])
        when, episode = (names[n], number - begun, advised - begun), int(head.episode[n])
        if signals.alarm_N[n]:
            found.append(_alarm(engine, float(evidence[n]), engine.suspect(rows, n), when, episode))
        else:
            found.append((Return if signals.turned_N[n] > 0 else ModelDropped)(*when, float(shares[n]), episode))
    return tuple(found)


def events_of_trace(engine: Engine, trace: Trace) -> list[tuple[int, Event]]:
    """The events of recordings, each with its row, in the order of steps."""
    found: list[tuple[int, Event]] = []
    for t, n in np.argwhere((trace.alarm_NxT | (trace.turned_NxT != 0)).T).tolist():
        when = n, t + 1, int(trace.known_T[t])
        if trace.alarm_NxT[n, t]:
            event: Event = _alarm(engine, float(trace.evidence_NxT[n, t]), trace.suspects[n, t], when, 1)
        else:
            event = (Return if trace.turned_NxT[n, t] > 0 else ModelDropped)(*when, trace.shares[n, t])
        found.append((n, event))
    return found


def _alarm(engine: Engine, evidence: float, suspect: Suspect | None, when: tuple[Any, int, int], episode: int) -> Alarm:
    setting = engine.setting
    alarm = Alarm(*when, evidence, engine.needed, episode)
    if alarm.excluded or suspect is None:
        return alarm
    if suspect.place is None:
        others = setting.references
        whom = f"a mixture of recent frequencies and {', '.join(others)}" if others else None
        gain = float(setting.problem.regret_in_payoffs(suspect.gain))
        return alarm._replace(since=suspect.since, gain=gain, whom=whom)
    named = setting.against.named(suspect.place, setting.outcomes.n_actions)
    whom = named.reference if named.action is None else f"action {setting.problem.actions[named.action]}"
    return alarm._replace(**named._asdict(), whom=whom, rate=suspect.rate, since=suspect.since)


def announce(fresh: tuple[Event, ...], on_event: Callable[[Event], object] | None) -> None:
    """Log each event and call ``on_event`` with it; an exception in there is logged and changes nothing."""
    for event in fresh:
        LOG.info("%s", event)
        if on_event is not None:
            try:
                on_event(event)
            except Exception:  # whatever a caller's function does: the step counts all the same
                LOG.exception("on_event failed for %s", event)
