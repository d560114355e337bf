"""Who acts: responses to predictors, Hedge and its kin, bounded recall."""

from .contract import Policy, Respond
from .experts import ExpertHedge
from .hedge import AdaHedge, FixedShare, Hedge, RestartHedge, oldest, shared

__all__ = [
    "AdaHedge",
    "ExpertHedge",
    "FixedShare",
    "Hedge",
    "Policy",
    "Respond",
    "RestartHedge",
    "oldest",
    "shared",
]
