"""The engine: comparators, responses, tests, fallbacks, and the loop that runs them."""

from .bets import OWN_TEST, ExactTest, NoTest, Suspect, Test, prior_of
from .comparators import Actions, Comparators, References
from .fallbacks import Fallback, Recovery, UseReference
from .responses import BestResponse, QuantalResponse, Response
from .run import Engine, Setting, Told, Trace
from .step import Said, Step

__all__ = [
    "OWN_TEST",
    "Actions",
    "BestResponse",
    "Comparators",
    "Engine",
    "ExactTest",
    "Fallback",
    "NoTest",
    "QuantalResponse",
    "Recovery",
    "References",
    "Response",
    "Said",
    "Setting",
    "Step",
    "Suspect",
    "Test",
    "Told",
    "Trace",
    "UseReference",
    "prior_of",
]
