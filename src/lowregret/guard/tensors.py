"""A state as one safetensors file: its arrays as tensors by name, the rest as JSON in the header, and a digest."""

import io
import json
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .. import files
from ..arrays import to_numpy
from .lineage import lineage_from

_KEY = "lowregret.guard"
_TENSOR, _TEXT = "$tensor", "$text"  # what stands in the JSON for an array; for JSON that is one, since it may be long
_LONG = ("events", "advised")


def write_to(path: Path, state: dict[str, Any]) -> None:
    """Write a state, whose arrays may be in tuples with names; a file that was there is replaced, or as it was."""
    safetensors = _safetensors("save(path)")
    tensors: dict[str, np.ndarray] = {}
    about = {name: _told(value, name, tensors) for name, value in state.items()}
    for name in _LONG:
        if isinstance(about.get(name), list) or (isinstance(about.get(name), dict) and name not in tensors):
            tensors[name] = np.frombuffer(json.dumps(about[name], allow_nan=False).encode(), dtype=np.uint8)
            about[name] = {_TEXT: name}
    text = json.dumps(about, allow_nan=False)
    with files.drafted(path) as draft:
        try:
            safetensors.save_file(tensors, draft, metadata=files.stamp(_KEY, text, tensors))
        except Exception as error:  # its own for everything, a full disk among it
            if found := re.search(r"os error (\d+)", str(error)):
                raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
            raise


def read_from(path: Path) -> dict[str, Any]:
    """What ``write_to`` wrote; a file that was cut short, changed or written by something else is refused by name."""
    safetensors = _safetensors("load(path)")
    try:
        data = path.read_bytes()  # not mapped: whoever writes over the file would change a guard in use
    except FileNotFoundError:
        raise ValueError(f"path must be a file that save(path) wrote, and there is no {path}") from None
    except IsADirectoryError:
        raise ValueError(f"path must be a file that save(path) wrote, and {path} is a folder") from None
    try:
        tensors = safetensors.load(data)
        header = files.header_in(io.BytesIO(data))
    except Exception as error:  # safetensors has its own for each kind of oddity
        raise ValueError(f"{path} was cut short, or is no safetensors file: {error}") from error
    if _KEY not in header:
        raise ValueError(f"{path} is a safetensors file of another program: its header has no {_KEY!r}")
    if not files.intact(_KEY, header, tensors):
        raise ValueError(f"{path} has been changed: its digest is not that of what it holds")
    try:
        about = _about(header)
        return {name: _found(value, tensors) for name, value in about.items()}
    except (RecursionError, *files.UNREADABLE) as error:
        raise ValueError(f"{path} holds no state of a guard: {error}") from error


def told_at(path: Path) -> dict[str, Any] | None:
    """What the header of a file says, without a look at the rest of it; None: nothing is there to be written over."""
    if not path.exists() or path.stat().st_size == 0:
        return None
    try:
        with open(path, "rb") as file:
            return _about(files.header_in(file))
    except (RecursionError, *files.UNREADABLE) as error:
        raise ValueError(
            f"path: {path} is there, and is no file that save(path) wrote, or is damaged: remove it, or take another"
        ) from error


def _about(header: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a state."""
    about = json.loads(header[_KEY])
    return {**about, "lineage": lineage_from(about["lineage"])}


def _told(value: Any, name: str, tensors: dict[str, np.ndarray]) -> Any:
    """As JSON; arrays are left to ``tensors``, under the names of what they are in."""
    if isinstance(value, dict):
        return {key: _told(part, f"{name}.{key}", tensors) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", range(len(value)))
        return [_told(part, f"{name}.{key}", tensors) for key, part in zip(names, value, strict=True)]
    if not hasattr(value, "shape"):
        return value
    tensors[name] = np.array(to_numpy(value), order="C")  # rows one after the other, whatever they were
    return {_TENSOR: name}


def _found(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_found(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_TENSOR}:
        return tensors[value[_TENSOR]]
    if value.keys() == {_TEXT}:
        return json.loads(tensors[value[_TEXT]].tobytes())
    return {key: _found(part, tensors) for key, part in value.items()}


def _safetensors(what: str) -> ModuleType:
    try:
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} needs safetensors: pip install 'lowregret[fleet]'", name="safetensors"
        ) from error
    return safetensors.numpy
