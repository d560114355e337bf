"""Finished matches on the disk: an append-only file that a run which was stopped goes on from."""

import re
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ..files import Journal, lines_in
from .scores import Played

_KIND = ("arena", "a record of matches")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

Key = tuple[str, int, int]  # opponent, seat, match


class Finished(NamedTuple):
    """A match, and what was said in it: by it a match that is played again is known to be the same."""

    played: Played
    said: tuple[float, float]  # a number for the mixed actions of each seat


class Record:
    """The matches of an arena at ``path``, or in memory alone where there is none.

    Parameters
    ----------
    settings
        What a match depends on, beside its opponent, seat and number: a file with others is refused by their name.
    opponents
        How each is told from another of its name.
    """

    def __init__(self, path: str | Path | None, settings: dict[str, Any], opponents: dict[str, str]) -> None:
        self.found: dict[Key, Played] = {}
        self.said: dict[Key, list[float]] = {}  # of those on the disk, where it was kept
        self._opponents = opponents
        self._journal = None if path is None else Journal(path, *_KIND)
        if self._journal is None:
            return
        try:
            lines = lines_in(self._journal.path, *_KIND)
            if lines:
                self._read(settings, lines)
            else:
                self._journal.append([settings])
        except BaseException:
            self.close()
            raise

    def add(self, finished: Finished) -> None:
        """Keep one more match."""
        played, said = finished
        self.found[played[:3]] = played
        if self._journal is not None:
            who = self._opponents[played.opponent]
            self._journal.append([{**played._asdict(), "who": who, "said": list(said)}])

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> "Record":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _read(self, settings: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        assert self._journal is not None
        before, *matches = lines
        for name, value in settings.items():
            if before.get(name) != value:
                raise ValueError(
                    f"path: the matches of {self._journal.path} were played with {name} {before.get(name)}, "
                    f"these have {value}: take another path, or the same {name}"
                )
        for line in matches:
            who, said = line.pop("who"), line.pop("said", None)
            played = Played(**line)
            now = self._opponents.get(played.opponent, who)
            if now != who:
                raise ValueError(
                    f"path: in {self._journal.path} the opponent {played.opponent} was {who}, now it is {now}: "
                    "take another path, or another name"
                )
            self.found[played[:3]] = played
            if said is not None:
                self.said[played[:3]] = said


def described(player: Any) -> str:
    """What tells a player from another of the same name: its settings as they print."""
    return f"{player.name}: {_ADDRESS.sub('', repr(player))}"
