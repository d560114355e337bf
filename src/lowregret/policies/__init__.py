"""Who acts: responses to predictors, Hedge and its kin, bounded recall."""

from .among_experts import AmongExperts
from .baselines import AdaHedge, FixedShare, SharesAmong, shared
from .contract import Policy
from .cover_play import CoverPlay
from .experts import ExpertHedge, ExpertMemory
from .hedge import Hedge
from .incumbent import Incumbent, PlaysReference
from .pairs import StoltzLugosi, resting
from .prod import Prod
from .recall import RestartHedge, oldest
from .recovering import Recovering, RecoveryMemory
from .recovery import Recovery
from .respond import Respond
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
    "SharesAmong",
    "StoltzLugosi",
    "oldest",
    "resting",
    "shared",
]
