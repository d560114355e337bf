"""A built model as a file: the decoder's weights and the appended ones, with what they are as JSON."""

from pathlib import Path
from typing import Any

import torch

from ..transformer import Decoder
from ..transformer.backends import device_named
from ..transformer.checkpoints import Checkpoint, decoder_of, read, write
from ..transformer.checkpoints import described as size_of
from .base_model import GIVES
from .layers import Layer
from .model import TABLES, Appended
from .predictor import Constructed
from .residual import Stream

KIND = "constructed"


def save(model: Constructed, path: str | Path) -> None:
    """Write a model built on a ``Decoder``, atomically; only of that it is known how to make it anew.

    Of a model on a module of your own keep ``model.module.state_dict()``, and load it into one that was built alike.

    >>> import tempfile
    >>> from lowregret import RegretGap, matching
    >>> from lowregret.construct import build
    >>> model = build(Decoder(2, size="quick"), RegretGap(matching(), horizon=64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/robust.safetensors")
    ...     load(f"{folder}/robust.safetensors").sizes == model.sizes
    True
    """
    module = model.module
    if not isinstance(module.base, Decoder):
        raise ValueError(
            f"model must be built on a Decoder to be saved, got one on "
            f"{type(module.base).__name__}: keep model.module.state_dict() and build anew"
        )
    about = {
        **size_of(module.base),
        "kind": KIND,
        "built": module.about,
        "gives": module.gives,
        "stream": module.stream.sizes,
        "layers": [{"heads": layer.head_names, "perceptrons": layer.perceptron_names} for layer in module.every_layer],
    }
    write(path, dict(module.state_dict()), about)


def load(path: str | Path, device: str | torch.device = "cpu", fused: bool = True) -> Constructed:
    """The model that ``save`` (or ``lowregret construct``) wrote."""
    where, found = device_named(device), read(path)
    about = found.about
    if about.get("kind") != KIND:
        raise ValueError(f"checkpoint {path} is not of a built model: lowregret.transformer.load may read it")
    decoder = decoder_of(found._replace(tensors=_under(found, "base.")), path)
    try:
        stream = Stream(**about["stream"])
        names = ["beside.", *(f"layers.{i}." for i in range(len(about["layers"]) - 1))]
        layers = [
            Layer(_under(found, name), one["heads"], one["perceptrons"], fused)
            for name, one in zip(names, about["layers"], strict=True)
        ]
        tables = {name: found.tensors[name] for name in TABLES}
        if about["gives"] not in GIVES:
            raise KeyError(about["gives"])
        module = Appended(decoder, about["gives"], stream, tables, layers[0], layers[1:], about["built"])
        module(torch.zeros((1, 1), dtype=torch.int64))  # what does not fit together shows here
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        raise ValueError(f"checkpoint {path} lacks parts of a built model: {error}") from error
    if unknown := sorted(set(found.tensors) - set(module.state_dict())):
        raise ValueError(f"checkpoint {path} holds {', '.join(unknown)}, which no part of the model uses")
    return Constructed(module.to(where).eval())


def _under(found: Checkpoint, prefix: str) -> dict[str, Any]:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): t for name, t in found.tensors.items() if name.startswith(prefix)}
