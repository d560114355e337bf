"""What the commands share: words about payoffs, options that hold several values, refusals as one sentence."""

import contextlib
from collections.abc import Iterator
from typing import NoReturn

import typer

from ..tables import printable

PAYOFFS = (
    "Payoffs in your own units: .csv with one row per action and one column per state, with names in the first row and "
    "column if you like (numbers too, if the first cell is empty); or .npy, or .toml with payoffs, actions and states."
)
_EXTRAS = {"torch": "torch", "safetensors": "torch", "matplotlib": "cli", "polars": "audit", "ray": "ray"}


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Print what the library or the system refuses as one sentence, without a traceback."""
    try:
        yield
    except ValueError as error:
        words = "\n".join(map(printable, str(error).splitlines()))  # names of a log may hold anything
        raise typer.BadParameter(words) from error
    except OSError as error:
        parts = (error.filename, error.strerror) if error.strerror else (error,)
        _fail(": ".join(str(part) for part in parts if part is not None), error)
    except ModuleNotFoundError as error:
        name = (error.name or "").split(".")[0]
        if name not in _EXTRAS:
            raise
        advice = "" if "pip install" in str(error) else f": pip install 'lowregret[{_EXTRAS[name]}]'"
        _fail(f"{error}{advice}", error)


def _fail(words: str, error: BaseException) -> NoReturn:
    typer.echo(words, err=True)
    raise typer.Exit(1) from error


def named_in(option: str, text: str | None) -> dict[str, str] | list[str] | None:
    """What an option gives: NAME=VALUE each, with commas, or values alone.

    >>> named_in("--probs", "up=forecast_up, down=forecast_down"), named_in("--probs", "p_down,p_up")
    ({'up': 'forecast_up', 'down': 'forecast_down'}, ['p_down', 'p_up'])
    """
    if text is None:
        return None
    pairs = [piece.strip().partition("=") for piece in text.split(",")]
    if not any(equals for _, equals, _ in pairs):
        return [value for value, _, _ in pairs]
    found = {name: value for name, _, value in pairs if value}
    if len(found) < len(pairs):
        raise ValueError(f"{option} must be NAME=VALUE once for each name, with commas, or values alone, got {text!r}")
    return found
