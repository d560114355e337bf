"""Which saved states a guard goes on from: none is written over by a guard that does not know of it."""

import os
import secrets
from pathlib import Path
from typing import Any, NamedTuple

_KEPT = 256  # lives that a file names: files that were saved so many loads ago are no longer known


class Lineage(NamedTuple):
    """The lives that led to a state: each begins with the first save after a guard was made, loaded, copied or forked.

    So two that were loaded from one file have lives of their own, and neither knows what the other has saved since.

    >>> first = Lineage().saved()
    >>> one, other = first.handed_on().saved(), first.handed_on().saved()
    >>> one.knows(first), first.knows(one), one.knows(other), one.saved().knows(one)
    (True, False, False, True)
    """

    lives: tuple[tuple[str, int], ...] = ()  # the name of each, and how often it had saved
    writer: int | None = None  # the process that the last one is of; None: one of our own is yet to begin

    def saved(self) -> "Lineage":
        """Once more."""
        if self.writer != os.getpid():
            return Lineage((*self.lives, (secrets.token_hex(8), 1))[-_KEPT:], os.getpid())
        *before, (name, saves) = self.lives
        return Lineage((*before, (name, saves + 1)), self.writer)

    def handed_on(self) -> "Lineage":
        """To one that goes on from here while we may do so too."""
        return Lineage(self.lives)

    def knows(self, other: "Lineage") -> bool:
        """Whether the state that ``other`` led to is one that ours goes on from."""
        name, saves = other.lives[-1]
        return dict(self.lives).get(name, 0) >= saves


def lineage_from(values: Any) -> Lineage:
    """What a file says of the lives that led to it."""
    right = isinstance(values, list) and bool(values)
    for one in values if right else []:
        right = right and isinstance(one, list) and [type(part) for part in one] == [str, int] and one[1] > 0
    if not right:
        raise ValueError("lineage must have the lives that led to it, and their saves")
    return Lineage(tuple((name, saves) for name, saves in values))


def refuse_unknown(path: Path, theirs: Lineage, their_clock: Any, ours: Lineage, clock: int) -> None:
    """Refuse to write over a state that ours does not go on from."""
    if ours.knows(theirs):
        return
    shared = {name for name, _ in ours.lives} & {name for name, _ in theirs.lives}
    why = "another has saved there since this guard was there" if shared else "this guard was not loaded from it"
    raise ValueError(
        f"path: {path} holds a state ({their_clock} observations) that this guard ({clock} observations) does not go "
        f"on from: {why}. To keep both, save under another name; to go on from the file, load(path) and take the steps "
        "since then again; to be rid of it, remove it first"
    )
