"""Low regret for any predictor: Algorithms 1 and 3, Algorithm 2 for short memories, and a way back after an alarm."""

from .average_restart import AverageRestart, context_needed
from .beside import Beside, challenge
from .switch_once import Robust, robustify, rule_for

__all__ = [
    "AverageRestart",
    "Beside",
    "Robust",
    "challenge",
    "context_needed",
    "robustify",
    "rule_for",
]
