"""Events as an append-only file of JSON lines, which a crash at any byte leaves whole but for its last line."""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from .. import files, inputs
from .ledger import LOG, Event, Left, Return, Switch
from .resume import event_from, event_in_json

_FILE = "events", "a log of events"


class EventLog:
    """What a guard tells, as lines of JSON at the end of a file: ``Guard(..., on_event=EventLog(path))``.

    Each event is one line with a checksum. Whatever is cut short by a crash is the end of the file: it is dropped when
    the log is opened again, and no whole line is. A line that is damaged elsewhere is refused by its number.

    Parameters
    ----------
    path
        A file that such a log has written, or that is not there yet. One process writes to it at a time.
    sync
        Wait until the disk has them (``fsync``), once for the events of a step: then not even a power cut loses one.
        False leaves that to the system: a crash of the process loses none, one of the machine the last few.

    >>> import tempfile
    >>> import lowregret as lr
    >>> with tempfile.TemporaryDirectory() as folder, lr.EventLog(f"{folder}/events.jsonl") as log:
    ...     guard = lr.Guard(lr.matching(), horizon=100, on_event=log)
    ...     for _ in range(5):
    ...         _ = guard.advise([0.9, 0.1])
    ...         guard.observe(1)
    ...     lr.EventLog.read(log.path) == guard.events
    True
    """

    def __init__(self, path: str | Path, *, sync: bool = True) -> None:
        self._journal = files.Journal(path, *_FILE, sync=inputs.flag(sync, "sync"))

    @property
    def path(self) -> Path:
        return self._journal.path

    @property
    def sync(self) -> bool:
        return self._journal.sync

    def __call__(self, event: Event) -> None:
        """Append one event."""
        self.extend([event])

    def extend(self, events: Iterable[Event]) -> None:
        """Append events, all of them or, if the disk refuses, none."""
        self._journal.append([_told(event) for event in events])

    def close(self) -> None:
        """Let go of the file; another may write to it then."""
        self._journal.close()

    @staticmethod
    def read(path: str | Path) -> list[Event]:
        """The events of a log, whoever is writing to it: those of its whole lines."""
        found = files.a_path(path)
        if not found.is_file():
            raise ValueError(
                f"path must be a log of events, and {found} is {'a folder' if found.is_dir() else 'not there'}"
            )
        lines = files.lines_in(found, *_FILE)
        try:
            return [event_from(line) for line in lines]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{found} holds what is no event of a guard: {error}") from error

    def __enter__(self) -> "EventLog":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EventLog({str(self.path)!r}, sync={self.sync})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a log that is being written to cannot be copied or pickled: {self.path}")


def _told(event: Event) -> dict[str, Any]:
    if not isinstance(event, (Switch, Return, Left)):
        raise ValueError(f"event must be a Switch, a Return or a Left, got {inputs.shown(event)}")
    told = event_in_json(event)
    if event_from(told) != event:
        raise ValueError(f"event must be as a guard tells it, got {inputs.shown(event)}")
    return told


# Telling of a step that was taken: every event is told, whatever comes of the others.


def later(event: Event) -> None:
    """In place of ``on_event`` while several steps are taken as one: they are told of once all of them are."""


def tell(fresh: tuple[Event, ...], on_event: Callable[[Event], object] | None) -> None:
    """Log what happened and call ``on_event`` with each, whatever it does with the others; a log has them at once."""
    errors = []
    if on_event is later:
        return
    if isinstance(on_event, EventLog):
        for event in fresh:
            LOG.info("%s", event)
        on_event.extend(fresh)
        return
    for event in fresh:
        try:
            LOG.info("%s", event)
            if on_event is not None:
                on_event(event)
        except Exception as error:  # whatever a caller's function does
            errors.append(error)
    if len(errors) > 1:
        raise errors[0] from ExceptionGroup("on_event raised for other events too", errors[1:])
    if errors:
        raise errors[0]
