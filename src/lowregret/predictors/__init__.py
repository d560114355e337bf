"""Who predicts: the contract, urns, tables, functions, context trees, fallbacks, and drawing sequences."""

from .context_tree import ContextTree, TreeMemory
from .contract import Predictor, asked, asked_sequence, has_states, said_by, same_states, unroll, vouched
from .function import FromFunction
from .mixture import Mixture
from .opponent import OpponentModel, Reader
from .sampling import Stream, draw, drawn, sample, within_window
from .tables import Markov, Scheduled
from .urns import PolyaUrn, ShrunkUrn, equaliser

__all__ = [
    "ContextTree",
    "FromFunction",
    "Markov",
    "Mixture",
    "OpponentModel",
    "PolyaUrn",
    "Predictor",
    "Reader",
    "Scheduled",
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
