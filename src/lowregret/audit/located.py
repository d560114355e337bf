"""What is wrong with a recording in arrays: of which stream, and at which step."""

from collections.abc import Callable, Sequence
from typing import Any

from .. import inputs
from ..arrays import to_numpy

Check = Callable[[Any, str], Any]  # of values and what they are called


def located(check: Check, values: Any, what: str, axes: int, name_of: Callable[[int], Sequence[Any]]) -> Any:
    """``check(values, what)`` of one stream, which has so many axes, or of several; ``name_of(n)`` are their names.

    What is refused of all is asked of each stream, and of each of its steps: the first that is wrong is named.
    """
    try:
        return check(values, what)
    except ValueError:
        array = _sound_but_for_values(check, values, what)
        if array is None or array.ndim not in (axes, axes + 1):
            raise
        if array.ndim == axes:
            in_stream(check, array, what)
        else:
            for name, part in zip(name_of(len(array)), array, strict=True):
                in_stream(check, part, of_stream(what, name))
        raise


def in_stream(check: Check, values: Any, what: str) -> Any:
    """``check(values, what)`` of one stream; what is refused is asked of each of its steps."""
    try:
        return check(values, what)
    except ValueError:
        array = _sound_but_for_values(check, values, what)
        for t, one in enumerate(() if array is None or not array.ndim else array):
            check(one, f"{what} at step {t + 1}")
        raise


def of_stream(what: str, name: Any) -> str:
    return f"{what} of stream {inputs.shown(name)}"


def _sound_but_for_values(check: Check, values: Any, what: str) -> Any:
    """As an array, if it is one of the right kind and width; None otherwise: then no step is to blame."""
    try:
        array = to_numpy(inputs.array_of(values, what))
        check(array[:0], what)
    except (ValueError, TypeError, IndexError):
        return None
    return array
