"""Algorithm 1 as one torch module (Theorem 5.1), and that module as a predictor."""

from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .. import inputs
from ..arrays import Array, namespace, to_numpy
from ..predictors import HistoryMemory, Predictor
from ..rules import ExactTest, ResponseRule
from .base import base_of
from .layers import Layer, layer_of
from .parts import SHARPNESS
from .plan import plan
from .stream import Stream

_TOKENS_AT_ONCE = 1 << 14  # in one forward pass
TABLES = ("token_SxD", "register_RxD", "position_TxD")


class Sizes(NamedTuple):
    """How large the built part is."""

    layers: int  # appended to the base's own
    heads: int
    width: int
    hidden: int  # ReLU units
    largest_weight: float
    parameters: int  # that are not zero


class Appended(nn.Module):
    """The base model and the built layers: ``tokens[B, T] -> laws[B, T, S]``; entry t has seen ``tokens[:, :t]``.

    Embeddings, causal softmax attention, ReLU perceptrons and residual connections, nothing else.
    """

    def __init__(
        self,
        base: nn.Module,
        gives: str,
        stream: Stream,
        tables: dict[str, Tensor],
        beside: Layer,
        layers: list[Layer],
        about: dict[str, Any],
    ) -> None:
        super().__init__()
        self.base, self.gives, self.stream, self.about = base, gives, stream, about
        self.beside, self.layers = beside, nn.ModuleList(layers)
        for name, table in tables.items():
            self.register_buffer(name, table)

    token_SxD: Tensor
    register_RxD: Tensor
    position_TxD: Tensor

    @property
    def horizon(self) -> int:
        return len(self.position_TxD)

    @property
    def n_states(self) -> int:
        return len(self.token_SxD)

    @property
    def dtype(self) -> torch.dtype:
        return self.token_SxD.dtype

    @torch.no_grad()
    def forward(self, tokens_BxT: Tensor) -> Tensor:
        x_BxNxD = self.run(tokens_BxT)[-1]
        return x_BxNxD[:, len(self.register_RxD) - 1 :, self.stream.at("out")]

    @torch.no_grad()
    def run(self, tokens_BxT: Tensor, x_BxNxD: Tensor | None = None) -> list[Tensor]:
        """The stream as embedded and after each layer; ``x_BxNxD`` replaces the embedding."""
        x_BxNxD = self.embed(tokens_BxT) if x_BxNxD is None else x_BxNxD
        streams = [x_BxNxD]
        for layer in (self.beside, *self.layers):
            streams.append(layer(streams[-1]))
        return streams

    def embed(self, tokens_BxT: Tensor) -> Tensor:
        """The registers, the last of them START, then all tokens but the last, with what the base says after each."""
        B, T = tokens_BxT.shape
        registers_BxRxD = self.register_RxD.expand(B, -1, -1)
        x_BxNxD = torch.cat([registers_BxRxD, self.token_SxD[tokens_BxT[:, :-1]]], dim=1)
        asked = "logits" if self.gives == "logits" else "base"
        moments = x_BxNxD[:, len(self.register_RxD) - 1 :]
        moments += self.position_TxD[:T]
        moments[..., self.stream.at(asked)] += self.base(tokens_BxT).to(self.dtype)
        return x_BxNxD

    @property
    def sizes(self) -> Sizes:
        """Of what was appended."""
        layers = [self.beside, *(layer for layer in self.layers if isinstance(layer, Layer))]
        weights = [weight for layer in layers for weight in layer.buffers()]
        tables = [self.token_SxD, self.register_RxD, self.position_TxD]
        return Sizes(
            len(self.layers) + (self.gives == "logits"),
            sum(len(layer.head_names) for layer in layers),
            self.stream.width,
            sum(len(layer.inner_FxD) for layer in layers),
            max(float(weight.abs().max()) for weight in weights if weight.numel()),
            sum(int((values != 0).sum()) for values in weights + tables),
        )


