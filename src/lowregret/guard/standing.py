"""Where a guard stands, as one value: replacing it commits a step, which is thus done as a whole or not at all."""

from typing import NamedTuple

from ..arrays import Array
from ..rules import Known, Moment
from .ledger import Ledger, Return, Switch


class Standing(NamedTuple):
    """Everything about a guard that is not a setting of it."""

    ledger: Ledger
    clock: int  # observations so far, over all episodes
    events: tuple[Switch | Return, ...]
    probs: Array | None  # what advise was given for this step
    # What follows from these, so that a step need not ask the arrays:
    longest: int  # the most steps any stream has seen in its episode
    any_tripped: bool
    moment: Moment | None  # both responses, once someone asked
    known: Known | None = None  # what else advise was given


def standing(
    ledger: Ledger,
    clock: int = 0,
    events: tuple[Switch | Return, ...] = (),
    probs: Array | None = None,
    known: Known | None = None,
) -> Standing:
    """The whole out of what it follows from."""
    step, tripped_at = ledger.rule.step, ledger.rule.tripped_at
    longest = int(step.max()) if 0 not in step.shape else 0
    return Standing(ledger, clock, events, probs, longest, bool((tripped_at > 0).any()), None, known)
