"""Who predicts: the contract, urns, tables, functions, fallbacks, and drawing sequences."""

from .contract import Predictor, asked, asked_sequence, has_states, said_by, same_states, unroll, vouched
from .function import FromFunction
from .mixture import Mixture
from .sampling import Stream, draw, drawn, sample, within_window
from .tables import Markov, Scheduled
from .urns import PolyaUrn, ShrunkUrn, equaliser

__all__ = [
    "FromFunction",
    "Markov",
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
    "within_window",
]
