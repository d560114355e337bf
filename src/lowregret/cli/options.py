"""What the commands share: words about payoffs, refusals as one sentence."""

import contextlib
from collections.abc import Iterator
from typing import NoReturn

import typer

from ..tables import printable

PAYOFF_FILES = (
    ".csv with one row per action and one column per state, with names in the first row and column if you like "
    "(numbers too, if the first cell is empty); or .npy, or .toml with payoffs, actions and states."
)
PAYOFFS = f"Payoffs in your own units: {PAYOFF_FILES}"

_EXTRAS = {
    "torch": "torch",
    "safetensors": "torch",
    "rich": "cli",
    "matplotlib": "cli",
    "polars": "audit",
    "ray": "ray",
}


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
    except MemoryError as error:
        _fail(f"there is not enough memory for this: {str(error) or 'try a smaller size, or fewer sequences'}", error)
    except RuntimeError as error:  # as torch says it
        words = str(error).strip().splitlines()[0] if str(error).strip() else ""
        if "memory" not in words or not ("allocate" in words or "out of memory" in words):
            raise
        _fail(f"there is not enough memory for this: {words}", error)


def _fail(words: str, error: BaseException) -> NoReturn:
    typer.echo(words, err=True)
    raise typer.Exit(1) from error
