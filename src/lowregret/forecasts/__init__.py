"""Forecasts of an outcome that is a number: samples, quantiles, a density; and bins that make states of it."""

from .bins import Bins
from .contract import Charged, Forecast, Law, side_by_side
from .density import Density
from .quantiles import Quantiles
from .samples import Samples
from .scene import NumberScene, number_scene

__all__ = [
    "Bins",
    "Charged",
    "Density",
    "Forecast",
    "Law",
    "NumberScene",
    "Quantiles",
    "Samples",
    "number_scene",
    "side_by_side",
]
