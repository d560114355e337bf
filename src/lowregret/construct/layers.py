"""What the built model is made of (Appendix B.1): causal softmax attention, ReLU perceptrons, residual connections."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Head:
    """One attention head as linear maps of the stream: scores ``query . key``, and where the mixed values are added."""

    name: str
    query_ExD: np.ndarray
    key_ExD: np.ndarray
    value_VxD: np.ndarray
    into: slice  # the V coordinates of the stream


@dataclass(frozen=True)
class Perceptron:
    """ReLU units as linear maps of the stream: ``outer @ relu(inner @ x)``, added to the coordinates ``into``.

    There are no biases: the stream has a coordinate that is always one.
    """

    name: str
    inner_FxD: np.ndarray
    outer_VxF: np.ndarray
    into: slice


class Layer(nn.Module):
    """Attention, then the perceptrons side by side, each added to the stream.

    >>> mean = Head("mean", np.zeros((1, 2)), np.zeros((1, 2)), np.array([[1.0, 0]]), slice(1, 2))
    >>> layer_of([mean], [], torch.float64)(torch.tensor([[[1.0, 0], [2.0, 0]]], dtype=torch.float64))[0, :, 1].tolist()
    [1.0, 1.5]
    """

    def __init__(self, weights: dict[str, Tensor], head_names: list[str]) -> None:
        super().__init__()
        self.head_names = head_names
        for name, weight in weights.items():
            self.register_buffer(name, weight)

    query_HxExD: Tensor
    key_HxExD: Tensor
    value_HxVxD: Tensor
    out_HxDxV: Tensor
    inner_FxD: Tensor
    outer_DxF: Tensor

    def forward(self, x_BxNxD: Tensor) -> Tensor:
        return self.extend(x_BxNxD, None)[0]

    def extend(self, x_BxNxD: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        """The first rows of a stream (``past=None``) or one more; and all keys and values, ``[B, H, N, E + V]``."""
        query, key, value = (self._of(m, x_BxNxD) for m in (self.query_HxExD, self.key_HxExD, self.value_HxVxD))
        seen = torch.cat([key, value], dim=-1)
        if past is not None:
            seen = torch.cat([past, seen], dim=-2)
            key, value = seen.split([key.shape[-1], value.shape[-1]], dim=-1)
        # The fast kernel wants keys and values of one size: zeros add nothing to a score and are cut off again.
        size = max(key.shape[-1], value.shape[-1])
        q, k, v = (F.pad(part, (0, size - part.shape[-1])) for part in (query, key, value))
        mixed_BxHxNxV = F.scaled_dot_product_attention(q, k, v, is_causal=past is None, scale=1.0)
        mixed_BxHxNxV = mixed_BxHxNxV[..., : value.shape[-1]]
        x_BxNxD = x_BxNxD + torch.einsum("bhnv,hdv->bnd", mixed_BxHxNxV, self.out_HxDxV)
        if len(self.inner_FxD):
            x_BxNxD = x_BxNxD + F.linear(F.relu(F.linear(x_BxNxD, self.inner_FxD)), self.outer_DxF)
        return x_BxNxD, seen

    @staticmethod
    def _of(maps_HxExD: Tensor, x_BxNxD: Tensor) -> Tensor:
        return torch.einsum("bnd,hed->bhne", x_BxNxD, maps_HxExD)


def layer_of(heads: list[Head], perceptrons: list[Perceptron], dtype: torch.dtype) -> Layer:
    """The layer that these heads, at least one, and perceptrons make, side by side."""
    width = heads[0].query_ExD.shape[1]
    key_size = max(len(h.query_ExD) for h in heads)
    value_size = max(len(h.value_VxD) for h in heads)
    out_HxDxV = np.zeros((len(heads), width, value_size))
    for out_DxV, head in zip(out_HxDxV, heads, strict=True):
        out_DxV[head.into, : len(head.value_VxD)] = np.eye(len(head.value_VxD))
    inner_FxD = np.concatenate([np.zeros((0, width)), *(p.inner_FxD for p in perceptrons)])
    outer_DxF, done = np.zeros((width, len(inner_FxD))), 0
    for p in perceptrons:
        outer_DxF[p.into, done : done + len(p.inner_FxD)] = p.outer_VxF
        done += len(p.inner_FxD)
    weights = {
        # Heads of one layer are padded with zeros to the size of the largest: zeros add nothing to a score.
        "query_HxExD": np.stack([_padded(h.query_ExD, key_size) for h in heads]),
        "key_HxExD": np.stack([_padded(h.key_ExD, key_size) for h in heads]),
        "value_HxVxD": np.stack([_padded(h.value_VxD, value_size) for h in heads]),
        "out_HxDxV": out_HxDxV,
        "inner_FxD": inner_FxD,
        "outer_DxF": outer_DxF,
    }
    tensors = {name: torch.as_tensor(weight, dtype=dtype) for name, weight in weights.items()}
    return Layer(tensors, [h.name for h in heads])


def _padded(matrix: np.ndarray, rows: int) -> np.ndarray:
    return np.concatenate([matrix, np.zeros((rows - len(matrix), matrix.shape[1]))])
