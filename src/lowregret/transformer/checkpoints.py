"""Checkpoints: weights as safetensors, everything else as JSON in the header, written whole or not at all.

A copy of the JSON beside the file (``.json``) is for people. A digest of both is in the header: a file that was damaged
is refused, not loaded.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from .. import files, inputs
from .backends import device_named
from .decoder import Decoder, Size, size_of
from .predictor import Transformer

FORMAT = 2
_KEY = "lowregret"  # the entry of the safetensors header that holds the JSON
_UNREADABLE = (safetensors.SafetensorError, OSError, AttributeError, KeyError, RuntimeError, TypeError, ValueError)
_PRECISIONS = {torch.float32, torch.float64, torch.bfloat16, torch.float16}


class Checkpoint(NamedTuple):
    """What a file held: tensors by name, and what was written about them."""

    tensors: dict[str, Tensor]
    about: dict[str, Any]


def write(path: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write a checkpoint, atomically; whatever goes wrong, a file that was there stays as it was."""
    path = to_write(path)
    try:
        text = json.dumps({**about, "format": FORMAT}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"about must be JSON with finite numbers: {error}") from error
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(kept, metadata={_KEY: text, f"{_KEY}.sha256": digest_of(text, kept)})
    files.replace(path, data)
    path.with_suffix(".json").write_text(f"{json.dumps(json.loads(text), indent=1)}\n", encoding="utf-8")


def read(path: str | Path) -> Checkpoint:
    """Read a checkpoint; one that is damaged, of another format or of another program is refused by name."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"checkpoint {path} is a folder: name a file in it")
    try:
        data = path.read_bytes()  # not mapped: whoever writes over the file would change a model in use
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__") or {}
        about = json.loads(header[_KEY]) if _KEY in header else None
    except FileNotFoundError:
        raise ValueError(f"there is no checkpoint {path}") from None
    except _UNREADABLE as error:
        raise ValueError(f"checkpoint {path} is truncated or not a safetensors file: {error}") from error
    if not isinstance(about, dict):
        raise ValueError(f"checkpoint {path} is a safetensors file of another program: its header has no {_KEY!r}")
    if about.get("format") != FORMAT:
        raise ValueError(
            f"checkpoint {path} has format {about.get('format')!r}, this version reads {FORMAT}: if it is from a newer "
            "lowregret, upgrade to read it"
        )
    if header.get(f"{_KEY}.sha256") != digest_of(header[_KEY], tensors):
        raise ValueError(f"checkpoint {path} is damaged: its digest is not that of what it holds")
    return Checkpoint(tensors, about)


def digest_of(text: str, tensors: dict[str, Tensor]) -> str:
    """Of a text, and of the name, type, shape and bytes of each tensor, in any order."""
    found = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def save(model: Transformer | Decoder, path: str | Path, about: dict[str, Any] | None = None) -> None:
    """Write a model's weights and size, with whatever else is worth saying ``about`` it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Decoder(2, size="quick"), f"{folder}/model.safetensors")
    ...     load(f"{folder}/model.safetensors").context
    256
    """
    decoder = model.decoder if isinstance(model, Transformer) else model
    if not isinstance(decoder, Decoder):
        raise ValueError(f"model must be a Transformer or a Decoder, got {type(model).__name__}")
    write(path, dict(decoder.state_dict()), {**(about or {}), **shape_of(decoder)})


def load(path: str | Path, device: str | torch.device = "cpu") -> Transformer:
    """The model that ``save`` or ``train`` wrote, on ``device``."""
    where, found = device_named(device), read(path)
    if "kind" in found.about:
        raise ValueError(
            f"checkpoint {path} is of a {found.about['kind']} model, not of a decoder alone: "
            "lowregret.construct.load reads it"
        )
    return Transformer(decoder_of(found, path).to(where).eval())


def to_write(path: Any) -> Path:
    """Where a checkpoint can be written: the suffix is fixed, since what else it says is written beside it."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"path must end in .safetensors, got {str(path)!r}")
    return path


def shape_of(decoder: Decoder) -> dict[str, Any]:
    """What must be known to build the decoder again."""
    return {"n_states": decoder.n_states, "size": decoder.size._asdict()}


def decoder_of(found: Checkpoint, path: str | Path) -> Decoder:
    """The decoder that a checkpoint holds, in the precision of its weights."""
    try:
        size = size_of(Size(**found.about["size"]))
        layers = sum(name.endswith(".inner.weight") for name in found.tensors)
        if size.layers != layers:
            raise ValueError(f"it says that it has {size.layers} layers, and holds those of {layers}")
        if odd := {tensor.dtype for tensor in found.tensors.values()} - _PRECISIONS:
            raise ValueError(f"no weight is in {', '.join(map(str, odd))}")
        with torch.device("meta"):  # takes no memory: a small file cannot claim a large model
            decoder = Decoder(inputs.whole(found.about["n_states"], "n_states"), size)
        decoder.load_state_dict(found.tensors, assign=True)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"checkpoint {path} does not hold the decoder that it says it is: {error}") from error
    return decoder
