"""Algorithm 1 as transformer weights (Section 5.1, Appendix B): a few more layers, no training (extra: ``torch``)."""

try:
    import safetensors.torch  # noqa: F401
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"lowregret.construct needs {error.name}: pip install 'lowregret[torch]'", name=error.name
    ) from error

from .agreeing import Agreement, agreement
from .files import load, save
from .model import Appended, Sizes
from .predictor import Constructed, build

__all__ = [
    "Agreement",
    "Appended",
    "Constructed",
    "Sizes",
    "agreement",
    "build",
    "load",
    "save",
]
