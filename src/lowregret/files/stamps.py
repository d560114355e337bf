"""What safetensors files of ours have in their header: a text about the tensors, and a digest of it and of them."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, BinaryIO

from ..arrays import Array, namespace, to_numpy

UNREADABLE = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)  # what safetensors says of odd headers
_LARGEST = 100_000_000  # bytes of a header: safetensors reads no larger one


def stamp(key: str, text: str, tensors: Mapping[str, Array]) -> dict[str, str]:
    """The metadata of a file: the text under its key, and the digest beside it. Tensors are contiguous, on the CPU."""
    return {key: text, _beside(key): _digest(text, tensors)}


def header_in(file: BinaryIO) -> dict[str, Any]:
    """The metadata of a file, from its beginning alone."""
    size = int.from_bytes(file.read(8), "little")
    return json.loads(file.read(min(size, _LARGEST))).get("__metadata__") or {}


def is_stamped(key: str, header: Mapping[str, Any]) -> bool:
    """Whether a header has a digest beside this key."""
    return _beside(key) in header


def intact(key: str, header: Mapping[str, Any], tensors: Mapping[str, Array]) -> bool:
    """Whether text and tensors are those that were written."""
    return header.get(_beside(key)) == _digest(header[key], tensors)


def _beside(key: str) -> str:
    return f"{key}.sha256"


def _digest(text: str, tensors: Mapping[str, Array]) -> str:
    """Of all that a file says: the text, and of each tensor its name, type, shape and bytes."""
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        kind = getattr(tensor.dtype, "str", str(tensor.dtype))
        found.update(repr((name, kind, tuple(tensor.shape))).encode())
        found.update(to_numpy(tensor.reshape(-1).view(namespace(tensor).uint8)).data)
    return found.hexdigest()
