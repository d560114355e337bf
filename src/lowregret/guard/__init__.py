"""The same protection live, for probabilities that come from anywhere: advise, act, observe."""

from .event_log import EventLog
from .guard import Guard
from .ledger import Event, Left, Return, Switch
from .outcomes import OutcomeGuard

__all__ = ["Event", "EventLog", "Guard", "Left", "OutcomeGuard", "Return", "Switch"]
