"""Algorithm 1 as one torch module (Theorem 5.1)."""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from .base_model import ask, taken
from .layers import Layer
from .residual import Residual


class Sizes(NamedTuple):
    """How large the built part is."""

    layers: int  # appended to the base's own
    heads: int
    width: int
    hidden: int  # ReLU units
    largest_weight: float
    parameters: int  # that are not zero


class Appended(nn.Module):
    """The base model and the built layers: ``tokens[B, T] -> [B, T, S]`` probabilities; entry t saw ``tokens[:, :t]``.

    Embeddings, causal softmax attention, ReLU perceptrons and residual connections, nothing else.
    """

    def __init__(
        self,
        base: nn.Module,
        gives: str,
        stream: Residual,
        tables: dict[str, Tensor],
        layers: list[Layer],
    ) -> None:
        super().__init__()
        self.base, self.gives, self.stream = base, gives, stream
        self.layers = nn.ModuleList(layers)  # the first is beside the base's last
        for name, table in tables.items():
            self.register_buffer(name, table)

    token_SxD: Tensor
    register_RxD: Tensor
    position_TxD: Tensor

    @property
    def every_layer(self) -> list[Layer]:
        return cast(list[Layer], list(self.layers))

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
    def run(self, tokens_BxT: Tensor) -> list[Tensor]:
        """The stream as embedded and after each layer."""
        streams = [self.embed(tokens_BxT)]
        for layer in self.layers:
            streams.append(layer(streams[-1]))
        return streams

    def embed(self, tokens_BxT: Tensor) -> Tensor:
        """The registers, the last of them START, then all tokens but the last, with what the base gives after each."""
        B, T = tokens_BxT.shape
        registers_BxRxD = self.register_RxD.expand(B, -1, -1)
        x_BxNxD = torch.cat([registers_BxRxD, self.token_SxD[tokens_BxT[:, :-1]]], dim=1)
        moments = x_BxNxD[:, len(self.register_RxD) - 1 :]
        moments += self.position_TxD[:T]
        moments[..., self._given_at] += self._taken(ask(self.base, tokens_BxT)).to(self.token_SxD)
        return x_BxNxD

    @torch.no_grad()
    def extend(self, inputs_B: Tensor, given_BxS: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        """One more input per stream: the forecast of the next token ``[B, S]``, and what later inputs must see.

        Parameters
        ----------
        inputs_B
            START, which is ``n_states``, and then the tokens.
        given_BxS
            What the base gives for the next token: probabilities or logits.
        cache
            ``[B, N, C]``, keys and values of all layers for the N rows so far, at first those of ``empty_cache``.
        """
        rows_IxD = torch.cat([self.token_SxD, self.register_RxD[-1:]])
        x_Bx1xD = rows_IxD[inputs_B][:, None] + self.position_TxD[cache.shape[1] - len(self.register_RxD) + 1]
        x_Bx1xD[:, -1, self._given_at] += self._taken(given_BxS)
        x_Bx1xD, cache = self._through(x_Bx1xD, cache)
        return x_Bx1xD[:, -1, self.stream.at("out")], cache

    @torch.no_grad()
    def empty_cache(self, n: int) -> Tensor:
        """Where ``n`` streams begin: keys and values of the registers before START."""
        return self._through(self.register_RxD[:-1].expand(n, -1, -1), None)[1]

    def _through(self, x_BxNxD: Tensor, cache: Tensor | None) -> tuple[Tensor, Tensor]:
        """The first rows of a stream (``cache=None``) or one more, through all layers; and the cache with them."""
        kept, done = [], 0
        for layer in self.every_layer:
            H, size = len(layer.key_HxExD), layer.key_HxExD.shape[1] + layer.value_HxVxD.shape[1]
            past = None
            if cache is not None:
                past = cache[..., done : done + H * size].unflatten(-1, (H, size)).transpose(1, 2)
            x_BxNxD, past = layer.extend(x_BxNxD, past)
            kept.append(past.transpose(1, 2).flatten(2))
            done += H * size
        return x_BxNxD, torch.cat(kept, dim=-1)

    def _taken(self, given: Tensor) -> Tensor:
        return taken(given) if self.gives == "logits" else given

    @property
    def _given_at(self) -> slice:
        """Where the stream holds what the base gives."""
        return self.stream.at("logits" if self.gives == "logits" else "base")

    @property
    def sizes(self) -> Sizes:
        """Of what was appended."""
        layers = self.every_layer
        weights = [weight for layer in layers for weight in layer.buffers()]
        tables = [self.token_SxD, self.register_RxD, self.position_TxD]
        return Sizes(
            len(layers) - (self.gives == "probabilities"),
            sum(len(layer.head_names) for layer in layers),
            self.stream.width,
            sum(len(layer.inner_FxD) for layer in layers),
            max(float(weight.abs().max()) for weight in weights if weight.numel()),
            sum(int((values != 0).sum()) for values in weights + tables),
        )
