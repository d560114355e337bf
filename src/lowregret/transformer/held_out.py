"""What a model learnt, on what it has not seen: of a recording, and of Algorithm 1."""

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from ..arrays import to_numpy
from ..predictors import PolyaUrn
from . import data
from .predictor import Transformer
from .recording import Recording
from .settings import TrainingSettings
from .tasks import Distil, loss_of

_SEQUENCES = 64


class Compared(NamedTuple):
    """Losses on the same fresh sequences: divergences from what Algorithm 1 predicts and plays.

    A student that is not below its base needs more steps; until then use the base with ``robustify``.
    """

    student: float
    base: float


def compared(task: Distil, student: Transformer, settings: TrainingSettings) -> Compared:
    """The student and the base on sequences of a seed that no step has: the source's, and other worlds'.

    Of a recording those that were held out, if any were.
    """
    source, base, device = task.source, task.robust.base, student.device
    assert isinstance(base, Transformer)
    if isinstance(source, Recording) and source.kept:
        source = source.unseen()
    fresh = replace(task, source=source)  # without what was played against the student
    base = base if base.device == device else Transformer(copy.deepcopy(base.decoder).to(device))
    random = data.generator(device, settings.seed, settings.steps, 2)
    batch = fresh.batch(_SEQUENCES, slice(None), settings.size.context, random, base.probs_on_device)
    types, responses = (torch.float32, torch.float32), task.responses(device)

    @torch.no_grad()
    def loss(model: Transformer) -> float:
        total, count = loss_of(model.decoder, batch, types, responses)
        return float(total / count)

    return Compared(loss(student), loss(base))


class Measured(NamedTuple):
    """The mean of -ln of the probability of each token held out, by who predicted it.

    A model that is not below both others learnt nothing beyond how often each state comes.
    """

    model: float
    urn: float  # that counts along, anew in every window
    frequencies: float  # of what was learnt from
    tokens: int


def measured(recording: Recording, model: Transformer) -> Measured:
    """The model on what the recording holds out, in windows of its context one after the other.

    >>> import numpy as np
    >>> from lowregret.transformer import Decoder
    >>> untrained = Transformer(Decoder(2, (8, 16, 2, 1, 32), seed=0))
    >>> print(measured(Recording.of(np.arange(400).reshape(20, 20) % 2), untrained).tokens)
    40
    """
    if not recording.kept:
        raise ValueError("recording must hold something out, and held_out is 0")
    S, T = model.n_states, model.context
    windows = [row[begin : begin + T] for row in recording.kept for begin in range(0, len(row), T)]
    tokens_NxT = np.stack([np.resize(window, T) for window in windows])  # filled up by beginning again
    own_NxT = np.arange(T) < np.array([[len(window)] for window in windows])

    def loss(probs: Any) -> float:
        probs_NxTxS = np.broadcast_to(to_numpy(probs), (*tokens_NxT.shape, S))
        own_probs_NxT = np.take_along_axis(probs_NxTxS, tokens_NxT[..., None], axis=-1)[..., 0].astype(np.float64)
        return float(-np.log(own_probs_NxT)[own_NxT].mean())

    learnt, urn = model.predict_sequence(tokens_NxT), PolyaUrn(S).predict_sequence(tokens_NxT)
    counts_S = np.bincount(np.concatenate(recording.learnt), minlength=S) + 1.0
    return Measured(loss(learnt), loss(urn), loss(counts_S / counts_S.sum()), int(own_NxT.sum()))
