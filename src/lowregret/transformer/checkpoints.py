"""Checkpoints: weights as safetensors, everything else as JSON, written whole or not at all.

The JSON travels in the header of the safetensors file, so that the two can never be of different moments; a copy beside
it (``.json``) is for people. A digest of both is in the header too: a file that was damaged is refused, not loaded.
Format 1 had no digest, and is still read; what its description says must fit its tensors all the same.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from .. import files, inputs
from .backends import device_named
from .decoder import Decoder, Size, size_of, weight_shapes
from .predictor import Transformer

FORMAT = 2
_KEY = "lowregret"  # the entry of the safetensors header that holds the JSON
_ODD = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)  # what reading an odd header may raise
_UNREADABLE = (safetensors.SafetensorError, OSError, *_ODD)
_DIGEST = f"{_KEY}.sha256"
KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)  # that weights may have


class Checkpoint(NamedTuple):
    """What a file held: tensors by name, and what was written about them."""

    tensors: dict[str, Tensor]
    about: dict[str, Any]


def write(path: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write a checkpoint, atomically; whatever goes wrong, a file that was there stays as it was."""
    path = to_write(path)
    try:
        text = json.dumps({"format": FORMAT, **about} | {"format": FORMAT}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"about must be JSON with finite numbers: {error}") from error
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(kept, metadata={_KEY: text, _DIGEST: digest_of(text, kept)})
    beside = (json.dumps(json.loads(text), indent=1) + "\n").encode()
    files.replace_all({path: data, path.with_suffix(".json"): beside})


def read(path: str | Path) -> Checkpoint:
    """Read a checkpoint; one that is damaged, of a newer format or of another kind is refused by name."""
    path = files.a_path(path)
    if path.is_dir():
        raise ValueError(f"checkpoint {path} is a folder: name a file in it")
    try:
        data = path.read_bytes()  # not mapped: whoever writes over the file would change a model in use
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__") or {}
    except FileNotFoundError:
        raise ValueError(f"there is no checkpoint {path}") from None
    except _UNREADABLE as error:
        raise ValueError(f"checkpoint {path} is truncated or not a safetensors file: {error}") from error
    if _KEY not in header:
        raise ValueError(f"checkpoint {path} is a safetensors file of another program: its header has no {_KEY!r}")
    about = _described(header[_KEY], path)
    found = about.get("format")
    if type(found) is not int or not 1 <= found <= FORMAT:
        newer = type(found) is int and found > FORMAT
        advice = "it is from a newer lowregret: upgrade to read it" if newer else "it is not one of ours"
        raise ValueError(f"checkpoint {path} has format {found!r}, this version reads 1 to {FORMAT}: {advice}")
    if (found > 1 or _DIGEST in header) and header.get(_DIGEST) != digest_of(header[_KEY], tensors):
        raise ValueError(f"checkpoint {path} is damaged: its digest is not that of what it holds")
    return Checkpoint(tensors, about)


def digest_of(text: str, tensors: Mapping[str, Tensor]) -> str:
    """A digest of all that a file says: the text, and the name, type, shape and bytes of each tensor."""
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
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
    write(path, dict(decoder.state_dict()), {**(about or {}), **described(decoder)})


def load(path: str | Path, device: str | torch.device = "cpu") -> Transformer:
    """The model that ``save`` wrote (or that a training run left in its folder), on ``device``."""
    where, found = device_named(device), read(path)
    if "kind" in found.about:
        raise ValueError(
            f"checkpoint {path} is of a {found.about['kind']} model, not of a decoder alone: "
            "lowregret.construct.load reads it"
        )
    return Transformer(decoder_of(found, path).to(where).eval())


def to_write(path: Any) -> Path:
    """Where a checkpoint can be written: the suffix is fixed, since what else it says is written beside it."""
    return files.to_write(path, ".safetensors")


def written(name: str, path: Path | None) -> dict[str, Path | None]:
    """The files of a checkpoint, by what they are to the user."""
    beside = None if path is None or path.suffix == ".json" or not path.name else path.with_suffix(".json")
    return {name: path, f"what is beside {name}": beside}


def decoder_of(found: Checkpoint, path: str | Path) -> Decoder:
    """The decoder that a checkpoint holds, in the precision of its weights."""
    n_states, size = shape_of(found, path)
    decoder = Decoder(n_states, size)
    kinds = {found.tensors[name].dtype for name in decoder.state_dict()}
    fill(decoder.to(kinds.pop()) if len(kinds) == 1 else decoder, found, path)
    return decoder


def fill(decoder: Decoder, found: Checkpoint, path: str | Path) -> None:
    """Put a checkpoint's weights into a decoder; those of another size are refused before anything changes."""
    n_states, size = shape_of(found, path)
    if (n_states, size) != (decoder.n_states, decoder.size):
        raise ValueError(
            f"checkpoint {path} is of another size: {n_states} states and {size}, "
            f"here {decoder.n_states} states and {decoder.size}"
        )
    decoder.load_state_dict({name: found.tensors[name] for name in decoder.state_dict()})


def described(decoder: Decoder) -> dict[str, Any]:
    """What must be known to build the decoder again."""
    return {"n_states": decoder.n_states, "size": decoder.size._asdict()}


def shape_of(found: Checkpoint, path: str | Path) -> tuple[int, Size]:
    """How many states and what size the checkpoint's decoder has: what it says, if its tensors bear that out.

    Nothing is built before that is known: a small file cannot claim a large model.
    """
    try:
        n_states, said = found.about["n_states"], found.about["size"]
        if not isinstance(said, dict) or set(said) != set(Size._fields):
            raise ValueError(f"size must have {', '.join(Size._fields)}, got {said!r}")
        size = size_of([said[name] for name in Size._fields])
        n_states = inputs.whole(n_states, "n_states")
    except KeyError as error:
        raise ValueError(f"checkpoint {path} does not say of what size it is: it has no {error}") from None
    except ValueError as error:
        raise ValueError(f"checkpoint {path} does not say of what size it is: {error}") from error
    layers = sum(name.endswith(".inner.weight") for name in found.tensors)
    if layers != size.layers:
        raise ValueError(f"checkpoint {path} says that it has {size.layers} layers, and holds those of {layers}")
    shapes = weight_shapes(n_states, size)
    wrong = [name for name, shape in shapes.items() if getattr(found.tensors.get(name), "shape", None) != shape]
    if wrong:
        raise ValueError(f"checkpoint {path} lacks {', '.join(wrong)} or has them in another shape")
    if odd := [name for name in shapes if found.tensors[name].dtype not in KINDS]:
        raise ValueError(f"checkpoint {path} has {odd[0]} in {found.tensors[odd[0]].dtype}, which no weight is in")
    return n_states, size


def _described(text: str, path: Path) -> dict[str, Any]:
    """The JSON in a header: an object, with finite numbers."""

    def not_finite(word: str) -> None:
        raise ValueError(f"{word} is no number")

    try:
        about = json.loads(text, parse_constant=not_finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"checkpoint {path} is damaged: its description is not JSON: {error}") from error
    if not isinstance(about, dict):
        raise ValueError(f"checkpoint {path} is damaged: its description must be an object, got {text[:40]}")
    return about
