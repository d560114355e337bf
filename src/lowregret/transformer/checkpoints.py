"""Checkpoints: weights as safetensors, everything else as JSON, written whole or not at all.

The JSON travels in the header of the safetensors file, so that the two can never be of different moments; a copy beside
it (``.json``) is for people. A file is written under another name, flushed to the disk and then renamed: a run that is
killed, or a disk that is full, leaves the last good file in place.
"""

import contextlib
import glob
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from .backends import device_named
from .decoder import Decoder, Size
from .predictor import Transformer

FORMAT = 1
_KEY = "lowregret"  # the entry of the safetensors header that holds the JSON


class Checkpoint(NamedTuple):
    """What a file held: tensors by name, and what was written about them."""

    tensors: dict[str, Tensor]
    about: dict[str, Any]


def write(path: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write a checkpoint, atomically; whatever goes wrong, a file that was there stays as it was."""
    path = to_write(path)
    try:
        text = json.dumps({"format": FORMAT, **about}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"about must be JSON with finite numbers: {error}") from error
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    replace(path, safetensors.torch.save(kept, metadata={_KEY: text}))
    replace(path.with_suffix(".json"), (json.dumps(json.loads(text), indent=1) + "\n").encode())


def read(path: str | Path) -> Checkpoint:
    """Read a checkpoint; one that is cut short, of a newer format or of another kind is refused by name."""
    path = a_path(path)
    if path.is_dir():
        raise ValueError(f"checkpoint {path} is a folder: name a file in it")
    try:
        with safetensors.safe_open(str(path), framework="pt") as file:
            text = (file.metadata() or {}).get(_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise ValueError(f"there is no checkpoint {path}") from None
    except (safetensors.SafetensorError, OSError) as error:
        raise ValueError(f"checkpoint {path} is truncated or not a safetensors file: {error}") from error
    if text is None:
        raise ValueError(f"checkpoint {path} is a safetensors file of another program: its header has no {_KEY!r}")
    about = json.loads(text)
    if about.get("format") != FORMAT:
        found = about.get("format")
        newer = isinstance(found, int) and found > FORMAT
        advice = "it is from a newer lowregret: upgrade to read it" if newer else "it is not one of ours"
        raise ValueError(f"checkpoint {path} has format {found!r}, this version reads {FORMAT}: {advice}")
    return Checkpoint(tensors, about)


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


def decoder_of(found: Checkpoint, path: str | Path) -> Decoder:
    """The decoder that a checkpoint holds, in the precision of its weights."""
    decoder = Decoder(*shape_of(found, path))
    kinds = {tensor.dtype for name, tensor in found.tensors.items() if name in decoder.state_dict()}
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
    own = decoder.state_dict()
    wrong = [name for name, weight in own.items() if getattr(found.tensors.get(name), "shape", None) != weight.shape]
    if wrong:
        raise ValueError(f"checkpoint {path} lacks {', '.join(wrong)} or has them in another shape")
    decoder.load_state_dict({name: found.tensors[name] for name in own})


def described(decoder: Decoder) -> dict[str, Any]:
    """What must be known to build the decoder again."""
    return {"n_states": decoder.n_states, "size": decoder.size._asdict()}


def a_path(path: Any) -> Path:
    """Where a checkpoint is."""
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"path must be the name of a file, got {path!r}")
    return Path(path)


def to_write(path: Any) -> Path:
    """Where a checkpoint can be written: the suffix is fixed, since what else it says is written beside it."""
    path = a_path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"path must end in .safetensors, got {str(path)!r}")
    if path.is_dir():
        raise ValueError(f"path must be a file, and {path} is a folder")
    in_folder(path.parent)
    return path


def in_folder(folder: Path) -> Path:
    """A folder that is there or can be made: nothing on the way to it is a file."""
    there = next((part for part in (folder, *folder.parents) if part.exists()), folder)
    if there.exists() and not there.is_dir():
        raise ValueError(f"{there} is a file: there can be no folder {folder}")
    return folder


def sweep(path: Path) -> None:
    """Remove what a killed run left of its drafts of a file, or of the JSON beside it."""
    for name in (path.name, path.with_suffix(".json").name):
        for draft in path.parent.glob(f".{glob.escape(name)}.*.part"):
            draft.unlink(missing_ok=True)


def replace(path: Path, data: bytes) -> None:
    """The file with this content, or as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def shape_of(found: Checkpoint, path: str | Path) -> tuple[int, Size]:
    """How many states and what size the checkpoint's decoder has."""
    try:
        return int(found.about["n_states"]), Size(**found.about["size"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"checkpoint {path} does not say of what size it is") from error
