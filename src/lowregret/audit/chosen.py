"""Which column names the streams where nobody said: one whose values repeat; and what is said of all columns chosen."""

from collections.abc import Callable, Mapping
from typing import Any

from .cells import printable
from .law_columns import listed

NO_STREAM = "none"  # said in place of a column: all rows are one stream


def repeating(found: Any, repeats: Callable[[str], bool]) -> Any:
    """The columns ``found``, the stream being the first of its guesses of which ``repeats`` says that it does."""
    while not (found.stream is None or found.guesses is None or repeats(found.stream)):
        found = passed_on(found)
    return found


def passed_on(found: Any) -> Any:
    """The same columns, the stream being the next that may be it, or none."""
    stream, *others = found.guesses or (None,)
    return found._replace(stream=stream, guesses=tuple(others), passed=(*found.passed, found.stream))


def shared(rows: int, single: int) -> bool:
    """Whether streams repeat: at most half of the rows are the only one of theirs, and not almost all as with a key."""
    return rows == 1 or 2 * single <= rows


def alone_told(found: Any) -> str:
    """Why all rows are one stream, for a refusal; nothing where a column names the streams."""
    if found.stream is not None:
        return ""
    if found.guesses is None:
        return "; all rows are one stream, as was said"
    if found.passed:
        return f"; {_unstreamed(found)[0]}"
    return (
        "; no column of streams was found, so all rows are taken to be one: if there are several series, name it, "
        "--stream NAME or columns={'stream': NAME}"
    )


def passed_told(found: Any) -> tuple[str, ...]:
    """What a reader must know of columns that were not taken for the order or the stream, if nothing else was."""
    return (*_unordered(found), *_unstreamed(found))


def _unordered(found: Any) -> tuple[str, ...]:
    name = getattr(found, "untaken", None)
    if name is None:
        return ()
    if found.order is not None:
        return (
            f"rows are put in the order of {found.order}, and {name} may have steps or times too: --order NAME, or "
            "columns={'order': NAME}, says which it is",
        )
    return (
        f"no column of steps or times was found, so rows are taken in the order in which they stand: if {name} has "
        f"them, say so, --order {name} or columns={{'order': {name!r}}}",
    )


def _unstreamed(found: Any) -> tuple[str, ...]:
    if found.stream is not None or not found.passed:
        return ()
    name = found.passed[0]
    return (
        f"the values of {listed(found.passed)} hardly repeat, so all rows are taken to be one stream: --stream {name}, "
        f"or columns={{'stream': {name!r}}}, makes streams of them; {NO_STREAM} in its place says that there is one",
    )


def chosen_told(about: Mapping[str, Any]) -> str:
    """Which column is read as what, in words for a terminal; ``about`` as columns have it."""
    keys = ("stream", "order", "state")
    parts = [f"{role} {_spelt(own)}" for role, own in about.items() if role in keys or own is not None]
    return printable(f"read as {', '.join(parts)}", 400)


def _spelt(value: Any) -> str:
    if isinstance(value, Mapping):
        return listed(f"{name}: {_spelt(own)}" for name, own in value.items())
    if isinstance(value, (list, tuple)):
        return listed("the rest" if own is None else _spelt(own) for own in value)
    return NO_STREAM if value is None else str(value)
