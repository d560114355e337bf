"""Tokens to where the weights are, and what comes out back to where the tokens were."""

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array, namespace, to_numpy


def as_tensor(tokens: Array, device: torch.device) -> Tensor:
    """The tokens as a tensor on that device."""
    if isinstance(tokens, Tensor):
        return tokens.to(device)
    return torch.as_tensor(np.array(to_numpy(tokens), dtype=np.int64), device=device)


def as_kind(values: Tensor, like: Array) -> Array:
    """The values as the kind of array that ``like`` is, where it is."""
    xp = namespace(like)
    if xp is np:
        return values.cpu().numpy()
    return values.to(like.device) if isinstance(like, Tensor) else xp.asarray(values.cpu().numpy())
