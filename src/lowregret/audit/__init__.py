"""A recording in, an answer out: was acting on this model safe, and what would the guard have done?"""

from .auditing import audit_log, merge
from .backtesting import backtest
from .cells import Refused
from .gating import Gate, gate
from .playing import YARDSTICKS
from .report import Audit, Judgement
from .result import Backtest, StreamResult
from .tuning import Tuned, tune

__all__ = [
    "YARDSTICKS",
    "Audit",
    "Backtest",
    "Gate",
    "Judgement",
    "Refused",
    "StreamResult",
    "Tuned",
    "audit_log",
    "backtest",
    "gate",
    "merge",
    "tune",
]
