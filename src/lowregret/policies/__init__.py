"""Who acts: responses to predictors, Hedge and its kin, bounded recall."""

from .among_experts import AmongExperts
from .contract import Policy, Respond
from .experts import ExpertHedge, ExpertMemory
from .hedge import AdaHedge, FixedShare, Hedge, RestartHedge, oldest, shared
from .recovering import Recovering
from .recovery import Incumbent, PlaysReference, Recovery

__all__ = [
    "AdaHedge",
    "AmongExperts",
    "ExpertHedge",
    "ExpertMemory",
    "FixedShare",
    "Hedge",
    "Incumbent",
    "PlaysReference",
    "Policy",
    "Recovering",
    "Recovery",
    "Respond",
    "RestartHedge",
    "oldest",
    "shared",
]
