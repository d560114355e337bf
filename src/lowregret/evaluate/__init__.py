"""How well it went: regret, distances between predictors, players against sources and adversaries, pictures."""

from . import adversaries, comparison, distances, plots, regret, sources
from .comparison import Comparison
from .distances import Estimate, next_token_tv, sequence_tv
from .playing import compare
from .regret import external_regret, internal_regret

__all__ = [
    "Comparison",
    "Estimate",
    "adversaries",
    "compare",
    "comparison",
    "distances",
    "external_regret",
    "internal_regret",
    "next_token_tv",
    "plots",
    "regret",
    "sequence_tv",
    "sources",
]
