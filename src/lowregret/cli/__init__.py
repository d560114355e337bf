"""The command line: ``lowregret demo | verify | train | evaluate | construct | audit | gate`` ..."""

from .app import main

__all__ = ["main"]
