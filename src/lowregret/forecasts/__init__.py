"""What a model may say of an outcome that is a number: samples, quantiles, a density; and bins for who wants states."""

from .bins import Bins
from .contract import Charged, Forecast, Law
from .density import Density
from .quantiles import Quantiles
from .samples import Samples

__all__ = ["Bins", "Charged", "Density", "Forecast", "Law", "Quantiles", "Samples"]
