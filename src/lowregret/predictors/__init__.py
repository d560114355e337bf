"""Who predicts: the contract, urns, tables, functions, context trees, what to fall back on, and sequences drawn."""

from .context_tree import ContextTree, TreeMemory
from .contract import Predictor, asked, asked_sequence, has_states, said_by, same_states, unroll, vouched
from .function import FromFunction
from .maximin import Maximin
from .minimax_law import MinimaxLaw
from .mixture import Mixture
from .opponent import ContextMixture, Reader
from .sampling import Stream, draw, drawn, sample, within_context
from .shrunk_urn import ShrunkUrn, equaliser
from .tables import Markov, Scheduled
from .urn import PolyaUrn

__all__ = [
    "ContextMixture",
    "ContextTree",
    "FromFunction",
    "Markov",
    "Maximin",
    "MinimaxLaw",
    "Mixture",
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
    "within_context",
]
