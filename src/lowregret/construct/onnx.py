"""A built model as ONNX, for runtimes without torch: whole sequences, or token after token (extra: ``onnx``)."""

import importlib.util
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import files
from ..transformer import Decoder
from ..transformer.decoder import DecoderBlock
from .base_model import PredictorModule, in_use
from .model import Appended
from .predictor import Constructed

_BATCH, _LENGTH = torch.export.Dim("batch"), torch.export.Dim("length")


def export_onnx(model: Constructed, path: str | Path, streaming: bool = False) -> None:
    """Write ``tokens[batch, length] -> laws[batch, length, S]``, or with ``streaming`` a graph that takes one step.

    The base is a ``Decoder`` or, for whole sequences, any torch module that torch itself can export.

    Batch and length are free, the length up to the horizon. Entry t of the laws has seen the tokens before t.

    A step takes ``token[batch]``, ``decoder_cache[batch, layers, 2, heads, length, E]`` and ``built_cache[batch,
    length, C]``, and gives the law of the next token ``[batch, S]`` and both caches, longer by one. The first input of
    every stream is START, the token S, with caches of length 0; after it come the tokens.
    """
    if not isinstance(model, Constructed):
        raise ValueError(f"model must be a built model (construct.build, construct.load), got {type(model).__name__}")
    base = model.module.base
    if isinstance(base, PredictorModule):
        name = type(base.predictor).__name__
        raise ValueError(f"model must be built on a torch module to be exported, got one on the predictor {name}")
    if streaming and not isinstance(base, Decoder):
        raise ValueError(
            f"model must be built on a Decoder to be exported as a stream, got one on {type(base).__name__}"
        )
    if model.horizon < 2:  # a length that is always one is not free
        raise ValueError(f"model must have a horizon of at least 2 to be exported, got {model.horizon}")
    path = files.to_write(path)
    installed()
    token_B = torch.zeros(2, dtype=torch.int64, device=model.device)
    if streaming:
        step = OneToken(model.module)
        free: tuple = ({0: _BATCH}, {0: _BATCH, 4: _LENGTH}, {0: _BATCH, 1: _LENGTH})
        caches = ["decoder_cache", "built_cache"]
        gives = ["law", *(f"new_{name}" for name in caches)]
        program = _exported(step, (token_B, *step.caches(2, 2)), free, ["token", *caches], gives)
    else:
        tokens_BxT, free = token_B[:, None].repeat(1, 2), ({0: _BATCH, 1: _LENGTH},)
        program = _exported(model.module, (tokens_BxT,), free, ["tokens"], ["laws"])
    with files.drafted(path) as draft:
        program.save(str(draft))


def installed() -> None:
    """Say what to install where the exporter is missing."""
    for needed in ("onnx", "onnxscript"):
        if importlib.util.find_spec(needed) is None:
            raise ModuleNotFoundError(f"export_onnx needs {needed}: pip install 'lowregret[onnx]'", name=needed)


class OneToken(nn.Module):
    """One more input a stream: ``token[B]`` and two caches of n inputs to ``law[B, S]`` and caches of n + 1.

    ``decoder_cache[B, layers, 2, H, n, E]`` are the decoder's keys and values, ``built_cache[B, n, C]`` those of the
    built layers. The registers before START are the same for all streams, and a part of the graph.
    """

    registers_1xRxC: Tensor

    def __init__(self, module: Appended) -> None:
        super().__init__()
        assert isinstance(module.base, Decoder)
        self.module, self.decoder = module, module.base
        self.register_buffer("registers_1xRxC", module.empty_cache(1))

    def caches(self, n_streams: int, n: int = 0) -> tuple[Tensor, Tensor]:
        """Caches of n inputs, of zeros; without any, what a stream begins with."""
        built_BxNxC = self.registers_1xRxC.new_zeros((n_streams, n, self.registers_1xRxC.shape[-1]))
        return self.decoder.empty_cache(n_streams)[..., :n, :], built_BxNxC

    @torch.no_grad()
    def forward(self, token_B: Tensor, decoder_cache: Tensor, built_cache: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits_BxS, decoder_cache = self._asked(token_B, decoder_cache)
        registers_BxRxC = self.registers_1xRxC.expand(token_B.shape[0], -1, -1)
        seen = torch.cat([registers_BxRxC, built_cache], dim=1)
        law_BxS, seen = self.module.extend(token_B, logits_BxS.to(self.module.dtype), seen)
        return law_BxS, decoder_cache, seen[:, registers_BxRxC.shape[1] :]

    def _asked(self, token_B: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        """``Decoder.extend`` with a cache that grows: a graph cannot write into one that is there."""
        decoder, compute = self.decoder, self.decoder.precision
        x_BxD = decoder.embedding(token_B).to(compute) + decoder.position.weight[cache.shape[-2]]
        x_Bx1xD, kept = x_BxD[:, None], []
        for past_Bx2xHxNxE, block in zip(cache.unbind(1), decoder.blocks, strict=True):
            assert isinstance(block, DecoderBlock)
            query, key, value = block.heads_of(x_Bx1xD, compute)
            seen = torch.cat([past_Bx2xHxNxE, torch.stack([key, value], dim=1)], dim=-2)
            mixed = F.scaled_dot_product_attention(query, seen[:, 0], seen[:, 1])
            x_Bx1xD = block.onward(x_Bx1xD, mixed, compute)
            kept.append(seen)
        return decoder.logits(x_Bx1xD)[:, 0], torch.stack(kept, dim=1)


def _exported(module: nn.Module, example: tuple, free: tuple, given: list[str], gives: list[str]) -> Any:
    chatter = logging.getLogger("torch.onnx")
    level = chatter.level
    chatter.setLevel(logging.ERROR)  # it names operators of libraries that nobody asked for
    try:
        with warnings.catch_warnings(), in_use(module):
            warnings.simplefilter("ignore")  # of the exporter about its own inside
            program = torch.onnx.export(
                module,
                example,
                dynamo=True,
                dynamic_shapes=free,
                input_names=given,
                output_names=gives,
                verbose=False,
            )
    finally:
        chatter.setLevel(level)
    assert program is not None
    return program
