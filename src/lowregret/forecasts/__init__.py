"""Forecasts of an outcome that is a number: samples or quantiles."""

from .contract import Charged, Forecast, Law, side_by_side
from .quantiles import Quantiles
from .samples import Samples
from .scene import NumberScene, number_scene

__all__ = [
    "Charged",
    "Forecast",
    "Law",
    "NumberScene",
    "Quantiles",
    "Samples",
    "number_scene",
    "side_by_side",
]
