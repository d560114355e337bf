"""Low-regret transformers (Section 5.2): the decoder, its training, its checkpoints (extra: ``torch``)."""

try:
    import safetensors.torch  # noqa: F401
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"lowregret.transformer needs {error.name}: pip install 'lowregret[torch]'", name=error.name
    ) from error

from .checkpoints import load, save
from .decoder import SIZES, Decoder, Size
from .held_out import measured
from .predictor import Transformer
from .recording import Recording
from .settings import DECAYING, NANODO, Optimiser, TrainingSettings
from .tasks import Distil, Imitate, Masked, Task
from .training import Progress, train

__all__ = [
    "DECAYING",
    "NANODO",
    "SIZES",
    "Decoder",
    "Distil",
    "Imitate",
    "Masked",
    "Optimiser",
    "Progress",
    "Recording",
    "Size",
    "Task",
    "TrainingSettings",
    "Transformer",
    "load",
    "measured",
    "save",
    "train",
]
