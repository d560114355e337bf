"""The command line: ``lowregret plan | audit | gate``"""

from .app import main

__all__ = ["main"]
