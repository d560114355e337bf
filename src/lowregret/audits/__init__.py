"""Recordings and logs in, answers out: was acting on this model safe, and what would a guard have done?"""

from importlib import import_module as _import_module
from typing import Any as _Any

from .backtesting import Backtest, StreamResult, backtest
from .gating import Gate, Gates, gate
from .judging import YARDSTICKS
from .settings import AuditFile, AuditSettings, Columns, settings_in

_OF_LOGS = {  # which need Polars
    "Audit": ".auditing",
    "Refused": ".reading",
    "audit": ".auditing",
    "gate_forecasts": ".gate_logs",
    "gate_scores": ".gate_logs",
}


def __getattr__(name: str) -> _Any:
    if name in _OF_LOGS:
        return getattr(_import_module(_OF_LOGS[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "YARDSTICKS",
    "Audit",
    "AuditFile",
    "AuditSettings",
    "Backtest",
    "Columns",
    "Gate",
    "Gates",
    "Refused",
    "StreamResult",
    "audit",
    "backtest",
    "gate",
    "gate_forecasts",
    "gate_scores",
    "settings_in",
]
