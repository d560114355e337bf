"""Attention of one query a stream to a cache, on a GPU: one Triton program for each stream and head.

It reads the places that are taken and no others, however many those are, so that one recording of a step serves all
steps (``Extending``). Elsewhere ``Decoder.extend`` does the same in plain torch.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

PLACES = 64  # of a cache, at once


def attend(query_BxHxE: Tensor, key: Tensor, value: Tensor, cache_Bx2xHxCxE: Tensor, filled_B: Tensor) -> Tensor:
    """What each query finds in the places that are filled and in its own key, which goes into the next place."""
    B, H, E = query_BxHxE.shape
    found_BxHxE = torch.empty((B, H, E), dtype=query_BxHxE.dtype, device=query_BxHxE.device)
    strides = *query_BxHxE.stride()[:2], *cache_Bx2xHxCxE.stride()[:3]
    _attend[(B * H,)](
        *(query_BxHxE, key, value, cache_Bx2xHxCxE, filled_B, found_BxHxE),
        *strides,
        H=H,
        E=E,
        BLOCK=PLACES,
        WIDE=triton.next_power_of_2(E),
    )
    return found_BxHxE


@triton.jit
def _attend(
    query,
    key,
    value,
    cache,
    filled,
    found,
    by_stream,
    by_head,
    cache_by_stream,
    cache_by_kind,
    cache_by_head,
    H: tl.constexpr,
    E: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDE: tl.constexpr,
):
    b, h = tl.program_id(0).to(tl.int64) // H, tl.program_id(0).to(tl.int64) % H
    e, n = tl.arange(0, WIDE), tl.load(filled + b).to(tl.int32)
    there = e < E
    own, keys = b * by_stream + h * by_head + e, cache + b * cache_by_stream + h * cache_by_head
    values = keys + cache_by_kind
    q = tl.load(query + own, mask=there, other=0.0)
    new_key, new_value = tl.load(key + own, mask=there, other=0.0), tl.load(value + own, mask=there, other=0.0)
    tl.store(keys + n * E + e, new_key, mask=there)
    tl.store(values + n * E + e, new_value, mask=there)
    scale = 1.0 / tl.sqrt(tl.full((), E, tl.float32).to(q.dtype))
    top = tl.sum(q * new_key) * scale  # of the scores so far; what was found is in units of exp(top)
    whole, mixed = top * 0.0 + 1.0, new_value
    for start in range(0, n, BLOCK):
        place = start + tl.arange(0, BLOCK)
        at, taken = place[:, None] * E + e[None, :], (place < n)[:, None] & there[None, :]
        score = tl.sum(tl.load(keys + at, mask=taken, other=0.0) * q[None, :], axis=1) * scale
        score = tl.where(place < n, score, -float("inf"))
        higher = tl.maximum(top, tl.max(score))
        weight, kept = tl.exp(score - higher), tl.exp(top - higher)
        whole = whole * kept + tl.sum(weight)
        mixed = mixed * kept + tl.sum(tl.load(values + at, mask=taken, other=0.0) * weight[:, None], axis=0)
        top = higher
    tl.store(found + (b * H + h) * E + e, mixed / whole, mask=there)
