"""What a run keeps in its folder to go on later: its state, and a line of metrics for every report."""

import json
import zlib
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..arrays import to_numpy
from ..engine import Setting
from ..problems import DecisionProblem
from . import checkpoints
from .decoder import Decoder
from .predictor import Transformer
from .tasks import Task

# What a run was about, as JSON: two runs that train differently read differently.


def described(thing: Any) -> Any:
    """A task, or any part of one, as JSON.

    >>> from lowregret import PolyaUrn
    >>> from lowregret.transformer import Imitate
    >>> described(Imitate(PolyaUrn(2), soft=True))
    {'Imitate': {'source': {'PolyaUrn': {'n_states': 2, 'prior': 1.0}}, 'soft': True}}
    """
    if isinstance(thing, Transformer):
        return {"Transformer": {"size": thing.decoder.size._asdict(), "weights": described(thing.decoder)}}
    if isinstance(thing, DecisionProblem):
        return {"DecisionProblem": thing.utility.tolist()}
    if isinstance(thing, Setting):  # its problem is told beside it
        return {name: described(getattr(thing, name)) for name in ("test", "fallback", "response")}
    if isinstance(thing, (np.ndarray, Tensor)):
        return _digest(to_numpy(thing))
    if isinstance(thing, nn.Module):
        return _crc(*(to_numpy(weights).tobytes() for weights in thing.state_dict().values()))
    if is_dataclass(thing) and not isinstance(thing, type):
        return {type(thing).__name__: {f.name: described(getattr(thing, f.name)) for f in fields(thing) if f.repr}}
    if isinstance(thing, (list, tuple)):
        return [described(part) for part in thing]
    if isinstance(thing, dict):
        return {str(name): described(part) for name, part in thing.items()}
    if callable(thing):
        return _function(thing)
    return thing if isinstance(thing, (str, int, float, bool, type(None))) else repr(thing)


def _function(thing: Any) -> Any:
    """A function is its code and what it has closed over: two lambdas have the same name."""
    if isinstance(thing, FunctionType):
        closed = [cell.cell_contents for cell in thing.__closure__ or ()]
        around = [described(part) for part in (closed, thing.__defaults__, thing.__kwdefaults__)]
        return {thing.__qualname__: [_code(thing.__code__), *around]}
    if isinstance(thing, MethodType):
        return {thing.__qualname__: [_code(thing.__func__.__code__), described(thing.__self__)]}
    if isinstance(thing, partial):
        return {"partial": [described(part) for part in (thing.func, thing.args, thing.keywords)]}
    if isinstance(thing, (type, BuiltinFunctionType, np.ufunc)):
        return getattr(thing, "__qualname__", thing.__name__)
    raise ValueError(
        f"a {type(thing).__name__} cannot be told from another one, and a run that stopped must know whether it is "
        "the same: give a function, a module or a dataclass"
    )


def _code(code: CodeType) -> str:
    constants = [_code(c) if isinstance(c, CodeType) else repr(_ordered(c)) for c in code.co_consts]
    return _crc(code.co_code, repr((constants, code.co_names)).encode())


def _ordered(constant: Any) -> Any:
    """Sets have no order of their own from one process to the next."""
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def _digest(values: np.ndarray) -> str:
    return f"{values.dtype}{list(values.shape)}:{_crc(np.ascontiguousarray(values).tobytes())}"


def _crc(*parts: bytes) -> str:
    found = 0
    for part in parts:
        found = zlib.crc32(part, found)
    return f"{found:08x}"


# What a training run reports now and then: a line of its metrics file.


class Progress(NamedTuple):
    """How a run is going: what its metrics file has a line of, now and then."""

    step: int
    steps: int
    loss: float  # the mean since the last report
    rate: float
    tokens_per_second: float  # since the last report, whatever else was done meanwhile: compiling, an adversary's play
    seconds: float  # of training so far, in all runs
    seconds_a_step: float | None = None  # without the first one of this run, which compiles; None: there is no other

    @property
    def seconds_left(self) -> float | None:
        return None if self.seconds_a_step is None else self.seconds_a_step * (self.steps - self.step)


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