class Constructed(Predictor):
    """The built model as a predictor; a stream is run from its beginning at every step.

    After ``horizon`` tokens nothing is asked any more: the law is then uniform, and one more token is refused.
    """

    def __init__(self, module: Appended) -> None:
        self.module, self.n_states, self.horizon = module, module.n_states, module.horizon

    @property
    def device(self) -> torch.device:
        return self.module.token_SxD.device

    @property
    def sizes(self) -> Sizes:
        """How large the appended layers are."""
        return self.module.sizes

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> HistoryMemory:
        shape = inputs.batch_shape_of(batch_shape)
        xp = torch if like is None else namespace(like)
        where = self.device if like is None else getattr(like, "device", None)
        history = xp.zeros((*shape, 0), dtype=xp.int64, device=where)
        return HistoryMemory(history, xp.zeros(shape, dtype=xp.int64, device=where))

    def predict(self, memory: HistoryMemory) -> Array:
        history, xp = memory.history, namespace(memory.history)
        seen = history.shape[-1]
        next_token = xp.zeros((*history.shape[:-1], 1), dtype=history.dtype, device=history.device)
        if seen == self.horizon:
            law = torch.full((*next_token.shape[:-1], self.n_states), 1 / self.n_states, dtype=self.module.dtype)
            return _as(law, history)
        return self.predict_sequence(xp.concat([history, next_token], axis=-1))[..., -1, :]

    def update(self, memory: HistoryMemory, token: Array) -> HistoryMemory:
        xp, seen = namespace(memory.history), memory.seen
        token = inputs.tokens_of(token, self.n_states, "token", shape=tuple(seen.shape), like=seen)
        if memory.history.shape[-1] >= self.horizon:
            raise ValueError(f"the horizon of {self.horizon} steps is over: this model was built for no more")
        return HistoryMemory(xp.concat([memory.history, xp.astype(token, xp.int64)[..., None]], axis=-1), seen + 1)

    def predict_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        T = tokens.shape[-1]
        if self.horizon < T:
            raise ValueError(f"tokens must be at most {self.horizon} long (the horizon built for), got {T}")
        flat_NxT = torch.as_tensor(np.array(to_numpy(tokens), dtype=np.int64), device=self.device).reshape(-1, T)
        rows = max(1, _TOKENS_AT_ONCE // T)
        laws = [self.module(flat_NxT[i : i + rows]) for i in range(0, len(flat_NxT), rows)]
        empty = torch.zeros((0, T, self.n_states), dtype=self.module.dtype, device=self.device)
        return _as(torch.cat([empty, *laws]).reshape(*tokens.shape, self.n_states), tokens)


def build(
    base: Any,
    rule: Any,
    *,
    gives: str | None = None,
    n_states: int | None = None,
    dtype: torch.dtype = torch.float64,
    fused: bool = True,
) -> Constructed:
    """Algorithm 1 on ``base`` with ``rule``, as the weights of a few more layers: no training.

    Parameters
    ----------
    base
        A ``Predictor``, a ``Transformer`` or ``Decoder``, or any torch module ``tokens[B, T] -> [B, T, S]`` whose
        entry t has seen ``tokens[:, :t]``.
    rule
        ``RegretGap`` (or a subclass with a threshold of its own), ``RegretRate``, or, for two actions and two states,
        ``ExactTest``; with a known horizon and the urn.
    gives
        "probabilities" or "logits": what a torch module gives; predictors and decoders say it themselves. The exact
        test needs logits.
    n_states
        Of a torch module that has no such attribute.
    dtype
        ``torch.float64`` or ``torch.float32``, of the appended layers.

    >>> from lowregret import RegretGap, Scheduled, matching
    >>> mistaken = Scheduled([[0.9, 0.1]])
    >>> model = build(mistaken, RegretGap(matching(), horizon=128))
    >>> model.predict_sequence([1] * 128)[[0, -1], 1].round(3).tolist()
    [0.1, 0.992]
    >>> model.sizes.layers, model.sizes.heads
    (3, 5)
    """
    if str(dtype).removeprefix("torch.") not in SHARPNESS:
        raise ValueError(f"dtype must be torch.float64 or torch.float32, got {dtype}")
    module, gives, base_states, context = base_of(base, gives, n_states, isinstance(rule, ExactTest))
    if not isinstance(rule, ResponseRule):
        name = type(rule).__name__
        raise ValueError(f"rule must be a RegretGap, a RegretRate or an ExactTest: {name} has no compiled form")
    if base_states is None:
        raise ValueError(f"n_states must be given for {type(base).__name__}, which does not say how many it predicts")
    if base_states != rule.problem.n_states:
        raise ValueError(
            f"base and rule must have the same states: {type(base).__name__} predicts {base_states}, "
            f"the rule's problem has {rule.problem.n_states}"
        )
    if context is not None and rule.horizon is not None and rule.horizon > context:
        raise ValueError(f"horizon must be at most the base's context of {context} tokens, got {rule.horizon}")
    built = plan(rule, gives, SHARPNESS[str(dtype).removeprefix("torch.")])
    tables = {name: torch.as_tensor(getattr(built, name), dtype=dtype) for name in TABLES}
    beside, *layers = [layer_of(*stage, dtype, fused) for stage in (built.beside, *built.layers)]
    return Constructed(Appended(module, gives, built.stream, tables, beside, layers, described(rule)))


def described(rule: ResponseRule) -> dict[str, Any]:
    """What the rule was, for people who find the weights."""
    settings = {f.name: getattr(rule, f.name) for f in fields(rule) if f.name not in ("problem", "fallback")}
    promise = rule.certificate
    return {
        "rule": type(rule).__name__,
        **settings,
        "utility": rule.problem.utility.tolist(),
        "regret_bound": promise.regret_bound,
        "tv_bound": promise.tv_bound,
    }


def _as(values: Tensor, like: Array) -> Array:
    """The values as the kind of array that ``like`` is, where it is."""
    xp = namespace(like)
    if xp is np:
        return values.cpu().numpy()
    return values.to(like.device) if isinstance(like, Tensor) else xp.asarray(values.cpu().numpy())
