"""A page to play on: a person against the guarded predictor, in a browser (extra: play)."""

from .sitting import ROUNDS, Sitting

__all__ = ["ROUNDS", "Sitting"]
