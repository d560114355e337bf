"""A trained decoder as a predictor like any other: one forward pass for a sequence, a key-value cache for a stream."""

import importlib.util
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from .. import inputs
from ..arrays import Array
from ..predictors import Predictor
from .backends import Replay, as_kind, as_tensor, recording_stream
from .decoder import Decoder

triton_installed = importlib.util.find_spec("triton") is not None  # so a program for a GPU can be made

_TOKENS_AT_ONCE = {"cpu": 1 << 14, "cuda": 1 << 18}  # in one forward pass
_FIRST_STEPS = 32  # of a stream: recording one costs more than it saves


class Extending:
    """``Decoder.extend`` for streams that grow together, step by step: on a GPU recorded once, and replayed.

    It holds no cache, so that one may hold it.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder, self.place = decoder, (0, 0)  # of the cache and of the weights
        self.replay: Replay | None = None

    def __call__(self, inputs_B: Tensor, cache: Tensor, filled_B: Tensor, filled: int) -> Tensor:
        if not cache.is_cuda or not triton_installed or filled < _FIRST_STEPS or not len(inputs_B):
            return self.decoder.extend(inputs_B, cache, filled_B, filled)
        place = cache.data_ptr(), self.decoder.embedding.weight.data_ptr()
        if place != self.place:  # a cache that is cut or copied after every step is not worth recording
            self.replay, self.place = None, place
            return self.decoder.extend(inputs_B, cache, filled_B, filled)
        if self.replay is None:
            from .triton_attention import attend

            self.inputs_B, self.filled_B = inputs_B.clone(), filled_B.clone()
            step = partial(self.decoder.extend, self.inputs_B, cache, self.filled_B, None, attend)
            stream = torch.cuda.Stream()
            with recording_stream(stream):
                step()  # writes what the replay will write again
            self.replay = Replay(step, stream)
        self.inputs_B.copy_(inputs_B)
        self.filled_B.copy_(filled_B)
        return self.replay().clone()


_EXTENDING: Any = WeakIdKeyDictionary()  # by cache, while it lives


class TransformerMemory(NamedTuple):
    """The cache has room for the whole context."""

    cache: Tensor  # [..., layers, 2, H, C, E], of which the first seen + 1 places count (BOS is the first)
    probs: Array  # [..., S], what the decoder predicts now
    seen: Tensor  # [...], tokens so far


@dataclass(frozen=True, eq=False)
class Transformer(Predictor):
    """A decoder as a predictor, in its own precision on whatever device its weights are.

    Tokens as NumPy arrays give probabilities as NumPy arrays, torch tensors give torch tensors where they are. Without
    tokens to go by (``start`` without ``like``) it answers in torch tensors on its own device. Sequences are as long as
    the context at most; after that many tokens the forecast is uniform, and one more token is refused.

    >>> from lowregret.transformer import Decoder
    >>> model = Transformer(Decoder(2, size="quick", seed=0))
    >>> model.predict_sequence([[0, 1, 1]]).shape
    (1, 3, 2)
    """

    decoder: Decoder
    n_states: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_states", self.decoder.n_states)

    @property
    def context(self) -> int:
        """The most tokens in a sequence."""
        return self.decoder.size.context

    @property
    def as_module(self) -> Decoder:
        return self.decoder

    @property
    def device(self) -> torch.device:
        return self.decoder.embedding.weight.device

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> TransformerMemory:
        shape = inputs.batch_shape_of(batch_shape)
        n = int(np.prod(shape, dtype=np.int64))
        cache, seen_B = self.decoder.empty_cache(n), torch.zeros(n, dtype=torch.int64, device=self.device)
        probs = self._extended(cache, seen_B, torch.full_like(seen_B, self.n_states), 0).reshape(*shape, self.n_states)
        cache = cache.reshape(*shape, *cache.shape[1:])
        seen = seen_B.reshape(shape)
        cache.filled, seen.each = 1, 0  # type: ignore[attr-defined]  # see advance
        return TransformerMemory(cache, probs if like is None else as_kind(probs, like), seen)

    def predict(self, memory: TransformerMemory) -> Array:
        return memory.probs

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
        if most + 1 < self.context and least == most:
            extend = _EXTENDING.get(cache)
            if extend is None or extend.decoder is not self.decoder:
                extend = _EXTENDING[cache] = Extending(self.decoder)
            probs_BxS = _probs(extend(token_B, flat, seen_B + 1, most + 1))
        elif most + 1 < self.context:
            probs_BxS = self._extended(flat, seen_B + 1, token_B, None)
        else:  # of those whose context is full nothing is asked any more
            probs_BxS = cache.new_full((len(seen_B), self.n_states), 1 / self.n_states)
            going = seen_B + 1 < self.context
            part = flat[going]
            probs_BxS[going] = self._extended(part, seen_B[going] + 1, token_B[going], None)
            flat[going] = part
        seen = memory.seen + 1
        cache.filled = most + 2  # type: ignore[attr-defined]
        seen.each = most + 1 if least == most else None  # type: ignore[attr-defined]
        return TransformerMemory(cache, as_kind(probs_BxS.reshape(*shape, self.n_states), memory.probs), seen)

    def predict_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        if tokens.shape[-1] > self.context:
            raise ValueError(f"tokens must be at most {self.context} long (the context), got {tokens.shape[-1]}")
        flat_NxT = as_tensor(tokens, self.device).reshape(-1, tokens.shape[-1])
        rows = max(1, _TOKENS_AT_ONCE.get(self.device.type, 1 << 14) // tokens.shape[-1])
        probs = [self.probs_on_device(flat_NxT[i : i + rows]) for i in range(0, len(flat_NxT), rows)]
        empty = torch.zeros((0, *flat_NxT.shape[1:], self.n_states), dtype=self.decoder.precision, device=self.device)
        return as_kind(torch.cat([empty, *probs]).reshape(*tokens.shape, self.n_states), tokens)

    @torch.no_grad()
    def probs_on_device(
        self, tokens_NxT: Tensor, compute: torch.dtype | None = None, stream: torch.dtype | None = None
    ) -> Tensor:
        """``predict_sequence`` for tensors beside the weights, unchecked, in one pass: ``[N, T, S]``."""
        return _probs(self.decoder(tokens_NxT, compute, stream))

    def _extended(self, cache: Tensor, filled_B: Tensor, inputs_B: Tensor, filled: int | None) -> Tensor:
        return _probs(self.decoder.extend(inputs_B, cache, filled_B, filled))


def _range(seen_B: Tensor) -> tuple[int, int]:
    return (int(seen_B.min()), int(seen_B.max())) if seen_B.numel() else (0, 0)


def _probs(logits: Tensor) -> Tensor:
    """Probabilities in the type of the logits that sum to one as well as it can."""
    return torch.softmax(logits.double(), dim=-1).to(logits.dtype)
