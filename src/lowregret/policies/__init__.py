"""Who acts: responses to predictors, Hedge and its kin, bounded recall."""

from .contract import Policy, Respond
from .experts import ExpertHedge, ExpertMemory
from .hedge import AdaHedge, FixedShare, Hedge, RestartHedge, oldest, shared
from .recovering import Recovering
from .recovery import Recovery

__all__ = [
    "AdaHedge",
    "ExpertHedge",
    "ExpertMemory",
    "FixedShare",
    "Hedge",
    "Policy",
    "Recovering",
    "Recovery",
    "Respond",
    "RestartHedge",
    "oldest",
    "shared",
]
