"""A built model as a file: the decoder's weights and the appended ones, with what they were built for as JSON."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from ..engine import QuantalResponse, Setting
from ..predictors import PolyaUrn
from ..problems import DecisionProblem
from ..robust import algorithm_1
from ..transformer import Decoder
from ..transformer.checkpoints import decoder_of, read, shape_of, write
from .plan import BUILT
from .predictor import Constructed, build

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
    about = {**shape_of(module.base), "kind": KIND, "built": described(model.setting)}
    write(path, dict(module.state_dict()), about)


def load(path: str | Path, device: str | torch.device = "cpu") -> Constructed:
    """The model that ``save`` wrote."""
    found = read(path)
    if found.about.get("kind") != KIND:
        raise ValueError(f"checkpoint {path} is not of a built model: lowregret.transformer.load may read it")
    base = {name.removeprefix("base."): t for name, t in found.tensors.items() if name.startswith("base.")}
    decoder = decoder_of(found._replace(tensors=base))
    model = build(decoder, setting_of(found.about["built"]), dtype=found.tensors["token_SxD"].dtype)
    model.module.load_state_dict(found.tensors)
    return Constructed(model.module.to(device).eval(), model.setting)


def described(setting: Setting) -> dict[str, Any]:
    """What was built."""
    problem, fallback = setting.payoff_range, setting.fallback
    assert isinstance(fallback, PolyaUrn)
    return {
        "test": type(setting.test).__name__,
        **vars(setting.test),
        "prior": fallback.prior,
        "temperature": setting.temperature,
        "utility": problem.utility.tolist(),
        "actions": list(problem.actions),
        "states": list(problem.states),
        "scale": float(problem.regret_in_payoffs(1.0)),
        "shift": float(problem.in_payoffs(0.0)),
    }


def setting_of(built: dict[str, Any]) -> Setting:
    """The setting that ``described`` describes."""
    problem = DecisionProblem(built["utility"], built["actions"], built["states"])
    problem._scale, problem._shift = float(built["scale"]), float(built["shift"])
    kind: Any = {test.__name__: test for test in BUILT}[built["test"]]
    test = kind(**{part.name: built[part.name] for part in fields(kind)})
    response = QuantalResponse(built["temperature"])
    return algorithm_1(problem, test, PolyaUrn(problem.n_states, built["prior"]), response)
