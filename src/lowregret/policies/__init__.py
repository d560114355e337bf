"""Who acts: responses to predictors, Hedge and its kin, bounded recall."""

from .contract import Policy, Respond
from .hedge import AdaHedge, FixedShare, Hedge, RestartHedge, oldest, shared

__all__ = [
    "AdaHedge",
    "FixedShare",
    "Hedge",
    "Policy",
    "Respond",
    "RestartHedge",
    "oldest",
    "shared",
]
