"""Repeated games: players who see both histories, matches between them, and what a player earns of many."""

from .contract import Player, Seat

__all__ = ["Player", "Seat"]
