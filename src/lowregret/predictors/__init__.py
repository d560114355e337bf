"""Who predicts: the contract, urns, tables, functions of the history, what to fall back on, and sequences drawn."""

from .contract import Predictor, asked, asked_sequence, has_states, said_by, same_states, unroll, vouched
from .function import FromFunction
from .maximin import Maximin
from .minimax_law import MinimaxLaw
from .mixture import Mixture
from .sampling import Stream, draw, drawn, sample, within_context
from .shrunk_urn import ShrunkUrn, equaliser
from .tables import Markov, Scheduled
from .urn import PolyaUrn

__all__ = [
    "FromFunction",
    "Markov",
    "Maximin",
    "MinimaxLaw",
    "Mixture",
    "PolyaUrn",
    "Predictor",
    "Scheduled",
    "ShrunkUrn",
    "Stream",
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
