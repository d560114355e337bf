"""Telling of a step that was taken: every event is told, whatever comes of the others."""

from collections.abc import Callable
from typing import Any

from .event_log import EventLog
from .ledger import LOG, Event


def later(event: Any) -> None:
    """In place of ``on_event`` while several steps are taken as one: they are told of once all of them are."""


def tell(fresh: tuple[Event, ...], on_event: Callable[[Any], Any] | None) -> None:
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
