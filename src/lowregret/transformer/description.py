"""What a run was about, as JSON: two runs that train differently read differently."""

import zlib
from dataclasses import fields, is_dataclass
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from torch import Tensor, nn

from ..arrays import to_numpy
from ..problems import DecisionProblem
from .predictor import Transformer


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
