"""The same protection live, for probabilities that come from anywhere: advise, act, observe."""

from .advice import Advice
from .event_log import EventLog
from .guard import Guard
from .ledger import Event, Left, Return, Switch

__all__ = ["Advice", "Event", "EventLog", "Guard", "Left", "Return", "Switch"]
