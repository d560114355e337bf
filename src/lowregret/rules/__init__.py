"""When to stop trusting (Algorithms 1 and 3): one class a theorem."""

from .base import ResponseRule, Rule, RuleMemory
from .exact import ExactTest
from .thresholds import RegretGap, RegretRate
from .vregret import VRegret

__all__ = ["ExactTest", "RegretGap", "RegretRate", "ResponseRule", "Rule", "RuleMemory", "VRegret"]
