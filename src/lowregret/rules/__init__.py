"""When to stop trusting (Algorithms 1 and 3): one class a theorem, and compiled kernels beside them."""

from .bets import Suspicion, Wealth
from .contract import Moment, Rule, RuleMemory, spliced
from .exact import ExactTest
from .response import ResponseRule
from .thresholds import RegretGap, RegretRate
from .vregret import VRegret

__all__ = [
    "ExactTest",
    "Moment",
    "RegretGap",
    "RegretRate",
    "ResponseRule",
    "Rule",
    "RuleMemory",
    "Suspicion",
    "VRegret",
    "Wealth",
    "spliced",
]
