"""The built module as a predictor like any other, and ``build``, which makes one."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import inputs
from ..abilities import ability
from ..arrays import Array, to_numpy
from ..certificates import Certificate
from ..engine import Setting
from ..policies import Respond
from ..predictors import Predictor
from ..predictors.contract import has_states
from ..problems import DecisionProblem
from ..transformer import Decoder, Transformer
from ..transformer.backends import as_kind, as_tensor
from .base_model import LEAST, PredictorModule, base_of, device_of, refuse_misfit, streaming
from .layers import layer_of
from .model import Appended, Sizes
from .plan import SHARPNESS, plan

_AT_ONCE = {"cpu": 1 << 15, "cuda": 1 << 18}  # tokens times heads of a layer, in one forward pass


class BuiltMemory(NamedTuple):
    """Streams that share a memory are equally long."""

    base: Any  # the base's memory
    cache: Tensor  # [..., N, C], keys and values of the built layers
    probs: Array  # [..., S], what the model predicts now


class Constructed(Predictor):
    """The built model as a predictor: one pass for a sequence, a cache of keys and values for a stream.

    After ``horizon`` tokens nothing is asked any more: the forecast is then uniform, and one more token is refused.
    """

    def __init__(self, module: Appended, setting: Setting) -> None:
        self.module, self.setting = module, setting
        self.n_states, self.horizon = module.n_states, module.horizon
        self.base = streaming(module.base, module.gives, module.n_states)

    def __repr__(self) -> str:
        test, base, promise = type(self.setting.test).__name__, type(self.module.base).__name__, self.certificate
        return (
            f"<{test} in {self.sizes.layers} layers on {base}, {self.horizon} steps: "
            f"regret <= {promise.regret_bound:.4f}, TV <= {promise.tv_bound:.3g}>"
        )

    def respond(self) -> Respond:
        """What to play: the quantal response, at the temperature which the regret bound is for."""
        return Respond(self, self.problem, self.setting.temperature)

    @property
    def device(self) -> torch.device:
        return self.module.token_SxD.device

    @property
    def context(self) -> int:
        """The most tokens in a sequence, as every predictor says it that has a last one."""
        return self.horizon

    @property
    def problem(self) -> DecisionProblem:
        """What the model was built for, with its names and units."""
        return self.setting.payoff_range

    @property
    def certificate(self) -> Certificate:
        """What is promised, of the layers as they are built."""
        return self.setting.certificate

    @property
    def sizes(self) -> Sizes:
        """How large the appended layers are."""
        return self.module.sizes

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> BuiltMemory:
        shape = inputs.batch_shape_of(batch_shape)
        like = torch.zeros((), device=self.device) if like is None else like
        base = self.base.start(shape, like=like)
        given_BxS = self._given(base)
        first_B = torch.full((len(given_BxS),), self.n_states, device=self.device)  # START
        probs, cache = self.module.extend(first_B, given_BxS, self.module.empty_cache(len(first_B)))
        probs = as_kind(probs.reshape(*shape, self.n_states), like)
        return BuiltMemory(base, cache.reshape(*shape, *cache.shape[1:]), probs)

    def predict(self, memory: BuiltMemory) -> Array:
        return memory.probs

    def update(self, memory: BuiltMemory, token: Array) -> BuiltMemory:
        shape = tuple(memory.probs.shape[:-1])
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.probs)
        seen = memory.cache.shape[-2] - len(self.module.register_RxD) + 1
        if seen > self.horizon:
            raise ValueError(f"the horizon of {self.horizon} steps is over: this model was built for no more")
        base, cache = self.base.update(memory.base, token), memory.cache
        if seen == self.horizon:  # nothing is asked any more, but a row longer the cache must be
            cache = torch.cat([cache, cache[..., -1:, :]], dim=-2)
            return BuiltMemory(base, cache, memory.probs * 0 + 1 / self.n_states)
        token_B = as_tensor(token, self.device).reshape(-1)
        probs, cache = self.module.extend(token_B, self._given(base), cache.reshape(len(token_B), *cache.shape[-2:]))
        probs = as_kind(probs.reshape(*shape, self.n_states), memory.probs)
        return BuiltMemory(base, cache.reshape(*shape, *cache.shape[1:]), probs)

    def _given(self, base_memory: Any) -> Tensor:
        """What the base gives now, ``[B, S]``, as the built layers take it."""
        probs = torch.as_tensor(to_numpy(self.base.predict(base_memory)), dtype=self.module.dtype, device=self.device)
        probs_BxS = probs.reshape(-1, self.n_states)
        return torch.log(probs_BxS.clamp_min(LEAST)) if self.module.gives == "logits" else probs_BxS

    def predict_sequence(self, tokens: Array) -> Array:
        tokens = inputs.sequences_of(tokens, self.n_states)
        T = tokens.shape[-1]
        if self.horizon < T:
            raise ValueError(f"tokens must be at most {self.horizon} long (the horizon built for), got {T}")
        flat_NxT = as_tensor(tokens, self.device).reshape(-1, T)
        most_heads = max(len(layer.head_names) for layer in self.module.every_layer)
        rows = max(1, _AT_ONCE.get(self.device.type, 1 << 15) // (T * most_heads))
        probs = [self.module(flat_NxT[i : i + rows]) for i in range(0, len(flat_NxT), rows)]
        empty = torch.zeros((0, T, self.n_states), dtype=self.module.dtype, device=self.device)
        return as_kind(torch.cat([empty, *probs]).reshape(*tokens.shape, self.n_states), tokens)


def build(base: Any, setting: Setting, *, gives: str | None = None, dtype: torch.dtype = torch.float64) -> Constructed:
    """Algorithm 1 on ``base`` in this setting, as the weights of a few more layers: no training.

    Parameters
    ----------
    base
        A ``Predictor``, a ``Transformer`` or ``Decoder``, or any torch module ``tokens[B, T] -> [B, T, S]`` whose
        entry t has seen ``tokens[:, :t]``; a module is tried on a few tokens, and refused if it looks ahead. It is
        asked without dropout and where its weights are; the layers are put there too.
    setting
        ``robust.algorithm_1(problem, test)`` with ``RegretGap`` or ``RegretRate``, a known horizon and the urn.
    gives
        "probabilities" or "logits": what a torch module gives; predictors and decoders say it themselves.
    dtype
        ``torch.float64`` or ``torch.float32``, of the appended layers.

    >>> import lowregret as lr
    >>> mistaken = lr.predictors.Scheduled([[0.9, 0.1]])
    >>> model = build(mistaken, lr.robust.algorithm_1(lr.matching(), lr.RegretGap(horizon=128)))
    >>> model.predict_sequence([1] * 128)[[0, -1], 1].round(3).tolist()
    [0.1, 0.992]
    >>> model.sizes.layers, model.sizes.heads
    (3, 5)
    """
    if dtype not in SHARPNESS:
        raise ValueError(f"dtype must be torch.float64 or torch.float32, got {dtype}")
    base = Transformer(base) if isinstance(base, Decoder) else base
    module, gives = base_of(base, gives)
    n_states, context = setting.outcomes.n_states, ability(base, "context")
    if not isinstance(base, nn.Module):
        has_states(base, n_states, "setting's problem")
    built = plan(setting, gives, SHARPNESS[dtype])
    tables = {name: torch.as_tensor(table, dtype=dtype) for name, table in built.tables.items()}
    horizon = len(tables["position_TxD"])
    if context is not None and horizon > context:
        raise ValueError(f"horizon must be at most the base's context of {context} tokens, got {horizon}")
    if not isinstance(module, (Decoder, PredictorModule)):
        refuse_misfit(module, gives, n_states, horizon)
    layers = [layer_of(*stage, dtype) for stage in built.layers]
    made = Appended(module, gives, built.stream, tables, layers)
    return Constructed(made.to(device_of(module) or "cpu"), setting)
