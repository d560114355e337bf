"""Make any next-token predictor safe to act on.

``robustify`` a predictor for a decision problem: it predicts the same while the world behaves as the model says, and
acting on it is provably never much worse than the best fixed action in hindsight when the world does not.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from . import adversaries, certificates, checks, distances, games, impossibility, plots, scoring, sources, tips
from .adversaries import Worst
from .audit import Backtest, Tuned, backtest, tune
from .certificates import Certificate, limits
from .comparison import Comparison, compare
from .contexts import ContextMixture, ContextTree
from .distances import Estimate, next_token_tv, sequence_tv
from .forecasts import Bins, Density, Quantiles, Samples
from .frontier import Frontier, price_of_robustness
from .games import Arena, arena, play
from .guard import Advice, EventLog, Guard, Left, Return, Switch
from .memory import take
from .policies import (
    AdaHedge,
    FixedShare,
    Hedge,
    Incumbent,
    MaximinPlay,
    Minimax,
    Policy,
    Prod,
    Recovery,
    Respond,
    RestartHedge,
)
from .predictors import (
    FromFunction,
    Markov,
    Maximin,
    MinimaxLaw,
    Mixture,
    PolyaUrn,
    Predictor,
    Scheduled,
    ShrunkUrn,
    Stream,
    sample,
)
from .problems import DecisionProblem, Payoff, cost_loss, matching, newsvendor, rock_paper_scissors, trading
from .regret import external_regret, internal_regret
from .robust import AverageRestart, Robust, challenge, context_needed, robustify
from .rules import ExactTest, RegretGap, RegretRate, ResponseRule, Rule, VRegret, warm_up
from .tips import tips_of

__version__ = "0.1.0"

# Asked for by name, so that what they need (torch, transformers, scikit-learn, River) is loaded for nobody else.
_ELSEWHERE = {
    "FromModule": "torch_module",
    "GuardDriftDetector": "river_models",
    "GuardedClassifier": "scikit_learn",
    "GuardedRiverClassifier": "river_models",
    "HFDistil": "hf_distil",
    "HFPredictor": "hugging_face",
    "RobustLogitsProcessor": "logits_processor",
}


def __getattr__(name: str) -> _Any:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f".adapters.{_ELSEWHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *_ELSEWHERE]


__all__ = [
    "AdaHedge",
    "Advice",
    "Arena",
    "AverageRestart",
    "Backtest",
    "Bins",
    "Certificate",
    "Comparison",
    "ContextMixture",
    "ContextTree",
    "DecisionProblem",
    "Density",
    "Estimate",
    "EventLog",
    "ExactTest",
    "FixedShare",
    "FromFunction",
    "Frontier",
    "Guard",
    "Hedge",
    "Incumbent",
    "Left",
    "Markov",
    "Maximin",
    "MaximinPlay",
    "Minimax",
    "MinimaxLaw",
    "Mixture",
    "Payoff",
    "Policy",
    "PolyaUrn",
    "Predictor",
    "Prod",
    "Quantiles",
    "Recovery",
    "RegretGap",
    "RegretRate",
    "Respond",
    "ResponseRule",
    "RestartHedge",
    "Return",
    "Robust",
    "Rule",
    "Samples",
    "Scheduled",
    "ShrunkUrn",
    "Stream",
    "Switch",
    "Tuned",
    "VRegret",
    "Worst",
    "__version__",
    "adversaries",
    "arena",
    "backtest",
    "certificates",
    "challenge",
    "checks",
    "compare",
    "context_needed",
    "cost_loss",
    "distances",
    "external_regret",
    "games",
    "impossibility",
    "internal_regret",
    "limits",
    "matching",
    "newsvendor",
    "next_token_tv",
    "play",
    "plots",
    "price_of_robustness",
    "robustify",
    "rock_paper_scissors",
    "sample",
    "scoring",
    "sequence_tv",
    "sources",
    "take",
    "tips",
    "tips_of",
    "trading",
    "tune",
    "warm_up",
]
