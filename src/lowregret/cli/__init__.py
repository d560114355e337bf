"""The command line: ``lowregret demo | verify | reproduce | train | evaluate | construct``."""

from .app import main

__all__ = ["main"]
