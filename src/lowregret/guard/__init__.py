"""The same protection live, for probabilities that come from anywhere: advise, act, observe."""

from .advice import Advice
from .guard import Guard
from .ledger import Event, Left, Return, Switch

__all__ = ["Advice", "Event", "Guard", "Left", "Return", "Switch"]
