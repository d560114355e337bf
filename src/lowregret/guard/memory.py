"""Where a guard stands, as one value: replacing it commits a step, which is thus done as a whole or not at all."""

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, to_numpy
from ..problems import Known
from ..rules import Moment
from .ledger import Event, Ledger
from .streams import Labels


class Due(NamedTuple):
    """A step that waits for its outcome."""

    step: int
    forecast: Any  # what ``advise`` was given: probabilities ``[..., S]``, or a Forecast of numbers
    known: Known | None  # and what else
    moment: Moment  # what follows from them: both responses


class GuardMemory(NamedTuple):
    """Everything about a guard that is not a setting of it."""

    ledger: Ledger
    clock: int = 0  # outcomes so far, over all episodes
    events: tuple[Event, ...] = ()
    waiting: tuple[Due, ...] = ()  # in the order of their steps
    advised: int = 0  # steps so far, over all episodes
    labels: Labels | None = None  # by which each stream is known; None: by its place
    # What follows from these, so that a step need not ask the arrays:
    longest: int = 0  # the most steps of its episode that are over for any stream
    any_tripped: bool = False


def standing(at: GuardMemory) -> GuardMemory:
    """The same with what follows from its ledger."""
    memory, missed = at.ledger.rule, at.ledger.missed
    longest = int((memory.step + missed).max()) if 0 not in memory.step.shape else 0
    return at._replace(longest=longest, any_tripped=bool((memory.tripped_at > 0).any()))


def over(at: GuardMemory) -> np.ndarray:
    """How many steps of its episode are over for each stream ``[...]``, or wait for their outcomes."""
    ends: np.ndarray = to_numpy(at.ledger.rule.step) + to_numpy(at.ledger.missed) + len(at.waiting)
    return ends


def over_of(ledger: Ledger) -> Array:
    """How many are over: the outcome was seen, or given up."""
    return ledger.rule.step + ledger.missed
