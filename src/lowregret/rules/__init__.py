"""When to stop trusting (Algorithms 1 and 3): one class a theorem, and compiled kernels beside them."""

from .contract import Rule
from .every_start import Suspicion
from .exact import ExactTest, first_test
from .informed import InformedTest
from .late import Late, late_rule
from .moment import Known, Knows, Moment, RuleMemory, names_of, spliced
from .outcomes import OutcomeMemory, OutcomeTest, Seen
from .response import ResponseRule
from .thresholds import RegretGap, RegretRate
from .vregret import VRegret

__all__ = [
    "ExactTest",
    "InformedTest",
    "Known",
    "Knows",
    "Late",
    "Moment",
    "OutcomeMemory",
    "OutcomeTest",
    "RegretGap",
    "RegretRate",
    "ResponseRule",
    "Rule",
    "RuleMemory",
    "Seen",
    "Suspicion",
    "VRegret",
    "first_test",
    "late_rule",
    "names_of",
    "spliced",
]
