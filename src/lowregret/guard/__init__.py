"""A guard for forecasts that people act on: advise, act, observe; saving; streams that come and go."""

from .advice import Advice
from .detection import Delay, delay
from .events import Alarm, Event, ModelDropped, OutcomeGivenUp, OutcomeIgnored, Return
from .guard import Guard

__all__ = [
    "Advice",
    "Alarm",
    "Delay",
    "Event",
    "Guard",
    "ModelDropped",
    "OutcomeGivenUp",
    "OutcomeIgnored",
    "Return",
    "delay",
]
