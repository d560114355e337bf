"""What a run keeps in its folder to go on later: its state, and a line of metrics for every report."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import checkpoints
from .decoder import Decoder
from .tasks import Task


def packed(decoder: Decoder, optimiser: torch.optim.Optimizer, task: Task) -> dict[str, Tensor]:
    """Weights, moments and what the task remembers, by name."""
    names = {id(p): name for name, p in decoder.named_parameters()}
    tensors = {f"model.{name}": value for name, value in decoder.state_dict().items()}
    for parameter, kept in optimiser.state.items():
        tensors |= {f"optimiser.{names[id(parameter)]}.{key}": value for key, value in kept.items()}
    return tensors | {f"task.{name}": value for name, value in task.state().items()}


def unpack(
    found: checkpoints.Checkpoint, path: Path, decoder: Decoder, optimiser: torch.optim.Optimizer, task: Task
) -> None:
    """The reverse, where the decoder is."""
    device = decoder.embedding.weight.device

    def part(name: str) -> dict[str, Tensor]:
        return {k.removeprefix(f"{name}."): v for k, v in found.tensors.items() if k.startswith(f"{name}.")}

    checkpoints.fill(decoder, found._replace(tensors=part("model")), path)
    kept = part("optimiser")
    for name, parameter in decoder.named_parameters():
        state = {}
        for key in ("step", "exp_avg", "exp_avg_sq"):
            value = kept[f"{name}.{key}"]
            if key == "step":
                number(value, f"{name}.step")
            elif value.shape != parameter.shape or value.dtype != parameter.dtype:
                raise ValueError(f"{name}.{key} must be as {name} is, got {value.dtype}{list(value.shape)}")
            state[key] = value if key == "step" and device.type == "cpu" else value.to(device)
        optimiser.state[parameter] = state
    task.restore({name: value.to(device) for name, value in part("task").items()})


def number(value: Tensor, name: str) -> Tensor:
    """A tensor that is one finite number."""
    if value.ndim or value.dtype != torch.float32 or not bool(value.isfinite()):
        raise ValueError(f"{name} must be a number, got {value.dtype}{list(value.shape)}")
    return value


def lines(folder: Path) -> list[dict[str, Any]]:
    """The metrics so far."""
    path = folder / "metrics.jsonl"
    whole = path.read_text().split("\n")[:-1] if path.exists() else []  # the last may have been cut short
    try:
        return [{**line, "step": int(line["step"])} for line in map(json.loads, whole)]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error!r}; remove it") from error


def refuse_other(found: checkpoints.Checkpoint, wanted: dict[str, Any], path: Path) -> None:
    """A file of a run with another task, other settings or other first weights is not gone on with."""
    for part, mine in wanted.items():
        theirs = found.about.get(part)
        if theirs != mine:
            raise ValueError(
                f"{path} is from a run with another {part}: {_difference(theirs, mine)}; "
                "remove it, or train to another path"
            )


def _difference(found: Any, wanted: Any) -> str:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in {**found, **wanted}:
            if found.get(key) != wanted.get(key):
                return f"{key}: {_difference(found.get(key), wanted.get(key))}"
    return f"{found!r} there, {wanted!r} here"
