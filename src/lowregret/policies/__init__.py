"""Who acts: responses to predictors, Hedge and its kin, bounded recall."""

from .among_experts import AmongExperts
from .baselines import AdaHedge, FixedShare, SharesAmong, shared
from .contract import Policy
from .experts import ExpertHedge, ExpertMemory
from .hedge import Hedge
from .incumbent import Incumbent, PlaysReference
from .maximin_play import MaximinPlay
from .minimax import Minimax
from .prod import Prod
from .recall import RestartHedge, oldest
from .recovering import Recovering, RecoveryMemory
from .recovery import Recovery
from .respond import Respond

__all__ = [
    "AdaHedge",
    "AmongExperts",
    "ExpertHedge",
    "ExpertMemory",
    "FixedShare",
    "Hedge",
    "Incumbent",
    "MaximinPlay",
    "Minimax",
    "PlaysReference",
    "Policy",
    "Prod",
    "Recovering",
    "Recovery",
    "RecoveryMemory",
    "Respond",
    "RestartHedge",
    "SharesAmong",
    "oldest",
    "shared",
]
