"""Where a guard stands, as one value: replacing it commits a step, which is thus done as a whole or not at all."""

from typing import NamedTuple

from ..arrays import Array
from ..problems import Known
from ..rules import Moment
from .ledger import Event, Ledger
from .numbers import Numbers


class Advice(NamedTuple):
    """A step that waits for its outcome, where outcomes may come late."""

    step: int
    probs: Array
    known: Known | None
    moment: Moment | None  # both responses, once someone asked


class Standing(NamedTuple):
    """Everything about a guard that is not a setting of it."""

    ledger: Ledger
    clock: int  # observations so far, over all episodes
    events: tuple[Event, ...]
    probs: Array | None  # what advise was given for this step
    # What follows from these, so that a step need not ask the arrays:
    longest: int  # the most steps any stream has seen in its episode
    any_tripped: bool
    moment: Moment | None  # both responses, once someone asked
    known: Known | None = None  # what else advise was given
    # Where outcomes may come late:
    waiting: tuple[Advice, ...] = ()  # in the order of their steps
    advised: int = 0  # steps so far, over all episodes
    # Where streams have come or gone:
    numbers: Numbers | None = None  # by which each is known; None: by its place


def standing(
    ledger: Ledger,
    clock: int = 0,
    events: tuple[Event, ...] = (),
    probs: Array | None = None,
    known: Known | None = None,
    numbers: Numbers | None = None,
) -> Standing:
    """The whole out of what it follows from."""
    step, tripped_at = ledger.rule.step, ledger.rule.tripped_at
    longest = int(step.max()) if 0 not in step.shape else 0
    any_tripped = bool((tripped_at > 0).any())
    return Standing(ledger, clock, events, probs, longest, any_tripped, None, known, numbers=numbers)
