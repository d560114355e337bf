"""Make any next-token predictor safe to act on.

``robustify`` a predictor for a decision problem: it predicts the same while the world behaves as the model says, and
acting on it is provably never much worse than the best fixed action in hindsight when the world does not.
"""

from . import adversaries, certificates, checks, sources
from .certificates import Certificate
from .guard import Guard, Switch
from .memory import take
from .policies import Hedge, Policy, Respond
from .predictors import FromFunction, Markov, PolyaUrn, Predictor, Scheduled
from .problems import DecisionProblem, cost_loss, matching, newsvendor, rock_paper_scissors, trading
from .regret import external_regret
from .robust import Robust, robustify
from .rules import ExactTest, RegretGap, RegretRate, Rule
from .sampling import Stream, sample

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "DecisionProblem",
    "ExactTest",
    "FromFunction",
    "Guard",
    "Hedge",
    "Markov",
    "Policy",
    "PolyaUrn",
    "Predictor",
    "RegretGap",
    "RegretRate",
    "Respond",
    "Robust",
    "Rule",
    "Scheduled",
    "Stream",
    "Switch",
    "__version__",
    "adversaries",
    "certificates",
    "checks",
    "cost_loss",
    "external_regret",
    "matching",
    "newsvendor",
    "robustify",
    "rock_paper_scissors",
    "sample",
    "sources",
    "take",
    "trading",
]
