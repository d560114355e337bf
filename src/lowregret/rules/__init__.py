"""The paper's own tests, a page each (Theorem 3.1, Section 5, Algorithm 3); V-shaped losses and scoring rules."""

from . import scoring, tips
from .regret_gap import RegretGap
from .regret_rate import RegretRate
from .v_regret import VRegret

__all__ = ["RegretGap", "RegretRate", "VRegret", "scoring", "tips"]
