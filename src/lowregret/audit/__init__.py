"""A recording in, an answer out: was acting on this model safe, and what would the guard have done?"""

from .backtesting import Backtest, StreamResult, backtest
from .tuning import Tuned, tune

__all__ = ["Backtest", "StreamResult", "Tuned", "backtest", "tune"]
