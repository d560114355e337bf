"""A built model as a file: the decoder's weights and the appended ones, with what they are as JSON."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..transformer import Decoder
from ..transformer.backends import device_named
from ..transformer.checkpoints import Checkpoint, decoder_of, read, shape_of, write
from .base_model import GIVES
from .layers import Layer
from .model import TABLES, Appended
from .predictor import Constructed, checked
from .residual import Residual

KIND = "constructed"


def save(model: Constructed, path: str | Path) -> None:
    """Write a model built on a ``Decoder``, atomically; only of that it is known how to make it anew.

    Of a model on a module of your own keep ``model.module.state_dict()``, and load it into one that was built alike.

    >>> import tempfile
    >>> import lowregret as lr
    >>> setting = lr.robust.algorithm_1(lr.matching(), lr.RegretGap(horizon=64))
    >>> model = lr.construct.build(Decoder(2, size="quick"), setting)
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
        **shape_of(module.base),
        "kind": KIND,
        "built": module.about,
        "gives": module.gives,
        "stream": module.stream.sizes,
        "layers": [{"heads": layer.head_names, "perceptrons": layer.perceptron_names} for layer in module.every_layer],
    }
    write(path, dict(module.state_dict()), about)


def load(path: str | Path, device: str | torch.device = "cpu", fused: bool = True) -> Constructed:
    """The model that ``save`` wrote."""
    where, found = device_named(device), read(path)
    about = found.about
    if about.get("kind") != KIND:
        raise ValueError(f"checkpoint {path} is not of a built model: lowregret.transformer.load may read it")
    decoder = decoder_of(found._replace(tensors=_under(found, "base.")), path)
    try:
        parts = _parts(found, decoder.n_states, decoder.size.context)
        layers = [Layer(*one, fused) for one in parts.layers]
        module = Appended(
            decoder, parts.gives, Residual(**parts.stream), parts.tables, layers[0], layers[1:], parts.built
        )
        module(torch.zeros((1, 1), dtype=torch.int64))  # what does not fit together shows here
    except KeyError as error:
        raise ValueError(f"checkpoint {path} lacks parts of a built model: {error}") from error
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"checkpoint {path} lacks parts of a built model, or they do not fit: {error}") from error
    if unknown := sorted(set(found.tensors) - set(module.state_dict())):
        raise ValueError(f"checkpoint {path} holds {', '.join(unknown)}, which no part of the model uses")
    return Constructed(module.to(where).eval())


class _Tensors(NamedTuple):
    gives: str
    stream: dict[str, int]
    tables: dict[str, Tensor]
    layers: list[tuple[dict[str, Tensor], list[str], list[str]]]
    built: dict[str, Any]


def _parts(found: Checkpoint, n_states: int, context: int) -> _Tensors:
    """What the description says, if the tensors bear it out: nothing is built before that is known."""
    about, tables = found.about, {name: found.tensors[name] for name in TABLES}
    kind, stream, said = tables["token_SxD"].dtype, about["stream"], about["layers"]
    if kind not in (torch.float64, torch.float32):
        raise ValueError(f"token_SxD is in {kind}, which no built layer is in")
    if not isinstance(stream, dict) or not all(type(size) is int and size >= 0 for size in stream.values()):
        raise ValueError(f"stream must be sizes by name, got {stream!r}")
    if about["gives"] not in GIVES:
        raise ValueError(f"gives must be one of {', '.join(GIVES)}, got {about['gives']!r}")
    D, R = sum(stream.values()), stream["register"]
    horizon = tables["position_TxD"].shape[0] if tables["position_TxD"].ndim else 0
    _fit(tables, {"token_SxD": (n_states, D), "register_RxD": (R, D), "position_TxD": (horizon, D)}, kind)
    if not 1 <= horizon <= context or R < 1:
        raise ValueError(f"position_TxD must be of 1 to {context} steps, the decoder's context, got {horizon}")
    for name in ("out", "logits" if about["gives"] == "logits" else "base"):
        if stream[name] != n_states:
            raise ValueError(f"stream must have room for {n_states} states in {name}, got {stream[name]}")
    if not isinstance(said, list) or not said:
        raise ValueError(f"layers must be a list, one entry a layer, got {said!r}")
    layers = []
    for one, name in zip(said, ("beside.", *(f"layers.{i}." for i in range(len(said) - 1))), strict=True):
        weights, heads, perceptrons = _under(found, name), one["heads"], one["perceptrons"]
        for names in (heads, perceptrons):
            if not isinstance(names, list) or not all(isinstance(word, str) for word in names):
                raise ValueError(f"heads and perceptrons of {name} must be names, got {names!r}")
        (H, E, _), (_, V, _), (F, _) = (weights[table].shape for table in ("query_HxExD", "value_HxVxD", "inner_FxD"))
        shapes = {
            "query_HxExD": (H, E, D),
            "key_HxExD": (H, E, D),
            "value_HxVxD": (H, V, D),
            "out_HxDxV": (H, D, V),
            "inner_FxD": (F, D),
            "outer_DxF": (D, F),
        }
        _fit(weights, shapes, kind)
        if len(heads) != H:
            raise ValueError(f"heads of {name} must be {H} names, got {heads!r}")
        layers.append((weights, heads, perceptrons))
    return _Tensors(about["gives"], stream, tables, layers, checked(about["built"], n_states, horizon))


def _fit(tensors: dict[str, Tensor], shapes: dict[str, tuple[int, ...]], kind: torch.dtype) -> None:
    """Refuse tensors that are missing, of another shape or of another type."""
    for name, shape in shapes.items():
        tensor = tensors[name]
        if tuple(tensor.shape) != shape or tensor.dtype != kind:
            raise ValueError(f"{name} must be {kind}{list(shape)}, got {tensor.dtype}{list(tensor.shape)}")


def _under(found: Checkpoint, prefix: str) -> dict[str, Any]:
    """The tensors whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): t for name, t in found.tensors.items() if name.startswith(prefix)}
