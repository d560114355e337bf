"""The command line: ``lowregret demo | verify | reproduce | train | evaluate | construct | audit | arena | play``."""

from .app import main

__all__ = ["main"]
