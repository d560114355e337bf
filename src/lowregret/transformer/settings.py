"""What decides, with the task, which weights a training run ends with."""

from dataclasses import dataclass, field
from typing import Any

import torch

from .. import inputs
from .decoder import seed_of, size_of
from .optimiser import NANODO, Optimiser


@dataclass(frozen=True)
class Settings:
    """What decides, with the task, which weights come out.

    Parameters
    ----------
    batch
        Sequences in a step, of all processes together.
    compute, stream
        The types of matrix products and of the stream between blocks; None: bfloat16 on a GPU, float32 on a CPU, and
        the stream as ``compute``.
    """

    size: Any = "paper"
    steps: int = 500
    batch: int = 128
    seed: int = 0
    optimiser: Optimiser = field(default=NANODO)
    compute: str | None = None
    stream: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", size_of(self.size))
        inputs.whole(self.steps, "steps")
        inputs.whole(self.batch, "batch")
        seed_of(self.seed)
        if not isinstance(self.optimiser, Optimiser):
            raise ValueError(f"optimiser must be an Optimiser such as DECAYING, got {self.optimiser!r}")
        for name in ("compute", "stream"):
            if getattr(self, name) not in (None, "float32", "bfloat16"):
                raise ValueError(f"{name} must be 'float32', 'bfloat16' or None, got {getattr(self, name)!r}")

    def types(self, device: torch.device) -> tuple[torch.dtype, torch.dtype]:
        compute = self.compute or ("bfloat16" if device.type == "cuda" else "float32")
        return getattr(torch, compute), getattr(torch, self.stream or compute)
