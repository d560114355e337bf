"""What decides, with the task, which weights a training run ends with: size, steps, batch, seed and optimiser."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .. import inputs
from .decoder import size_of


@dataclass(frozen=True)
class Optimiser:
    """AdamW on every weight, with a rate that rises in a line and then stays or falls as a cosine.

    Parameters
    ----------
    peak, start, warmup
        The rate goes from ``start`` to ``peak`` over ``warmup`` steps.
    falls
        Whether it then falls to zero, along a cosine, by the last step.
    clip
        The largest norm of a gradient; None: any.

    >>> [round(DECAYING.rate(step, steps=2000), 6) for step in (0, 49, 1024, 1999)]
    [2e-05, 0.001, 0.0005, 0.0]
    """

    peak: float
    start: float
    warmup: int
    falls: bool
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    clip: float | None

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.start + (self.peak - self.start) * step / self.warmup
        if not self.falls:
            return self.peak
        done = (step - self.warmup) / max(1, steps - self.warmup)
        return self.peak * (1 + math.cos(math.pi * min(1.0, done))) / 2

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
        """The torch optimiser; its rate is to be set before every step. On a GPU that is a tensor, to be replayed."""
        kept = list(parameters)
        cuda = kept[0].device.type == "cuda"
        return torch.optim.AdamW(
            kept,
            lr=torch.tensor(self.peak, device=kept[0].device) if cuda else self.peak,
            betas=self.betas,
            eps=self.eps,
            weight_decay=self.weight_decay,
            fused=cuda,
            capturable=cuda,
        )


# NanoDO's defaults: at 500 steps it is still warming up.
NANODO = Optimiser(1.6e-3, 1.6e-4, 1000, False, (0.9, 0.98), 1e-9, 0.1, None)
# A rate that falls within the run: an order of magnitude closer.
DECAYING = Optimiser(1e-3, 2e-5, 49, True, (0.9, 0.95), 1e-8, 1e-4, 1.0)


@dataclass(frozen=True)
class TrainingSettings:
    """One training run.

    Parameters
    ----------
    batch
        Sequences per step, of all processes together.
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
        inputs.whole(self.seed, "seed", least=0)
        for name in ("compute", "stream"):
            if getattr(self, name) not in (None, "float32", "bfloat16"):
                raise ValueError(f"{name} must be 'float32', 'bfloat16' or None, got {getattr(self, name)!r}")

    def types(self, device: torch.device) -> tuple[torch.dtype, torch.dtype]:
        """Of matrix products, and of the stream between blocks."""
        compute = self.compute or ("bfloat16" if device.type == "cuda" else "float32")
        return getattr(torch, compute), getattr(torch, self.stream or compute)
