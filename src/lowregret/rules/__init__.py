"""When to stop trusting (Algorithm 1): one class a theorem."""

from .base import Rule, RuleMemory
from .exact import ExactTest
from .thresholds import RegretGap, RegretRate

__all__ = ["ExactTest", "RegretGap", "RegretRate", "Rule", "RuleMemory"]
