"""Who acts: responses to predictors, Hedge and its kin, bounded recall."""

from .among_experts import AmongExperts
from .contract import Policy, Respond
from .cover_play import CoverPlay
from .experts import ExpertHedge, ExpertMemory
from .hedge import AdaHedge, FixedShare, Hedge, RestartHedge, oldest, shared
from .prod import Prod
from .recovering import Recovering, RecoveryMemory
from .recovery import Incumbent, PlaysReference, Recovery
from .security_play import SecurityPlay

__all__ = [
    "AdaHedge",
    "AmongExperts",
    "CoverPlay",
    "ExpertHedge",
    "ExpertMemory",
    "FixedShare",
    "Hedge",
    "Incumbent",
    "PlaysReference",
    "Policy",
    "Prod",
    "Recovering",
    "Recovery",
    "RecoveryMemory",
    "Respond",
    "RestartHedge",
    "SecurityPlay",
    "oldest",
    "shared",
]
