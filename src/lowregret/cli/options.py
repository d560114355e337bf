"""What is typed after a command, as what it means; and what is refused, as a sentence."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ..construct import Constructed
    from ..predictors import Predictor
    from ..problems import DecisionProblem
    from ..rules import ResponseRule
    from ..transformer import Size, Transformer


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """What the library refuses is said in a sentence, without a traceback."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    except OSError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("torch", "safetensors", "onnx", "onnxscript"):
            raise
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def one_of(name: str, value: str, choices: dict[str, Any]) -> Any:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return choices[value]


def model_in(path: Path, device: str) -> "Transformer | Constructed":
    """A trained model or a built one, as the file says."""
    from .. import construct, transformer

    if transformer.checkpoints.read(path).about.get("kind") == construct.files.KIND:
        return construct.load(path, device)
    return transformer.load(path, device)


def size_named(text: str) -> "Size":
    from ..transformer.decoder import size_of

    numbers = text.split(",")
    if len(numbers) > 1 and not all(n.strip().isdecimal() for n in numbers):
        raise ValueError(f"--size must be a name or whole numbers context,width,heads,layers,inner, got {text!r}")
    return size_of(tuple(map(int, numbers)) if len(numbers) > 1 else text)


def source_named(name: str, horizon: int) -> "Predictor":
    from ..sources import paper_sources

    return one_of("source", name, paper_sources(horizon))


def problem_named(text: str) -> "DecisionProblem":
    from ..problems import DecisionProblem, matching, rock_paper_scissors

    named = {"matching": matching, "rock_paper_scissors": rock_paper_scissors}
    if text in named:
        return named[text]()
    try:
        return DecisionProblem(json.loads(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"--problem must be {', '.join(named)} or a JSON matrix of utilities, got {text!r}") from error


def rule_named(name: str, problem: "DecisionProblem", horizon: int) -> "ResponseRule":
    from ..rules import RegretGap, RegretRate, first_test

    kind = one_of("rule", name, {"exact": first_test, "rate": RegretRate, "gap": RegretGap})
    return kind(problem, horizon, delta=2 / horizon) if kind is first_test else kind(problem, horizon)
