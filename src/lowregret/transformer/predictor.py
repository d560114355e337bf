"""A trained decoder as a predictor like any other: one forward pass for a sequence, a key-value cache for a stream."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from .. import inputs
from ..arrays import Array
from ..predictors import Predictor
from .backends import as_kind, as_tensor
from .decoder import Decoder, Extending

_TOKENS_AT_ONCE = {"cpu": 1 << 14, "cuda": 1 << 18}  # in one forward pass
_GROWING: Any = WeakIdKeyDictionary()  # by cache, while it lives


class TransformerMemory(NamedTuple):
    """The cache has room for the whole context; ``law`` is what the decoder says now."""

    cache: Tensor  # [..., layers, 2, H, C, E], of which the first seen + 1 places count (BOS is the first)
    law: Array  # [..., S]
    seen: Tensor  # [...], tokens so far


@dataclass(frozen=True, eq=False)
class Transformer(Predictor):
    """A decoder as a predictor, in its own precision on whatever device its weights are.

    Tokens as NumPy arrays give laws as NumPy arrays, torch tensors give torch tensors where they are. Without tokens to
    go by (``start`` without ``like``) it answers in torch tensors on its own device. Sequences are as long as the
    context at most; after that many tokens the law is uniform, and one more token is refused.

    >>> from lowregret.transformer import Decoder
    >>> model = Transformer(Decoder(2, size="quick", seed=0))
    >>> model.predict_sequence([[0, 1, 1]]).shape
    (1, 3, 2)
    """

    decoder: Decoder
    n_states: int = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.decoder, Decoder):
            raise ValueError(f"decoder must be a Decoder, got {type(self.decoder).__name__}")
        object.__setattr__(self, "n_states", self.decoder.n_states)

    @property
    def context(self) -> int:
        """The most tokens in a sequence."""
        return self.decoder.size.context

    @property
    def device(self) -> torch.device:
        return self.decoder.embedding.weight.device

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> TransformerMemory:
        shape = inputs.batch_shape_of(batch_shape)
        n = int(np.prod(shape, dtype=np.int64))
        cache, seen_B = self.decoder.empty_cache(n), torch.zeros(n, dtype=torch.int64, device=self.device)
        law_BxS = self._extended(cache, seen_B - 1, torch.full_like(seen_B, self.n_states), -1)
        law = law_BxS.reshape(*shape, self.n_states)
        cache = cache.reshape(*shape, *cache.shape[1:])
        seen = seen_B.reshape(shape)
        cache.filled, seen.each = 1, 0  # type: ignore[attr-defined]  # see advance
        return TransformerMemory(cache, law if like is None else as_kind(law, like), seen)

    def predict(self, memory: TransformerMemory) -> Array:
        return memory.law

    def update(self, memory: TransformerMemory, token: Array) -> TransformerMemory:
        token = inputs.tokens_of(token, self.n_states, "token", shape=tuple(memory.seen.shape), like=memory.seen)
        return self.advance(memory, token)

    def advance(self, memory: TransformerMemory, token: Array) -> TransformerMemory:
        """Appends to the cache in place where this memory is the last to have written there; else to a copy.

        A cache knows how many of its places have been written for its oldest stream (the attribute ``filled``, which
        selections and views of it do not inherit). All its streams grow together, so that number tells whether this
        memory is the last in its line; those that share the cache and are shorter look at the first places only.
        Likewise ``seen`` knows its number where it is one for all streams (``each``): asking would make a GPU wait.
        """
        shape, each = tuple(memory.seen.shape), getattr(memory.seen, "each", None)
        seen_B, cache = memory.seen.reshape(-1), memory.cache
        token_B = as_tensor(token, seen_B.device).reshape(-1)
        least, most = (each, each) if each is not None else _range(seen_B)
        if most >= self.context:
            raise ValueError(f"the context of {self.context} tokens is full: this decoder was made for no more")
        if getattr(cache, "filled", None) != most + 1:
            cache = cache.clone()
        flat = cache.view(-1, *cache.shape[len(shape) :])
        if most + 1 < self.context:
            if least == most:
                law_BxS = _law(self._growing(cache)(token_B, flat, seen_B + 1, most + 1))
            else:
                law_BxS = self._extended(flat, seen_B, token_B, None)
        else:  # of those whose context is full nothing is asked any more
            law_BxS = cache.new_full((len(seen_B), self.n_states), 1 / self.n_states)
            going = seen_B + 1 < self.context
            part = flat[going]
            law_BxS[going] = self._extended(part, seen_B[going], token_B[going], None)
            flat[going] = part
        seen = memory.seen + 1
        cache.filled = most + 2  # type: ignore[attr-defined]
        seen.each = most + 1 if least == most else None  # type: ignore[attr-defined]
        return TransformerMemory(cache, as_kind(law_BxS.reshape(*shape, self.n_states), memory.law), seen)

    def predict_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        if tokens.shape[-1] > self.context:
            raise ValueError(f"tokens must be at most {self.context} long (the context), got {tokens.shape[-1]}")
        there = as_tensor(tokens, self.device)
        flat_NxT = there.reshape(-1, tokens.shape[-1])
        rows = max(1, _TOKENS_AT_ONCE.get(self.device.type, 1 << 14) // tokens.shape[-1])
        laws = [self.laws_on_device(flat_NxT[i : i + rows]) for i in range(0, len(flat_NxT), rows)]
        empty = torch.zeros((0, *flat_NxT.shape[1:], self.n_states), dtype=self.decoder.precision, device=self.device)
        return as_kind(torch.cat([empty, *laws]).reshape(*tokens.shape, self.n_states), tokens)

    @torch.no_grad()
    def laws_on_device(
        self, tokens_NxT: Tensor, compute: torch.dtype | None = None, stream: torch.dtype | None = None
    ) -> Tensor:
        """``predict_sequence`` for tensors beside the weights, unchecked, in one pass: ``[N, T, S]``."""
        return _law(self.decoder(tokens_NxT, compute, stream))

    def _growing(self, cache: Tensor) -> Extending:
        """What makes this cache grow in place."""
        found = _GROWING.get(cache)
        if found is None or found.decoder is not self.decoder:
            found = _GROWING[cache] = Extending(self.decoder)
        return found

    def _extended(self, cache: Tensor, seen_B: Tensor, inputs_B: Tensor, seen: int | None) -> Tensor:
        filled = None if seen is None else seen + 1
        return _law(self.decoder.extend(inputs_B, cache, seen_B + 1, filled))


def _range(seen_B: Tensor) -> tuple[int, int]:
    return (int(seen_B.min()), int(seen_B.max())) if seen_B.numel() else (0, 0)


def _law(logits: Tensor) -> Tensor:
    """Probabilities in the type of the logits that sum to one as well as it can."""
    return torch.softmax(logits.double(), dim=-1).to(logits.dtype)
