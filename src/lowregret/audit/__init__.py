"""A recording in, an answer out: was acting on this model safe, and what would the guard have done?"""

from .auditing import audit_log
from .backtesting import backtest
from .cells import Refused
from .gating import Gate, gate
from .playing import YARDSTICKS
from .proposing import proposed
from .report import Audit, Judgement
from .result import Backtest, StreamResult
from .settings import AuditFile, settings_in

__all__ = [
    "YARDSTICKS",
    "Audit",
    "AuditFile",
    "Backtest",
    "Gate",
    "Judgement",
    "Refused",
    "StreamResult",
    "audit_log",
    "backtest",
    "gate",
    "proposed",
    "settings_in",
]
