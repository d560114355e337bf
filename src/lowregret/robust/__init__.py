"""Low regret for any predictor: Algorithms 1 and 3 (``robustify``), and Algorithm 2 for short memories."""

from .average_restart import AverageRestart, window_needed
from .robustify import Robust, algorithm_1

__all__ = ["AverageRestart", "Robust", "algorithm_1", "window_needed"]
