"""When to stop trusting (Algorithms 1 and 3): one class a theorem, and compiled kernels beside them."""

from .bets import Suspicion, Wealth
from .contract import Knows, Moment, Rule, RuleMemory, names_of, spliced
from .exact import ExactTest, warm_up
from .late import Late, late_rule
from .response import ResponseRule
from .thresholds import RegretGap, RegretRate
from .vregret import VRegret

__all__ = [
    "ExactTest",
    "Knows",
    "Late",
    "Moment",
    "RegretGap",
    "RegretRate",
    "ResponseRule",
    "Rule",
    "RuleMemory",
    "Suspicion",
    "VRegret",
    "Wealth",
    "late_rule",
    "names_of",
    "spliced",
    "warm_up",
]
