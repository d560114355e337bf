"""The same protection live, for probabilities that come from anywhere: advise, act, observe."""

from .guard import Guard
from .ledger import Return, Switch

__all__ = ["Guard", "Return", "Switch"]
