"""The decoder of Section 5.2: NanoDO's architecture, top to bottom.

Learned positions, pre-LayerNorm without bias, GELU, no biases anywhere, input and output embeddings tied. The input is
BOS and then the tokens, so entry t of the output has seen ``tokens[:t]`` and is about token t. BOS has a row of the
embedding and no logit: the output is a distribution over the states alone, and no state is ever taken for padding.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import inputs
from ..arrays import total


class Size(NamedTuple):
    """How large a decoder is.

    >>> SIZES["paper"]
    Size(context=1024, width=256, heads=4, layers=3, inner=1024)
    """

    context: int  # tokens in a sequence
    width: int
    heads: int
    layers: int
    inner: int


SIZES = {"quick": Size(256, 64, 2, 2, 256), "paper": Size(1024, 256, 4, 3, 1024)}
FEW, VERY_FEW = 31, 3  # states


def size_of(size: Any) -> Size:
    """A size, or the name of one.

    >>> size_of("quick").context
    256
    """
    size = Size(*(SIZES[inputs.choice(size, "size", tuple(SIZES))] if isinstance(size, str) else size))
    if size.width % size.heads:
        raise ValueError(f"size.width must be a multiple of size.heads, got {size.width} and {size.heads}")
    return size


class DecoderBlock(nn.Module):
    """Attention, then a perceptron, each on a normalised copy of the stream and added back to it."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.attention_norm = nn.LayerNorm(size.width, eps=1e-6, bias=False)
        self.query_key_value = nn.Linear(size.width, 3 * size.width, bias=False)
        self.attention_out = nn.Linear(size.width, size.width, bias=False)
        self.inner_norm = nn.LayerNorm(size.width, eps=1e-6, bias=False)
        self.inner = nn.Linear(size.width, size.inner, bias=False)
        self.inner_out = nn.Linear(size.inner, size.width, bias=False)

    def forward(self, x_BxTxD: Tensor, compute: torch.dtype) -> Tensor:
        query, key, value = self.heads_of(x_BxTxD, compute)
        mixed_BxHxTxE = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.onward(x_BxTxD, mixed_BxHxTxE, compute)

    def heads_of(self, x_BxTxD: Tensor, compute: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, ``[B, H, T, E]`` each."""
        B, T, D = x_BxTxD.shape
        together = _linear(self.query_key_value, _normed(self.attention_norm, x_BxTxD), compute)
        query, key, value = together.view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        return query, key, value

    def onward(self, x_BxTxD: Tensor, mixed_BxHxTxE: Tensor, compute: torch.dtype) -> Tensor:
        """The stream with what attention found added, through the perceptron."""
        x_BxTxD = x_BxTxD + _linear(self.attention_out, mixed_BxHxTxE.transpose(1, 2).flatten(2), compute)
        inner_BxTxF = _gelu(_linear(self.inner, _normed(self.inner_norm, x_BxTxD), compute))
        return x_BxTxD + _linear(self.inner_out, inner_BxTxF, compute)


class Decoder(nn.Module):
    """Logits of the next state after BOS and every prefix: ``tokens[B, T] -> [B, T, S]``.

    They are in float32, and all is computed in it, unless the weights are doubles; weights in half precision are
    widened. Training may compute in less.

    Parameters
    ----------
    n_states
        How many states there are; the tokens are 0 .. n_states - 1.
    size
        "quick", "paper" or a ``Size``.
    seed
        Of the initial weights.

    >>> decoder = Decoder(3, size="quick", seed=0)
    >>> decoder(torch.tensor([[0, 2, 1, 1]])).shape
    torch.Size([1, 4, 3])
    """

    def __init__(self, n_states: int, size: Any = "paper", seed: int = 0) -> None:
        super().__init__()
        self.n_states, self.size = n_states, size_of(size)
        self.embedding = nn.Embedding(self.n_states + 1, self.size.width)  # the last row is BOS
        self.position = nn.Embedding(self.size.context, self.size.width)
        self.blocks = nn.ModuleList(DecoderBlock(self.size) for _ in range(self.size.layers))
        self.out_norm = nn.LayerNorm(self.size.width, eps=1e-6, bias=False)
        self._initialise(torch.Generator().manual_seed(seed))

    def extra_repr(self) -> str:
        return str(self.size)

    @property
    def precision(self) -> torch.dtype:
        """What is computed in unless another type is asked for: that of the weights, float32 at least."""
        return torch.promote_types(self.embedding.weight.dtype, torch.float32)

    def forward(
        self, tokens_BxT: Tensor, compute: torch.dtype | None = None, stream: torch.dtype | None = None
    ) -> Tensor:
        """``compute`` is the type of matrix products and attention, ``stream`` that of the stream between blocks."""
        compute, inputs_BxT = compute or self.precision, F.pad(tokens_BxT[:, :-1], (1, 0), value=self.n_states)
        x_BxTxD = self._rows(inputs_BxT).to(self.precision) + self.position.weight[: inputs_BxT.shape[1]]
        x_BxTxD = x_BxTxD.to(stream or compute)
        for block in self.blocks:
            x_BxTxD = block(x_BxTxD, compute)
        return self.logits(x_BxTxD)

    def _rows(self, inputs_BxT: Tensor) -> Tensor:
        """The rows of the embedding."""
        if not self._multiplies:
            return self.embedding(inputs_BxT)
        weight = self.embedding.weight
        if self._adds:
            return total([(inputs_BxT == i)[..., None] * weight[i] for i in range(self.n_states + 1)])
        return F.one_hot(inputs_BxT, self.n_states + 1).to(weight.dtype) @ weight

    @property
    def _multiplies(self) -> bool:
        """On a GPU few rows are a product: scattered gradients would all wait for the same rows."""
        return self.n_states <= FEW and self.embedding.weight.is_cuda

    @property
    def _adds(self) -> bool:
        """A compiler makes sums of a product with very few rows, and joins them to what comes before and after."""
        return self.n_states <= VERY_FEW and self._multiplies and torch.compiler.is_compiling()

    def logits(self, x_BxTxD: Tensor) -> Tensor:
        """In ``precision`` whatever was computed in, and over the states only."""
        normed_BxTxD = _normed(self.out_norm, x_BxTxD).to(self.precision)
        weight_SxD = self.embedding.weight[: self.n_states].to(self.precision)
        if self._adds:
            return torch.stack([(normed_BxTxD * weight_D).sum(-1) for weight_D in weight_SxD.unbind()], dim=-1)
        return F.linear(normed_BxTxD, weight_SxD)

    @torch.no_grad()
    def extend(
        self, inputs_B: Tensor, cache: Tensor, filled_B: Tensor, filled: int | None, attend: Any = None
    ) -> Tensor:
        """One more input a stream: its keys and values go into the cache in place, its logits ``[B, S]`` come back.

        Parameters
        ----------
        cache
            ``[B, layers, 2, H, C, E]``; of each stream the first ``filled_B`` of the C places are taken.
        filled
            The same as a number if it is one for all streams (then no mask is needed), else None.
        attend
            What writes to a layer's cache and looks at the places that are taken; plain torch by default.
        """
        compute, attend = self.precision, attend or partial(attend_to_cache, filled=filled)
        x_Bx1xD = (self.embedding(inputs_B).to(compute) + self.position(filled_B))[:, None]
        for cache_Bx2xHxCxE, block in zip(cache.unbind(1), self.blocks, strict=True):
            assert isinstance(block, DecoderBlock)
            heads = (part_BxHx1xE[..., 0, :] for part_BxHx1xE in block.heads_of(x_Bx1xD, compute))
            x_Bx1xD = block.onward(x_Bx1xD, attend(*heads, cache_Bx2xHxCxE, filled_B)[..., None, :], compute)
        return self.logits(x_Bx1xD)[:, 0]

    def empty_cache(self, n: int) -> Tensor:
        """Room for the keys and values of ``n`` streams."""
        s = self.size
        shape = (n, s.layers, 2, s.heads, s.context, s.width // s.heads)
        return torch.zeros(shape, dtype=self.precision, device=self.embedding.weight.device)

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        """NanoDO's: embeddings of standard deviation 1/sqrt(width), Xavier-uniform matrices, scales of one."""
        width = self.size.width
        for table in (self.embedding, self.position):
            table.weight.normal_(0, width**-0.5, generator=generator)
        for name, weight in self.blocks.named_parameters():
            if "norm" in name:
                continue
            # Queries, keys and values are three matrices of width x width, each with its own fan.
            for part in weight.split(width) if "query_key_value" in name else [weight]:
                bound = math.sqrt(6 / (part.shape[0] + part.shape[1]))
                part.uniform_(-bound, bound, generator=generator)


def attend_to_cache(
    query_BxHxE: Tensor, key: Tensor, value: Tensor, cache_Bx2xHxCxE: Tensor, filled_B: Tensor, filled: int | None
) -> Tensor:
    """What each query finds in the places that are filled and in its own key, which goes into the next place."""
    mask, seen, fresh_Bx2xHxE = None, cache_Bx2xHxCxE, torch.stack([key, value], dim=1)
    if filled is None:
        cache_Bx2xHxCxE[torch.arange(len(filled_B), device=filled_B.device), :, :, filled_B] = fresh_Bx2xHxE
        mask = (torch.arange(seen.shape[-2], device=seen.device) <= filled_B[:, None])[:, None, None]
    else:
        cache_Bx2xHxCxE[..., filled, :] = fresh_Bx2xHxE
        seen = seen[..., : filled + 1, :]
    return F.scaled_dot_product_attention(query_BxHxE[..., None, :], seen[:, 0], seen[:, 1], attn_mask=mask)[..., 0, :]


def _gelu(x: Tensor) -> Tensor:
    """GELU by tanh; a compiler for a GPU gets it as a sigmoid, since tanh(z) = 2 sigmoid(2 z) - 1 is quicker so."""
    if x.is_cuda and torch.compiler.is_compiling():
        return by_sigmoid(x)
    return F.gelu(x, approximate="tanh")


def by_sigmoid(x: Tensor) -> Tensor:
    """The same function: x sigmoid(2 z) with z = sqrt(2 / pi) (x + 0.044715 x^3)."""
    return x * torch.sigmoid(math.sqrt(8 / math.pi) * x * (1 + 0.044715 * x * x))


def _linear(layer: nn.Linear, x: Tensor, compute: torch.dtype) -> Tensor:
    return F.linear(x.to(compute), layer.weight.to(compute))


def _normed(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    return F.layer_norm(x, norm.normalized_shape, norm.weight.to(x.dtype), eps=norm.eps)
