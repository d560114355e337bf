"""Forecasts of an outcome that is a number: samples or quantiles."""

from .contract import Forecast, Law
from .quantiles import Quantiles
from .samples import Samples

__all__ = [
    "Forecast",
    "Law",
    "Quantiles",
    "Samples",
]
