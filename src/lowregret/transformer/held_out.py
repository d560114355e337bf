"""Whether a model that was distilled is nearer to Algorithm 1 than the base model it started from."""

import copy
from dataclasses import replace
from typing import NamedTuple

import torch

from . import data
from .loss import Scaled, loss_of
from .predictor import Transformer
from .settings import Settings
from .tasks import Distil

_SEQUENCES = 64


class Compared(NamedTuple):
    """Losses on the same fresh sequences, which are divergences from what Algorithm 1 says and plays."""

    student: float
    base: float

    def __str__(self) -> str:
        words = f"Divergence from Algorithm 1 on fresh sequences: {self.student:.3g}, its base {self.base:.3g}"
        if self.student < self.base:
            return words
        return f"{words}. It is worse than its base: train it for more steps, or use the base with robustify"


def compared(task: Distil, student: Transformer, settings: Settings) -> Compared:
    """The student and the base on sequences of a seed that no step has: the source's, and other worlds'."""
    assert isinstance(task.base, Transformer)
    fresh, device = replace(task), student.device  # without what was played against the student
    base = task.base if task.base.device == device else Transformer(copy.deepcopy(task.base.decoder).to(device))
    random = data.generator(device, settings.seed, settings.steps, 2)
    batch = fresh.batch(_SEQUENCES, slice(None), settings.size.context, random, base.laws_on_device)
    types, stakes = (torch.float32, torch.float32), Scaled.of(task.stakes, device)

    @torch.no_grad()
    def loss(model: Transformer) -> float:
        total, count = loss_of(model.decoder, batch, types, stakes)
        return float(total / count)

    return Compared(loss(student), loss(base))
