"""The same protection live, for probabilities that come from anywhere: advise, act, observe."""

from .guard import Guard
from .ledger import Return, Switch
from .outcomes import OutcomeGuard

__all__ = ["Guard", "OutcomeGuard", "Return", "Switch"]
