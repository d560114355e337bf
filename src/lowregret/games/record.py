"""Finished matches on the disk: an append-only file that a run which was stopped goes on from."""

import json
import re
from pathlib import Path
from types import TracebackType
from typing import Any

from ..files import Lines
from .scores import Played

_BEGINS = b'{"lowregret":"arena","format":1,'
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

Key = tuple[str, int, int]  # opponent, seat, match


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
        self._opponents, self._lines = opponents, None
        if path is None:
            return
        header = {"lowregret": "arena", "format": 1, **settings}
        self._lines = Lines(path, header, _BEGINS, "a record of matches", keep=True)
        try:
            if self._lines.found:
                self._read(settings, [json.loads(line) for line in self._lines.found])
        except BaseException:
            self.close()
            raise

    def add(self, played: Played) -> None:
        """Keep one more match."""
        self.found[played[:3]] = played
        if self._lines is not None:
            self._lines.append([{**played._asdict(), "who": self._opponents[played.opponent]}])

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()

    def __enter__(self) -> "Record":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _read(self, settings: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        assert self._lines is not None
        header, *matches = lines
        for name, value in settings.items():
            if header.get(name) != value:
                raise ValueError(
                    f"path: the matches of {self._lines.path} were played with {name} {header.get(name)}, "
                    f"these have {value}: take another path, or the same {name}"
                )
        for line in matches:
            line.pop("crc")
            who = line.pop("who")
            played = Played(**line)
            now = self._opponents.get(played.opponent, who)
            if now != who:
                raise ValueError(
                    f"path: in {self._lines.path} the opponent {played.opponent} was {who}, now it is {now}: "
                    "take another path, or another name"
                )
            self.found[played[:3]] = played


def described(player: Any) -> str:
    """What tells a player from another of the same name: its settings as they print."""
    return f"{player.name}: {_ADDRESS.sub('', repr(player))}"
