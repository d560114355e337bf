"""A built model as an ONNX file, for runtimes without torch (extra: ``onnx``)."""

import importlib.util
import logging
import warnings
from pathlib import Path

import torch

from ..transformer import Decoder
from .predictor import Constructed


def export_onnx(model: Constructed, path: str | Path) -> None:
    """Write ``tokens[batch, length] -> laws[batch, length, S]``, for any batch and any length up to the horizon.

    Entry t of the laws has seen the tokens before t. For a stream, append any token to those seen so far and read the
    last law.
    """
    if not isinstance(model.module.base, Decoder):
        name = type(model.module.base).__name__
        raise ValueError(f"model must be built on a Decoder to be exported, got one on {name}")
    for needed in ("onnx", "onnxscript"):
        if importlib.util.find_spec(needed) is None:
            raise ModuleNotFoundError(f"export_onnx needs {needed}: pip install 'lowregret[onnx]'", name=needed)
    example = torch.zeros(2, min(4, model.horizon), dtype=torch.int64, device=model.device)
    free = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    chatter = logging.getLogger("torch.onnx")
    level = chatter.level
    chatter.setLevel(logging.ERROR)  # it names operators of libraries that nobody asked for
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter about its own inside
            program = torch.onnx.export(
                model.module.eval(),
                (example,),
                dynamo=True,
                dynamic_shapes=free,
                input_names=["tokens"],
                output_names=["laws"],
                verbose=False,
            )
    finally:
        chatter.setLevel(level)
    assert program is not None
    program.save(str(path))
