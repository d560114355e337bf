"""The paper's own tests of when to stop trusting a model, a page each: Theorem 3.1, Section 5 and Algorithm 3."""

from .regret_gap import RegretGap
from .regret_rate import RegretRate
from .v_regret import VRegret

__all__ = ["RegretGap", "RegretRate", "VRegret"]
