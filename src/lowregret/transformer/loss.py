"""What a decoder is punished for: wrong tokens, wrong laws, and responses that a wrong law leads to."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .tasks import Batch, Stakes


def loss_of(decoder: Any, batch: Batch, types: tuple[torch.dtype, torch.dtype], stakes: "Scaled | None") -> Tensor:
    """The loss summed over the steps that count, and how many they are, ``[2]``.

    For tokens it is -ln of their probability. For laws it is the divergence of the decoder's law from them, plus that
    of its response from theirs, weighted: near a tip the response turns a small error of a law into a large one.
    """
    log_law_BxTxS = F.log_softmax(decoder(batch.tokens_BxT, *types), dim=-1)
    if batch.targets_BxTxS is None:
        loss_BxT = -log_law_BxTxS.gather(-1, batch.tokens_BxT[..., None])[..., 0]
    else:
        loss_BxT = F.kl_div(log_law_BxTxS, batch.targets_BxTxS, reduction="none").sum(-1)
        if stakes is not None:
            loss_BxT = loss_BxT + of_responses(log_law_BxTxS.exp(), batch.targets_BxTxS, stakes)
    if batch.weights_BxT is None:
        return torch.stack([loss_BxT.sum(), torch.ones_like(loss_BxT).sum()])
    return torch.stack([(loss_BxT * batch.weights_BxT).sum(), batch.weights_BxT.sum()])


def of_responses(laws_BxTxS: Tensor, targets_BxTxS: Tensor, stakes: "Scaled") -> Tensor:
    """How far the responses to the laws are from those to the targets, weighted, ``[B, T]``."""
    wanted_BxTxA = torch.softmax(targets_BxTxS @ stakes.utility_SxA, dim=-1)
    played_BxTxA = torch.log_softmax(laws_BxTxS @ stakes.utility_SxA, dim=-1)
    return stakes.weight * F.kl_div(played_BxTxA, wanted_BxTxA, reduction="none").sum(-1)


class Scaled(NamedTuple):
    """``Stakes`` on the device: utilities over the temperature."""

    utility_SxA: Tensor
    weight: float

    @classmethod
    def of(cls, stakes: Stakes | None, device: torch.device) -> "Scaled | None":
        if stakes is None:
            return None
        scaled = stakes.problem.utility.T / stakes.temperature
        return cls(torch.tensor(scaled, dtype=torch.float32, device=device), stakes.weight)
