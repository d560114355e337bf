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

from .. import files
from .decoder import Decoder, Size
from .predictor import Transformer

FORMAT = 2
_KEY = "lowregret"  # the entry of the safetensors header that holds the JSON


class Checkpoint(NamedTuple):
    """What a file held: tensors by name, and what was written about them."""

    tensors: dict[str, Tensor]
    about: dict[str, Any]


def write(path: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write a checkpoint, atomically; whatever goes wrong, a file that was there stays as it was."""
    path, about = to_write(path), {**about, "format": FORMAT}
    text, kept = json.dumps(about), {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    files.replace(path, safetensors.torch.save(kept, {_KEY: text, f"{_KEY}.sha256": digest_of(text, kept)}))
    files.replace(path.with_suffix(".json"), f"{json.dumps(about, indent=1)}\n".encode())


def read(path: str | Path) -> Checkpoint:
    """Read a checkpoint; one that is damaged, of another format or of another program is refused by name."""
    data = Path(path).read_bytes()  # not mapped: whoever writes over the file would change a model in use
    try:
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
    except safetensors.SafetensorError as error:
        raise ValueError(f"checkpoint {path} is truncated or not a safetensors file: {error}") from error
    if _KEY not in header:
        raise ValueError(f"checkpoint {path} is a safetensors file of another program: its header has no {_KEY!r}")
    if header.get(f"{_KEY}.sha256") != digest_of(header[_KEY], tensors):
        raise ValueError(f"checkpoint {path} is damaged: its digest is not that of what it holds")
    about = json.loads(header[_KEY])
    if about["format"] != FORMAT:
        raise ValueError(f"checkpoint {path} has format {about['format']}, this version of lowregret reads {FORMAT}")
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
    write(path, dict(decoder.state_dict()), {**(about or {}), **shape_of(decoder)})


def load(path: str | Path, device: str | torch.device = "cpu") -> Transformer:
    """The model that ``save`` or ``train`` wrote, on ``device``."""
    found = read(path)
    if "kind" in found.about:
        raise ValueError(
            f"checkpoint {path} is of a {found.about['kind']} model, not of a decoder alone: "
            "lowregret.construct.load reads it"
        )
    return Transformer(decoder_of(found).to(device).eval())


def to_write(path: str | Path) -> Path:
    """Where a checkpoint can be written: the suffix is fixed, since what else it says is written beside it."""
    if Path(path).suffix != ".safetensors":
        raise ValueError(f"path must end in .safetensors, got {str(path)!r}")
    return Path(path)


def shape_of(decoder: Decoder) -> dict[str, Any]:
    """What must be known to build the decoder again."""
    return {"n_states": decoder.n_states, "size": decoder.size._asdict()}


def decoder_of(found: Checkpoint) -> Decoder:
    """The decoder that a checkpoint holds, in the precision of its weights."""
    with torch.device("meta"):  # its own weights take the place of these
        decoder = Decoder(found.about["n_states"], Size(**found.about["size"]))
    decoder.load_state_dict(found.tensors, assign=True)
    return decoder
