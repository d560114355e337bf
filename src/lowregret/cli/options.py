"""What is typed after a command, as what it means; and what is refused, as a sentence."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from .. import files

if TYPE_CHECKING:
    from ..construct import Constructed
    from ..predictors import Predictor
    from ..problems import DecisionProblem
    from ..rules import ResponseRule
    from ..transformer import Size, Transformer


_EXTRAS = {
    "torch": "torch",
    "safetensors": "torch",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "rich": "cli",
    "matplotlib": "cli",
}


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """What the library or the system refuses is said in a sentence, without a traceback."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    except OSError as error:
        parts = (error.filename, error.strerror) if error.strerror else (error,)
        _fail(": ".join(str(part) for part in parts if part is not None), error)
    except ModuleNotFoundError as error:
        name = (error.name or "").split(".")[0]
        if name not in _EXTRAS:
            raise
        advice = "" if "pip install" in str(error) else f": pip install 'lowregret[{_EXTRAS[name]}]'"
        _fail(f"{error}{advice}", error)
    except MemoryError as error:
        _fail(f"there is not enough memory for this: {error or 'try a smaller size, or fewer sequences'}", error)
    except RuntimeError as error:  # as torch says it
        words = str(error).strip().splitlines()[0] if str(error).strip() else ""
        if "memory" not in words or not ("allocate" in words or "out of memory" in words):
            raise
        _fail(f"there is not enough memory for this: {words}", error)


def _fail(words: str, error: BaseException) -> NoReturn:
    typer.echo(words, err=True)
    raise typer.Exit(1) from error


@contextlib.contextmanager
def resumable(where: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C is no loss, and says so."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nStopped. The same command goes on {where()}.", err=True)
        raise typer.Exit(130) from None


def folder_for(out: Path, *names: str) -> Path:
    """A folder in which these files can be written, tried before the work rather than after it."""
    try:
        files.in_folder(out)
    except ValueError as error:
        raise typer.BadParameter(f"{out} cannot be made a folder: {error}", param_hint="--out") from None
    for name in names:
        files.writable(files.to_write(out / name))
    return out


def used_by(task: str, given: dict[str, Any], *used: str) -> None:
    """Refuse an option that the task would ignore."""
    for name, value in given.items():
        if value is not None and name not in used:
            raise ValueError(f"--{name} means nothing to {task}: leave it out")


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
