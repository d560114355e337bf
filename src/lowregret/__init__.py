"""Make any next-token predictor safe to act on.

``robustify`` a predictor for a decision problem: it predicts the same while the world behaves as the model says, and
acting on it is provably never much worse than the best fixed action in hindsight when the world does not. A ``Guard``
does the same for forecasts that come one at a time, ``backtest`` for recorded ones, ``audit`` for a log.

Here are the names for a first week. All others are in their packages (``lowregret.predictors``, ``lowregret.policies``,
``lowregret.rules``, ...), which need no import of their own.
"""

from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import Any as _Any

from . import (
    arrays,
    audits,
    certificates,
    checks,
    engine,
    evaluate,
    forecasts,
    guard,
    inputs,
    policies,
    predictors,
    problems,
    robust,
    rules,
)
from .audits import backtest, gate
from .certificates import Certificate
from .engine import (
    Actions,
    BestResponse,
    ExactTest,
    NoTest,
    QuantalResponse,
    Recovery,
    References,
    UseReference,
)
from .engine.loop import warm_up
from .evaluate import compare, external_regret, internal_regret, next_token_tv, sequence_tv
from .forecasts import Quantiles, Samples
from .guard import Advice, Alarm, Guard, ModelDropped, Return
from .memory import take
from .predictors import FromFunction, Markov, Mixture, PolyaUrn, Predictor, ShrunkUrn, sample
from .problems import DecisionProblem, Payoff, cost_loss, matching, newsvendor, rock_paper_scissors, trading
from .robust import AverageRestart
from .robust.robustify import robustify
from .rules import RegretGap, RegretRate, VRegret

__version__ = "0.1.0"

# Asked for by name, so that what they need is loaded for nobody else: where each is, and the packages it needs.
_LAZY = {
    "FromModule": (".adapters", "torch"),
    "GuardedClassifier": (".adapters", "sklearn"),
    "HFPredictor": (".adapters", "torch", "transformers"),
    "RobustLogitsProcessor": (".adapters", "torch", "transformers"),
    "audit": (".audits.auditing", "polars"),
}
_PACKAGES = {"adapters": (), "construct": ("torch",), "transformer": ("torch",)}


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        return getattr(_import_module(_LAZY[name][0], __name__), name)
    if name in _PACKAGES:
        return _import_module(f".{name}", __name__)
    there = [package for package in __all__ if name in getattr(globals().get(package), "__all__", ())]
    hint = f": it is {__name__}.{there[0]}.{name}" if there else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    needed = {name: packages for name, (_, *packages) in _LAZY.items()} | _PACKAGES
    return [*globals(), *(name for name in needed if all(map(_find_spec, needed[name])))]  # help() asks for each


__all__ = [
    "Actions",
    "Advice",
    "Alarm",
    "AverageRestart",
    "BestResponse",
    "Certificate",
    "DecisionProblem",
    "ExactTest",
    "FromFunction",
    "FromModule",
    "Guard",
    "GuardedClassifier",
    "HFPredictor",
    "Markov",
    "Mixture",
    "ModelDropped",
    "NoTest",
    "Payoff",
    "PolyaUrn",
    "Predictor",
    "QuantalResponse",
    "Quantiles",
    "Recovery",
    "References",
    "RegretGap",
    "RegretRate",
    "Return",
    "RobustLogitsProcessor",
    "Samples",
    "ShrunkUrn",
    "UseReference",
    "VRegret",
    "__version__",
    "arrays",
    "audit",
    "audits",
    "backtest",
    "certificates",
    "checks",
    "compare",
    "cost_loss",
    "engine",
    "evaluate",
    "external_regret",
    "forecasts",
    "gate",
    "guard",
    "inputs",
    "internal_regret",
    "matching",
    "newsvendor",
    "next_token_tv",
    "policies",
    "predictors",
    "problems",
    "robust",
    "robustify",
    "rock_paper_scissors",
    "rules",
    "sample",
    "sequence_tv",
    "take",
    "trading",
    "warm_up",
]
