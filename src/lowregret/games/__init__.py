"""Repeated games: players who see both histories, matches between them, and what a player earns against many."""

from importlib import import_module as _import_module
from typing import Any as _Any

from .contest import arena
from .contract import Player, Seat
from .players import Fixed, Guarded, Nemesis, Plain
from .playing import Match, play
from .scores import Arena, MatchScore, Score

# Looked up by name, so that OpenSpiel is loaded only when it is needed.
_ELSEWHERE = {
    "OpenSpielBot": "open_spiel",
    "SpielPlayer": "open_spiel",
    "bots": "open_spiel",
}


def __getattr__(name: str) -> _Any:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f".{_ELSEWHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *_ELSEWHERE]


__all__ = [
    "Arena",
    "Fixed",
    "Guarded",
    "Match",
    "MatchScore",
    "Nemesis",
    "Plain",
    "Player",
    "Score",
    "Seat",
    "arena",
    "play",
]
