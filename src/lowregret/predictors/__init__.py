"""Who predicts: the contract, urns, tables, functions, context trees, fallbacks, and drawing sequences."""

from .context_tree import ContextTree, TreeMemory
from .contract import Predictor, asked, asked_sequence, has_states, said_by, same_states, unroll, vouched
from .cover_law import CoverLaw
from .function import FromFunction
from .mixture import Mixture
from .opponent import OpponentModel, Reader
from .sampling import Stream, draw, drawn, sample, within_window
from .security_law import SecurityLaw
from .tables import Markov, Scheduled
from .urns import PolyaUrn, ShrunkUrn, equaliser

__all__ = [
    "ContextTree",
    "CoverLaw",
    "FromFunction",
    "Markov",
    "Mixture",
    "OpponentModel",
    "PolyaUrn",
    "Predictor",
    "Reader",
    "Scheduled",
    "SecurityLaw",
    "ShrunkUrn",
    "Stream",
    "TreeMemory",
    "asked",
    "asked_sequence",
    "draw",
    "drawn",
    "equaliser",
    "has_states",
    "said_by",
    "same_states",
    "sample",
    "unroll",
    "vouched",
    "within_window",
]
