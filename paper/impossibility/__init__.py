"""What cannot be done (Theorem 4.1): with the context length of its base, no model is both close to it and low-regret.

``regret_bound``, ``sum_bound`` and ``dichotomy`` say what no model with bounded context can do, with the proof;
``measure`` says where a given one stands, exactly; ``least_sum`` and ``trade_off`` search all of them for the best.
"""

from .bounds import PRINTED, dichotomy, regret_bound, response, sum_bound
from .models import Bounded, Enumerated, bounded_model, measure, measure_by_enumeration
from .search import BudgetFound, TradeOff, least_sum, trade_off

__all__ = [
    "PRINTED",
    "Bounded",
    "BudgetFound",
    "Enumerated",
    "TradeOff",
    "bounded_model",
    "dichotomy",
    "least_sum",
    "measure",
    "measure_by_enumeration",
    "regret_bound",
    "response",
    "sum_bound",
    "trade_off",
]
