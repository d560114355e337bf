"""Who acts: responses to predictors, Hedge and its kin, bounded recall."""

from .baselines import AdaHedge, FixedShare, shared
from .contract import Policy
from .hedge import Hedge
from .recall import RestartHedge, oldest
from .recovering import Recovering, RecoveryMemory
from .recovery import Recovery
from .respond import Respond

__all__ = [
    "AdaHedge",
    "FixedShare",
    "Hedge",
    "Policy",
    "Recovering",
    "Recovery",
    "RecoveryMemory",
    "Respond",
    "RestartHedge",
    "oldest",
    "shared",
]
