"""The command line: ``lowregret demo | verify | reproduce | train | evaluate | construct | audit | play``."""

from .app import main

__all__ = ["main"]
