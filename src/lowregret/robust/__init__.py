"""Low regret for any predictor: Algorithms 1 and 3, Algorithm 2 for short memories, and a way back after an alarm."""

from .average_restart import AverageRestart, window_needed
from .switch_once import Robust, robustify, rule_for

__all__ = ["AverageRestart", "Robust", "robustify", "rule_for", "window_needed"]
