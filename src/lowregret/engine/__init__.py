"""The engine: comparators, responses, tests, fallbacks, and the loop that runs them."""

from .bets import OWN_TEST, ExactTest, NoTest, Suspect, Test, prior_of
from .comparators import Actions, Comparators, References
from .fallbacks import Fallback, Recovery, UseReference
from .responses import BestResponse, QuantalResponse, Response
from .run import Engine, Setting, Signals, Trace
from .step import Inputs, Step

__all__ = [
    "OWN_TEST",
    "Actions",
    "BestResponse",
    "Comparators",
    "Engine",
    "ExactTest",
    "Fallback",
    "Inputs",
    "NoTest",
    "QuantalResponse",
    "Recovery",
    "References",
    "Response",
    "Setting",
    "Signals",
    "Step",
    "Suspect",
    "Test",
    "Trace",
    "UseReference",
    "prior_of",
]
