"""The command line: ``lowregret demo | verify | train | evaluate | construct | audit | gate | arena | play`` ..."""

from .app import main

__all__ = ["main"]
