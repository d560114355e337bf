"""The command line: ``lowregret plan | audit | gate | arena | play``"""

from .app import main

__all__ = ["main"]
