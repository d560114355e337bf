"""The same protection live, for probabilities that come from anywhere: advise, act, observe."""

from .event_log import EventLog
from .guard import Guard
from .ledger import Return, Switch
from .outcomes import OutcomeGuard

__all__ = ["EventLog", "Guard", "OutcomeGuard", "Return", "Switch"]
